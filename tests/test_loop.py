"""What a run may spend and when it stops, who may be called best, what copies cost, and how held-out truth is kept."""

from __future__ import annotations

import random
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from progevo import Candidate, Metric, Outcome, Program
from progevo.budget import Budget
from progevo.domain import SEARCH, TEST, Usual
from progevo.errors import BudgetSpent, ConfigError, ProposerError, TaskError
from progevo.evaluate import screen
from progevo.holdout import Seal, StillSealed, planning_line
from progevo.journal import read_run
from progevo.run import Silence, report, resume, run
from progevo.schedule import DEPARTURES, SCHEDULES
from progevo.search.catalogue import SEARCHES
from progevo.twins import repeatable
from progevo.types import Draw, Tokens
from tests.plain_run import Number, StandIn, Wanderer, lines, program, task, unmeasured


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr("progevo.journal.os.fsync", lambda number: None)


@dataclass
class Scripted:
    """A proposer that has written everything down beforehand, by step."""

    sources: list[str | None]
    name: str = "scripted"
    cost_usd: float | None = None
    seen: list[int] = field(default_factory=list)

    def propose(self, brief):
        self.seen.append(len(brief.history))
        source = self.sources[(brief.step - 1) % len(self.sources)]
        draws = () if self.cost_usd is None else (Draw(model="m", verdict="ok", cost_usd=self.cost_usd),)
        made = Program(source) if source is not None else None
        return Candidate(program=made, origin="scripted", reason="" if made else "no program", draws=draws)


def numbers(*values: float) -> Scripted:
    return Scripted([program(value) for value in values])


# -- schedules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("workers", "schedule"), [(1, "serial"), (4, "sync"), (4, "ordered")])
def test_three_runs_of_one_seed_have_the_same_journal(tmp_path, search, workers, schedule):
    for number in range(3):
        run(
            task(),
            search=search,
            proposer=Wanderer(),
            sandbox=StandIn(delay_s=0.002 * number),
            iterations=20,
            workers=workers,
            schedule=schedule,
            seed=5,
            out=tmp_path / str(number),
        )
    first, *others = [unmeasured(tmp_path / str(number)) for number in range(3)]
    assert others == [first, first]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_asks_and_tells_in_its_order(tmp_path, schedule):
    workers = 1 if schedule == "serial" else 3
    proposer = numbers(*range(1, 13))
    run(
        task(),
        search="best_of_n",
        proposer=proposer,
        sandbox=StandIn(delay_s=0.02),
        budget=Budget(iterations=12),
        workers=workers,
        schedule=schedule,
        out=tmp_path / "r",
    )
    asked, told, most = 0, 0, 0
    waiting: list[int] = []
    for event in lines(tmp_path / "r"):
        if event["event"] == "asked":
            if schedule == "sync":
                assert told == asked or asked % workers, "a round began before the last one was told"
            asked += 1
            waiting.append(event["step"])
            most = max(most, len(waiting))
        elif event["event"] == "node" and event["index"]:
            if schedule != "async":
                assert event["step"] == waiting[0], "told out of order"
            waiting.remove(event["step"])
            told += 1
    assert (asked, told, most) == (12, 12, workers)
    history = [question.told for question in read_run(tmp_path / "r").questions]
    assert sorted(proposer.seen) == sorted(history), "a candidate saw something else than what had been told"
    if schedule == "sync":
        assert history == [1] * 3 + [4] * 3 + [7] * 3 + [10] * 3


def test_async_tells_the_quick_one_first(tmp_path):
    slow = threading.Event()

    class Waiting(StandIn):
        def run(self, job, /):
            if "return 1.0" in job.program.source:
                assert slow.wait(10)
            elif "return 3.0" in job.program.source:
                slow.set()
            return super().run(job)

    run(
        task(),
        search="best_of_n",
        proposer=numbers(1.0, 2.0, 3.0),
        sandbox=Waiting(),
        iterations=3,
        workers=2,
        schedule="async",
        out=tmp_path / "r",
    )
    steps = [node.step for node in read_run(tmp_path / "r").nodes]
    assert steps[:2] == [0, 2]
    assert sorted(steps) == [0, 1, 2, 3]


def test_serial_has_one_worker_and_a_schedule_is_one_of_four(tmp_path):
    for settings, word in [
        ({"schedule": "serial", "workers": 2}, "the schedule serial has one worker"),
        ({"schedule": "chaos"}, "the schedules are serial, ordered, sync, async"),
    ]:
        with pytest.raises(ConfigError, match=word):
            run(task(), sandbox=StandIn(), out=tmp_path / "r", **settings)


def test_every_search_says_what_every_schedule_changes():
    assert {search: set(DEPARTURES.get(search, {})) for search in SEARCHES} == {
        search: set(SCHEDULES) for search in SEARCHES
    }


