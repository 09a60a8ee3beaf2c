"""evaluators.discovery: formulas as text from the candidate, values from the host, one problem at a time."""

from __future__ import annotations

import contextlib
import json
import math

import numpy as np
import pytest

from progevo.domain import SEARCH, TEST
from progevo.errors import BadOutput
from progevo.evaluators.discovery import Discovery, harness
from progevo.types import Answer
from tests.evaluators.test_equations import problem

SUM = problem(lambda x, y: 2.0 * x + y, name="sum", truth="2*x + y")
WAVE = problem(lambda x, y: np.sin(x) * y, name="wave", truth="sin(x)*y")
ALONE = problem(lambda x: x**3, 1, name="alone", ood=None)


def made(cpu_s=10.0):
    return Discovery({SEARCH: [SUM, WAVE], TEST: [ALONE, WAVE]}, cpu_s=cpu_s)


def answered(evaluator, entry, split=SEARCH):
    inputs = evaluator.inputs(split)
    request = json.loads(json.dumps(inputs.request, allow_nan=False))
    value, arrays = harness.run(entry, request, next(iter(inputs.files.values())).parent)
    return Answer(value=json.loads(json.dumps(value)), arrays=tuple(map(tuple, arrays)))


class TestInside:
    def test_a_program_is_given_rows_to_learn_from_and_names(self):
        seen = []

        def entry(x, y, spec):
            seen.append((x.shape, y.shape, spec))
            assert np.array_equal(y, 2.0 * x[:, 0] + x[:, 1]) or np.array_equal(y, np.sin(x[:, 0]) * x[:, 1])
            return "x"

        answered(made(), entry)
        spec = {"inputs": ["x", "y"], "output": "f", "about": {}}
        assert seen == [((240, 2), (240,), spec)] * 2

    def test_nothing_to_predict_is_given(self):
        evaluator = made()
        for split, problems in evaluator.problems.items():
            files = evaluator.inputs(split).files
            numbers = {n for path in files.values() for n in np.frombuffer(path.read_bytes(), dtype="<f8").tolist()}
            for each in problems:
                fitted, held = each.parts()
                assert set(fitted.target.tolist()) <= numbers
                for part in (held, each.test):
                    assert not set(part.target.tolist()) & numbers

    def test_samples_cannot_be_destroyed(self):
        def entry(x, y, spec):
            y[:] = 0.0

        with pytest.raises(ValueError, match="read-only"):
            answered(made(), entry)

    def test_one_problem_that_fails_costs_itself(self, capsys):
        def entry(x, y, spec):
            return "2*x + y" if np.allclose(y, 2.0 * x[:, 0] + x[:, 1]) else 1 / 0

        assert answered(made(), entry).value == ["2*x + y", None]
        assert "problem 1: ZeroDivisionError" in capsys.readouterr().err

    def test_one_that_takes_too_long_costs_itself(self):
        def entry(x, y, spec):
            while not np.allclose(y, 2.0 * x[:, 0] + x[:, 1]):
                with contextlib.suppress(Exception):
                    sum(range(10_000))
            return "x"

        assert answered(made(cpu_s=0.3), entry).value == ["x", None]

    @pytest.mark.parametrize("formula", [None, 1.0, b"x", ["x"], type("Text", (str,), {})("x")])
    def test_a_program_without_any_text_fails(self, formula):
        with pytest.raises(harness.BadOutput, match="must be a text"):
            answered(made(), lambda x, y, spec: formula)

    def test_endless_texts_are_cut_beyond_what_is_read(self):
        answer = answered(made(), lambda x, y, spec: "x" * 10**6)
        assert {len(text) for text in answer.value} == {10_001}
        with pytest.raises(BadOutput, match="10001 characters"):
            made().score(SEARCH, answer)


def scored(*formulas, split=SEARCH):
    return made().score(split, Answer(value=list(formulas)))


class TestScore:
    def test_the_mean_over_problems_from_0_to_12(self):
        found = scored("x + x + y", "y*sin(x)*1.001")
        assert found.cases == (12.0, pytest.approx(6.0, abs=0.1))
        assert found.score == pytest.approx(sum(found.cases) / 2)
        assert found.metrics == {"digits": found.score, "solved": pytest.approx(2, abs=1), "failed": 0.0}

    @pytest.mark.parametrize(
        "bad", [None, "9**9**9", "(" * 5000, "z", "log(x)", "1/(x - x)", 7, "1e300*x*x", "x" * 10_001]
    )
    def test_what_is_no_formula_or_has_no_value_is_worth_nothing_there(self, bad):
        found = scored(bad, "y*sin(x)")
        assert found.cases == (0.0, 12.0)
        assert found.metrics["failed"] == 1.0

    def test_a_formula_worse_than_the_mean_is_worth_no_less_than_none(self):
        assert scored("1000*x", "y*sin(x)").cases == (0.0, 12.0)

    def test_no_formula_at_all_is_a_failure(self):
        with pytest.raises(BadOutput, match="no formula of 2 can be read; the first, sum: "):
            scored("9**9**9", None)

    @pytest.mark.parametrize("value", [None, "x", [], ["x"], ["x"] * 3, {"0": "x"}])
    def test_another_number_of_answers_is_refused(self, value):
        with pytest.raises(BadOutput, match="one formula for each"):
            made().score(SEARCH, Answer(value=value))

    def test_the_test_reports_both_parts_over_its_own_problems(self):
        found = scored("x**3", "y*sin(x) + 1e-3*x", split=TEST)
        # One problem of the two has samples out of distribution.
        assert found.metrics["digits_id"] == pytest.approx(found.score)
        assert found.metrics["acc_0.1_ood"] in (0.0, 1.0)
        assert 0.0 < found.metrics["nmse_ood"] < 1.0
        assert found.metrics["nmse_id"] == pytest.approx(found.metrics["nmse_id_lenient"])

    def test_a_problem_that_failed_makes_no_median_better(self):
        found = scored("x**3", None, split=TEST)
        assert math.isinf(found.metrics["nmse_ood"])
        assert found.metrics["acc_0.1_id"] == 0.5

    def test_the_symbolic_figure_counts_what_is_known(self):
        pytest.importorskip("sympy", reason="SymPy is not installed (the extra srbench)")
        found = scored("x**3", "y*sin(x)", split=TEST)
        assert (found.metrics["symbolic"], found.metrics["symbolic_unknown"]) == (1.0, 1.0)
        assert "true formula of alone is not known" in found.note
