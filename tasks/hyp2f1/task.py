"""2F1: Gauss's hypergeometric function on the real line, in doubles (see docs/hyp2f1.md)."""

from __future__ import annotations

import functools
import hashlib
import json
from decimal import Decimal
from pathlib import Path

from progevo.domain import SEARCH, TEST, Domain, Usual
from progevo.errors import TaskError
from progevo.evaluators.digits import LOST, SOLVED, Digits, Known
from progevo.types import MIB, DataSource, GatePolicy, Limits, Metric, Program

NAME = "hyp2f1"
ABOUT = "Gauss's 2F1 at real a, b, c, z: hyp2f1(a, b, c, z), scored by its mean correct digits."

HERE = Path(__file__).parent

#: What would compute the reference itself, or carries more digits than a double and the time to use them.
BANNED = frozenset({"mpmath", "sympy", "decimal", "fractions", "_decimal", "_pydecimal", "gmpy2", "flint"})

GATE = GatePolicy(
    imports=frozenset(
        {"__future__", "bisect", "cmath", "collections", "dataclasses", "functools", "itertools", "math", "typing"}
        | {"numpy", "scipy", "warnings"}
    ),
    refused_modules=BANNED | {"scipy.datasets"},
    refused_names=frozenset({"Decimal", "Fraction"}),
    refused_attributes=frozenset({"Decimal", "Fraction"}),
)


def domain(*, data: Path | None = None) -> Domain:
    """The task on the shipped points. Raises `TaskError` for a data file: it takes none."""
    from progevo.tasks.hyp2f1.moves import MOVES  # a listing of the tasks needs none of what these import

    if data is not None:
        raise TaskError(f"the task {NAME} takes no data file (got {data}): its points come with it")
    raw = (HERE / "reference.json").read_bytes()
    made = evaluator(raw)
    return Domain(
        name=NAME,
        entrypoint="hyp2f1",
        seed=Program((HERE / "seed.py").read_text("utf-8")),
        prompt=(HERE / "prompt.md").read_text("utf-8"),
        metric=Metric(name="digits", direction="maximize", aggregate="mean"),
        gate=GATE,
        limits=Limits(wall_s=45.0, cpu_s=45, memory_bytes=1024 * MIB),
        profile="numeric",
        evaluator=made,
        data=DataSource(
            source=NAME, sha256=hashlib.sha256(raw).hexdigest(), rows=sum(len(of) for of in made.points.values())
        ),
        moves=MOVES,
        right=lambda found: found >= SOLVED,
        wrong=lambda found: found < LOST,
        usual=Usual(gain=0.40, test_se=0.12),  # 20 iterations of the offline mutator, seeds 0 to 3
        case_ids={split: [point.at for point in of] for split, of in made.points.items()},
    )


@functools.lru_cache(maxsize=1)
def evaluator(raw: bytes) -> Digits:
    """Reads the shipped points (`progevo.tasks.hyp2f1.points` writes them)."""
    parts = json.loads(raw)
    return Digits(
        points={split: [known(*row) for row in parts[split]] for split in (SEARCH, TEST)},
        edge=[known(*row) for _, *row in parts["edge"]],
    )


def known(a: float, b: float, c: float, z: float, value: str) -> Known:
    """One row of the file."""
    return Known(at=(a, b, c, z), value=Decimal(value))
