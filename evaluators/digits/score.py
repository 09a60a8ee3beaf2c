"""Digits: how many digits of a function's values are correct, point by point, in decimal arithmetic on the host."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path

from progevo.errors import BadOutput, TaskError
from progevo.types import Answer, Inputs, Json, Score

HARNESS = Path(__file__).resolve().with_name("harness.py")

#: More correct digits count no further: a double holds not quite 16, and the last few are luck.
MOST = 12.0
#: From so many digits on a point counts as solved, and below so many as lost.
SOLVED, LOST = 10.0, 1.0

#: Of the subtraction; a double has at most 767 significant digits, and is taken as it is.
EXACT = Context(prec=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A point, and the function's value there, which is not 0."""

    at: tuple[float, ...]
    value: Decimal


class Digits:
    """An `Evaluator` for programs of the form `entry(x, y, ...) -> float`, scored by their mean correct digits.

    Args:
        points: for each split the points that make the score. The candidate is given them without their values.
        edge: hard cases beside them. They are computed with every split and reported under `edge_digits` and
            `edge_solved`; no score holds them.

    Raises:
        TaskError: a split has no points, or a value is 0 or not finite.
    """

    def __init__(self, *, points: Mapping[str, Sequence[Known]], edge: Sequence[Known] = ()) -> None:
        self.points = {split: tuple(of) for split, of in points.items()}
        self.edge = tuple(edge)
        for split, of in self.points.items():
            if not of:
                raise TaskError(f"split {split!r} has no points: give at least one")
        for point in (*self.edge, *(point for of in self.points.values() for point in of)):
            if not point.value.is_finite() or point.value == 0:
                raise TaskError(f"the value at {point.at} is {point.value}; a relative error needs one that is not 0")

    @property
    def harness(self) -> Path:
        return HARNESS

    def inputs(self, split: str, /) -> Inputs:
        points: list[Json] = [list(point.at) for point in (*self.points[split], *self.edge)]
        return Inputs(request={"points": points})

    def score(self, split: str, answer: Answer, /) -> Score:
        """The mean digits over the split's points, the edge set apart. Raises `BadOutput` for a wrong count."""
        known = (*self.points[split], *self.edge)
        if len(answer.arrays) != 1 or len(answer.arrays[0]) != len(known):
            raise BadOutput(f"the answer does not hold one number for each of the {len(known)} points")
        found = [digits(value, point.value) for value, point in zip(answer.arrays[0], known, strict=True)]
        cases, edge = found[: len(known) - len(self.edge)], found[len(known) - len(self.edge) :]
        mean = math.fsum(cases) / len(cases)
        metrics = {"digits": mean, "solved": float(solved(cases)), "lost": float(sum(each < LOST for each in cases))}
        if edge:
            metrics |= {"edge_digits": math.fsum(edge) / len(edge), "edge_solved": float(solved(edge))}
        return Score(score=mean, metrics=metrics, cases=tuple(cases))


def digits(value: float, true: Decimal) -> float:
    """How many digits of a value are correct: `-log10` of its relative error, from 0 to `MOST`; 0 for no number."""
    if not math.isfinite(value):
        return 0.0
    error = EXACT.divide(EXACT.subtract(Decimal(value), true), true).copy_abs()
    if error >= 1:
        return 0.0
    return min(MOST, -math.log10(error)) if error > Decimal("1e-300") else MOST


def solved(found: Sequence[float]) -> int:
    """How many points are solved."""
    return sum(each >= SOLVED for each in found)
