"""evaluators.integration: what the host makes of values and counts. Clocks are tried in test_integrals."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from progevo.errors import BadOutput
from progevo.evaluators.integration import Integration, Problem
from progevo.types import Answer, Count

PROBLEMS = [Problem(parameters=["secret", n], a=0.0, b=math.inf, value=float(n)) for n in (1, 2, 4)]
MADE = Integration(file=Path("functions.py"), problems={"search": PROBLEMS}, calls=100, cpu_s=5.0, wall_s=20.0)


def count(calls=10, refused=0, cpu_s=0.1) -> Count:
    return Count(calls=calls, refused=refused, cpu_s=cpu_s)


def test_digits_are_those_of_the_values():
    score = MADE.score("search", Answer(value=[], arrays=((1.0, 2.02, math.nan),), counts=(count(),) * 3))
    assert score.cases == pytest.approx((12.0, 2.0, 0.0))
    assert score.score == pytest.approx(14 / 3)
    assert score.metrics == pytest.approx({"digits": 14 / 3, "solved": 1.0, "overran": 0.0, "calls": 10.0})


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        ([1], (count(),) * 3),
        ([], (count(), count(calls=100, refused=1), count())),
        ([], (count(), count(cpu_s=2.6), count())),
    ],
    ids=["cut by its clock", "too many calls", "too long to answer"],
)
def test_what_overran_is_worth_nothing_however_right(value, counts):
    score = MADE.score("search", Answer(value=value, arrays=((1.0, 2.0, 4.0),), counts=counts))
    assert score.cases == (12.0, 0.0, 12.0)
    assert score.metrics["overran"] == 1.0


@pytest.mark.parametrize(
    ("arrays", "counts"),
    [((), 3), (((1.0, 2.0),), 3), (((1.0, 2.0, 4.0, 8.0),), 3), (((1.0, 2.0, 4.0),), 2), (((1.0, 2.0, 4.0), ()), 3)],
)
def test_another_number_of_values_is_refused(arrays, counts):
    with pytest.raises(BadOutput, match="3 integrals"):
        MADE.score("search", Answer(value=[], arrays=arrays, counts=(count(),) * counts))


def test_the_request_holds_neither_parameters_nor_values():
    inputs = MADE.inputs("search")
    assert inputs.request == {"intervals": [["0.0", "inf"]] * 3, "cpu_s": 2.5, "wall_s": 20.0}
    assert inputs.black_box.problems == (["secret", 1], ["secret", 2], ["secret", 4])
    assert inputs.black_box.budget == 100
