"""A task's options, and tasks of several problems: a run for each, and a summary."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from progevo.domain import find_domain
from progevo.errors import ConfigError, ProposerError, TaskError
from progevo.options import problem_ids, typed
from progevo.problems import folders, run_each, summary, summary_lines
from tests.test_cli_runs import progevo

TASK = """
from progevo import Domain, GatePolicy, Metric, Program
from progevo.errors import TaskError
from progevo.evaluators.calls import Calls

IDS = ("add", "sub")

def problems(which=None, *, data=None):
    if which == "all":
        return [*IDS, "lacking"]
    if which in (None, *IDS):
        return [which or "add"]
    raise TaskError(f"there is no problem {which!r}; there are add, sub and all")

def summarize(results):
    best = [result["best"]["test"] for result in results.values()]
    return {"least": min(best), "unknown_figure": None}

def domain(*, data=None, problem: str | None = None, n: int | None = None, scale: float = 1.0):
    if problem == "lacking":
        raise TaskError("the problem lacking needs a package that is not there")
    return Domain(
        name=f"sums/{problem}",
        entrypoint="solve",
        profile="stdlib",
        seed=Program("def solve(x):\\n    return x + 1\\n"),
        metric=Metric(name="sum", direction="maximize"),
        gate=GatePolicy(imports=frozenset()),
        evaluator=Calls(
            cases={"search": [0, n or 5], "test": [1, 2]},
            score=lambda split, found: scale * sum(map(float, found)),
        ),
    )
