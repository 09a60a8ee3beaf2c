"""The loop: what it writes, that it reproduces, that nothing a candidate or an interrupt does ends it badly."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from progevo import Candidate, Limits, Metric, Program, Score, run
from progevo.domain import SEARCH, TEST
from progevo.errors import ConfigError, ProposerError, RunError, SandboxUnavailable, TaskError
from progevo.evaluators.calls import Calls
from progevo.journal import FILE, read_run
from progevo.run import Silence
from progevo.sandbox import Confinement
from progevo.sandbox.probe import open_sandbox
from progevo.show import result_lines
from progevo.types import Answer, Execution


def answers(number: float) -> str:
    return f"def solve(x):\n    return {number}\n"


@dataclass
class Scripted:
    """A proposer that has written everything down beforehand, by step; `None` is a reply without a program."""

    sources: list[str | None]
    name: str = "scripted"
    asked: list[int] = field(default_factory=list)

    def propose(self, brief):
        self.asked.append(brief.step)
        source = self.sources[brief.step - 1]
        if source is None:
            return Candidate(program=None, origin="scripted", reason="a reply without a program")
        return Candidate(program=Program(source), origin="scripted")


@dataclass
class Drawn:
    """A proposer whose candidates depend on the parent and on the step's own generator."""

    name: str = "drawn"

    def propose(self, brief):
        before = float(brief.parent.candidate.program.source.split()[-1])
        return Candidate(program=Program(answers(before + brief.rng.choice([-1, 1, 2]))), origin="drawn")