# -- budgets and stops -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("workers", "schedule"), [(1, "serial"), (4, "sync"), (4, "ordered"), (4, "async")])
def test_a_budget_of_evaluations_is_spent_to_the_last_and_never_passed(tmp_path, search, workers, schedule):
    box = StandIn()
    result = run(
        task(),
        search=search,
        proposer=Wanderer(),
        sandbox=box,
        budget=Budget(evaluations=15),
        workers=workers,
        schedule=schedule,
        out=tmp_path / "r",
    )
    assert result["stop_reason"] == "evaluations"
    assert result["spent"]["evaluations"] == 15
    assert box.runs == 15 + result["held_out"]["evaluations"]
    assert result["budget"]["iterations"] == 150


def test_a_run_that_only_repeats_itself_ends_all_the_same(tmp_path):
    result = run(task(), proposer=numbers(0), sandbox=StandIn(), budget=Budget(evaluations=5), out=tmp_path / "r")
    assert (result["stop_reason"], result["no_ops"], result["spent"]["evaluations"]) == ("iterations", 50, 1)


@pytest.mark.parametrize(
    ("budget", "reason", "nodes"),
    [
        (Budget(patience=3), "patience", 2 + 3),  # node 1 is the best, then three are not better
        (Budget(target=6.5), "target", 1 + 2),  # distances 10.015, 9.015, 6.015: the last is good enough
        (Budget(cost_usd=1.0), "cost_usd", 1 + 2),  # half a dollar each
        (Budget(calls=4), "calls", 1 + 4),
        (Budget(seconds=0.0), "seconds", 1),
        (Budget(iterations=0), "iterations", 1),
    ],
)
def test_every_cap_stops_the_run_and_gives_its_name(tmp_path, budget, reason, nodes):
    first = 5 if reason == "patience" else 1
    later = [0.1 * place for place in range(9)] if reason == "patience" else [4, 5, 6, 7, 8]
    proposer = Scripted([program(value) for value in (first, *later)], cost_usd=0.5)
    result = run(task(), search="best_of_n", proposer=proposer, sandbox=StandIn(), budget=budget, out=tmp_path / "r")
    assert result["stop_reason"] == reason
    assert len(read_run(tmp_path / "r").nodes) == nodes
    assert result["budget"].get(reason, result["stops"].get(reason)) == getattr(budget, reason)


def test_a_cap_of_time_ends_nothing_in_flight(tmp_path):
    began = time.monotonic()
    result = run(
        task(),
        proposer=numbers(*range(1, 99)),
        sandbox=StandIn(delay_s=0.2),
        budget=Budget(seconds=0.15, iterations=98),
        workers=4,
        out=tmp_path / "r",
    )
    record = read_run(tmp_path / "r")
    assert result["stop_reason"] == "seconds"
    assert not record.open, "what was in flight is recorded"
    assert all(node.outcome.status == "ok" for node in record.nodes)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("name", ["iterations", "evaluations", "seconds", "patience"])
def test_a_cap_must_make_sense(name):
    with pytest.raises(ConfigError, match=name):
        Budget(**{name: -1})


def test_a_budget_that_the_proposer_keeps_stops_the_run_with_its_name_and_can_be_raised(tmp_path):
    @dataclass
    class Frugal(Scripted):
        left: int = 3

        def restore(self, draws):
            self.left -= len(draws)

        def propose(self, brief):
            if self.left == 0:
                raise BudgetSpent("tokens")
            self.left -= 1
            return super().propose(brief)

    sources = [program(value) for value in range(1, 20)]
    folder = tmp_path / "r"
    for workers in (1, 3):
        folder = tmp_path / str(workers)
        result = run(
            task(), proposer=Frugal(sources, cost_usd=0.1), sandbox=StandIn(), iterations=9, workers=workers, out=folder
        )
        assert result["stop_reason"] == "tokens"
        assert len(read_run(folder).nodes) == 1 + 3
        assert len(read_run(folder).open) >= 1  # asked for, and not paid for
        again = resume(folder, task(), proposer=Frugal(sources, cost_usd=0.1, left=3), sandbox=StandIn())
        assert (again["stop_reason"], len(read_run(folder).nodes)) == ("tokens", 1 + 3)
        more = resume(folder, task(), proposer=Frugal(sources, cost_usd=0.1, left=99), sandbox=StandIn())
        assert (more["stop_reason"], more["spent"]["iterations"]) == ("iterations", 9)
        steps = [node.step for node in read_run(folder).nodes]
        assert sorted(steps) == list(range(10))


