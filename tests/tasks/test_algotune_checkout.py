"""tasks.algotune over a checkout: what loads, what says why it does not, and types that survive the way."""

from __future__ import annotations

import ast
import json
from contextlib import closing

import pytest
from click.testing import CliRunner

from progevo import Candidate, Program, evaluate, find_domain, gate
from progevo.cli import main
from progevo.errors import ConfigError, DataError, TaskError
from progevo.evaluators.timing import Speedup
from progevo.sandbox.probe import open_sandbox
from progevo.tasks.algotune import excerpt, task
from progevo.tasks.algotune.problem import OWN
from tests.tasks.algotune_checkout import NAP, TASKS, checkout


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return checkout(tmp_path_factory.mktemp("algotune") / "checkout")


@pytest.fixture(scope="module")
def box():
    with closing(open_sandbox("timed")) as box:
        yield box


@pytest.fixture
def small(monkeypatch):
    """Two problems a part."""
    monkeypatch.setattr(task, "COUNT", {"search": 2, "test": 2})


def outcome(domain, box, source: str | None = None):
    domain.evaluator.runs = 1
    program = domain.seed if source is None else Program(source)
    found = evaluate(domain, Candidate(program=program, origin="test"), "search", box)
    domain.evaluator.examiner.close()
    return found


@pytest.mark.usefixtures("small")
class TestProblems:
    def test_a_task_is_described_sized_and_started_from_its_own_solver(self, root, box):
        domain = find_domain("algotune", data=root, options={"problem": "nap"})
        assert domain.name == "algotune/nap"
        assert domain.data.source == "AlgoTune, nap, n = 4, coarse"  # it sleeps: of CPU it takes nothing
        assert domain.data.rows == 4
        assert "What nap asks for." in domain.prompt
        assert "Category" not in domain.prompt
        assert domain.exclusive
        assert domain.noisy
        assert gate.check(domain.seed.source, domain.gate, domain.entrypoint).ok
        found = outcome(domain, box)
        assert found.ok, found.reason
        assert 0.5 < found.score < 2.0  # both sleep for as long

    def test_n_is_the_callers_if_given(self, root):
        domain = find_domain("algotune", data=root, options={"problem": "nap", "n": 7})
        assert domain.data.source == "AlgoTune, nap, n = 7"
        assert len(domain.case_ids["search"]) == len(domain.case_ids["test"]) == 2

    def test_values_that_json_does_not_know_go_there_and_back(self, root, box):
        """Sparse matrices, bytes, keys that are tuples, numpy scalars, complex vectors, an infinity of its own."""
        domain = find_domain("algotune", data=root, options={"problem": "rich"})
        assert outcome(domain, box).ok
        assert isinstance(domain.evaluator, Speedup)
        [instance, _] = domain.evaluator.instances["search"]
        assert instance.not_finite == {"inf": 1}
        lists = domain.seed.source.replace("[(matrix @ vector, text[::-1]),", "[[matrix @ vector, text[::-1]],")
        found = outcome(domain, box, lists)
        assert (found.status, found.reason) == ("bad_output", "invalid: problem 0: the task's check says no")

    def test_a_task_that_draws_anew_each_time_gives_both_sides_the_same(self, root, box):
        first = find_domain("algotune", data=root, options={"problem": "restless"})
        found = outcome(first, box)
        assert found.ok, found.reason
        again = find_domain("algotune", data=root, options={"problem": "restless"})
        assert first.data.sha256 != again.data.sha256  # a resumed run is told that its data has changed

    def test_the_same_seeds_make_the_same_instances_and_the_parts_differ(self, root):
        one, two = (find_domain("algotune", data=root, options={"problem": "nap"}) for _ in range(2))
        assert one.data == two.data
        assert one.case_ids == two.case_ids
        assert not set(one.case_ids["search"]) & set(one.case_ids["test"])

    @pytest.mark.parametrize(
        ("name", "word"),
        [
            ("broken", "broken cannot be used: of its own reference's solution .n = 4., the task's check says no"),
            ("lacking", "lacking needs nothing_of_this_name, sklearn_of_mars, which is not installed here"),
            ("nop", "has no problem 'nop'; it has nap; by one word, all, runnable, graph"),
            ("graph", "graph names 2 problems"),
        ],
    )
    def test_what_cannot_be_run_says_why(self, root, name, word):
        with pytest.raises(TaskError, match=word):
            find_domain("algotune", data=root, options={"problem": name})

    def test_a_folder_that_is_no_checkout_is_an_error(self, tmp_path):
        with pytest.raises(DataError, match="no folder AlgoTuneTasks"):
            find_domain("algotune", data=tmp_path)

    def test_sizes_that_are_not_there_are_an_error(self, tmp_path):
        root = checkout(tmp_path / "checkout")
        (root / "reports" / "generation.json").write_text(json.dumps({"nap": {"n": 4}}))
        with pytest.raises(TaskError, match="no size for rich: give one with --n"):
            find_domain("algotune", data=root, options={"problem": "rich"})
        (root / "reports" / "generation.json").write_text("[")
        with pytest.raises(DataError, match="published sizes"):
            find_domain("algotune", data=root, options={"problem": "rich"})


