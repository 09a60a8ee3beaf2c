"""What can be said of a gain on the held-out part: its size, its standard error, its interval.

Both programs are scored on the same cases, so what counts is the difference case by case. Above 0 is better,
whatever the metric's direction. docs/statistics.md derives the formulas.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, variance
from typing import Any

from progevo.types import Metric

#: How often the cases are drawn again, with replacement.
RESAMPLES = 2000
#: Rows of random numbers made at a time: bounds the memory of a bootstrap over many cases.
CHUNK = 200
#: A gain of so many standard errors is resolved, if its interval agrees.
RESOLVED_SE = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run of a program on a split: its score (larger is better) and its per-case values, in the metric's terms."""

    score: float
    cases: Sequence[float] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A paired difference, above 0 where the second program is better; `None` where nothing can be said."""

    value: float
    standard_error: float | None
    interval: tuple[float, float] | None
    resolved: bool | None
    #: The least gain that these cases could resolve.
    resolvable: float | None


def difference(
    metric: Metric, before: Sequence[Sample], after: Sequence[Sample], *, seed: str, noisy: bool = False, looks: int = 1
) -> Difference | None:
    """The gain of `after` over `before`, each of which was run once or several times on the same cases.

    Args:
        metric: says how a score follows from per-case values.
        before: the runs of the first program.
        after: the runs of the second.
        seed: what the bootstrap's draws derive from.
        noisy: whether a program scores differently from run to run. From one run each nobody can tell how much, so
            such a gain is neither resolved nor not.
        looks: how often the held-out part has been opened. Whoever looks again has more chances to be lucky, so the
            k-th look gets the k-th part of 0.05, 0.025, 0.0125, ..., together at most 0.1.
    """
    value = _mean([run.score for run in after]) - _mean([run.score for run in before])
    if not math.isfinite(value):
        return None
    unknown = Difference(value=value, standard_error=None, interval=None, resolved=None, resolvable=None)
    runs_known = len(before) > 1 and len(after) > 1
    if noisy and not runs_known:
        return unknown
    doubt = 0.05 / 2 ** (looks - 1)
    cases = paired_standard_error(metric, *(pooled([run.cases for run in runs]) for runs in (before, after)))
    if cases is None:
        return unknown
    low, high = bootstrap(metric, before, after, seed=seed, doubt=doubt)
    error, quantile = cases, 0.0
    if runs_known:
        among, freedom = _among_runs(before, after)
        error = math.hypot(cases, among)
        quantile = student(1 - doubt / 2, freedom) * among if among else 0.0
    low, high = value - math.hypot(value - low, quantile), value + math.hypot(high - value, quantile)
    needed = max(RESOLVED_SE, NormalDist().inv_cdf(1 - doubt / 2)) * error
    return Difference(
        value=value,
        standard_error=error,
        interval=(low, high),
        resolved=value > needed and low > 0,
        resolvable=max(needed, value - low),
    )


def paired_standard_error(metric: Metric, before: Sequence[float], after: Sequence[float]) -> float | None:
    """The standard error of the difference between two metric values over the same cases; `None` if unknown.

    For a mean it is that of the mean difference. For a root mean (RMSE from squared errors) the delta method gives
    the difference's influence of one case: s_b/(2 r_b) - s_a/(2 r_a), with s the case's value and r the metric's.
    """
    count = len(before)
    if metric.aggregate is None or count < 2 or len(after) != count:
        return None
    if metric.aggregate == "root_mean" and min(*before, *after) < 0:
        return None  # these cannot be what an RMSE is made of
    scale_before = scale_after = 1.0
    if metric.aggregate == "root_mean":
        roots = [math.sqrt(math.fsum(cases) / count) for cases in (before, after)]
        if not all(roots):
            return None
        scale_before, scale_after = 1 / (2 * roots[0]), 1 / (2 * roots[1])
    influence = [scale_after * b - scale_before * a for a, b in zip(before, after, strict=True)]
    return math.sqrt(variance(influence) / count)


def bootstrap(
    metric: Metric, before: Sequence[Sample], after: Sequence[Sample], *, seed: str, doubt: float = 0.05
) -> tuple[float, float]:
    """The percentile interval of the difference: the same cases are drawn again for both programs (paired).

    Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13. Shifted so that its centre is the
    difference as measured, where repeated runs make the pooled metric differ from the mean of the runs' metrics.
    """
    import numpy as np  # not above: start-up time that `progevo --help` should not pay

    both = [np.array(pooled([run.cases for run in runs])) for runs in (before, after)]
    count = len(both[0])
    draw = np.random.Generator(np.random.PCG64(random.Random(f"progevo {seed} bootstrap").getrandbits(64)))
    sign = -1.0 if metric.direction == "minimize" else 1.0

    def gain(rows: Any) -> Any:
        values = [cases[rows].mean(axis=-1) for cases in both]
        if metric.aggregate == "root_mean":
            values = [np.sqrt(value) for value in values]
        return sign * (values[1] - values[0])

    size = max(1, min(CHUNK, 4_000_000 // count))
    found = np.concatenate(
        [gain(draw.integers(0, count, (min(size, RESAMPLES - done), count))) for done in range(0, RESAMPLES, size)]
    )
    shift = _mean([run.score for run in after]) - _mean([run.score for run in before]) - float(gain(np.arange(count)))
    low, high = (float(value) + shift for value in np.quantile(found, [doubt / 2, 1 - doubt / 2]))
    return low, high


def pooled(runs: Sequence[Sequence[float]]) -> list[float]:
    """The per-case values of several runs, averaged case by case; empty where the runs do not agree on the cases."""
    if len({len(cases) for cases in runs}) != 1:
        return []
    return [math.fsum(values) / len(runs) for values in zip(*runs, strict=True)]


def student(level: float, freedom: float) -> float:
    """The quantile of Student's t."""
    from scipy.stats import t

    return float(t.ppf(level, freedom))


def _among_runs(before: Sequence[Sample], after: Sequence[Sample]) -> tuple[float, float]:
    """The standard error that comes from running again, and its degrees of freedom (Welch, Satterthwaite)."""
    parts = [(variance([run.score for run in runs]) / len(runs), len(runs) - 1) for runs in (before, after)]
    total = math.fsum(part for part, _ in parts)
    if total == 0.0:
        return 0.0, 1.0
    return math.sqrt(total), total**2 / math.fsum(part**2 / freedom for part, freedom in parts)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
