"""How the integrals are drawn, and what they come to: closed forms, in doubles.

Two rules about what is drawn. No integrand over the whole line is even about 0, or a program that integrates one half
and doubles it would be right. And nothing is asked that doubles cannot answer: close to an end other than 0 the floats
lie so far apart that a singularity there hides what it holds, so its exponent is kept where 12 digits remain.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from progevo.evaluators.integration import Problem
from progevo.tasks.integrals import families

#: Smaller values are drawn again: they come from cancellation, which a relative error would blow up.
SMALLEST = 5e-4


class Family(NamedTuple):
    """How a family's parameters are drawn, and the integral they give over its interval."""

    draw: Callable[[random.Random], list[float]]
    value: Callable[..., float]


def logarithmic(rng: random.Random, low: float, high: float) -> float:
    """Uniform in the logarithm."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


FAMILIES: dict[str, Family] = {
    # The beta function. At 1 an exponent below about 0.8 could not be seen to 12 digits.
    "ends": Family(
        lambda rng: [rng.uniform(0.06, 0.45), rng.uniform(0.8, 0.95)],
        lambda al, be: math.gamma(al) * math.gamma(be) / math.gamma(al + be),
    ),
    "log_power": Family(
        lambda rng: [rng.uniform(0.2, 1.0), float(rng.choice((2, 3, 4)))],
        lambda s, n: math.gamma(n + 1.0) / s ** (n + 1.0),
    ),
    "log_wave": Family(lambda rng: [rng.uniform(0.3, 1.2), rng.uniform(5.0, 40.0)], lambda s, w: s / (s * s + w * w)),
    "needle": Family(
        lambda rng: [logarithmic(rng, 1e-7, 1e-4), rng.uniform(0.15, 0.85)],
        lambda width, place: math.atan((1.0 - place) / width) + math.atan(place / width),
    ),
    "damped_sine": Family(
        lambda rng: [logarithmic(rng, 1e-3, 5e-2), rng.uniform(0.5, 3.0)], lambda p, q: math.atan(q / p)
    ),
    "fresnel": Family(
        lambda rng: [rng.uniform(0.5, 5.0), float(rng.choice((0, 1)))],
        lambda scale, sine: math.sqrt(math.pi / (8.0 * scale)),
    ),
    "gamma_wave": Family(
        lambda rng: [rng.uniform(0.25, 1.5), rng.uniform(2.0, 20.0)],
        lambda s, b: math.gamma(s) * math.cos(s * math.atan(b)) / (1.0 + b * b) ** (s / 2.0),
    ),
    "gauss_wave": Family(
        lambda rng: [rng.uniform(3.0, 5.5), rng.uniform(0.3, 1.5)],
        lambda b, m: math.sqrt(math.pi) * math.exp(-b * b / 4.0) * math.cos(b * m),
    ),
    "tail": Family(lambda rng: [rng.uniform(0.15, 0.85)], lambda s: math.pi / math.sin(math.pi * s)),
}


def drawn(split: str, sets: int) -> Sequence[Problem]:
    """So many sets of problems, one of each family in a set, in an order of its own. The same at every call."""
    return [
        problem for number in range(sets) for problem in drawn_set(random.Random(f"progevo integrals {split} {number}"))
    ]


def drawn_set(rng: random.Random) -> list[Problem]:
    """One problem of each family, shuffled."""
    problems = []
    for name, family in FAMILIES.items():
        value = 0.0
        while abs(value) < SMALLEST:
            parameters = family.draw(rng)
            value = family.value(*parameters)
        _, (a, b) = families.FAMILIES[name]
        problems.append(Problem(parameters=[name, *parameters], a=a, b=b, value=value))
    rng.shuffle(problems)
    return problems
