"""The points of the task and their values: drawn by a seed, computed by mpmath at two precisions, written as JSON.

    python -m progevo.tasks.hyp2f1.points > reference.json

writes the shipped file again, byte for byte. Needs mpmath, which nothing else in progevo does.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from typing import NamedTuple

from progevo.domain import SEARCH, TEST

#: Points of a split.
COUNT = 1000
#: Digits that the two precisions must share, and that are kept.
DIGITS = 25
#: Decimal digits that mpmath computes with.
PRECISIONS = (30, 60)
#: Values beyond these sizes are left out: near the ends of the doubles every method has to scale.
SMALLEST, LARGEST = Fraction(1, 10**250), Fraction(10**250)
#: How close c may come to a non-positive integer among the drawn points.
CLOSEST = 1e-3


class Point(NamedTuple):
    """The arguments of 2F1."""

    a: float
    b: float
    c: float
    z: float


class Unclear(Exception):
    """There is no value at a point, or not one that both precisions agree on."""


def value(point: Point) -> Fraction:
    """2F1 at a point, to `DIGITS` digits. Raises `Unclear`."""
    if terminates(point):
        return polynomial(point)
    low, high = (computed(point, digits) for digits in PRECISIONS)
    if high == 0 or abs(low - high) > abs(high) / 10**DIGITS:
        raise Unclear(f"at {tuple(point)} the values at {PRECISIONS} digits are {float(low)} and {float(high)}")
    return high


def terminates(point: Point) -> bool:
    """Whether a or b is a non-positive integer."""
    return any(x <= 0.0 and x.is_integer() for x in (point.a, point.b))


def polynomial(point: Point) -> Fraction:
    """The value of a series that ends, exactly.

    Where c is a non-positive integer as well, the series has to end before it meets the pole of c: its value is then
    the limit for a (or b) fixed and c coming close (DLMF 15.2.5). Raises `Unclear` where it does not end in time.
    """
    a, b, c, z = map(Fraction, point)
    last = min(int(-x) for x in (a, b) if x <= 0 and x.denominator == 1)
    if c <= 0 and c.denominator == 1 and -c < last:
        raise Unclear(f"at {tuple(point)} the series meets a pole before it ends")
    total = term = Fraction(1)
    for n in range(last):
        term *= (a + n) * (b + n) / ((c + n) * (n + 1)) * z
        total += term
    return total


def computed(point: Point, digits: int) -> Fraction:
    """What mpmath says with so many digits."""
    import mpmath

    with mpmath.workdps(digits):
        found = mpmath.hyp2f1(*point)
        if not mpmath.isfinite(found) or isinstance(found, mpmath.mpc):
            raise Unclear(f"at {tuple(point)} mpmath says {found}")
        numerator, denominator = mpmath.libmp.to_rational(found._mpf_)
    return Fraction(int(numerator), int(denominator))


def text(exact: Fraction) -> str:
    """The first `DIGITS` digits of a value, rounded."""
    return str(Context(prec=DIGITS).divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def drawn(split: str, count: int = COUNT) -> Iterator[tuple[Point, str]]:
    """So many points of a split with their values, from a generator of the split's own."""
    rng = random.Random(f"progevo hyp2f1 {split}")
    left = count
    while left:
        a, b, c = (rng.uniform(-30.0, 30.0) for _ in range(3))
        point = Point(a, b, c, rng.uniform(-40.0, 0.999))
        if point.c < CLOSEST and abs(point.c - round(point.c)) < CLOSEST:
            continue
        try:
            found = value(point)
        except Unclear:
            continue
        if SMALLEST < abs(found) < LARGEST:
            left -= 1
            yield point, text(found)


#: The edge set: for each kind of trouble some parameters (a, b, c), each at some z.
EDGE: dict[str, tuple[tuple[tuple[float, float, float], ...], tuple[float, ...]]] = {
    "small parameters": (
        ((0.3, 0.7, 1.9), (0.5, 0.5, 1.0), (1.0, 1.0, 2.0), (0.5, 1.0, 1.5)),
        (-30.0, -3.0, -0.5, 0.6, 0.9),
    ),
    "terminating series": (
        ((-3.0, 4.5, 2.25), (-12.0, 7.3, 1.5), (13.1, -25.0, -7.5)),
        (-20.0, -1.5, 0.5, 0.95),
    ),
    "a = c, a non-positive integer": (
        ((-1.0, 2.34, -1.0), (-4.0, 1.7, -4.0), (-2.0, 3.3, -5.0)),
        (-5.0, 0.5),
    ),
    "a - b an integer": (
        ((2.5, 0.5, 3.3), (4.25, 4.25, 1.1), (7.5, -3.5, 2.2), (-2.3, -2.3, 4.1), (21.5, 18.5, -9.7)),
        (-30.0, -6.0, -1.2, 0.3),
    ),
    "c - a - b an integer": (
        ((0.5, 1.2, 1.7), (0.5, 1.2, 3.7), (2.5, 3.2, 1.7), (9.5, -4.25, 3.25)),
        (-0.999, 0.9, 0.97),
    ),
    "c near a non-positive integer": (
        ((1.2, 0.7, -3.000001), (2.1, -0.4, -0.0001), (11.3, 8.6, -10.0001)),
        (-7.0, -0.8, 0.4),
    ),
    "z near -1": (
        ((1.3, 2.4, 3.6), (10.2, -3.4, 5.5), (18.7, 21.3, 11.1)),
        (-1.0000001, -1.0, -0.9999999),
    ),
    "z near 1": (
        ((1.3, 2.4, 4.1), (10.2, -3.4, 5.5), (0.4, 0.6, 1.3)),
        (0.99, 0.999, 0.9999999),
    ),
    "z near 0": (
        ((0.3, 0.7, 1.9), (-17.2, 23.4, 5.6)),
        (0.0, 1e-12, -1e-8),
    ),
    "large parameters": (
        ((1000.0, -1000.0, 2000.0), (-120.5, 80.25, 60.75)),
        (-0.25, 0.5),
    ),
}


def edge() -> Iterator[tuple[str, Point, str]]:
    """Every point of the edge set: its name, its arguments, its value. Raises `Unclear` for one that has none."""
    for kind, (parameters, places) in EDGE.items():
        for number, three in enumerate(parameters, 1):
            for z in places:
                point = Point(*three, z)
                yield f"{kind} {number}, z = {z!r}", point, text(value(point))


def reference() -> str:
    """The text of the shipped file: a line a point."""
    parts: dict[str, list[list[object]]] = {
        split: [[*point, known] for point, known in drawn(split)] for split in (SEARCH, TEST)
    }
    parts["edge"] = [[name, *point, known] for name, point, known in edge()]
    blocks = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]" for name, rows in parts.items()
    ]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


if __name__ == "__main__":
    print(reference(), end="")
