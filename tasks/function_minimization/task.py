"""Function minimization: find the least value of a wavy function in 200 calls (see docs/function-minimization.md)."""

from __future__ import annotations

import random
from pathlib import Path

from progevo.domain import SEARCH, TEST, Domain
from progevo.errors import DataError
from progevo.evaluators.minimization import Minimization, Minimum, Trial
from progevo.tasks.function_minimization import landscape
from progevo.types import MIB, DataSource, GatePolicy, Limits, Metric, Program

NAME = "function_minimization"
ABOUT = "The minimum of a wavy function of two variables in 200 calls: run_search(objective, bounds, budget, seed)."

BOUNDS, BUDGET, TRIALS = (-5.0, 5.0), 200, 32
#: How far the function may be moved along each axis. Its minimum stays well inside the bounds.
OFFSET = 2.0

#: What of the standard library computes, and neither reads, writes nor starts anything.
STANDARD = frozenset(
    {"__future__", "abc", "bisect", "cmath", "collections", "copy", "dataclasses", "enum", "functools", "heapq"}
    | {"itertools", "math", "operator", "random", "statistics", "typing", "warnings"}
)


def domain(*, data: Path | None = None) -> Domain:
    """The task. Raises `DataError` for a data file: its trials are drawn from seeds of its own."""
    from progevo.tasks.function_minimization.moves import MOVES  # a listing of the tasks needs none of what it imports

    if data is not None:
        raise DataError(f"the task {NAME} takes no data file (got {data}): its trials are drawn from seeds of its own")
    here = Path(__file__).parent
    trials = {split: [trial(split, number) for number in range(TRIALS)] for split in (SEARCH, TEST)}
    return Domain(
        name=NAME,
        entrypoint="run_search",
        seed=Program((here / "seed.py").read_text("utf-8")),
        prompt=(here / "prompt.md").read_text("utf-8"),
        metric=Metric(name="combined score", direction="maximize", aggregate="mean"),
        gate=GatePolicy(imports=STANDARD),
        limits=Limits(wall_s=20.0, cpu_s=10, memory_bytes=256 * MIB),
        profile="stdlib",
        evaluator=Minimization(
            file=Path(landscape.__file__).resolve(),
            function=landscape.function,  # type: ignore[arg-type]  # its parameters are JSON of one shape
            trials=trials,
            bounds=BOUNDS,
            budget=BUDGET,
        ),
        data=DataSource(source="drawn from seeds", rows=TRIALS),
        moves=MOVES,
        case_ids={split: [str(each.parameters) for each in of] for split, of in trials.items()},
    )


def trial(split: str, number: int) -> Trial:
    """One trial of a split: where the function is moved to, and the seed that the program gets."""
    rng = random.Random(f"{NAME} {split} {number}")
    dx, dy = rng.uniform(-OFFSET, OFFSET), rng.uniform(-OFFSET, OFFSET)
    x, y, value = landscape.MINIMUM
    return Trial(parameters=[dx, dy], minimum=Minimum(x + dx, y + dy, value), seed=rng.randrange(2**31))
