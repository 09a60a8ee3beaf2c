"""Resume: a run that was killed at any moment ends as if nothing had happened."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from progevo.budget import Budget
from progevo.errors import ConfigError
from progevo.journal import FILE, read_run
from progevo.run import report, resume, run
from progevo.search.catalogue import SEARCHES
from tests.plain_run import StandIn, Wanderer, lines, task, unmeasured

ITERATIONS = 9
MODES = [(1, "serial"), (4, "sync"), (4, "ordered")]


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A killed process loses nothing that it has written; what a lost machine keeps is the kernel's word."""
    monkeypatch.setattr("progevo.journal.os.fsync", lambda number: None)


def cut(whole: Path, to: Path, length: int) -> Path:
    """The run folder as a kill leaves it: the journal up to so many bytes, and nothing that is derived from it."""
    shutil.copytree(whole, to)
    (to / FILE).write_bytes((whole / FILE).read_bytes()[:length])
    for name in ("result.json", "best.py"):
        (to / name).unlink(missing_ok=True)
    return to


def moments(folder: Path) -> list[int]:
    """The length of the journal after every event but the last, and in the middle and just before the end of a line."""
    found, length = [], 0
    for line in (folder / FILE).read_bytes().splitlines(keepends=True):
        if length:
            found.append(length)
            if len(found) % 3 == 1:
                found += [length + len(line) // 2, length + len(line) - 1]
        length += len(line)
    return [*found, length]


def timeless(result: dict) -> dict:
    spent = {name: value for name, value in result["spent"].items() if name != "seconds"}
    return {**result, "spent": spent, "started": None, "ended": None}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("workers", "schedule"), MODES)
def test_a_run_killed_after_any_event_ends_as_if_nothing_had_happened(tmp_path, search, workers, schedule):
    whole = tmp_path / "whole"
    settings = {"search": search, "workers": workers, "schedule": schedule, "seed": 3, "iterations": ITERATIONS}
    result = run(task(), proposer=Wanderer(), sandbox=StandIn(), out=whole, **settings)
    expected = unmeasured(whole)
    kinds = Counter(event["event"] for event in expected)
    assert kinds == {"started": 1, "asked": ITERATIONS, "node": ITERATIONS + 1, "tested": 2, "ended": 1}
    for number, length in enumerate(moments(whole)):
        folder = cut(whole, tmp_path / str(number), length)
        again = resume(folder, task(), proposer=Wanderer(), sandbox=StandIn())
        assert unmeasured(folder) == expected, f"killed after {length} bytes"
        assert timeless(again) == timeless(result)
        assert json.loads((folder / "result.json").read_text()) == again == report(folder)
        shutil.rmtree(folder)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_run_that_takes_answers_as_they_come_loses_nothing_when_killed(tmp_path, search):
    whole, budget = tmp_path / "whole", Budget(evaluations=10)
    run(
        task(),
        proposer=Wanderer(),
        sandbox=StandIn(delay_s=0.01),
        out=whole,
        search=search,
        workers=4,
        schedule="async",
        seed=3,
        budget=budget,
    )
    for number, length in enumerate(moments(whole)[::3]):
        folder = cut(whole, tmp_path / str(number), length)
        before = unmeasured(folder)[: (folder / FILE).read_bytes()[:length].count(b"\n")]
        again = resume(folder, task(), proposer=Wanderer(), sandbox=StandIn(delay_s=0.01))
        events = unmeasured(folder)
        assert events[: len(before)] == before, "what had been written was written anew"
        asked = [event["step"] for event in events if event["event"] == "asked"]
        told = [event for event in events if event["event"] == "node"]
        assert asked == list(range(1, len(asked) + 1))
        assert sorted(event["step"] for event in told) == [0, *asked], "a step was told twice, or lost"
        assert [event["index"] for event in told] == list(range(len(told)))
        assert sum(event["evaluations"] for event in told) == again["spent"]["evaluations"] == 10
        assert again["stop_reason"] == "evaluations"
        shutil.rmtree(folder)