def events(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def unmeasured(folder: Path) -> list[dict]:
    return [{key: value for key, value in event.items() if key != "measured"} for event in events(folder)]


def test_a_run_writes_its_folder_and_keeps_search_and_test_apart(tmp_path, toy):
    result = run(toy(), proposer=Scripted([answers(10), answers(11)]), iterations=2, out=tmp_path / "r")
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [
        "best.py", "config.toml", "journal.jsonl", "logs", "programs", "result.json",
    ]  # fmt: skip
    assert (tmp_path / "r" / "best.py").read_text() == answers(10)
    assert result["seed_program"]["search"] == 100.0
    assert result["seed_program"]["test"] == 121.0
    assert result["best"] == {
        "id": Program(answers(10)).id, "node": 1, "search": 0.0, "test": 1.0, "test_status": "ok", "test_reason": None,
        "test_metrics": {}, "file": "best.py",
    }  # fmt: skip
    assert result["gain"]["search"] == 100.0
    assert result["gain"]["test"] == 120.0
    assert json.loads((tmp_path / "r" / "result.json").read_text()) == result


def by_case(found):
    """A score with a value a case, and one metric beside it."""
    cases = tuple(float(value) for value in found[0])
    return Score(score=sum(cases), cases=cases, metrics={"largest": max(cases)})


def test_a_figure_that_is_missing_says_why(tmp_path, toy):
    def missing(split, found):
        note = "m is unknown: it needs a package" if split == TEST else ""
        return Score(score=-((found[0] - 10.0) ** 2), metrics={"m": math.nan}, note=note)

    evaluator = Calls(cases={SEARCH: [0], TEST: [0]}, score=missing)
    result = run(toy(evaluator=evaluator), proposer=Scripted([answers(10)]), iterations=1, out=tmp_path / "r")
    for name in ("seed_program", "best"):
        assert result[name]["test_metrics"] == {"m": None}
        assert result[name]["test_reason"] == "m is unknown: it needs a package"
    assert "  best on test: m is unknown: it needs a package" in result_lines(result)
    assert result["top"][0]["test_reason"] == result["best"]["test_reason"]


@pytest.mark.parametrize(
    ("wrong", "catastrophic", "accepted"),
    [(None, 2, False), (lambda value: value < 1, 1, False), (lambda _: False, 0, True)],
)
def test_cases_that_turned_right_or_wrong_are_counted_on_test(tmp_path, toy, wrong, catastrophic, accepted):
    domain = toy(
        metric=Metric(name="sum", direction="maximize", aggregate="mean"),
        evaluator=Calls(cases={SEARCH: [0], TEST: [1]}, score=lambda split, found: by_case(found)),
        seed=Program("def solve(x):\n    return [9, 9, 5, 0, 9]\n"),
        right=lambda value: value >= 9,
        wrong=wrong,
    )
    better = "def solve(x):\n    return [0, 5, 30, 5, 9]\n"
    result = run(domain, proposer=Scripted([better]), iterations=1, out=tmp_path / "r")
    gain = result["gain"]
    assert (gain["gained"], gain["lost"], gain["catastrophic"]) == (1, 2, catastrophic)
    assert [result[name]["test_metrics"] for name in ("seed_program", "best")] == [{"largest": 9.0}, {"largest": 30.0}]
    strict = run(domain, proposer=Scripted([better]), iterations=1, acceptance="no_regression", out=tmp_path / "s")
    assert strict["best"]["node"] == int(accepted)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_three_runs_of_one_seed_are_the_same_but_for_what_was_measured(tmp_path, workers, toy):
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        run(toy(), proposer=Drawn(), iterations=12, workers=workers, seed=5, out=folder)
    first, *others = [unmeasured(folder) for folder in folders]
    assert others == [first, first]
    assert [event["step"] for event in first if event["event"] == "node"] == list(range(13))


def test_another_seed_is_another_run(tmp_path, toy):
    for seed in (1, 2):
        run(toy(), proposer=Drawn(), iterations=6, seed=seed, out=tmp_path / str(seed))
    assert unmeasured(tmp_path / "1") != unmeasured(tmp_path / "2")


def test_every_way_to_fail_is_a_node_with_a_cause(tmp_path, toy):
    sources = {
        "no_program": None,
        "gate_refused": "import os\ndef solve(x): return 1",
        "crashed": "def solve(x): return 1 / 0",
        "timeout": "import time\ndef solve(x): time.sleep(60)",
        "bad_output": "def solve(x): return 'ten'",
        "memory_limit": "def solve(x): return bytearray(10 ** 11)",
        "ok": answers(9),
    }
    domain = toy(limits=Limits(wall_s=1.0))
    result = run(domain, proposer=Scripted(list(sources.values())), iterations=7, workers=2, out=tmp_path / "r")
    nodes = read_run(tmp_path / "r").nodes
    assert [node.outcome.status for node in nodes[1:]] == list(sources)
    assert all(node.outcome.reason and node.score == -math.inf for node in nodes if not node.outcome.ok)
    assert result["best"]["node"] == 7
    assert result["counts"] == Counter(node.outcome.status for node in nodes) | {
        "cpu_limit": 0, "output_limit": 0, "stage_failed": 0, "sandbox_lost": 0,
    }  # fmt: skip
    assert result["spent"]["iterations"] == 7
    # The seed and five candidates: neither of the two that never ran. Two more on the held-out part.
    assert result["spent"]["evaluations"] == 6
    assert result["held_out"] == {"looks": 1, "evaluations": 2}


def test_a_scorer_that_stumbles_over_an_answer_does_not_end_the_run(tmp_path, toy):
    def score(split, found):
        return -float(found[0]["x"]) if split == SEARCH else 0.0

    domain = toy(
        evaluator=Calls(cases={SEARCH: [0], TEST: [0]}, score=score), seed=Program("def solve(x): return {'x': 5}")
    )
    run(domain, proposer=Scripted([answers(3)]), iterations=1, out=tmp_path / "r")
    outcome = read_run(tmp_path / "r").nodes[1].outcome
    assert outcome.status == "bad_output"
    assert "TypeError" in outcome.reason


def test_copies_cost_no_evaluation_and_never_become_the_best(tmp_path, toy):
    copy = f"# another comment\n{answers(10)}"
    seed_again = f"# the seed\n{answers(0)}"
    proposer = Scripted([answers(10), copy, seed_again])
    result = run(toy(), proposer=proposer, iterations=3, out=tmp_path / "r")
    nodes = read_run(tmp_path / "r").nodes
    assert [node.twin_of for node in nodes] == [None, None, 1, 0]
    assert [node.score for node in nodes] == [-100.0, 0.0, 0.0, -100.0]
    assert nodes[2].parent == 1
    assert result["no_ops"] == 1  # the copy of its own parent
    assert result["duplicates"] == 1  # the copy of the seed, whose parent was another
    assert result["best"]["node"] == 1
    assert result["spent"]["evaluations"] == 2


def test_a_proposer_that_returns_its_parent_makes_no_ops(tmp_path, toy):
    class Lazy(Drawn):
        def propose(self, brief):
            return Candidate(program=brief.parent.candidate.program, origin="lazy")

    result = run(toy(), proposer=Lazy(), iterations=6, out=tmp_path / "r")
    assert (result["no_ops"], result["duplicates"]) == (6, 0)
    assert result["gain"]["resolvable"] is None


def test_a_name_of_a_task_stays_in_the_folder_of_runs(tmp_path, toy, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(toy(name="../../out of/here\n"), iterations=0)
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_a_copy_of_what_depends_on_load_is_run_again(tmp_path, toy):
    slow = "import time\ndef solve(x): time.sleep(60)"
    domain = toy(limits=Limits(wall_s=0.5))
    result = run(domain, proposer=Scripted([slow, f"{slow}  # again"]), iterations=2, out=tmp_path / "r")
    assert result["duplicates"] == result["no_ops"] == 0
    assert result["counts"]["timeout"] == 2


def test_the_test_part_is_asked_for_once_and_at_the_end(tmp_path, toy):
    asked = []

    class Watched(Calls):
        def inputs(self, split, /):
            asked.append(split)
            return super().inputs(split)

    domain = toy(evaluator=Watched(cases={SEARCH: [0], TEST: [0]}, score=lambda split, found: float(found[0])))
    run(domain, proposer=Drawn(), iterations=6, workers=2, seed=1, out=tmp_path / "r")
    assert asked.count(TEST) == 2
    assert asked[-2:] == [TEST, TEST]


def test_a_domain_without_a_test_part_leaves_it_unknown(tmp_path, toy):
    result = run(toy(splits=(SEARCH,)), proposer=Drawn(), iterations=2, out=tmp_path / "r")
    assert result["best"]["test"] is None
    assert result["gain"]["test"] is None
    assert result["gain"]["resolved"] is None


class StopAfter(Silence):
    def __init__(self, count: int) -> None:
        self.count, self.stop, self.in_flight = count, threading.Event(), None

    def told(self, node, best):
        if node.index == self.count:
            self.stop.set()

    def stopping(self, in_flight):
        self.in_flight = in_flight


def test_a_stop_drains_what_is_in_flight_and_leaves_a_readable_run(tmp_path, toy):
    progress = StopAfter(3)
    result = run(
        toy(), proposer=Drawn(), iterations=50, workers=3, out=tmp_path / "r", progress=progress, stop=progress.stop
    )
    record = read_run(tmp_path / "r")
    assert record.stop_reason == result["stop_reason"] == "interrupted"
    asked = [event["step"] for event in events(tmp_path / "r") if event["event"] == "asked"]
    assert [node.step for node in record.nodes[1:]] == asked
    assert progress.in_flight == len(asked) - 3
    assert result["best"]["test"] is not None


def test_an_interrupt_gives_up_what_is_in_flight_and_still_leaves_a_readable_run(tmp_path, toy):
    class Impatient(Silence):
        def told(self, node, best):
            if node.index == 1:
                raise KeyboardInterrupt

    slow = "import time\ndef solve(x): time.sleep(600)"
    proposer = Scripted([answers(1), slow, slow])
    with pytest.raises(KeyboardInterrupt):
        run(
            toy(limits=Limits(wall_s=300.0)),
            proposer=proposer,
            iterations=3,
            workers=3,
            out=tmp_path / "r",
            progress=Impatient(),
        )
    record = read_run(tmp_path / "r")
    assert record.stop_reason == "interrupted"
    assert json.loads((tmp_path / "r" / "result.json").read_text())["best"]["node"] == 1


def test_a_proposer_that_fails_for_good_leaves_everything_recorded(tmp_path, toy):
    class Gone(Drawn):
        def propose(self, brief):
            if brief.step == 3:
                raise ProposerError("the model is gone")
            return super().propose(brief)

    with pytest.raises(ProposerError):
        run(toy(), proposer=Gone(), iterations=9, out=tmp_path / "r")
    record = read_run(tmp_path / "r")
    assert len(record.nodes) == 3
    assert record.stop_reason == "proposer_failed"
    assert json.loads((tmp_path / "r" / "result.json").read_text())["stop_reason"] == "proposer_failed"


def test_a_seed_that_does_not_score_is_the_task_s_fault(tmp_path, toy):
    with pytest.raises(TaskError, match=r"does not score: crashed, ZeroDivisionError"):
        run(toy(seed=Program("def solve(x): return 1 / 0")), iterations=1, out=tmp_path / "r")


@pytest.mark.parametrize("markers", [("START",), ("END",), ("END", "START"), ("START", "START", "END", "END")])
def test_a_seed_whose_markers_do_not_pair_up_is_refused_before_anything_is_run(tmp_path, toy, markers):
    seed = answers(0) + "".join(f"# EVOLVE-BLOCK-{marker}\n" for marker in markers)
    with pytest.raises(TaskError, match=r"the seed program of the task 'toy' the EVOLVE-BLOCK markers do not pair up"):
        run(toy(seed=Program(seed)), iterations=1, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


class Losing:
    """A sandbox that the host loses a number of times before it answers."""

    confinement = Confinement(
        backend="none", rung="stand-in", version="0", kernel="0", profile="stdlib", limits_refused={}
    )

    def __init__(self, losses: list[int]) -> None:
        self.losses, self.runs = losses, 0

    def run(self, job, /):
        self.runs += 1
        if self.losses[0] > 0:
            self.losses[0] -= 1
            return Execution(status="sandbox_lost", reason="fork failed")
        if len(self.losses) > 1:
            self.losses.pop(0)
        return Execution(status="ok", answer=Answer(value={"outputs": [{}]}, arrays=((4.0,),)))

    def close(self):
        pass


def test_a_lost_sandbox_is_asked_again_twice_and_never_blamed_on_the_program(tmp_path, toy):
    box = Losing([0, 2, 3, 0])
    domain = toy(splits=(SEARCH,), evaluator=OneNumber())
    result = run(
        domain, proposer=Scripted([answers(1), answers(2), answers(3)]), iterations=3, out=tmp_path / "r", sandbox=box
    )
    nodes = read_run(tmp_path / "r").nodes
    assert [node.outcome.status for node in nodes] == ["ok", "ok", "sandbox_lost", "ok"]
    assert nodes[2].outcome.reason == "fork failed"
    assert result["counts"]["sandbox_lost"] == 1


class OneNumber:
    """An evaluator that takes any answer for the number in its first array."""

    harness = Path(__file__)

    def inputs(self, split, /):
        from progevo import Inputs

        return Inputs()

    def score(self, split, answer, /):
        from progevo import Score

        return Score(score=answer.arrays[0][0])


def test_a_host_that_loses_every_sandbox_ends_the_run(tmp_path, toy):
    box = Losing([0, 99])
    sources = [answers(number) for number in range(1, 9)]
    domain = toy(splits=(SEARCH,), evaluator=OneNumber())
    with pytest.raises(SandboxUnavailable, match="lost 3 times in a row"):
        run(domain, proposer=Scripted(sources), iterations=8, out=tmp_path / "r", sandbox=box)
    record = read_run(tmp_path / "r")
    assert [node.outcome.status for node in record.nodes] == ["ok", *["sandbox_lost"] * 3]
    assert record.stop_reason == "sandbox_lost"


def test_a_proposer_with_a_bug_is_a_proposer_that_failed(tmp_path, toy):
    class Buggy(Drawn):
        def propose(self, brief):
            raise ZeroDivisionError("oh")

    with pytest.raises(ProposerError, match="'drawn' raised ZeroDivisionError at step 1: oh"):
        run(toy(), proposer=Buggy(), iterations=2, out=tmp_path / "r")
    assert read_run(tmp_path / "r").stop_reason == "proposer_failed"


def test_a_sandbox_lost_on_the_seed_is_no_fault_of_the_task(tmp_path, toy):
    with pytest.raises(SandboxUnavailable):
        run(toy(evaluator=OneNumber()), iterations=1, out=tmp_path / "r", sandbox=Losing([9]))


def test_a_sandbox_of_ones_own_stays_open(tmp_path, toy):
    box = open_sandbox("stdlib")
    for number in range(2):
        assert run(toy(), proposer=Drawn(), iterations=1, out=tmp_path / str(number), sandbox=box)["counts"]["ok"] == 2
    box.close()


def test_a_run_folder_is_never_written_twice(tmp_path, toy):
    run(toy(), proposer=Drawn(), iterations=1, out=tmp_path / "r")
    before = (tmp_path / "r" / FILE).read_bytes()
    with pytest.raises(RunError, match="not empty"):
        run(toy(), proposer=Drawn(), iterations=1, out=tmp_path / "r")
    assert (tmp_path / "r" / FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"search": "annealing"}, "the searches are era"),
        ({"proposer": "oracle"}, "the proposers are mutate"),
        ({"constants": {"temperature": 1.0}}, "does not take these constants"),
        ({"constants": {"c_puct": math.nan}}, "c_puct"),
        ({"workers": 0}, "workers at least 1"),
        ({"iterations": -1}, "iterations must be at least 0"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_written(tmp_path, changes, word, toy):
    with pytest.raises(ConfigError, match=word):
        run(toy(), out=tmp_path / "r", **changes)
    assert not (tmp_path / "r").exists()


def test_no_iterations_scores_the_seed_alone(tmp_path, toy):
    result = run(toy(), iterations=0, out=tmp_path / "r")
    assert result["best"]["node"] == 0
    assert result["gain"]["search"] == 0.0
    assert result["gain"]["test"] == 0.0
