"""The command line as people use it: a process of its own, its output, its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from progevo.search.catalogue import SEARCHES
from progevo.show import node_lines

TASK = """
from progevo import Domain, GatePolicy, Limits, Metric, Program
from progevo.evaluators.calls import Calls

def domain(*, data=None):
    return Domain(
        name="mine",
        entrypoint="solve",
        seed=Program({seed!r}),
        metric=Metric(name="error", direction="minimize"),
        gate=GatePolicy(imports=frozenset({{"time"}})),
        evaluator=Calls(cases={{"search": [0], "test": [1]}}, score=lambda split, found: -abs(found[0] - 30.0)),
        profile="stdlib",
        limits=Limits(wall_s=20.0, cpu_s=9),
    )
"""
SEED = "def solve(x):\n    return 20 + 1\n"
SLOW = "import time\n\ndef solve(x):\n    time.sleep(0.2)\n    return 20 + 1\n"


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "progevo.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def progevo(*arguments, **options):
    """Exit code, stdout, stderr."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@pytest.fixture
def task(tmp_path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(TASK.format(seed=SEED))
    return path


@pytest.fixture
def run_folder(tmp_path, task) -> Path:
    code, _, err = progevo("run", "era", "--task", task, "--iterations", 4, "--out", tmp_path / "r")
    assert code == 0, err
    return tmp_path / "r"


def test_run_shows_progress_on_stderr_and_the_result_on_stdout(tmp_path, task):
    code, out, err = progevo("run", "era", "--task", task, "--iterations", 3, "--out", tmp_path / "r", "--json")
    assert code == 0
    assert json.loads(out) == json.loads((tmp_path / "r" / "result.json").read_text())
    assert err.count("best on search") == 4
    assert "data      built-in" in err
    assert "\x1b" not in err  # plain lines where nobody looks


#: flag -> (value, where it is seen in the run's result or settings)
OPTIONS = {
    "--iterations": ("2", lambda result, config: result["budget"]["iterations"] == 2 == config["iterations"]),
    "--workers": ("2", lambda result, config: result["workers"] == 2 and result["schedule"] == "ordered"),
    "--seed": ("7", lambda result, config: result["seed"] == 7 == config["seed"]),
    "--proposer": ("mutate", lambda result, config: result["proposer"]["name"] == "mutate"),
    "--c-puct": ("0.5", lambda result, config: result["search"]["c_puct"] == 0.5 == config["constants"]["c_puct"]),
    "--set": (
        "c_puct=0.25",
        lambda result, config: result["search"]["c_puct"] == 0.25 == config["constants"]["c_puct"],
    ),
    "--sandbox": ("pool", lambda result, config: result["sandbox"]["rung"] == "pool"),
    "--limit": ("wall_s=7", lambda result, config: result["sandbox"]["limits"]["wall_s"] == 7),
}


@pytest.mark.parametrize("flag", OPTIONS)
def test_every_option_of_run_is_read(tmp_path, task, flag):
    value, seen = OPTIONS[flag]
    given = {"--iterations": "1", flag: value}
    flat = [word for pair in given.items() for word in pair]
    code, out, err = progevo("run", "era", "--task", task, "--out", tmp_path / "r", "--json", *flat)
    assert code == 0, err
    config = tomllib.loads((tmp_path / "r" / "config.toml").read_text())
    assert seen(json.loads(out), config)
    # The same through the environment and through a file.
    name = flag[2:].replace("-", "_")
    if name not in ("limit", "set"):
        env = {**os.environ, f"PROGEVO_RUN_{name.upper()}": value}
        fixed = () if name == "iterations" else ("--iterations", "1")
        code, out, _ = progevo("run", "era", "--task", task, "--out", tmp_path / "e", "--json", *fixed, env=env)
        assert seen(json.loads(out), tomllib.loads((tmp_path / "e" / "config.toml").read_text()))
        file = tmp_path / "run.toml"
        shown = value if value[0].isdigit() else f'"{value}"'
        file.write_text(f"{name} = {shown}\n")
        code, out, _ = progevo(
            "run", "era", "--task", task, "--out", tmp_path / "f", "--json", *fixed, "--config", file
        )
        assert seen(json.loads(out), tomllib.loads((tmp_path / "f" / "config.toml").read_text()))


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_runs_and_takes_its_own_config_again(tmp_path, task, search):
    code, out, err = progevo("run", search, "--task", task, "--iterations", 3, "--out", tmp_path / "r", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["search"]["name"] == search
    assert result["spent"]["iterations"] == 3
    again = ("run", "--config", tmp_path / "r" / "config.toml", "--out", tmp_path / "s", "--json")
    code, out, err = progevo(*again)
    assert code == 0, err
    assert json.loads(out)["search"] == result["search"]
    assert json.loads(out)["best"] == result["best"]


def test_constants_of_the_islands_are_set_by_name(tmp_path, task):
    given = ("num_islands=2", 'feature_dimensions=["score"]', "feature_bins={score=3}", "migration_rate=0.5")
    flags = [word for text in given for word in ("--set", text)]
    code, out, err = progevo(
        "run", "openevolve", "--task", task, "--iterations", 3, "--out", tmp_path / "r", "--json", *flags
    )
    assert code == 0, err
    result = json.loads(out)
    assert len(result["islands"]) == 2
    assert "tree" not in result
    assert {name: result["search"][name] for name in ("feature_bins", "migration_rate")} == {
        "feature_bins": {"score": 3},
        "migration_rate": 0.5,
    }
    code, out, _ = progevo("show", tmp_path / "r")
    assert "islands   2: 4 programs (3 1), " in out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "era"], "no task was named"),
        (["run", "era", "--task", "nothing"], "there is no task 'nothing'"),
        (["run", "annealing", "--task", "s3e1"], "the searches are era"),
        (["run", "era", "--task", "s3e1", "--speed", "9"], "No such option"),
        (
            ["run", "openevolve", "--task", "s3e1", "--set", "num_islands"],
            "was given 'num_islands'; it takes NAME=VALUE",
        ),
        (["run", "era", "--task", "s3e1", "--set", "=3"], "was given '=3'; it takes NAME=VALUE"),
        (["run", "era", "--task", "s3e1", "--set", "c_puct="], "was given 'c_puct='; it takes NAME=VALUE"),
        (["run", "era", "--task", "s3e1", "--set", "c_puct=abc"], "text in quotes ('name=\"word\"')"),
        (["run", "era", "--task", "s3e1", "--set", "c_puct='a'"], "c_puct is 'a'; it must be a number"),
        (
            ["run", "openevolve", "--task", "s3e1", "--set", "feature_dimensions=score"],
            "the value is written as in TOML",
        ),
        (["run", "openevolve", "--task", "s3e1", "--set", "islands=3"], "it takes population_size, archive_size"),
        (["run", "openevolve", "--task", "s3e1", "--c-puct", "3"], "does not take these constants: c_puct"),
        (["run", "era", "--task", "s3e1", "--limit", "wall_s"], "NAME=NUMBER"),
        (["run", "era", "--task", "s3e1", "--limit", "speed=3"], "there is no limit"),
        (
            ["run", "era", "--task", "s3e1", "--limit", "wall_s=3", "--limit", "cpu_s=2", "--limit", "wall_s=4"],
            "--limit was given wall_s twice, as 3.0 and as 4.0",
        ),
        (["run", "era", "--task", "s3e1", "--set", "c_puct=1", "--set", "c_puct=2"], "--set was given c_puct twice"),
        (["run", "era", "--task", "s3e1", "--set", "c_puct=3", "--c-puct", "2"], "is 2.0 by itself and 3 among"),
        (["run", "era", "--task", "s3e1", "--data", "nothing.csv"], "nothing.csv"),
        (["run", "era", "--task", "s3e1", "--limit", "memory_bytes=1e6"], "needs at least 536870912"),
        (["show", "nothing"], "nothing"),
        (["best", "nothing"], "nothing is not a run folder: it does not exist"),
        (["eval", "nothing.py", "--task", "s3e1"], "cannot be read"),
        (["eval", "nothing.py"], "no task was named"),
        (["eval", ".", "--task", "s3e1"], "the program . cannot be read: it is a folder; name a file"),
        (["run", "s3e1"], "'s3e1' is a task, and no search: progevo run era --task s3e1"),
        (["run", "mine.py"], "'mine.py' is a task, and no search: progevo run era --task mine.py"),
        (["run", "era", "--task", "s3e1", "--proposer", "recorded:"], "there is no proposer 'recorded:'"),
        (["compare"], "name runs (progevo compare RUN RUN), or --task, and a --search for each"),
        (["compare", "--task", "s3e1", "--search", "era", "--html", "none/a.html"], "there is no folder none; make it"),
        (["bench", "sandbox", "--plot", "none/a.png"], "there is no folder none; make it, or name another place"),
        (["bench", "sandbox", "--plot", "a.txt"], "a.txt has no ending of a picture"),
        (["data", "get", "nothing"], "there is no task"),
        (["doctor", "--profile", "nothing"], "there is no sandbox profile"),
        (["bench", "search", "--size", "0"], "0"),
        (["dance"], "No such command"),
    ],
)
def test_wrong_use_ends_with_2_and_a_word(tmp_path, arguments, word):
    code, out, err = progevo(*arguments, cwd=tmp_path)
    assert code == 2
    assert word in err
    assert "Traceback" not in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_without_bwrap_the_run_refuses_with_3_and_nothing_is_executed(tmp_path, task):
    task.write_text(TASK.format(seed=f"open({str(tmp_path / 'executed')!r}, 'w')\n{SEED}"))
    env = {**os.environ, "PATH": str(tmp_path / "empty")}
    for arguments in (("run", "era", "--out", tmp_path / "r"), ("eval", tmp_path / "seed.py")):
        (tmp_path / "seed.py").write_text(SEED)
        code, out, err = progevo(*arguments, "--task", task, env=env)
        assert code == 3
        assert "apt-get install bubblewrap" in err
        assert out == ""
    assert not (tmp_path / "r").exists()
    assert not (tmp_path / "executed").exists()
    code, out, _ = progevo("doctor", env=env)
    assert code == 3
    assert "apt-get install bubblewrap" in out