def test_a_proposer_that_failed_can_be_mended_and_what_was_in_flight_is_kept(tmp_path):
    @dataclass
    class Gone(Scripted):
        def propose(self, brief):
            if brief.step == 3:
                raise ProposerError("the model is gone")
            return super().propose(brief)

    sources = [program(value) for value in range(1, 20)]
    with pytest.raises(ProposerError):
        run(task(), proposer=Gone(sources), sandbox=StandIn(), iterations=9, workers=3, out=tmp_path / "r")
    record = read_run(tmp_path / "r")
    assert record.stop_reason == "proposer_failed"
    assert list(record.open) == [3]
    assert {node.step for node in record.nodes} >= {0, 1, 2, 4, 5} - {5}
    result = resume(tmp_path / "r", task(), proposer=Scripted(sources), sandbox=StandIn())
    assert result["stop_reason"] == "iterations"
    assert sorted(node.step for node in read_run(tmp_path / "r").nodes) == list(range(10))


def test_spent_tokens_and_dollars_are_unknown_where_one_draw_s_are(tmp_path):
    class Vague(Scripted):
        def propose(self, brief):
            made = super().propose(brief)
            known = Draw(model="a", verdict="ok", tokens=Tokens(prompt=3, completion=4), cost_usd=0.5)
            unknown = Draw(model="b", verdict="damaged", kind="empty", fault="model")
            return replace(made, draws=(unknown, known) if brief.step == 2 else (known,))

    result = run(task(), proposer=Vague([program(1)]), sandbox=StandIn(), iterations=1, out=tmp_path / "1")
    assert result["spent"] | {"seconds": 0} == {
        "iterations": 1, "evaluations": 2, "calls": 1, "tokens": 7, "cost_usd": 0.5, "seconds": 0,
    }  # fmt: skip
    result = run(task(), proposer=Vague([program(1)]), sandbox=StandIn(), iterations=2, out=tmp_path / "2")
    assert (result["spent"]["calls"], result["spent"]["tokens"], result["spent"]["cost_usd"]) == (3, None, None)
    assert result["proposer"]["models"] == ["a", "b"]


# -- stopping and going on ---------------------------------------------------------------------------------------------


class StopAt(Silence):
    """Wants to stop when a node has been told, or when testing begins."""

    def __init__(self, node: int | None = None, *, testing: bool = False) -> None:
        self.node, self.at_testing, self.stop, self.said = node, testing, threading.Event(), 0
        self.tested, self.heard = 0, threading.Event()

    def told(self, node, best):
        if node.index == self.node:
            self.stop.set()

    def testing(self, best):
        self.tested += 1
        if self.at_testing:
            self.stop.set()

    def stopping(self, in_flight):
        self.said += 1
        self.heard.set()


def test_a_drained_run_goes_on_where_it_stopped(tmp_path):
    settings = {"proposer": Wanderer(), "sandbox": StandIn(), "workers": 3, "iterations": 12, "seed": 2}
    run(task(), out=tmp_path / "whole", **settings)
    progress = StopAt(5)
    result = run(task(), out=tmp_path / "r", progress=progress, stop=progress.stop, **settings)
    assert (result["stop_reason"], progress.said) == ("interrupted", 1)
    again = resume(tmp_path / "r", task(), proposer=Wanderer(), sandbox=StandIn())
    assert again["stop_reason"] == "iterations"
    kinds = ("started", "tested", "ended")
    nodes = [event for event in unmeasured(tmp_path / "r") if event["event"] not in kinds]
    assert sorted(event["step"] for event in nodes if event["event"] == "node") == list(range(13))
    assert again["held_out"]["looks"] in (1, 2)


def test_a_stop_during_held_out_scoring_is_heard_and_what_is_left_is_scored_later(tmp_path):
    progress = StopAt(testing=True)
    box = StandIn()
    result = run(
        task(),
        proposer=numbers(5),
        sandbox=box,
        iterations=1,
        out=tmp_path / "r",
        progress=progress,
        stop=progress.stop,
    )
    assert result["stop_reason"] == "interrupted"
    assert progress.said + len(read_run(tmp_path / "r").tested) <= 2
    assert result["best"]["test"] is None
    again = resume(tmp_path / "r", task(), proposer=numbers(5), sandbox=StandIn())
    assert again["stop_reason"] == "iterations"
    assert again["best"]["test"] == pytest.approx(6.015)
    assert sorted(read_run(tmp_path / "r").tested) == [0, 1]


@pytest.mark.parametrize("node", [0, 2])
def test_a_stop_before_anything_better_than_the_seed_is_no_look_at_the_held_out_part(tmp_path, node):
    """There is no gain to score yet, and a look would raise the bar for the one that comes later."""
    progress = StopAt(node)
    result = run(
        task(),
        proposer=numbers(-1, -2, -3, 5, 6),
        sandbox=StandIn(),
        iterations=5,
        out=tmp_path / "r",
        progress=progress,
        stop=progress.stop,
    )
    assert (result["stop_reason"], len(read_run(tmp_path / "r").nodes)) == ("interrupted", node + 1)
    assert (result["held_out"], progress.tested) == ({"looks": 0, "evaluations": 0}, 0)
    assert (result["best"]["node"], result["best"]["test"], result["seed_program"]["test"]) == (0, None, None)
    assert result["gain"]["test"] is None
    again = resume(tmp_path / "r", task(), proposer=numbers(-1, -2, -3, 5, 6), sandbox=StandIn())
    assert (again["stop_reason"], again["held_out"]) == ("iterations", {"looks": 1, "evaluations": 2})
    assert (again["best"]["node"], again["best"]["test"]) == (5, pytest.approx(5.015))