"""


@pytest.fixture
def task(tmp_path) -> Path:
    path = tmp_path / "sums.py"
    path.write_text(TASK)
    return path


def test_options_reach_the_task_in_its_own_types(task):
    made = find_domain(str(task), options={"problem": "sub", "n": "7", "scale": "2.5"})
    assert made.name == "sums/sub"
    assert made.evaluator.inputs("search").request["cases"] == [0, 7]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": "7.5"}, "option n of .* a whole number.*'7.5'"),
        ({"scale": "large"}, "option scale of .* a number.*'large'"),
        ({"sizes": "3"}, "has no option 'sizes'; it has problem, n, scale"),
    ],
)
def test_an_option_that_is_none_or_of_another_type_is_refused(task, options, words):
    with pytest.raises(TaskError, match=words):
        find_domain(str(task), options=options)


def test_a_task_without_options_says_so():
    with pytest.raises(TaskError, match="'s3e1' has no option 'n'; it takes none: leave it out"):
        find_domain("s3e1", options={"n": "3"})


@pytest.mark.parametrize(
    "signature", ["n: int", "*, data=None, n: list[int] = []", "*, data=None, n=3", "*, n: int | float = 3"]
)
def test_what_states_no_plain_type_and_takes_no_keyword_alone_is_no_option(signature):
    space: dict = {}
    exec(f"from __future__ import annotations\ndef domain({signature}): ...", space)
    with pytest.raises(TaskError, match="no option 'n'; it takes none: leave it out"):
        typed("mine", space["domain"], {"n": "3"})


def test_a_signature_that_cannot_be_read_is_a_fault_of_the_task():
    space: dict = {}
    exec("from __future__ import annotations\ndef domain(*, n: Nothing = 3): ...", space)
    with pytest.raises(TaskError, match=r"signature of domain.*Nothing"):
        typed("mine", space["domain"], {"n": "3"})


@pytest.mark.parametrize("found", [[], ["a", "a"], [3], None])
def test_problems_must_give_names_each_once(found):
    module = ModuleType("m")
    module.problems = lambda which, *, data=None: found  # type: ignore[attr-defined]
    with pytest.raises(TaskError, match="problems"):
        problem_ids("mine", module, None, None)


def test_ids_that_would_share_a_folder_are_refused():
    with pytest.raises(ConfigError, match="'a/b' and 'a b' would share the folder"):
        folders(["a/b", "a b"], Path("out"))


@pytest.mark.parametrize("name", [".", "..", "...", "../x", "/etc"])
def test_no_id_is_a_way_out_of_the_folder(name):
    (folder,) = folders([name], Path("out")).values()
    assert folder.parent == Path("out")
    assert folder.name.strip(".")


@pytest.mark.parametrize(
    "figures", [{"x": float("nan")}, {"x": "text"}, {"rows": 3}, {"schema": None}, {"x": float("inf")}, {"x": True}]
)
def test_figures_that_are_none_are_refused_by_name(figures):
    row = {
        "seed_program": {"search": 1.0, "test": None},
        "best": {"search": 1.0, "test": None},
        "metric": {"name": "m", "direction": "maximize"},
        "gain": {"test": None, "resolved": None},
        "spent": {"evaluations": 1},
        "stop_reason": "iterations",
    }
    with pytest.raises(TaskError, match=repr(next(iter(figures)))):
        summary("mine", {"a": row}, lambda results: figures)
    assert summary("mine", {"a": row}, lambda results: {"y": 3, "z": 0.5, "w": None})["z"] == 0.5


@pytest.mark.parametrize("value", [20.5, float("nan"), float("inf"), "1e3", "nan", "2.0"])
def test_a_whole_number_is_one(task, value):
    with pytest.raises(TaskError, match="a whole number"):
        find_domain(str(task), options={"n": value})


@pytest.mark.parametrize("value", ["nan", "inf", float("nan")])
def test_a_number_is_finite(task, value):
    with pytest.raises(TaskError, match=r"scale of .* is a number"):
        find_domain(str(task), options={"scale": value})


def test_a_problem_that_cannot_be_run_ends_nothing_and_a_proposer_that_fails_ends_all(tmp_path):
    def start(name, folder):
        if name == "second":
            raise TaskError("it lacks a package")
        if name == "fourth":
            raise ProposerError("no answer")
        return {"name": name}

    found = run_each(start, ["first", "second", "third"], tmp_path)
    assert found == {"first": {"name": "first"}, "second": "it lacks a package", "third": {"name": "third"}}
    with pytest.raises(ProposerError):
        run_each(start, ["fourth", "first"], tmp_path)


def test_what_was_not_run_is_in_no_figure():
    found = summary("mine", {"a": "not there"}, lambda results: {"never": 1.0})
    assert (found["problems"], found["run"], "never" in found) == (1, 0, False)
    assert any("not run: not there" in line for line in summary_lines(found))


def test_each_problem_has_a_run_of_its_own_and_the_summary_is_the_tasks(tmp_path, task):
    out = tmp_path / "o"
    words = ("run", "era", "--task", task, "--problem", "all", "--iterations", 3, "--out", out, "--json")
    code, text, err = progevo(*words)
    assert code == 0, err
    found = json.loads(text)
    assert found == json.loads((out / "summary.json").read_text())
    assert [(row["problem"], row["error"] is None) for row in found["rows"]] == [
        ("add", True),
        ("sub", True),
        ("lacking", False),
    ]
    results = [json.loads((out / name / "result.json").read_text()) for name in ("add", "sub")]
    assert [result["task"] for result in results] == ["sums/add", "sums/sub"]
    assert found["rows"][0]["search"] == {"seed": 7.0, "best": results[0]["best"]["search"]}
    assert found["least"] == min(result["best"]["test"] for result in results)
    # Once more: what is finished stays, byte by byte; what was cut short goes on.
    before = (out / "add" / "journal.jsonl").read_bytes()
    journal = out / "sub" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    whole, cut = b"".join(lines), b"".join(lines[:4])
    journal.write_bytes(cut)
    code, text, err = progevo(*words)
    assert code == 0, err
    assert json.loads(text) == found
    assert (out / "add" / "journal.jsonl").read_bytes() == before
    assert len(journal.read_bytes().splitlines()) == len(whole.splitlines())
    code, _, err = progevo(*words[:-1], "--seed", 9)
    assert code == 2
    assert "other settings (seed 0 there, 9 here)" in err
    code, _, err = progevo("show", out)
    assert code == 2
    assert f"it holds the runs {out / 'add'}, {out / 'sub'}: name one" in err


def test_one_problem_is_a_run_like_any_and_can_be_resumed(tmp_path, task):
    run = tmp_path / "r"
    flags = ("--problem", "sub", "--n", "9", "--option", "scale=2")
    code, text, err = progevo("run", "--task", task, "--iterations", 2, "--out", run, "--json", *flags)
    assert code == 0, err
    assert json.loads(text)["task"] == "sums/sub"
    assert json.loads(text)["seed_program"]["search"] == 2 * (1 + 10)
    config = tomllib.loads((run / "config.toml").read_text())
    assert config["options"] == {"problem": "sub", "n": "9", "scale": "2"}
    code, text, err = progevo("resume", run, "--iterations", "+2", "--json")
    assert code == 0, err
    assert json.loads(text)["spent"]["iterations"] == 4
    code, _, err = progevo("run", "--config", run / "config.toml", "--out", tmp_path / "again")
    assert code == 0, err


def test_the_default_problem_is_named_in_the_settings(tmp_path, task):
    code, _, err = progevo("run", "--task", task, "--iterations", 1, "--out", tmp_path / "r")
    assert code == 0, err
    assert tomllib.loads((tmp_path / "r" / "config.toml").read_text())["options"] == {"problem": "add"}


def test_eval_gate_and_check_task_take_one_problem(tmp_path, task):
    program = tmp_path / "p.py"
    program.write_text("def solve(x):\n    return 10 * x\n")
    code, text, err = progevo("eval", program, "--task", task, "--problem", "sub", "--n", 3, "--json")
    assert (code, json.loads(text)["search"], json.loads(text)["task"]) == (0, 30.0, "sums/sub"), err
    assert progevo("gate", program, "--task", task, "--problem", "sub")[0] == 0
    assert "sums/sub" in progevo("check-task", task, "--problem", "sub", "--option", "scale=3")[1]
    for words in (("eval", program, "--task", task), ("compare", "--search", "era", "--task", task)):
        code, _, err = progevo(*words, "--problem", "all")
        assert code == 2
        assert "names 3 problems, add, sub, lacking" in err
    for wrong in (("--problem", "all"), ("--problem", "none"), ("--option", "zz=1"), ("--n", "many")):
        code, out, err = progevo("check-task", task, *wrong)
        assert (code, out) == (2, "")
        assert "progevo: " in err


def test_a_run_makes_its_task_once(tmp_path, task):
    """To draw problems and solve them by a reference can take minutes."""
    made = tmp_path / "made"
    task.write_text(
        TASK.replace(
            '    if problem == "lacking"', f"    open({str(made)!r}, 'a').write('x')\n    if problem == \"lacking\""
        )
    )
    for words in (("--problem", "sub"), ("--dry-run",)):
        made.write_text("")
        code, _, err = progevo("run", "--task", task, "--iterations", 1, "--out", tmp_path / "r", *words)
        assert (code, made.read_text()) == (0, "x"), err


def test_a_dry_run_of_a_group_says_how_many(task):
    code, out, _ = progevo("run", "--task", task, "--problem", "all", "--dry-run")
    assert code == 0
    assert "problems  3" in out


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_where_no_folder_can_be_made_a_group_says_so(tmp_path, task, place):
    (tmp_path / "file").write_text("")
    code, _, err = progevo("run", "--task", task, "--problem", "all", "--iterations", 1, "--out", tmp_path / place)
    assert code == 2
    assert "cannot be written" in err
    assert "Traceback" not in err
    assert "goes on" not in err


def test_a_group_is_not_put_into_a_run_and_one_of_which_nothing_runs_is_an_error(tmp_path, task):
    words = ("run", "--task", task, "--iterations", 1, "--out", tmp_path / "r")
    assert progevo(*words)[0] == 0
    code, _, err = progevo(*words, "--problem", "all")
    assert code == 2
    assert "holds a run of its own" in err
    lacking = tmp_path / "lacking.py"
    lacking.write_text(
        TASK.replace('[*IDS, "lacking"]', '["lacking", "also_lacking"]').replace('== "lacking"', "!= 'add'")
    )
    code, out, err = progevo("run", "--task", lacking, "--problem", "all", "--iterations", 1, "--out", tmp_path / "s")
    assert code == 2
    assert "0 of 2 problems run" in out
    assert "no problem could be run" in err


def test_an_option_given_twice_and_one_of_a_pair_are_usage_errors(tmp_path, task):
    for words in (("--problem", "add", "--option", "problem=sub"), ("--option", "scale=1", "--option", "scale=2")):
        code, _, err = progevo("run", "--task", task, *words)
        assert code == 2
        assert "given twice" in err
    (tmp_path / "initial.py").write_text("def f():\n    return 1\n")
    (tmp_path / "evaluator.py").write_text("def evaluate(path):\n    return {'combined_score': 1.0}\n")
    pair = ("--openevolve", tmp_path / "initial.py", tmp_path / "evaluator.py")
    code, _, err = progevo("run", "openevolve", *pair, "--problem", "x", "--dry-run")
    assert code == 2
    assert "has no options; leave out problem" in err


def test_an_option_without_a_value_is_a_usage_error(task):
    code, _, err = progevo("run", "--task", task, "--option", "scale")
    assert code == 2
    assert "NAME=VALUE" in err
