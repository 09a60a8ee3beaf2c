"""evaluators.integration: what the host makes of values and counts. Clocks are tried in test_integrals."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from progevo.errors import BadOutput
from progevo.evaluators.integration import Integration, Problem
from progevo.types import Answer, Count

PROBLEMS = [Problem(parameters=["secret", n], a=0.0, b=math.inf, value=float(n)) for n in (1, 2, 4)]
MADE = Integration(file=Path("functions.py"), problems={"search": PROBLEMS}, calls=100, cpu_s=5.0, wall_s=20.0)


def count(value: float | None, calls=10, refused=0, cpu_s=0.1, candidate_cpu_s: float | None = 0.1) -> Count:
    return Count(calls=calls, refused=refused, cpu_s=cpu_s, candidate_cpu_s=candidate_cpu_s, value=value)


RIGHT = tuple(count(value) for value in (1.0, 2.0, 4.0))


def test_digits_are_those_of_the_values():
    counts = tuple(count(value) for value in (1.0, 2.02, math.nan))
    score = MADE.score("search", Answer(value=[], arrays=((1.0, 2.02, math.nan),), counts=counts))
    assert score.cases == pytest.approx((12.0, 2.0, 0.0))
    assert score.score == pytest.approx(14 / 3)
    assert score.metrics == pytest.approx({"digits": 14 / 3, "solved": 1.0, "overran": 0.0, "calls": 10.0})


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        ([1], RIGHT[1]),
        ([], count(2.0, calls=100, refused=1)),
        ([], count(2.0, cpu_s=5.1, candidate_cpu_s=0.0)),
        ([], count(2.0, cpu_s=0.0, candidate_cpu_s=5.1)),
        ([], count(2.0, cpu_s=2.5, candidate_cpu_s=2.6)),
    ],
    ids=["cut by its clock", "too many calls", "too long to answer", "too long to compute", "too long together"],
)
def test_what_overran_is_worth_nothing_however_right(value, counts):
    counts = (RIGHT[0], counts, RIGHT[2])
    score = MADE.score("search", Answer(value=value, arrays=((1.0, 2.0, 4.0),), counts=counts))
    assert score.cases == (12.0, 0.0, 12.0)
    assert score.metrics["overran"] == 1.0


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_the_time_of_a_problem_is_that_of_both_sides_together(cpu_s, candidate_cpu_s):
    counts = (count(1.0, cpu_s=cpu_s, candidate_cpu_s=candidate_cpu_s), *RIGHT[1:])
    score = MADE.score("search", Answer(value=[], arrays=((1.0, 2.0, 4.0),), counts=counts))
    assert score.cases == (12.0 if cpu_s + candidate_cpu_s <= 5.0 else 0.0, 12.0, 12.0)


def test_a_value_counts_if_it_was_handed_in_in_time_and_as_it_was_then():
    """What is answered at the end, when there was time for all of them together, is only claimed."""
    counts = (count(1.0), count(2.02), count(None, candidate_cpu_s=None))
    score = MADE.score("search", Answer(value=[], arrays=((1.0, 2.0, 4.0),), counts=counts))
    assert score.cases == pytest.approx((12.0, 2.0, 0.0))


def test_what_quad_misses_without_a_word_is_worth_nothing_and_costs_no_other():
    """A needle on a half line (SciPy's issue 5735 is of its kind): 8.9e-22 with an error of 1.7e-21 is no integral."""
    integrals = [
        (lambda x: math.exp(-((x - 116) ** 2) / 29), 0.0, math.inf, math.sqrt(29 * math.pi)),
        (lambda x: math.exp(-x), 0.0, math.inf, 1.0),
    ]
    problems = [Problem(parameters=n, a=a, b=b, value=value) for n, (_, a, b, value) in enumerate(integrals)]
    said = [quad(f, a, b)[0] for f, a, b, _ in integrals]
    made = Integration(file=Path("functions.py"), problems={"search": problems}, calls=100, cpu_s=5.0, wall_s=20.0)
    score = made.score("search", Answer(value=[], arrays=(said,), counts=tuple(map(count, said))))
    assert score.cases == (0.0, 12.0)


@pytest.mark.parametrize(
    ("arrays", "counts"),
    [((), 3), (((1.0, 2.0),), 3), (((1.0, 2.0, 4.0, 8.0),), 3), (((1.0, 2.0, 4.0),), 2), (((1.0, 2.0, 4.0), ()), 3)],
)
def test_another_number_of_values_is_refused(arrays, counts):
    with pytest.raises(BadOutput, match="3 integrals"):
        MADE.score("search", Answer(value=[], arrays=arrays, counts=RIGHT[:counts]))


def test_the_request_holds_neither_parameters_nor_values():
    inputs = MADE.inputs("search")
    assert inputs.request == {"intervals": [["0.0", "inf"]] * 3, "cpu_s": 5.0, "wall_s": 20.0}
    assert inputs.black_box.problems == (["secret", 1], ["secret", 2], ["secret", 4])
    assert inputs.black_box.budget == 100
    assert inputs.black_box.in_turn