def test_a_stop_with_something_better_than_the_seed_has_its_result_scored(tmp_path):
    progress = StopAt(1)
    settings = {"proposer": numbers(5, 1), "sandbox": StandIn(), "iterations": 2, "out": tmp_path / "r"}
    result = run(task(), progress=progress, stop=progress.stop, **settings)
    assert (result["stop_reason"], result["held_out"]["looks"]) == ("interrupted", 1)
    assert result["best"]["test"] == pytest.approx(6.015)


def test_a_run_that_ends_by_itself_without_a_better_one_scores_its_seed(tmp_path):
    result = run(task(), proposer=numbers(-1), sandbox=StandIn(), iterations=1, out=tmp_path / "r")
    assert (result["stop_reason"], result["held_out"]["looks"]) == ("iterations", 1)
    assert result["seed_program"]["test"] is not None


def test_a_stop_while_the_seed_runs_is_said_at_once(tmp_path):
    progress = StopAt()

    class Waits(StandIn):
        def run(self, job, /):
            progress.stop.set()
            assert progress.heard.wait(60)
            return super().run(job)

    result = run(
        task(),
        proposer=numbers(5),
        sandbox=Waits(),
        iterations=3,
        out=tmp_path / "r",
        progress=progress,
        stop=progress.stop,
    )
    assert (result["stop_reason"], len(read_run(tmp_path / "r").nodes)) == ("interrupted", 1)
    assert result["held_out"]["looks"] == 0


def test_more_iterations_go_on_as_if_they_had_been_asked_for_at_first(tmp_path):
    run(task(), proposer=Wanderer(), sandbox=StandIn(), iterations=20, seed=4, out=tmp_path / "whole")
    run(task(), proposer=Wanderer(), sandbox=StandIn(), iterations=8, seed=4, out=tmp_path / "r")
    result = resume(tmp_path / "r", task(), proposer=Wanderer(), sandbox=StandIn(), more=12)
    assert result["budget"]["iterations"] == 20
    searched = [
        [event for event in unmeasured(tmp_path / name) if event["event"] in ("asked", "node")]
        for name in ("whole", "r")
    ]
    assert searched[0] == searched[1]
    assert report(tmp_path / "r") == result


def test_the_held_out_part_is_opened_again_only_for_a_new_best_and_the_result_says_so(tmp_path):
    run(task(), proposer=numbers(5, 1, 1.1, 9), sandbox=StandIn(), iterations=2, out=tmp_path / "r")
    same = resume(tmp_path / "r", task(), proposer=numbers(5, 1, 1.1, 9), sandbox=StandIn(), more=1)
    assert same["held_out"] == {"looks": 1, "evaluations": 2}
    better = resume(tmp_path / "r", task(), proposer=numbers(5, 1, 1.1, 9), sandbox=StandIn(), more=1)
    assert better["held_out"] == {"looks": 2, "evaluations": 3}  # the seed is not scored again
    assert better["best"]["node"] == 4


def test_a_stop_in_the_middle_of_proposing_is_announced_at_once(tmp_path):
    going, progress = threading.Event(), StopAt()

    class Slow(Scripted):
        def propose(self, brief):
            progress.stop.set()
            assert going.wait(10)
            return super().propose(brief)

    class Hears(StopAt):
        def stopping(self, in_flight):
            super().stopping(in_flight)
            going.set()

    heard = Hears()
    heard.stop = progress.stop
    result = run(
        task(),
        proposer=Slow([program(1)]),
        sandbox=StandIn(),
        iterations=3,
        out=tmp_path / "r",
        progress=heard,
        stop=progress.stop,
    )
    assert heard.said == 1
    assert result["spent"]["iterations"] == 1


# -- drift -------------------------------------------------------------------------------------------------------------


