"""Instances: problems that are generated once and kept as bytes, with what the reference says of each."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from progevo.errors import TaskError
from progevo.evaluators.timing.examiner import Examiner, Failed, TooSlow

#: What the reference takes at least, in round trips over the wire: below that the wire would be timed, not the program.
LEAST_TRIPS = 20.0
#: How n grows where that is too little, and how often.
GROWTH, STEPS = 1.5, 12
#: What one problem may take to be generated, solved by the reference, or checked.
GENERATE_S, SOLVE_S, CHECK_S = 120.0, 60.0, 120.0
#: No reference is timed that takes longer: a candidate would be run for minutes.
MOST_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One problem. `solution` is the reference's, as bytes; `not_finite` counts what in it is not a finite number."""

    problem: bytes
    solution: bytes
    not_finite: Mapping[str, int] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.problem).hexdigest()


def drawn(examiner: Examiner, name: str, n: int, seeds: Sequence[int], check_s: float = CHECK_S) -> list[Instance]:
    """One instance for each seed. Raises `TaskError` where the task cannot be timed: it fails, or its own check says no
    to its own reference.
    """
    made = []
    for seed in seeds:
        problem, solved = _solved(examiner, name, n, seed)
        instance = Instance(problem=problem, solution=solved["output"], not_finite=solved["not_finite"])
        try:
            wrong = examiner.check(problem, instance.solution, instance.not_finite, check_s)
        except (Failed, TooSlow) as error:
            raise TaskError(f"the check of {name} fails on its own reference (n = {n}): {error}") from error
        if wrong:
            raise TaskError(f"{name} cannot be used: of its own reference's solution (n = {n}), {wrong}")
        made.append(instance)
    if len({instance.sha256 for instance in made}) < len(made):
        raise TaskError(f"{name} generates the same problem for different seeds (n = {n}); a larger n may help")
    return made


def large_enough(examiner: Examiner, name: str, n: int, seed: int) -> int:
    """n, or the least larger one at which the reference takes `LEAST_TRIPS` times what its way over the wire takes.

    Measured in CPU time in the trusted process. Raises `TaskError` where there is none.
    """
    asked, best = n, 0.0
    for _ in range(STEPS):
        _, solved = _solved(examiner, name, n, seed, again=True)
        trips = solved["solve_s"] / solved["wire_s"]
        if trips >= LEAST_TRIPS:
            return n
        best = max(best, trips)
        if solved["solve_s"] * GROWTH > MOST_S:
            break
        n = math.ceil(n * GROWTH)
    raise TaskError(
        f"{name} cannot be timed: at n = {asked} its reference takes {best:.1f} times what its problem and solution"
        f" take over the wire, and no larger n was found (up to {n}) where it takes {LEAST_TRIPS:g} times that;"
        f" --n {asked} times it all the same, and says how coarsely"
    )


def _solved(examiner: Examiner, name: str, n: int, seed: int, *, again: bool = False) -> tuple[bytes, dict[str, Any]]:
    try:
        problem = examiner.generate(n, seed, GENERATE_S)
        return problem, examiner.solve(problem, SOLVE_S, again=again)
    except (Failed, TooSlow) as error:
        raise TaskError(f"{name} cannot be used: its own reference fails (n = {n}): {error}") from error
