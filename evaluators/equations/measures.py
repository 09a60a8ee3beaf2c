"""What predictions are worth: the benchmark's measures, strict, and its lenient figure under its own name.

The rules where a measure has no plain meaning:

- A prediction that is not finite fails. NMSE is then `None`, Acc is 0.
- A target of 0 is met within a relative tolerance by 0 alone: |y - t| <= tau |t|, without a division.
- Targets that are all the same have no variance: NMSE is `None`.
- A squared error beyond the doubles makes NMSE `None`, as a prediction that is not finite does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: Relative tolerance of Acc (arXiv:2504.10415, section 3).
TAU = 0.1
#: More digits of NMSE count no further.
MOST = 12.0


def shares(predicted: Any, target: Any) -> Any | None:
    """What each row adds to NMSE, times the number of rows, so that their mean is NMSE; `None` where there is none."""
    if not len(target) or constant(target) or not np.isfinite(predicted).all():
        return None
    around = target - target.mean()
    scale = np.abs(around).max()  # squares of tiny or huge numbers leave the doubles
    with np.errstate(over="ignore"):
        found = ((predicted - target) / scale) ** 2 / np.mean((around / scale) ** 2)
        return found if np.isfinite(found.sum()) else None


def nmse(predicted: Any, target: Any) -> float | None:
    """Sum of (y - t)^2 over sum of (t - mean t)^2; `None` by the rules above."""
    found = shares(predicted, target)
    return None if found is None else float(found.mean())


def lenient_nmse(predicted: Any, target: Any) -> float | None:
    """What `bench/pipelines.py` of LLM-SRBench computes: rows with a NaN are left out, of the variance too."""
    kept = ~np.isnan(predicted)
    return nmse(predicted[kept], target[kept])


def within(predicted: Any, target: Any, tau: float = TAU) -> float:
    """The share of rows whose relative error is at most `tau`."""
    with np.errstate(invalid="ignore"):
        return float(np.mean(np.abs(predicted - target) <= tau * np.abs(target)))


def accuracy(predicted: Any, target: Any, tau: float = TAU) -> float:
    """Acc_tau: 1 where the worst row is within `tau`, else 0."""
    return float(within(predicted, target, tau) == 1.0)


def constant(target: Any) -> bool:
    """Whether all targets are the same number, so that there is no variance to explain."""
    return bool(target.min() == target.max())


def digits(value: float) -> float:
    """Minus the decimal logarithm of an NMSE, at most `MOST`."""
    return min(MOST, -math.log10(value)) if value > 0 else MOST


def digit_cases(found: Any) -> tuple[float, ...]:
    """One value a row, whose mean is `digits` of the mean of `shares`.

    A logarithm of a mean is no mean. To first order it is one of d - (s_i / m - 1) / ln 10, with s_i the row's share,
    m their mean and d the digits (the delta method), and exactly so in sum, since the second part adds up to nothing.
    """
    mean = float(found.mean())
    value = digits(mean)
    if value == MOST:
        return (MOST,) * len(found)
    return tuple((value - (found / mean - 1.0) / math.log(10.0)).tolist())