def test_show_and_best_read_a_run(run_folder):
    code, out, _ = progevo("show", run_folder)
    assert code == 0
    assert "4 iterations" in out
    assert progevo("show", run_folder / "result.json")[1] == out
    assert json.loads(progevo("show", run_folder, "--json")[1])["schema"] == "progevo.result/1"
    node = json.loads(progevo("show", run_folder, "0", "--json")[1])
    assert (node["origin"], node["status"], node["source"]) == ("seed", "ok", SEED)
    assert "return 20 + 1" in progevo("show", run_folder, "0")[1]
    code, out, _ = progevo("best", run_folder)
    assert out == (run_folder / "best.py").read_text()
    code, _, err = progevo("show", run_folder, "99")
    assert code == 2
    assert "its nodes are 0 to 4" in err


def test_a_program_says_nothing_to_the_terminal_that_shows_it():
    found = {
        **dict.fromkeys(("index", "parent", "origin", "status", "score", "reason", "stage", "program")),
        "metrics": {"\x1b[2J": 1.0},
        "measured": {},
        "log_tail": "\x1b]0;title\x07",
        "source": "x = '\x1b[31m\u202e\ud800'\n\tpass\r\n",
    }
    shown = "\n".join(node_lines(found))
    assert shown.endswith("x = '\\u001b[31m\\u202e\\ud800'\n\tpass\\u000d\n")
    assert not set(shown) & {"\x1b", "\x07", "\r", "\u202e"}


