"""What is said of a gain: against numbers computed by hand, against resampling, and over a hundred seeds of nothing."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from progevo import Metric
from progevo.statistics import Sample, bootstrap, difference, paired_standard_error, student

RMSE = Metric(name="RMSE", direction="minimize", aggregate="root_mean")
MEAN = Metric(name="digits", direction="maximize", aggregate="mean")
LOSS = Metric(name="loss", direction="minimize", aggregate="mean")


def sample(metric, cases):
    mean = statistics.fmean(cases)
    value = math.sqrt(mean) if metric.aggregate == "root_mean" else mean
    return Sample(score=metric.score(value), cases=tuple(cases))


def test_the_standard_error_of_a_mean_difference_by_hand():
    # Differences 1, 2, 3, 2: mean 2, sample variance 2/3, standard error sqrt(2/3 / 4).
    assert paired_standard_error(MEAN, [0, 0, 0, 0], [1, 2, 3, 2]) == pytest.approx(math.sqrt(2 / 3 / 4))


def test_the_standard_error_of_an_rmse_difference_by_hand():
    # Roots 2 and 1; influences b/2 - a/4: (1, 1)/2 - (2, 6)/4 = 0, -1: variance 0.5, over 2 cases: sqrt(0.25).
    assert paired_standard_error(RMSE, [2, 6], [1, 1]) == pytest.approx(0.5)


def test_the_standard_error_of_an_rmse_difference_is_what_resampling_says():
    draw = random.Random(1)
    before = [draw.gauss(0, 1) ** 2 for _ in range(400)]
    after = [value * draw.uniform(0.5, 1.2) for value in before]
    differences = []
    for _ in range(1500):
        rows = draw.choices(range(400), k=400)
        roots = [math.sqrt(statistics.fmean(cases[row] for row in rows)) for cases in (before, after)]
        differences.append(roots[0] - roots[1])
    assert paired_standard_error(RMSE, before, after) == pytest.approx(statistics.stdev(differences), rel=0.1)


def test_a_gain_inside_its_noise_is_unresolved_and_one_outside_is_resolved():
    draw = random.Random(2)
    before = [1 + draw.random() for _ in range(200)]
    for shift, resolved in ((0.0, False), (-0.5, True), (0.5, False)):
        after = [max(0.0, value + shift + draw.gauss(0, 0.3)) for value in before]
        found = difference(RMSE, [sample(RMSE, before)], [sample(RMSE, after)], seed="0")
        assert found.resolved is resolved
        low, high = found.interval or (math.nan, math.nan)
        assert low < found.value < high
        assert found.resolvable == pytest.approx((high - low) / 2, rel=0.15)
    assert found.value < 0  # worse is below zero, also where smaller is better


def test_the_bootstrap_by_hand():
    """Two cases, differences 0 and 4: the four equally likely samples have means 0, 2, 2, 4."""
    runs = [sample(MEAN, [0.0, 0.0])], [sample(MEAN, [0.0, 4.0])]
    assert bootstrap(MEAN, *runs, seed="0") == (0.0, 4.0)
    assert bootstrap(MEAN, *runs, seed="0", doubt=0.9) == (2.0, 2.0)
    worse = [sample(LOSS, [0.0, 0.0])], [sample(LOSS, [0.0, 4.0])]
    assert bootstrap(LOSS, *worse, seed="0") == (-4.0, 0.0)


def test_the_bootstrap_pairs_its_rows():
    """The same error everywhere cancels row by row: its interval is a point, however much the rows differ."""
    draw = random.Random(3)
    before = [draw.uniform(0, 100) for _ in range(50)]
    low, high = bootstrap(LOSS, [sample(LOSS, before)], [sample(LOSS, [x - 1 for x in before])], seed="1")
    assert [low, high] == pytest.approx([1.0, 1.0])


def test_the_bootstrap_of_an_rmse_is_the_normal_interval_where_there_are_many_rows():
    draw = random.Random(4)
    before = [draw.gauss(0, 1) ** 2 for _ in range(3000)]
    after = [value * draw.uniform(0.6, 1.1) for value in before]
    error = paired_standard_error(RMSE, before, after)
    low, high = bootstrap(RMSE, [sample(RMSE, before)], [sample(RMSE, after)], seed="2")
    value = math.sqrt(statistics.fmean(before)) - math.sqrt(statistics.fmean(after))
    assert low == pytest.approx(value - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(value + 1.96 * error, abs=0.15 * error)


def test_one_seed_is_one_interval():
    runs = [[sample(MEAN, [random.Random(n).random() for n in range(k, k + 30)])] for k in (0, 50)]
    assert bootstrap(MEAN, *runs, seed="0") == bootstrap(MEAN, *runs, seed="0") != bootstrap(MEAN, *runs, seed="1")


def test_repeated_runs_that_differ_as_a_whole_widen_everything():
    """Three runs each, all cases of a run shifted together: the cases know nothing of it, the runs do. By hand:
    run means 1, 2, 3 and 4, 5, 6 have variance 1, so the error is sqrt(1/3 + 1/3), with 4 degrees of freedom."""
    before, after = ([sample(MEAN, [float(k)] * 9) for k in ks] for ks in ((1, 2, 3), (4, 5, 6)))
    found = difference(MEAN, before, after, seed="0", noisy=True)
    error = math.sqrt(2 / 3)
    assert found.value == 3.0
    assert found.standard_error == pytest.approx(error)
    assert found.interval == (pytest.approx(3 - 2.7764 * error, abs=1e-3), pytest.approx(3 + 2.7764 * error, abs=1e-3))
    assert found.resolved is True
    assert student(0.975, 4) == pytest.approx(2.7764, abs=1e-4)


def test_one_run_of_a_noisy_task_resolves_nothing():
    before, after = ([sample(MEAN, [k, k + 1.0, k + 0.5])] for k in (0.0, 100.0))
    assert difference(MEAN, before, after, seed="0").resolved is True
    found = difference(MEAN, before, after, seed="0", noisy=True)
    assert (found.value, found.resolved, found.interval, found.resolvable) == (100.0, None, None, None)


def test_every_further_look_raises_the_bar():
    draw = random.Random(5)
    before = [draw.gauss(0, 1) for _ in range(100)]
    after = [value + draw.gauss(0.23, 1) for value in before]
    looks = [difference(MEAN, [sample(MEAN, before)], [sample(MEAN, after)], seed="0", looks=k) for k in (1, 2, 3, 6)]
    widths = [found.interval[1] - found.interval[0] for found in looks]
    assert widths == sorted(widths)
    assert looks[-1].resolvable > looks[0].resolvable


@pytest.mark.parametrize(
    ("metric", "before", "after"),
    [
        (Metric(name="x", direction="minimize"), [1, 2], [1, 2]),
        (RMSE, [1], [1]),
        (RMSE, [1, 2], [1, 2, 3]),
        (RMSE, [0, 0], [1, 2]),
        (MEAN, [], []),
    ],
)
def test_what_cannot_be_known_is_none(metric, before, after):
    assert paired_standard_error(metric, before, after) is None
    runs = [Sample(score=-1.0, cases=before)], [Sample(score=-0.5, cases=after)]
    found = difference(metric, *runs, seed="0")
    assert (found.value, found.resolved, found.interval) == (0.5, None, None)
