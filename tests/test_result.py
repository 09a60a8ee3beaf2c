"""result.json: its schema, and the statistics of a difference, against numbers computed by hand."""

from __future__ import annotations

import json
import math
import random
import statistics
from importlib import resources
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo import Candidate, Metric, Node, Outcome, Program, run
from progevo.errors import RunError
from progevo.result import best_of, gain, paired_standard_error, read_result, to_json

RMSE = Metric(name="RMSE", direction="minimize", aggregate="root_mean")
MEAN = Metric(name="digits", direction="maximize", aggregate="mean")


def node(index, score, status="ok"):
    outcome = Outcome(status=status, score=score, reason="" if status == "ok" else "a cause")
    candidate = Candidate(program=Program(f"x = {index}"), origin="test")
    return Node(index=index, step=index, parent=None, candidate=candidate, outcome=outcome)


def worth(metric, cases):
    mean = statistics.fmean(cases)
    value = math.sqrt(mean) if metric.aggregate == "root_mean" else mean
    return Outcome(status="ok", score=metric.score(value), cases=tuple(cases))


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


@pytest.mark.parametrize(
    ("metric", "before", "after"),
    [
        (Metric(name="x", direction="minimize"), [1, 2], [1, 2]),
        (RMSE, [1], [1]),
        (RMSE, [1, 2], [1, 2, 3]),
        (RMSE, [0, 0], [1, 2]),
    ],
)
def test_what_cannot_be_known_is_none(metric, before, after):
    assert paired_standard_error(metric, before, after) is None


def test_a_gain_inside_its_noise_is_unresolved_and_one_outside_is_resolved():
    draw = random.Random(2)
    before = [1 + draw.random() for _ in range(200)]
    for shift, resolved in ((0.0, False), (-0.5, True)):
        after = [max(0.0, value + shift + draw.gauss(0, 0.3)) for value in before]
        found: dict[str, Any] = gain(
            RMSE, node(0, -2.0), node(1, -1.0), {0: worth(RMSE, before), 1: worth(RMSE, after)}
        )
        assert found["resolved"] is resolved
        low, high = found["interval"]
        assert low < found["test"] < high
        assert found["resolvable"] == pytest.approx((high - low) / 2)
    assert found["search"] == 1.0
    assert found["test"] > 0  # better is above zero, also where smaller is better


def test_a_best_that_fails_on_the_test_part_has_no_gain_there():
    failed = Outcome(status="timeout", reason="too slow")
    found = gain(RMSE, node(0, -2.0), node(1, -1.0), {0: worth(RMSE, [1, 2]), 1: failed})
    assert found["search"] == 1.0
    assert found["test"] is found["resolved"] is found["interval"] is None


@given(st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 2.5]), min_size=1, max_size=9))
def test_the_best_is_the_first_of_the_largest(scores):
    nodes = [node(i, score, "ok" if math.isfinite(score) else "crashed") for i, score in enumerate(scores)]
    assert best_of(nodes).index == scores.index(max(scores))


@pytest.fixture(scope="module")
def schema():
    return json.loads((resources.files("progevo") / "result.schema.json").read_text())


def test_the_schema_is_one(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


def test_a_real_result_follows_the_schema_to_the_last_key(tmp_path, schema, toy):
    cases = {"whole": {}, "seed alone": {"iterations": 0}, "no test": {}, "islands": {"search": "openevolve"}}
    for name, changes in cases.items():
        domain = toy(splits=("search",)) if name == "no test" else toy()
        result = run(domain, **{"iterations": 3, "out": tmp_path / name, **changes})
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        assert [error.message for error in validator.iter_errors(json.loads(to_json(result)))] == []
        assert read_result(tmp_path / name / "result.json") == result


def test_what_is_no_result_is_refused(tmp_path):
    for content in ("{", "[]", '{"schema": "progevo.result/2"}'):
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(RunError):
            read_result(tmp_path / "result.json")