def test_a_run_without_a_result_is_shown_as_what_it_is(run_folder):
    (run_folder / "result.json").unlink()
    code, out, _ = progevo("show", run_folder)
    assert code == 0
    assert "5 nodes and no result.json" in out
    assert "solve" in progevo("best", run_folder)[1]


def test_eval_says_what_one_program_is_worth_on_search(tmp_path, task):
    file = tmp_path / "one.py"
    for source, code, word in [
        (SEED, 0, "ok: error 9.000000 on the search part, built-in"),
        ("def solve(x): return 1 / 0", 1, "crashed: ZeroDivisionError: division by zero (line 1)"),
        ("import os\ndef solve(x): return 1", 1, "gate_refused: line 1: "),
        ("def solve(x): return", 1, "bad_output: "),
    ]:
        file.write_text(source)
        got, out, _ = progevo("eval", file, "--task", task)
        assert (got, out[: len(word)]) == (code, word)
        found = json.loads(progevo("eval", file, "--task", task, "--json")[1])
        assert (found["search"] is None) == (code == 1)


def test_gate_lists_findings_by_line(tmp_path, task):
    file = tmp_path / "one.py"
    file.write_text("import os\n\ndef solve(x):\n    return eval('1')\n")
    code, out, _ = progevo("gate", file, "--task", task)
    assert code == 1
    assert [line.split(":")[1] for line in out.splitlines()] == ["1", "4"]
    assert len(json.loads(progevo("gate", file, "--task", task, "--json")[1])["findings"]) == 2
    file.write_text(SEED)
    assert progevo("gate", file, "--task", task)[0] == 0


def test_tasks_doctor_and_bench_answer(tmp_path):
    assert "s3e1" in progevo("tasks")[1]
    assert "s3e1" in json.loads(progevo("tasks", "--json")[1])
    code, out, _ = progevo("doctor", "--json")
    assert code == 0
    assert json.loads(out)["sandbox"] == "works"
    code, out, _ = progevo("bench", "search", "--size", "50", "--json")
    assert json.loads(out)["schema"] == "progevo.bench/1"
    assert [len(json.loads(out)[name]) for name in ("rows", "islands", "outside", "loop")] == [1, 1, 2, 2]
    code, out, _ = progevo("bench", "search", "--size", "50")
    trees, islands, loop = out.split("\n\n")
    # A title, a head and one row; for the islands also a word on OpenEvolve, installed or not.
    assert [len(table.splitlines()) for table in (trees, islands)] == [3, 4]
    assert "OpenEvolve" in islands.splitlines()[3]
    for word in ("events a second on disk", "outside candidates", "candidates a second"):
        assert word in loop


