"""Scoring: whatever a scorer returns or raises over an answer is that candidate's outcome, and plain numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from progevo import BadOutput, Candidate, Inputs, Metric, Program, Score, Stage, TaskError, evaluate
from progevo.evaluate import climb, reach, settled
from progevo.evaluators.calls import Calls
from progevo.events import judgement, measured, outcome_of
from progevo.types import Answer, Execution, Usage

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


def test_a_scorer_is_given_the_text_of_the_program_and_may_say_what_is_missing(toy):
    told = []

    def score(split, answer):
        told.append(answer.source)
        return Score(score=1.0, metrics={"m": math.nan}, note="x" * 1000 + "m needs\x1b[31m a package")

    outcome = scored(toy, score)
    assert told == [SEED.program.source]
    assert (outcome.status, outcome.score) == ("ok", 1.0)
    assert outcome.reason.endswith("a package")
    assert "\x1b" not in outcome.reason
    assert len(outcome.reason) <= 510


def test_the_text_of_a_program_is_no_part_of_its_answer(toy):
    other = Candidate(program=Program("def solve(x):\n    return 1\n"), origin="test")
    domain = toy(evaluator=Scoring(lambda split, answer: Score(score=1.0)))
    assert (
        evaluate(domain, SEED, "search", Answering()).answer_id
        == evaluate(domain, other, "search", Answering()).answer_id
    )


def test_addresses_do_not_make_equal_runs_differ(toy):
    def refuse(split, answer):
        raise BadOutput(f"not a number: {object()!r}")

    assert scored(toy, refuse).reason == "not a number: <object object at 0x...>"


def test_a_metric_is_one_of_the_kinds_there_are():
    with pytest.raises(ValueError, match="minimize or maximize"):
        Metric(name="m", direction="minimise")
    with pytest.raises(ValueError, match="root_mean"):
        Metric(name="m", direction="minimize", aggregate="rmse")


# ---- stages


class Fixed:
    """A sandbox in which a program's answer is its own number, and which knows what it was asked to run."""

    def __init__(self):
        self.splits = []

    def run(self, job):
        self.splits.append(job.inputs.request["split"])
        answer = Answer(value=job.program.source.removeprefix("answer = "))
        return Execution(status="ok", answer=answer, usage=Usage(wall_s=1.0, cpu_s=0.5, max_rss_bytes=7))


class Staged:
    harness = Path("harness.py")

    def inputs(self, split):
        return Inputs(request={"split": split})

    def score(self, split, answer):
        value = float(answer.value)
        if value < 0:
            raise BadOutput("below zero")
        return Score(score=-value, metrics={"value": value})


STAGES = (Stage(split="quick", threshold=10.0), Stage(split="half", threshold=5.0))


def climbed(toy, value: float, **changes: object):
    box = Fixed()
    domain = toy(evaluator=Staged(), stages=STAGES, **changes)
    return climb(domain, Candidate(program=Program(f"answer = {value}"), origin="test"), box), box.splits


@pytest.mark.parametrize(
    ("value", "status", "stage", "splits"),
    [
        (3.0, "ok", "search", ["quick", "half", "search"]),
        (5.0, "ok", "search", ["quick", "half", "search"]),  # the threshold itself passes
        (5.1, "stage_failed", "half", ["quick", "half"]),
        (10.1, "stage_failed", "quick", ["quick"]),
        (-1.0, "bad_output", "quick", ["quick"]),
    ],
)
def test_a_candidate_ends_at_the_stage_that_it_fails(toy, value, status, stage, splits):
    outcome, ran = climbed(toy, value)
    assert (outcome.status, outcome.stage, ran) == (status, stage, splits)
    assert outcome.usage == Usage(wall_s=len(splits), cpu_s=0.5 * len(splits), max_rss_bytes=7)
    assert outcome.score == (-value if status == "ok" else -math.inf)
    if status == "stage_failed":
        assert outcome.metrics == {"value": value}
        assert (
            outcome.reason == f"error {value} at the stage {stage!r}; it takes {5 if stage == 'half' else 10} to go on"
        )


def test_a_metric_that_is_maximized_has_to_reach_its_threshold(toy):
    maximized = Metric(name="error", direction="maximize")
    assert climbed(toy, 3.0, metric=maximized)[0].status == "stage_failed"  # the toy's scores are below 0 here


def test_the_stage_is_written_down_and_read_back(toy):
    outcome = replace(climbed(toy, 7.0)[0], stage_scores={"quick": -7.0})
    read = outcome_of(judgement(outcome), measured(outcome, elapsed_s=0.0))
    assert (read.status, read.stage, read.stage_scores) == ("stage_failed", "half", {"quick": -7.0})


@pytest.mark.parametrize("names", [("search",), ("test",), ("quick", "quick")])
def test_a_stage_is_a_split_of_its_own(toy, names):
    with pytest.raises(TaskError, match="must be a split of its own"):
        toy(stages=tuple(Stage(split=name, threshold=0.0) for name in names))


def test_the_seed_is_scored_in_full_and_lowers_what_it_does_not_reach(toy):
    box = Fixed()
    domain = toy(evaluator=Staged(), stages=STAGES, entrypoint="", seed=Program("answer = 8.0"))
    seed = Candidate(program=domain.seed, origin="seed")
    outcome = reach(domain, seed, evaluate(domain, seed, "search", box), box)
    assert (outcome.status, outcome.score) == ("ok", -8.0)
    assert outcome.stage_scores == {"quick": -8.0, "half": -8.0}
    assert outcome.reason == "the seed reaches 8 at the stage 'half': that, not 5, is enough"
    domain = settled(domain, outcome)
    assert domain.stages == (STAGES[0], Stage(split="half", threshold=8.0))
    for value, status in ((8.0, "ok"), (8.1, "stage_failed")):
        assert climb(domain, Candidate(program=Program(f"answer = {value}"), origin="test"), box).status == status