def test_what_changes_the_meaning_of_a_score_is_refused_by_name_and_allowed_by_name(tmp_path):
    run(task(), proposer=Wanderer(), sandbox=StandIn(), iterations=4, out=tmp_path / "r")
    before = lines(tmp_path / "r")
    limits = replace(task().limits, wall_s=5.0)
    changed = task(limits=limits, evaluator=Number(harness=Path(__file__)))
    settings = {"proposer": Wanderer(), "sandbox": StandIn()}
    with pytest.raises(ConfigError) as refusal:
        resume(tmp_path / "r", changed, more=2, **settings)
    assert "limit.wall_s: was 60.0, is 5.0" in str(refusal.value)
    assert "--allow-drift evaluator --allow-drift limit.wall_s" in str(refusal.value)
    with pytest.raises(ConfigError, match=r"evaluator: was"):
        resume(tmp_path / "r", changed, more=2, allow_drift=["limit.wall_s"], **settings)
    with pytest.raises(ConfigError, match="names data, which has not changed"):
        resume(tmp_path / "r", changed, allow_drift=["data"], **settings)
    assert lines(tmp_path / "r") == before
    result = resume(tmp_path / "r", changed, more=2, allow_drift=["limit.wall_s", "evaluator"], **settings)
    assert [each["name"] for each in result["drift"]] == ["evaluator", "limit.wall_s"]
    again = resume(tmp_path / "r", changed, more=1, **settings)  # allowed once, it is what holds now
    assert [each["name"] for each in again["drift"]] == ["evaluator", "limit.wall_s"]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"seed": Program(program(3))}, "task"),
        ({"prompt": "another"}, "task"),
        ({"metric": Metric(name="distance", direction="maximize", aggregate="mean")}, "task"),
        ({"profile": "numeric"}, None),
    ],
)
def test_every_part_of_a_task_is_in_its_fingerprint(tmp_path, changes, name):
    run(task(), proposer=numbers(1), sandbox=StandIn(), iterations=1, out=tmp_path / "r")
    again = {"proposer": numbers(1), "sandbox": StandIn()}
    if name is None:  # which profile confines is the sandbox's word, and this one is the same
        resume(tmp_path / "r", task(**changes), **again)
        return
    with pytest.raises(ConfigError, match=f"{name}: was"):
        resume(tmp_path / "r", task(**changes), **again)


def test_another_proposer_is_refused(tmp_path):
    run(task(), proposer=numbers(1), sandbox=StandIn(), iterations=1, out=tmp_path / "r")
    with pytest.raises(ConfigError, match="proposed for by 'scripted'; hand in that proposer"):
        resume(tmp_path / "r", task(), sandbox=StandIn())
    with pytest.raises(ConfigError, match="by 'scripted', not by 'wanderer'"):
        resume(tmp_path / "r", task(), proposer=Wanderer(), sandbox=StandIn())


# -- copies ------------------------------------------------------------------------------------------------------------


def test_a_lucky_second_sample_never_becomes_the_best(tmp_path):
    """A noisy task, and a proposer that hands in one program again and again under new comments."""
    same = Scripted([program(5, comment=f"try {n}") for n in range(40)])
    box = StandIn(noise=random.Random(1))
    for workers, schedule in ((1, None), (4, "sync"), (4, "async")):
        folder = tmp_path / f"{workers}{schedule}"
        result = run(task(), proposer=same, sandbox=box, iterations=40, workers=workers, schedule=schedule, out=folder)
        nodes = read_run(folder).nodes
        assert result["best"]["node"] == 1
        assert len({node.score for node in nodes[1:]}) == 1, "a copy was scored anew"
        assert result["duplicates"] + result["no_ops"] == 39
        assert result["spent"]["evaluations"] <= 1 + workers
        assert all(node.twin_of == 1 for node in nodes[2:])


def test_a_parent_that_comes_back_is_a_no_op_whatever_became_of_it(tmp_path):
    slow = program(5, word="slow")
    box = StandIn()

    class Back(Scripted):
        def propose(self, brief):
            return Candidate(program=brief.parent.candidate.program if brief.step > 1 else Program(slow), origin="x")

    result = run(task(), search="greedy", proposer=Back([]), sandbox=box, iterations=4, out=tmp_path / "r")
    assert result["no_ops"] == 3
    assert result["spent"]["evaluations"] == 2


def test_a_refused_text_is_refused_once(tmp_path, monkeypatch):
    looked = []

    def counted(domain, candidate):
        looked.append(candidate)
        return screen(domain, candidate)

    monkeypatch.setattr("progevo.judge.screen", counted)
    proposer = Scripted(["import os\n"])
    result = run(task(), search="best_of_n", proposer=proposer, sandbox=StandIn(), iterations=5, out=tmp_path / "r")
    assert result["counts"]["gate_refused"] == 5
    assert result["duplicates"] == 4
    assert len(looked) == 1 + 1  # the seed, and the text once


