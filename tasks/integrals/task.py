"""Integrals: nine families of hard ones, behind a function that can only be called (see docs/integrals.md)."""

from __future__ import annotations

from pathlib import Path

from progevo.domain import SEARCH, TEST, Domain, Usual
from progevo.errors import TaskError
from progevo.evaluators.digits import LOST, SOLVED
from progevo.evaluators.integration import Integration
from progevo.tasks.integrals import families
from progevo.tasks.integrals.problems import drawn
from progevo.types import MIB, DataSource, GatePolicy, Limits, Metric, Program

NAME = "integrals"
ABOUT = "Hard integrals of functions that can only be called: integrate(f, a, b), scored by mean correct digits."

#: Sets of nine problems, one a family.
SETS = {SEARCH: 8, TEST: 4}
#: What one problem may take; of CPU, on both sides together.
CALLS, CPU_S, WALL_S = 200_000, 5.0, 20.0

GATE = GatePolicy(
    imports=frozenset(
        {"__future__", "abc", "bisect", "cmath", "collections", "copy", "dataclasses", "decimal", "fractions"}
        | {"functools", "heapq", "itertools", "math", "numpy", "random", "scipy", "statistics", "typing", "warnings"}
    ),
    refused_modules=frozenset({"scipy.datasets"}),
)


def domain(*, data: Path | None = None) -> Domain:
    """The task. Raises `TaskError` for a data file: its problems are drawn from seeds of its own."""
    from progevo.tasks.integrals.moves import MOVES  # a listing of the tasks needs none of what these import

    if data is not None:
        raise TaskError(
            f"the task {NAME} takes no data file (got {data}): its problems are drawn from seeds of its own"
        )
    here = Path(__file__).parent
    problems = {split: drawn(split, sets) for split, sets in SETS.items()}
    return Domain(
        name=NAME,
        entrypoint="integrate",
        seed=Program((here / "seed.py").read_text("utf-8")),
        prompt=(here / "prompt.md").read_text("utf-8"),
        metric=Metric(name="digits", direction="maximize", aggregate="mean"),
        gate=GATE,
        # The wall clock is wider than the CPU's: two processes take turns, and a busy machine is no fault.
        # One process and thread, by whose clock the time of each problem is told.
        limits=Limits(wall_s=180.0, cpu_s=60, memory_bytes=1024 * MIB, processes=1),
        profile="numeric",
        evaluator=Integration(
            file=Path(families.__file__).resolve(), problems=problems, calls=CALLS, cpu_s=CPU_S, wall_s=WALL_S
        ),
        data=DataSource(source="drawn from seeds", rows=sum(len(of) for of in problems.values())),
        moves=MOVES,
        right=lambda found: found >= SOLVED,
        wrong=lambda found: found < LOST,
        usual=Usual(gain=1.4, test_se=0.4),  # 20 iterations of the offline mutator, seeds 0 and 1
        case_ids={split: [str(problem.parameters) for problem in of] for split, of in problems.items()},
    )
