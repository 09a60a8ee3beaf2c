"""The nine families of integrands. Stands alone: the answering process loads this file. It never enters a sandbox.

Each family is a function of x made from its parameters. How they are drawn, and what the integrals come to, stands in
`problems.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Integrand = Callable[[float], float]


def ends(al: float, be: float) -> Integrand:
    return lambda x: x ** (al - 1.0) * (1.0 - x) ** (be - 1.0)


def log_power(s: float, n: float) -> Integrand:
    return lambda x: x ** (s - 1.0) * (-math.log(x)) ** n


def log_wave(s: float, w: float) -> Integrand:
    return lambda x: x ** (s - 1.0) * math.cos(w * math.log(x))


def needle(width: float, place: float) -> Integrand:
    return lambda x: width / ((x - place) ** 2 + width * width)


def damped_sine(p: float, q: float) -> Integrand:
    return lambda x: math.exp(-p * x) * math.sin(q * x) / x if x else q


def fresnel(scale: float, sine: float) -> Integrand:
    wave = math.sin if sine else math.cos
    return lambda x: wave(scale * x * x)


def gamma_wave(s: float, b: float) -> Integrand:
    return lambda x: x ** (s - 1.0) * math.exp(-x) * math.cos(b * x)


def gauss_wave(b: float, m: float) -> Integrand:
    return lambda x: math.exp(-((x - m) ** 2)) * math.cos(b * x)


def tail(s: float) -> Integrand:
    return lambda x: x ** (s - 1.0) / (1.0 + x)


UNIT, HALF_LINE, LINE = (0.0, 1.0), (0.0, math.inf), (-math.inf, math.inf)
#: What makes each integrand, and the interval it is defined on and integrated over.
FAMILIES: dict[str, tuple[Callable[..., Integrand], tuple[float, float]]] = {
    "ends": (ends, UNIT),
    "log_power": (log_power, UNIT),
    "log_wave": (log_wave, UNIT),
    "needle": (needle, UNIT),
    "damped_sine": (damped_sine, HALF_LINE),
    "fresnel": (fresnel, HALF_LINE),
    "gamma_wave": (gamma_wave, HALF_LINE),
    "gauss_wave": (gauss_wave, LINE),
    "tail": (tail, HALF_LINE),
}


def function(parameters: list[Any]) -> Integrand:
    """The integrand of a family's name and its parameters. It raises outside of its interval."""
    name, *numbers = parameters
    make, (low, high) = FAMILIES[name]
    inside = make(*numbers)

    def f(x: float) -> float:
        # A fractional power of a negative number would be complex.
        if not low <= x <= high:
            raise ValueError(f"{x} is outside of the interval")
        return inside(x)

    return f