@dataclass
class Counting(StandIn):
    """Knows how many runs it has had at a time."""

    inside: int = 0
    most: int = 0

    def run(self, job, /):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        try:
            return super().run(job)
        finally:
            with self.lock:
                self.inside -= 1


@pytest.mark.parametrize("workers", [1, 7])
def test_a_run_that_takes_answers_as_they_come_can_go_on_with_more_or_fewer_workers(tmp_path, workers):
    whole = tmp_path / "whole"
    settings = {"workers": 4, "schedule": "async", "seed": 3, "iterations": 12}
    run(task(), proposer=Wanderer(), sandbox=StandIn(delay_s=0.01), out=whole, **settings)
    for number, length in enumerate(moments(whole)[::4]):
        folder = cut(whole, tmp_path / str(number), length)
        before = read_run(folder)
        box = Counting(delay_s=0.01)
        again = resume(folder, task(), proposer=Wanderer(), sandbox=box, workers=workers)
        assert box.most <= workers
        assert again["workers"] == read_run(folder).workers == workers
        (changed,) = [event for event in lines(folder) if event["event"] == "resumed"]
        assert (changed["workers"], changed["drift"]) == (workers, [])
        steps = sorted(node.step for node in read_run(folder).nodes)
        assert steps == list(range(13)), "a step was told twice, or lost"
        assert [node.step for node in before.nodes] == [node.step for node in read_run(folder).nodes][
            : len(before.nodes)
        ]
        # And once more as it is now, without a word about it.
        resume(folder, task(), proposer=Wanderer(), sandbox=StandIn(), more=1)
        assert read_run(folder).workers == workers


@pytest.mark.parametrize(("was", "schedule"), MODES)
def test_a_run_that_depends_on_its_number_of_workers_keeps_it(tmp_path, was, schedule):
    folder = tmp_path / "r"
    run(
        task(),
        proposer=Wanderer(),
        sandbox=StandIn(),
        iterations=3,
        workers=was,
        schedule=schedule,
        out=folder,
    )
    before = (folder / FILE).read_bytes()
    with pytest.raises(ConfigError, match=f"with the schedule {schedule} a run depends on its number of workers"):
        resume(folder, task(), proposer=Wanderer(), sandbox=StandIn(), workers=2)
    with pytest.raises(ConfigError, match="workers is 0"):
        resume(folder, task(), proposer=Wanderer(), sandbox=StandIn(), workers=0)
    assert (folder / FILE).read_bytes() == before
    resume(folder, task(), proposer=Wanderer(), sandbox=StandIn(), workers=was)  # as many as there were
    assert (folder / FILE).read_bytes() == before


def test_a_finished_run_is_left_as_it_is(tmp_path):
    run(task(), proposer=Wanderer(), sandbox=StandIn(), iterations=5, out=tmp_path / "r")
    before = (tmp_path / "r" / FILE).read_bytes()
    box = StandIn()
    resume(tmp_path / "r", task(), proposer=Wanderer(), sandbox=box)
    assert (tmp_path / "r" / FILE).read_bytes() == before
    assert box.runs == 0


def test_record_knows_after_a_kill_what_it_knew_before(tmp_path):
    run(task(), proposer=Wanderer(), sandbox=StandIn(), iterations=30, seed=6, out=tmp_path / "r")
    record = read_run(tmp_path / "r", logs=True)
    statuses = Counter(node.outcome.status for node in record.nodes)
    assert {"ok", "crashed", "timeout", "bad_output", "no_program", "gate_refused"} <= statuses.keys()
    for node in record.nodes:
        assert bool(node.outcome.log_tail) == (
            "WORD" in (node.candidate.program.source if node.candidate.program else "")
        )
    assert record.spent.calls == 30
    assert record.spent.cost_usd == 7.5
    told = [event for event in lines(tmp_path / "r") if event["event"] == "node"]
    assert "draws" not in told[0]  # nobody drew the seed
    assert [event["draws"][0]["cost_usd"] for event in told[1:]] == [0.25] * 30
