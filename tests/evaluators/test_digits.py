"""evaluators.digits: correct digits counted exactly, one bad point costs one point, and nothing but numbers passes."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo.errors import BadOutput, TaskError
from progevo.evaluators.digits import MOST, Digits, Known, digits, harness
from progevo.types import Answer


def asked(entry, points=((1.0,), (2.0,), (3.0,))):
    return harness.run(entry, {"points": [list(point) for point in points]}, "/inputs")


class TestDigits:
    @pytest.mark.parametrize(
        ("value", "true", "right"),
        [
            (1.0, "1", MOST),
            (1.001, "1", 3.0),
            (-1.001, "-1", 3.0),
            (0.99, "1", 2.0),
            (1.0 + 2**-52, "1", MOST),
            (1.0 + 2**-30, "1", 30 * math.log10(2)),
            (2.0, "1", 0.0),
            (-1.0, "1", 0.0),
            (0.0, "1", 0.0),
            (1e300, "1e-300", 0.0),
            (1e-250, "1e-250", MOST),
            (math.nan, "1", 0.0),
            (math.inf, "1", 0.0),
            # The nearest double is off by 5.55e-18: its 17 digits count as 12.
            (0.1, "0.1", MOST),
        ],
    )
    def test_by_hand(self, value, true, right):
        assert digits(value, Decimal(true)) == pytest.approx(right, abs=1e-3)

    @given(st.floats(allow_nan=True), st.decimals(allow_nan=False, allow_infinity=False).filter(bool))
    def test_always_between_none_and_the_most(self, value, true):
        assert 0.0 <= digits(value, true) <= MOST

    @given(st.floats(1e-9, 0.5), st.sampled_from([-1.0, 1.0]), st.integers(-250, 250))
    def test_a_relative_error_is_its_logarithm_whatever_the_size(self, error, sign, power):
        true = Decimal(1).scaleb(power)
        value = float(true) * (1.0 + sign * error)
        assert digits(value, true) == pytest.approx(-math.log10(error), abs=1e-5)

    @pytest.mark.parametrize(
        ("factor", "right", "solved"),
        [
            ("1.00000000009", 10.05, 1),
            ("1.00000000011", 9.96, 0),
            ("1.000000001", 9.0, 0),
            ("1.0001", 4.0, 0),
            ("1.01", 2.0, 0),
            ("1.09", 1.05, 0),
            ("1.11", 0.96, 0),
        ],
    )
    def test_where_the_lines_are(self, factor, right, solved):
        """A point is solved from 10 digits on, and lost below 1; between the two it counts as what it is."""
        known = Known(at=(1.0,), value=Decimal("1e30"))
        score = Digits(points={"search": [known]}).score("search", Answer(arrays=((float(factor) * 1e30,),)))
        assert score.score == pytest.approx(right, abs=0.01)
        assert score.metrics["solved"] == solved
        assert score.metrics["lost"] == (right < 1)

    @given(st.integers(0, 7), st.floats(-3.0, 3.0).filter(lambda value: abs(value - 1) > 1e-6))
    def test_no_point_is_left_out(self, number, value):
        """Right everywhere but at one point, whichever it is, is worth what that point lacks less."""
        known = [Known(at=(float(n),), value=Decimal(1)) for n in range(8)]
        values = [1.0] * 8
        values[number] = value
        score = Digits(points={"search": known}).score("search", Answer(arrays=(values,)))
        assert score.cases[number] < 6.1
        assert score.score == pytest.approx((7 * MOST + score.cases[number]) / 8)

    @pytest.mark.parametrize(
        ("said", "true"),
        [
            # What libraries say of 2F1 and of integrals, without a warning (issues of SciPy 26089, 8119, 5735, 5428).
            (3.4e83, "2.30704833489523410e-114"),
            (5.06, "2.17"),
            (8.9e-22, "9.545017"),
            (1.6e-12, "4.99999999995e-5"),
        ],
    )
    def test_nonsense_without_a_warning_is_worth_nothing(self, said, true):
        assert digits(said, Decimal(true)) < 1.0

    def test_digits_beyond_those_of_a_double_are_not_lost_in_the_comparison(self):
        # 1 + 1e-11 is no double; the error of 1 is known to be 1e-11 all the same.
        assert digits(1.0, Decimal("1.00000000001")) == pytest.approx(11.0, abs=1e-6)


class TestInside:
    def test_numbers_of_all_kinds_become_floats(self):
        answers = [1.5, 2, np.float64(1.5), np.float32(0.5), np.int64(3), np.array(2.5), 10**30]
        points = [[n] for n in range(len(answers))]
        failed, (values,) = asked(lambda n: answers[n], points)
        assert (failed, values) == (0, [1.5, 2.0, 1.5, 0.5, 3.0, 2.5, 1e30])
        assert {type(value) for value in values} == {float}

    @pytest.mark.parametrize(
        "answer",
        [
            *(True, None, "1.0", 1j, [1.0], (1.0, 0.0), {"value": 1.0}, Decimal(1), 10**400),
            *(np.array([1.0]), np.array([[1.0]]), np.complex128(1.0), np.True_, type("Lazy", (float,), {})(1.0)),
        ],
    )
    def test_what_is_no_real_number_counts_as_none(self, answer):
        failed, (values,) = asked(lambda x: answer if x == 2.0 else x)
        assert failed == 1
        assert values[0::2] == [1.0, 3.0]
        assert math.isnan(values[1])

    def test_a_point_that_raises_costs_that_point_and_is_named_in_the_log(self, capsys):
        failed, (values,) = asked(lambda x: 1.0 / (x - 2.0))
        assert failed == 1
        assert math.isnan(values[1])
        assert "at (2.0,): ZeroDivisionError" in capsys.readouterr().err

    def test_a_program_that_gives_no_number_at_all_has_failed_with_its_first_cause(self):
        with pytest.raises(KeyError, match="first"):
            asked(lambda x: {}["first" if x == 1.0 else "other"])
        with pytest.raises(harness.BadOutput, match="str"):
            asked(str)

    @pytest.mark.parametrize("error", [MemoryError, SystemExit, KeyboardInterrupt])
    def test_a_limit_or_an_exit_ends_the_run(self, error):
        def entry(x):
            raise error

        with pytest.raises(error):
            asked(entry)


POINTS = {"search": [Known(at=(1.0, 2.0), value=Decimal(3))] * 3, "test": [Known(at=(5.0, 2.0), value=Decimal(7))]}
EDGE = (Known(at=(0.0, 1.0), value=Decimal(1)), Known(at=(0.0, 2.0), value=Decimal(2)))


class TestScore:
    def test_the_edge_set_stands_beside_the_mean_and_not_in_it(self):
        evaluator = Digits(points=POINTS, edge=EDGE)
        score = evaluator.score("search", Answer(arrays=((3.0, 3.03, math.nan, 1.0, 1e9),)))
        assert score.cases == pytest.approx((12.0, 2.0, 0.0))
        assert score.score == pytest.approx(14 / 3)
        assert score.metrics == pytest.approx(
            {"digits": 14 / 3, "solved": 1.0, "lost": 1.0, "edge_digits": 6.0, "edge_solved": 1.0}
        )

    def test_the_candidate_is_given_points_and_no_values(self):
        inputs = Digits(points=POINTS, edge=EDGE).inputs("test")
        assert inputs.request == {"points": [[5.0, 2.0], [0.0, 1.0], [0.0, 2.0]]}
        assert inputs.files == {}

    @pytest.mark.parametrize("arrays", [(), ((3.0,) * 4,), ((3.0,) * 6,), ((3.0,) * 5, ())])
    def test_another_number_of_values_is_refused(self, arrays):
        with pytest.raises(BadOutput, match="5 points"):
            Digits(points=POINTS, edge=EDGE).score("search", Answer(arrays=arrays))

    @pytest.mark.parametrize("value", ["0", "NaN", "Infinity"])
    def test_a_value_without_a_relative_error_is_refused(self, value):
        with pytest.raises(TaskError, match="relative error"):
            Digits(points={"search": [Known(at=(1.0,), value=Decimal(value))]})

    def test_a_split_without_points_is_refused(self):
        with pytest.raises(TaskError, match="no points"):
            Digits(points={"search": []})