def test_another_program_with_the_same_answers_is_marked(tmp_path):
    proposer = Scripted([program(5), program(5, word="x"), program(6)])
    result = run(task(), proposer=proposer, sandbox=StandIn(), iterations=3, out=tmp_path / "r")
    nodes = read_run(tmp_path / "r").nodes
    assert [node.same_answer_as for node in nodes] == [None, None, 1, None]
    assert [node.twin_of for node in nodes] == [None] * 4
    assert result["same_answers"] == 1
    assert result["spent"]["evaluations"] == 4


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("ok", "", True),
        ("gate_refused", "line 1: no", True),
        ("bad_output", "no number", True),
        ("crashed", "ZeroDivisionError: division by zero (line 2)", True),
        ("crashed", "killed by SIGSEGV before it answered", False),
        ("crashed", "OSError: too many open files (line 2) (limit open_files)", False),
        ("crashed", "it ended before it answered", False),
        ("timeout", "no answer within 1 s", False),
        ("memory_limit", "more than 1 byte", False),
        ("output_limit", "more than 1 byte", False),
        ("sandbox_lost", "fork failed", False),
    ],
)
def test_only_what_would_repeat_itself_is_taken_over(status, reason, expected):
    assert repeatable(Outcome(status=status, reason=reason, **({"score": 1.0} if status == "ok" else {}))) is expected


# -- executors and lost workers ----------------------------------------------------------------------------------------


class Breaking(ThreadPoolExecutor):
    """An executor whose first workers are lost."""

    def __init__(self, losses: int) -> None:
        super().__init__(1)
        self.losses, self.jobs = losses, 0

    def submit(self, *args, **kwargs):
        self.jobs += 1
        if self.jobs <= self.losses:
            future: Future = Future()
            future.set_exception(BrokenExecutor("a worker died"))
            return future
        return super().submit(*args, **kwargs)


def test_a_user_s_executor_runs_every_candidate_and_is_left_open(tmp_path):
    with Breaking(0) as executor:
        result = run(
            task(),
            proposer=numbers(1, 2, 3),
            sandbox=StandIn(),
            iterations=3,
            workers=2,
            executor=executor,
            out=tmp_path / "r",
        )
        assert executor.jobs == result["spent"]["evaluations"] + result["held_out"]["evaluations"] == 6
        assert executor.submit(int, "7").result() == 7


def test_a_lost_worker_is_asked_again_twice_and_never_blamed_on_a_program(tmp_path):
    with Breaking(2) as executor:
        run(task(), proposer=numbers(1), sandbox=StandIn(), iterations=1, executor=executor, out=tmp_path / "r")
    assert [node.outcome.status for node in read_run(tmp_path / "r").nodes] == ["ok", "ok"]


# -- noise -------------------------------------------------------------------------------------------------------------


def test_a_repeated_program_is_scored_by_the_mean_of_its_runs(tmp_path):
    class Alternating(StandIn):
        def run(self, job, /):
            done = super().run(job)
            ((number, _),) = done.answer.arrays
            return replace(done, answer=replace(done.answer, arrays=((number, float(self.runs % 2)),)))

    box = Alternating()
    result = run(task(), proposer=numbers(5), sandbox=box, iterations=1, repeats=2, out=tmp_path / "r")
    assert result["seed_program"]["search"] == pytest.approx(10.015 + 0.5)
    assert result["spent"]["evaluations"] == 2 + 2 + 2  # seed, candidate, and its confirmation
    assert result["held_out"]["evaluations"] == 4
    assert box.runs == 10


def test_the_best_of_a_noisy_task_is_called_best_by_a_second_sample(tmp_path):
    samples = iter([0.0, -8.0, +1.0, +1.0, -8.0, -7.0, 0.0, 0.0])  # what each run in the sandbox adds to the distance

    class Lucky(StandIn):
        def run(self, job, /):
            done = super().run(job)
            ((number, _),) = done.answer.arrays
            return replace(done, answer=replace(done.answer, arrays=((number, next(samples)),)))

    result = run(task(noisy=True), proposer=numbers(0.5, 0.6, 0.7), sandbox=Lucky(), iterations=3, out=tmp_path / "r")
    events = [event for event in lines(tmp_path / "r") if event["event"] == "confirmed"]
    assert [event["index"] for event in events] == [1, 3]
    # Node 1 had a lucky sample, and is not the best; node 3 is, by its second sample and not by its first.
    assert result["best"]["node"] == 3
    assert result["best"]["search"] == pytest.approx(10 - 0.7 + 0.015 - 7.0)
    assert result["gain"]["search"] == pytest.approx(0.7 + 7.0)


def noisy_run(folder, seed, *, common, repeats):
    """A run in which no program is better than any other, and every run of one adds noise."""
    draw = random.Random(f"noise {seed}")

    @dataclass
    class Noisy(Number):
        count: int = 24

        def score(self, split, answer, /):
            shift = draw.gauss(0, 1) if common else 0.0
            cases = tuple(10 + shift + draw.gauss(0, 1) for _ in range(self.count))
            return replace(super().score(split, answer), score=-sum(cases) / self.count, cases=cases)

    return run(
        task(noisy=common, evaluator=Noisy()),
        search="best_of_n",
        proposer=numbers(*(0.01 * n for n in range(1, 13))),
        sandbox=StandIn(),
        iterations=12,
        repeats=repeats,
        seed=seed,
        out=folder,
    )