class TestGroups:
    def test_words_for_several(self, root):
        assert task.problems("all", data=root) == sorted(TASKS)
        assert task.problems("runnable", data=root) == ["broken", "nap", "restless", "rich"]
        assert task.problems("graph", data=root) == ["broken", "rich"]
        assert task.problems("nap", data=root) == ["nap"]
        assert task.problems(None, data=root) == ["broken"]

    def test_a_checkout_that_was_put_away_stands_beside_our_own(self, root, tmp_path, monkeypatch):
        monkeypatch.setenv("PROGEVO_DATA", str(tmp_path))
        assert task.problems("all") == list(OWN)
        for _ in range(2):
            done = CliRunner().invoke(main, ["data", "get", "algotune", "--from", str(root)])
            assert (done.exit_code, done.output) == (0, f"{tmp_path / 'algotune'}\n")
        assert task.problems(None) == [next(iter(OWN))]
        assert task.problems("all") == sorted(TASKS)
        assert task.problems("own") == list(OWN)
        assert task.found("nap", None).origin == "AlgoTune, nap"
        assert not (tmp_path / "algotune" / "AlgoTuneTasks" / "base.py").exists()

    @pytest.mark.parametrize("flags", [[], ["--url", "http://localhost/x"]])
    def test_it_is_not_downloaded(self, flags):
        done = CliRunner().invoke(main, ["data", "get", "algotune", *flags])
        assert done.exit_code == ConfigError.exit_code
        assert "give it with --from FOLDER" in done.output

    def test_what_is_put_away_has_to_be_a_checkout(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PROGEVO_DATA", str(tmp_path / "data"))
        done = CliRunner().invoke(main, ["data", "get", "algotune", "--from", str(tmp_path)])
        assert done.exit_code == DataError.exit_code
        assert not (tmp_path / "data").exists()


class TestExcerpt:
    def test_what_the_solver_does_not_need_is_left_out(self):
        text = excerpt.solver(NAP)
        tree = ast.parse(text)
        assert "is_solution" not in text
        assert "generate_problem" not in text
        assert "AlgoTuneTasks" not in text
        assert "UNUSED" not in text
        assert "super()" not in text
        assert "# stays" in text
        [solver] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        assert [node.name for node in solver.body if isinstance(node, ast.FunctionDef)] == [
            "__init__",
            "_helper",
            "solve",
        ]

    def test_names_are_followed_as_far_as_they_go(self):
        text = excerpt.solver(
            "from __future__ import annotations\nimport math, os\nfrom a import b as c, d\n"
            "from AlgoTuneTasks.base import Task\n"
            "LIMIT: int = 3\nTABLE = {LIMIT: math.pi}\ntry:\n    import fast\nexcept ImportError:\n    fast = None\n"
            "class Helper:\n    value = c\n"
            "class T(Task):\n    SCALE = 2\n    LEFT = 3\n"
            "    def solve(self, problem):\n        return Helper(), TABLE, self.SCALE, T.other(problem), fast\n"
            "    @staticmethod\n    def other(problem):\n        return problem\n"
            "    def generate_problem(self):\n        return os\n"
        )
        top = [type(node).__name__ for node in ast.parse(text).body]
        assert top == "ImportFrom Import ImportFrom AnnAssign Assign Try ClassDef ClassDef Assign".split()
        assert "import math\n" in text
        assert "from a import b as c\n" in text
        assert "@staticmethod" in text
        assert "LEFT" not in text
        assert text.endswith("T = Solver\n")

    def test_a_class_that_is_called_solver_too_gets_another_name(self):
        text = excerpt.solver(
            "from collections import OrderedDict as Solver\n\n"
            "class T:\n    def solve(self, é):\n        return Solver(é=é)\n"
        )
        names: dict = {}
        exec(text, names)
        assert names["Solver"]().solve(3) == {"é": 3}
        assert "OrderedDict as ItsSolver" in text

    def test_a_text_without_a_solver_is_an_error(self):
        with pytest.raises(TaskError, match="no class with a method solve"):
            excerpt.solver("class A:\n    pass\n")


def test_the_real_names_of_sizes_are_read(root, shared):
    """The published sizes as they were extracted: the adapter reads the same form."""
    told = json.loads((shared / "algotune" / "sizes.json").read_text())["tasks"]
    assert len(told) == 154
    assert {name: facts["n"] for name, facts in told.items()}["svd"] == 474
