"""Scoring: whatever a scorer returns or raises over an answer is that candidate's outcome, and plain numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from progevo import BadOutput, Candidate, Metric, Program, Score, evaluate
from progevo.evaluators.calls import Calls
from progevo.types import Answer, Execution

SEED = Candidate(program=Program("def solve(x):\n    return 0\n"), origin="test")


class Answering:
    """A sandbox in which every program answers with one number."""

    def run(self, job, /):
        return Execution(status="ok", answer=Answer(value={"outputs": [{}]}, arrays=((4.0,),)))


class Scoring:
    """An evaluator whose scorer is given."""

    harness = Calls(cases={"search": [0]}, score=lambda split, found: 0.0).harness

    def __init__(self, score):
        self.score = score

    def inputs(self, split, /):
        from progevo import Inputs

        return Inputs()


def scored(toy, score):
    return evaluate(toy(evaluator=Scoring(score)), SEED, "search", Answering())


@pytest.mark.parametrize("number", [3, 3.0, np.float32(3), np.int64(3), True + 2])
def test_any_real_number_is_a_score(toy, number):
    outcome = scored(toy, lambda split, answer: Score(score=number, metrics={"m": number}, cases=[number]))
    assert (outcome.status, outcome.score) == ("ok", 3.0)
    for value in (outcome.score, outcome.metrics["m"], *outcome.cases):
        assert type(value) is float


@pytest.mark.parametrize(
    ("score", "word"),
    [
        (lambda: Score(score=math.nan), "not a finite number"),
        (lambda: Score(score=math.inf), "not a finite number"),
        (lambda: Score(score=10**400), "OverflowError"),
        (lambda: Score(score=1j), "TypeError"),
        (lambda: Score(score=None), "TypeError"),
        (lambda: None, "AttributeError"),
        (lambda: Score(score=1.0, cases=[math.nan]), "case"),
        (lambda: Score(score=1.0, cases=None), "TypeError"),
        (lambda: Score(score=1.0, metrics={"m": "x"}), "ValueError"),
        (lambda: Score(score=1.0, metrics=[1]), "AttributeError"),
        (lambda: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_scorer_that_stumbles_makes_a_bad_output(toy, score, word):
    outcome = scored(toy, lambda split, answer: score())
    assert outcome.status == "bad_output"
    assert word in outcome.reason


def test_a_reason_that_quotes_the_candidate_is_cut_and_cleaned(toy):
    def refuse(split, answer):
        raise BadOutput(f"\x1b]0;owned\x07 {object()!r} " + "x" * 10**6)

    reason = scored(toy, refuse).reason
    assert len(reason) <= 500
    assert not set(reason) & {"\x1b", "\x07"}


def test_addresses_do_not_make_equal_runs_differ(toy):
    def refuse(split, answer):
        raise BadOutput(f"not a number: {object()!r}")

    assert scored(toy, refuse).reason == "not a number: <object object at 0x...>"


def test_a_metric_is_one_of_the_kinds_there_are():
    with pytest.raises(ValueError, match="minimize or maximize"):
        Metric(name="m", direction="minimise")
    with pytest.raises(ValueError, match="root_mean"):
        Metric(name="m", direction="minimize", aggregate="rmse")