@pytest.mark.parametrize(("common", "repeats"), [(False, 1), (True, 3)])
def test_noise_without_improvement_is_resolved_in_at_most_5_of_100_seeds(tmp_path, common, repeats):
    results = [noisy_run(tmp_path / str(seed), seed, common=common, repeats=repeats) for seed in range(100)]
    resolved = sum(result["gain"]["resolved"] is True for result in results)
    found = sum(result["best"]["node"] > 0 for result in results)
    assert found >= 30, "the search was to be fooled by luck, or this test says nothing"
    assert resolved <= 5


def test_one_run_of_a_noisy_task_resolves_nothing(tmp_path):
    result = noisy_run(tmp_path / "r", 1, common=True, repeats=1)
    assert result["gain"]["resolved"] in (None, False)
    assert result["gain"]["interval"] is None


# -- held-out truth ----------------------------------------------------------------------------------------------------


def test_the_test_part_is_sealed_from_the_proposer_and_the_loop(tmp_path, monkeypatch):
    tried = []

    @dataclass
    class Spy(Scripted):
        evaluator: Any = None

        def propose(self, brief):
            for ask in (self.evaluator.inputs, lambda split: self.evaluator.score(split, None)):
                try:
                    tried.append(ask(TEST))
                except StillSealed as error:
                    tried.append(str(error))
            return super().propose(brief)

    spy = Spy([program(5)], name="spy")

    def make(word, domain):
        assert word == "spy"
        spy.evaluator = domain.evaluator
        return spy

    monkeypatch.setattr(sys.modules["progevo.run"], "open_proposer", make)
    result = run(task(), proposer="spy", sandbox=StandIn(), iterations=2, out=tmp_path / "r")
    assert len(tried) == 4
    assert all("a proposer" in str(found) for found in tried)
    assert not [name for name, value in vars(spy.evaluator).items() if isinstance(value, Number | Seal)]
    assert result["best"]["test"] is not None


def test_the_loop_itself_cannot_look_before_the_end(tmp_path, monkeypatch):
    class Peeking(Silence):
        def started(self, plan, record):
            self.domain = plan.domain

        def told(self, node, best):
            with pytest.raises(StillSealed, match="sealed until the search is over"):
                self.domain.evaluator.inputs(TEST)

        def testing(self, best):
            self.domain.evaluator.inputs(TEST)

    run(task(), proposer=numbers(1), sandbox=StandIn(), iterations=2, out=tmp_path / "r", progress=Peeking())


def test_a_seal_opens_once_and_gives_out_everything_else():
    seal = Seal(Number())
    assert seal.inputs(SEARCH).request == {"split": SEARCH}
    with pytest.raises(StillSealed):
        seal.inputs(TEST)
    seal.open()
    assert seal.inputs(TEST).request == {"split": TEST}


def test_parts_that_overlap_are_refused_before_anything_is_run(tmp_path):
    box = StandIn()
    ids = {SEARCH: ["a", "b", "c"], TEST: ["c", "d"]}
    with pytest.raises(TaskError, match=r"1 of the 2 test cases of the task 'plain' are search cases too \(c\)"):
        run(task(case_ids=ids), sandbox=box, out=tmp_path / "r")
    assert box.runs == 0
    assert not (tmp_path / "r").exists()
    run(
        task(case_ids={SEARCH: range(3), TEST: range(3, 5)}),
        proposer=numbers(1),
        sandbox=box,
        iterations=0,
        out=tmp_path / "r",
    )


def test_the_top_are_scored_and_none_is_chosen_by_it(tmp_path):
    result = run(task(), proposer=numbers(5, 7, 7, 6), sandbox=StandIn(), iterations=4, top=3, out=tmp_path / "r")
    assert [row["node"] for row in result["top"]] == [2, 4, 1]  # node 3 is a copy of node 2
    assert [row["test"] for row in result["top"]] == [pytest.approx(v) for v in (4.015, 5.015, 6.015)]
    assert result["best"]["node"] == 2
    assert result["held_out"]["evaluations"] == 4


def right_task(**changes):
    @dataclass
    class Parity(Number):
        """Four cases; a program gets case k right where the k-th digit of its number is 1."""

        def score(self, split, answer, /):
            digits = f"{int(answer.arrays[0][0]):04d}"
            cases = tuple(float(digit != "0") * float(digit) for digit in digits)
            return replace(super().score(split, answer), score=sum(cases), cases=cases)

    metric = Metric(name="right", direction="maximize", aggregate="mean")
    return task(evaluator=Parity(), metric=metric, right=lambda value: value >= 1, **changes)


