"""Instances: problems that are generated once and kept as bytes, with what the reference says of each."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from progevo.errors import TaskError
from progevo.evaluators.timing.examiner import Examiner, Failed, TooSlow

#: What the reference takes at least, in round trips over the wire: below that the wire would be timed, not the program.
LEAST_TRIPS = 20.0
#: How n grows where that is too little, how often, and what has to be gained by it, but for so many times in a row.
GROWTH, STEPS, LEAST_GAIN, IDLE = 1.5, 12, 1.1, 2
#: What one problem may take to be generated, solved by the reference, or checked.
GENERATE_S, SOLVE_S, CHECK_S = 120.0, 60.0, 120.0
#: n does not grow beyond a reference that takes so long: it is run thirty times for every candidate.
MOST_S = 1.0


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


class Size(NamedTuple):
    """A size, and how many round trips over the wire the reference takes at it."""

    n: int
    trips: float

    @property
    def coarse(self) -> bool:
        """Whether a program much faster than the reference could not be told from one that is faster still."""
        return self.trips < LEAST_TRIPS


def large_enough(examiner: Examiner, name: str, n: int, seed: int) -> Size:
    """n, or the least larger one at which the reference takes `LEAST_TRIPS` times what its way over the wire takes.

    n as it was, and coarse, where there is none: the work of some problems grows no faster than the problem. Measured
    in CPU time in the trusted process. Raises `TaskError` where the reference fails.
    """
    asked, most, idle = Size(n, 0.0), 0.0, 0
    for step in range(STEPS):
        try:
            _, solved = _solved(examiner, name, n, seed, again=True)
        except TaskError:
            if step == 0:
                raise
            break  # it was not asked for anything so large
        found = Size(n, solved["solve_s"] / solved["wire_s"])
        if not found.coarse:
            return found
        if step == 0:
            asked = found
        idle = 0 if found.trips >= most * LEAST_GAIN else idle + 1
        if solved["solve_s"] * GROWTH > MOST_S or idle == IDLE:
            break
        n, most = math.ceil(n * GROWTH), max(most, found.trips)
    return asked


def _solved(examiner: Examiner, name: str, n: int, seed: int, *, again: bool = False) -> tuple[bytes, dict[str, Any]]:
    try:
        problem = examiner.generate(n, seed, GENERATE_S)
        return problem, examiner.solve(problem, SOLVE_S, again=again)
    except (Failed, TooSlow) as error:
        raise TaskError(f"{name} cannot be used: its own reference fails (n = {n}): {error}") from error