def wait_for_nodes(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        journal = folder / "journal.jsonl"
        if journal.exists() and journal.read_text().count('"event":"node"') >= count:
            return
        time.sleep(0.05)
    raise AssertionError("the run did not get going")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_drains_and_leaves_a_readable_run(tmp_path, task, number):
    task.write_text(TASK.format(seed=SLOW))
    process = start("run", "era", "--task", task, "--iterations", 500, "--workers", 2, "--out", tmp_path / "r")
    wait_for_nodes(tmp_path / "r", 3)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping: waiting for" in err
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    assert result["stop_reason"] == "interrupted"
    assert (result["best"]["test"] is None) == (result["best"]["node"] == 0)  # the seed alone is not worth a look
    assert result["counts"]["sandbox_lost"] == 0


def test_a_second_interrupt_ends_at_once(tmp_path, task):
    """While the seed runs: what is in flight is known then, and takes long enough."""
    task.write_text(TASK.format(seed="import time\n\ndef solve(x):\n    time.sleep(15)\n    return 20 + 1\n"))
    process = start("run", "era", "--task", task, "--iterations", 500, "--out", tmp_path / "r")
    for word in ("folder ", "stopping: waiting for 1 in flight"):
        while word not in (line := process.stderr.readline()):
            assert line, f"ended before it said {word!r}"
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"progevo resume {tmp_path / 'r'} goes on with it" in err
    assert "Traceback" not in err
    *others, last = (json.loads(line) for line in (tmp_path / "r" / "journal.jsonl").read_text().splitlines())
    assert [event["event"] for event in others] == ["started"]
    assert (last["event"], last["stop_reason"]) == ("ended", "interrupted")


def test_what_the_gate_says_of_a_whole_text_names_no_line(tmp_path, task):
    file = tmp_path / "one.py"
    for source, told in [
        (b"", "gate_refused: the program is empty; define a function 'solve'\n"),
        (b"x = 1\n", "gate_refused: the program does not define 'solve'; define it at the top level\n"),
    ]:
        file.write_bytes(source)
        code, out, _ = progevo("eval", file, "--task", task)
        assert (code, out) == (1, told)


def test_a_program_that_is_no_utf_8_is_named_with_its_byte(tmp_path, task):
    file = tmp_path / "one.py"
    file.write_bytes(b"def solve(x):\n    return '\xe9'\n")
    code, out, err = progevo("eval", file, "--task", task)
    assert (code, out) == (2, "")
    assert f"{file} cannot be read: it is not UTF-8 text (byte 0xe9 in line 2); save it as UTF-8" in err


def test_where_no_browser_opens_the_page_is_named(run_folder):
    env = {**os.environ, "BROWSER": "false", "PATH": os.path.dirname(sys.executable)}
    code, out, err = progevo("report", run_folder, "--open", env=env)
    assert code == 0
    assert f"page      {run_folder / 'report.html'}" in out
    assert f"no browser could be opened on this machine; open {run_folder / 'report.html'} in one yourself" in err
    assert f"progevo view {run_folder}" in err


def test_files_of_another_version_or_damaged_say_what_to_do(run_folder):
    result, journal = run_folder / "result.json", run_folder / "journal.jsonl"
    text, lines = result.read_text(), journal.read_bytes()
    for wrong, told in [
        (text.replace("progevo.result/1", "progevo.result/2"), "progevo report RUN writes the result of a run anew"),
        ("{", "name a run folder or its result.json"),
        ("[1]", "is no result of a run"),
    ]:
        result.write_text(wrong)
        code, out, err = progevo("show", run_folder)
        assert (code, out) == (2, "")
        assert str(result) in err
        assert told in err
    assert progevo("report", run_folder)[0] == 0  # which is what they say
    assert result.read_text() == text
    journal.write_bytes(lines.replace(b"progevo.journal/1", b"progevo.journal/9", 1))
    assert "read it with the version that wrote it" in progevo("show", run_folder, 0)[2]
    journal.write_bytes(lines + b"garbage\n")
    code, _, err = progevo("report", run_folder)
    assert code == 2
    assert f"line {lines.count(bytes([10])) + 1}, is damaged" in err
    assert "cut the file off before that line, and progevo resume goes on from there" in err
    journal.write_bytes(lines)
    assert progevo("resume", run_folder)[0] == 0
    journal.write_bytes(b"")
    code, out, err = progevo("export", run_folder)
    assert (code, out) == (2, "")
    assert "holds a journal without a start" in err
