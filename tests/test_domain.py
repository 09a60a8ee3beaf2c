"""Finding a task: by name, by folder, by file, by entry point; and what is said when there is none."""

from __future__ import annotations

import pytest

from progevo.domain import find_domain, task_names
from progevo.errors import TaskError

TASK = """
from progevo import Domain, GatePolicy, Metric, Program
from progevo.evaluators.calls import Calls

ABOUT = "Find a number."

def domain(*, data=None):
    return Domain(
        name="mine",
        entrypoint="solve",
        seed=Program("def solve(x): return 0"),
        metric=Metric(name="score", direction="maximize"),
        gate=GatePolicy(imports=frozenset()),
        evaluator=Calls(cases={"search": [0], "test": [1]}, score=lambda split, found: float(found[0])),
        prompt=str(data),
    )
"""


def test_a_built_in_task_is_found_by_name():
    assert find_domain("s3e1").name == "s3e1"
    assert task_names()["s3e1"]


def test_a_folder_and_a_file_are_tasks(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    for path in (tmp_path, tmp_path / "task.py"):
        assert find_domain(str(path), data=tmp_path / "x.csv").prompt == str(tmp_path / "x.csv")


def test_an_installed_entry_point_is_a_task(tmp_path, monkeypatch):
    (tmp_path / "mytasks.py").write_text(TASK)
    info = tmp_path / "mytasks-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mytasks\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[progevo.tasks]\nmine = mytasks\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_domain("mine").name == "mine"
    assert task_names()["mine"] == "Find a number."


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x = 1", "defines no function domain"),
        ("def domain(*, data=None): return 3", "returned int"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
    ],
)
def test_a_task_that_is_not_well_formed_is_refused(tmp_path, text, word):
    (tmp_path / "task.py").write_text(text)
    with pytest.raises(TaskError, match=word):
        find_domain(str(tmp_path))


@pytest.mark.parametrize("name", ["nothing", "./nothing.py"])
def test_a_task_that_is_not_there_is_refused(name):
    with pytest.raises(TaskError):
        find_domain(name)