def test_no_regression_takes_the_best_that_gets_nothing_wrong_which_the_seed_had_right(tmp_path):
    seed = {"seed": Program(program(1000))}
    proposer = numbers(9990, 990, 1110, 1100)  # 990 loses the seed's case
    for acceptance, best in (("mean", 1), ("no_regression", 1)):
        found = run(
            right_task(**seed),
            proposer=proposer,
            sandbox=StandIn(),
            iterations=4,
            acceptance=acceptance,
            out=tmp_path / acceptance,
        )
        assert found["best"]["node"] == best
    proposer = numbers(990, 1100, 1110)
    for acceptance, best, lost in (("mean", 1, 1), ("no_regression", 3, 0)):
        folder = tmp_path / f"{acceptance} again"
        found = run(
            right_task(**seed), proposer=proposer, sandbox=StandIn(), iterations=3, acceptance=acceptance, out=folder
        )
        assert (found["best"]["node"], found["gain"]["catastrophic"]) == (best, lost)
        assert report(folder) == found


def test_no_regression_needs_a_notion_of_right(tmp_path):
    with pytest.raises(ConfigError, match="no notion of a case that was got right"):
        run(task(), sandbox=StandIn(), acceptance="no_regression", out=tmp_path / "r")
    with pytest.raises(ConfigError, match="there are mean, no_regression"):
        run(task(), sandbox=StandIn(), acceptance="median", out=tmp_path / "r")


def test_a_plan_says_what_its_test_part_can_resolve():
    assert planning_line(task(), 1) is None
    assert "no test part" in planning_line(task(splits=(SEARCH,)), 1)
    assert "--repeats 2" in planning_line(task(noisy=True), 1)
    assert planning_line(task(noisy=True), 2) is None
    weak = planning_line(task(usual=Usual(gain=0.1, test_se=0.08)), 1)
    assert (
        weak
        == "resolves gains above about 0.16 distance; this task usually gains 0.1: too little to be told from noise"
    )
    assert "too little" not in planning_line(task(usual=Usual(gain=0.17, test_se=0.08)), 1)


def test_the_gap_is_what_the_search_promised_beyond_the_test(tmp_path):
    result = run(task(), proposer=numbers(10.5), sandbox=StandIn(), iterations=1, out=tmp_path / "r")
    # By hand: on search 10.015 becomes 0.515, on test 11.015 becomes 0.515.
    assert result["gain"]["search"] == pytest.approx(9.5)
    assert result["gain"]["test"] == pytest.approx(10.5)
    assert result["gain"]["gap"] == pytest.approx(-1.0)
    assert result["gain"]["resolved"] is True
    assert result["gain"]["catastrophic"] is None


def test_nothing_is_said_of_a_gain_where_the_best_is_the_seed(tmp_path):
    result = run(task(), proposer=numbers(-3), sandbox=StandIn(), iterations=1, out=tmp_path / "r")
    assert result["best"]["node"] == 0
    assert result["gain"] == {
        "search": 0.0, "test": 0.0, "test_se": None, "interval": None, "resolved": False, "resolvable": None,
        "gap": 0.0, "gained": None, "lost": None, "catastrophic": None,
    }  # fmt: skip


def test_a_proposer_that_waits_for_a_network_is_told_to_give_up(tmp_path):
    class Waiting(Scripted):
        gone = threading.Event()

        def propose(self, brief):
            if brief.step > 1:
                assert self.gone.wait(20)
            return super().propose(brief)

        def close(self):
            self.gone.set()

    class Impatient(Silence):
        def told(self, node, best):
            if node.index == 1:
                raise KeyboardInterrupt

    waiting = Waiting([program(1), program(2)])
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(
            task(),
            proposer=waiting,
            sandbox=StandIn(),
            iterations=5,
            workers=3,
            out=tmp_path / "r",
            progress=Impatient(),
        )
    assert time.monotonic() - began < 15
    assert waiting.gone.is_set()
    record = read_run(tmp_path / "r")
    assert (record.stop_reason, len(record.nodes)) == ("interrupted", 2)
    result = resume(tmp_path / "r", task(), proposer=Scripted([program(1), program(2)]), sandbox=StandIn())
    assert result["spent"]["iterations"] == 5


def test_a_look_counts_even_if_the_run_was_killed_before_its_last_line(tmp_path):
    proposer = numbers(5, 9)
    run(task(), proposer=proposer, sandbox=StandIn(), iterations=1, out=tmp_path / "r")
    journal = tmp_path / "r" / "journal.jsonl"
    *kept, last = journal.read_bytes().splitlines(keepends=True)
    assert b'"ended"' in last
    journal.write_bytes(b"".join(kept))
    result = resume(tmp_path / "r", task(), proposer=proposer, sandbox=StandIn(), more=1)
    assert (result["best"]["node"], result["held_out"]["looks"]) == (2, 2)
