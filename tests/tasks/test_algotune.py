"""tasks.algotune: our own problems, whole runs of them, and what a timed task asks of a run."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import math
import os
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from progevo import Candidate, evaluate, find_domain, resume, run
from progevo.domain import SEARCH, TEST
from progevo.errors import ConfigError
from progevo.evaluators.timing import Speedup
from progevo.exclusive import alone, lock_file
from progevo.holdout import StillSealed, seal
from progevo.journal import read_run
from progevo.propose.open import open_proposer
from progevo.sandbox.probe import open_sandbox
from progevo.tasks.algotune import task
from progevo.tasks.algotune.problem import OWN, own
from tests.tasks.algotune_checkout import checkout

REPLIES = Path(__file__).with_name("algotune_replies.jsonl")
#: Small enough to be solved in no time.
SMALL = {
    "pendulum_chain": 3,
    "shifted_systems": 6,
    "lag_correlation": 20,
    "farthest_nodes": 12,
    "code_lengths": 15,
}


def module(name: str):
    return importlib.import_module(f"progevo.tasks.algotune.problems.{name}")


def spoilt(solution, factor: float):
    """A solution a little off."""
    if isinstance(solution, np.ndarray):
        return solution * factor
    return [value * factor if isinstance(value, float) else value for value in solution]


class TestOwnProblems:
    def test_there_are_five_of_five_kinds(self):
        kinds = [own(name).description.partition(":")[0] for name in OWN]
        assert sorted(kinds) == ["Combinatorial", "Graph", "Matrix", "ODE", "Signal"]
        assert set(SMALL) == set(OWN)

    @pytest.mark.parametrize("name", OWN)
    def test_the_reference_passes_its_own_check_and_a_wrong_solution_does_not(self, name):
        made = module(name)
        for seed in range(12):
            problem = made.generate_problem(SMALL[name], random_seed=seed)
            solution = made.solve(problem)
            assert made.is_solution(problem, solution) is True
            if name != "code_lengths":  # its solutions are whole numbers
                assert made.is_solution(problem, spoilt(solution, 1 + 1e-13))
                assert not made.is_solution(problem, spoilt(solution, 1.01))
            wrong: object
            for wrong in (None, [], {}, math.nan, solution[:-1], [*solution, 1.0], list(solution)[::-1], "x", 3):
                if np.array_equal(np.asarray(wrong, dtype=object), np.asarray(list(solution), dtype=object)):
                    continue  # the same backwards
                assert not made.is_solution(problem, wrong)

    @pytest.mark.parametrize("name", OWN)
    def test_the_same_seed_makes_the_same_problem_and_another_another(self, name):
        made = module(name)
        one, two, other = (repr(made.generate_problem(SMALL[name], random_seed=seed)) for seed in (1, 1, 2))
        assert one == two != other

    @pytest.mark.parametrize("name", OWN)
    def test_neither_solving_nor_checking_changes_the_problem(self, name):
        made = module(name)
        problem = made.generate_problem(SMALL[name], random_seed=1)
        before = repr(problem)
        made.is_solution(problem, made.solve(problem))
        assert repr(problem) == before

    @pytest.mark.parametrize("name", OWN)
    def test_the_seed_is_the_reference(self, name):
        [reference] = [f for f in _functions(own(name).reference.program.source) if f.name == "solve"]
        [seed] = [f for f in _functions(own(name).seed.source) if f.name == "solve"]
        assert [ast.dump(line) for line in seed.body] == [ast.dump(line) for line in reference.body]

    def test_code_lengths_by_hand(self):
        made = module("code_lengths")
        assert made.solve([1, 1, 2, 4]) == [3, 3, 2, 1]
        assert made.is_solution([1, 1, 2, 4], [3, 3, 2, 1])
        assert not made.is_solution([1, 1, 2, 4], [2, 2, 2, 2])  # a code, and not the shortest
        assert not made.is_solution([1, 1, 2, 4], [2, 2, 2, 1])  # no code
        assert not made.is_solution([1, 1, 2, 4], [3.0, 3, 2, 1])

    def test_farthest_nodes_by_hand(self):
        made = module("farthest_nodes")
        problem = {"n": 3, "edges": [(0, 1, 2.0), (1, 2, 3.0), (0, 2, 9.0)]}
        assert made.solve(problem) == [5.0, 3.0, 5.0]
        assert made.is_solution(problem, [5.0, 3.0, 5.0])
        assert not made.is_solution(problem, [9.0, 3.0, 9.0])

    def test_seeds_follow_from_the_whole_text_of_a_problem_and_not_from_its_name(self, tmp_path):
        root = checkout(tmp_path / "a")
        before = task.found("nap", root)
        numbers = {before.number(split, index) for split in (SEARCH, TEST) for index in range(5)}
        assert len(numbers) == 10
        assert min(numbers) > 1000
        number = before.number(SEARCH, 0)
        file = root / "AlgoTuneTasks" / "nap" / "nap.py"
        file.write_text(file.read_text() + "\n# changed\n")
        assert task.found("nap", root).number(SEARCH, 0) != number


def _functions(source: str):
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]


@pytest.fixture
def nap(tmp_path, monkeypatch):
    """A task that takes milliseconds: two problems a part, and one run of each."""
    monkeypatch.setattr(task, "COUNT", {SEARCH: 2, TEST: 2})
    made = find_domain("algotune", data=checkout(tmp_path / "checkout"), options={"problem": "nap"})
    assert isinstance(made.evaluator, Speedup)
    made.evaluator.runs, made.evaluator.ready_s = 1, 3.0
    yield made
    made.evaluator.examiner.close()


class TestRuns:
    def test_recorded_replies_come_to_what_they_are_worth(self, nap, tmp_path):
        replies = open_proposer(f"recorded:{REPLIES}", nap, folder=tmp_path / "run")
        result = run(nap, proposer=replies, iterations=7, seed=0, out=tmp_path / "run")
        record = read_run(tmp_path / "run")
        outcomes = [node.outcome for node in record.nodes]
        assert [outcome.status for outcome in outcomes[1:]] == [
            "ok",
            "bad_output",
            "bad_output",
            "bad_output",
            "gate_refused",
            "no_program",
            "no_program",
        ]
        assert "the task's check says no" in outcomes[2].reason
        assert "program.Later" in outcomes[3].reason
        assert "4 nan" in outcomes[4].reason
        assert result["task"] == "algotune/nap"
        assert result["best"]["node"] == 1
        assert result["best"]["test"] > 2 * result["seed_program"]["test"]
        assert result["seed_program"]["search"] == pytest.approx(1.0, abs=0.5)  # both sleep for as long
        assert record.confirmed  # a noisy task: the best was run again

    def test_the_test_part_stays_sealed_for_a_trial_too(self, nap):
        sealed, lock = seal(nap)
        with closing(open_sandbox("timed")) as box:
            seed = Candidate(program=nap.seed, origin="seed")
            assert evaluate(sealed, seed, SEARCH, box).ok
            with pytest.raises(StillSealed):
                evaluate(sealed, seed, TEST, box)
            lock.open()
            assert evaluate(sealed, seed, TEST, box).ok

    def test_several_workers_are_refused_before_anything_is_written(self, nap, tmp_path):
        with pytest.raises(ConfigError, match=r"takes one worker \(got 2\)"):
            run(nap, workers=2, iterations=1, out=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_resume_finds_the_same_problems(self, nap, tmp_path):
        run(nap, iterations=1, seed=0, out=tmp_path / "run")
        again = find_domain("algotune", data=tmp_path / "checkout", options={"problem": "nap"})
        assert resume(tmp_path / "run", again, more=1)["counts"]
        assert isinstance(again.evaluator, Speedup)
        again.evaluator.examiner.close()

    def test_an_outcome_counts_all_runs_of_the_candidate(self, nap):
        with closing(open_sandbox("timed")) as box:
            outcome = evaluate(nap, Candidate(program=nap.seed, origin="seed"), SEARCH, box)
        assert outcome.usage.wall_s > 4 * 0.02  # two problems, each warmed up and timed
        assert outcome.usage.cpu_s < outcome.usage.wall_s
        # A call never takes the same time twice, so that no two programs are said to answer alike.
        assert outcome.answer_id is not None


class TestAlone:
    def test_two_processes_take_turns(self, monkeypatch, tmp_path):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        other = "from progevo.exclusive import alone\nprint('waits', flush=True)\nwith alone():\n    print('has it')\n"
        with alone():
            held = subprocess.Popen(
                [sys.executable, "-c", other],
                stdout=subprocess.PIPE,
                env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            assert held.stdout.readline() == b"waits\n"
            with pytest.raises(subprocess.TimeoutExpired):
                held.wait(0.5)
        assert held.communicate(timeout=30)[0] == b"has it\n"

    def test_two_threads_take_turns(self, monkeypatch, tmp_path):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        order: list[str] = []

        def other() -> None:
            with alone():
                order.append("other")

        waiting = threading.Thread(target=other)
        with alone():
            waiting.start()
            waiting.join(0.2)
            order.append("first")
        waiting.join(30)
        assert order == ["first", "other"]

    def test_the_place_is_this_users(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with alone():
            assert lock_file().stat().st_mode & 0o777 == 0o600
        (tmp_path / "other").touch()
        lock_file().unlink()
        lock_file().symlink_to(tmp_path / "other")
        with pytest.raises(ConfigError, match="timed runs take turns"), alone():
            pass


class TestSummary:
    @pytest.mark.parametrize(
        ("speedups", "expected"),
        [([2.0, 2.0], 2.0), ([4.0, 0.25], 1.6), ([4.0, None], 1.6), ([1.0], 1.0), ([3.0, 6.0], 4.0)],
    )
    def test_nothing_counts_below_1(self, speedups, expected):
        results = {str(n): {"best": {"test": value}} for n, value in enumerate(speedups)}
        found = task.summarize(results)
        assert found["harmonic_mean"] == pytest.approx(expected)
        assert found["without_a_result"] == speedups.count(None)

    def test_the_published_figures_follow_from_the_same_rule(self, shared):
        """Of 18 models, the harmonic mean over 154 tasks, as it was computed from what their authors published."""
        told = json.loads((shared / "algotune" / "published_speedups.json").read_text())
        speedups, means = told["final_speedup"], told["harmonic_mean_with_floor_1"]
        assert (len(speedups), len(means)) == (154, 18)
        for model, mean in means.items():
            values = {name: _value(by_model.get(model)) for name, by_model in speedups.items()}
            results = {name: {"best": {"test": value}} for name, value in values.items()}
            assert task.summarize(results)["harmonic_mean"] == pytest.approx(mean, abs=1e-4)


def _value(text: str | None) -> float | None:
    with contextlib.suppress(TypeError, ValueError):
        return float(text)
    return None
