"""resume, report, replay, compare and the caps of run, as people use them; and real kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests.plain_run import unmeasured

TASK = """
from progevo import Domain, GatePolicy, Limits, Metric, Program
from progevo.evaluators.calls import Calls
from progevo.types import Score

def score(split, found):
    cases = tuple(abs(found[0] - 30.0) + 0.1 * case for case in range(8))
    return Score(score=-sum(cases) / 8, cases=cases)

def domain(*, data=None):
    return Domain(
        name="mine",
        entrypoint="solve",
        seed=Program("import time\\n\\ndef solve(x):\\n    time.sleep(0.02)\\n    return 20 + 1\\n"),
        metric=Metric(name="error", direction="minimize", aggregate="mean"),
        gate=GatePolicy(imports=frozenset({"time"})),
        evaluator=Calls(cases={"search": [0], "test": [1]}, score=score),
        profile="stdlib",
        limits=Limits(wall_s=20.0, cpu_s=9),
    )
"""


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "progevo", *map(str, arguments)],
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
    path.write_text(TASK)
    return path


def test_every_cap_and_choice_of_run_is_read(tmp_path, task):
    flags = {
        "--max-evaluations": "9",
        "--max-minutes": "30",
        "--patience": "7",
        "--target": "-1",
        "--schedule": "sync",
        "--workers": "2",
        "--repeats": "2",
        "--acceptance": "mean",
        "--top": "2",
    }
    flat = [word for pair in flags.items() for word in pair]
    code, out, err = progevo("run", "era", "--task", task, "--out", tmp_path / "r", "--json", *flat)
    assert code == 0, err
    result, config = json.loads(out), tomllib.loads((tmp_path / "r" / "config.toml").read_text())
    assert (result["budget"]["evaluations"], result["budget"]["seconds"]) == (9, 1800)
    assert result["stops"] == {"patience": 7, "target": -1}
    assert (result["schedule"], result["repeats"], result["acceptance"]) == ("sync", 2, "mean")
    assert 1 <= len(result["top"]) <= 2
    assert result["spent"]["evaluations"] <= 9
    for flag, value in flags.items():
        assert str(config[flag[2:].replace("-", "_")]).removesuffix(".0") == value
    assert "9 evaluations, 1800 seconds, 7 patience, -1 target, 2 workers, sync" in err
    # The same from the file that the run has written.
    again = progevo("run", "--config", tmp_path / "r" / "config.toml", "--out", tmp_path / "again", "--json")
    assert again[0] == 0, again[2]
    first, second = (unmeasured(tmp_path / name) for name in ("r", "again"))
    assert first[1:] == second[1:]


def wait_for_nodes(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        journal = folder / "journal.jsonl"
        if journal.exists() and journal.read_text().count('"event":"node"') >= count:
            return
        time.sleep(0.01)
    raise AssertionError("the run did not get going")


@pytest.mark.parametrize(("search", "workers", "schedule"), [("era", 1, "serial"), ("openevolve", 4, "sync")])
def test_a_run_that_is_really_killed_and_resumed_ends_as_if_nothing_had_happened(
    tmp_path, task, search, workers, schedule
):
    settings = ("run", search, "--task", task, "--iterations", 14, "--workers", workers, "--schedule", schedule)
    code, out, err = progevo(*settings, "--out", tmp_path / "whole", "--json")
    assert code == 0, err
    process = start(*settings, "--out", tmp_path / "r")
    for count in (3, 8):  # killed twice, the second time while it was going on with a run
        wait_for_nodes(tmp_path / "r", count)
        process.kill()
        process.communicate()
        process = start("resume", tmp_path / "r", "--json", cwd=tmp_path)
    resumed, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert unmeasured(tmp_path / "r") == unmeasured(tmp_path / "whole")
    ours, theirs = json.loads(resumed), json.loads(out)
    for name in ("spent", "started", "ended", "sandbox"):  # times, and those of the self-test
        ours.pop(name), theirs.pop(name)
    assert ours == theirs
    assert "questions open" in (tmp_path / "r" / "logs" / "resume.txt").read_text()


def test_a_run_is_resumed_reported_replayed_and_extended(tmp_path, task):
    folder = tmp_path / "r"
    assert progevo("run", "era", "--task", task, "--iterations", 4, "--out", folder)[0] == 0
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").unlink()
    code, out, err = progevo("report", folder, "--json")
    assert (code, json.loads(out)) == (0, result), err
    code, out, err = progevo("replay", folder, "--rescore", 1, "--json")
    found = json.loads(out)
    assert (code, found["differences"], found["nodes"]) == (0, [], 5), err
    assert all(row["same"] for row in found["rescored"])
    assert found["rescored"][0]["recorded"] == result["seed_program"]["search"]
    code, out, err = progevo("resume", folder, "--iterations", "+3", "--patience", 99, "--json")
    assert code == 0, err
    more = json.loads(out)
    assert (more["spent"]["iterations"], more["budget"]["iterations"], more["stops"]["patience"]) == (7, 7, 99)
    # Somebody else's hand in the folder.
    best = folder / "programs" / f"{more['best']['id']}.py"
    best.write_text(best.read_text() + "\n# touched\n")
    code, out, _ = progevo("replay", folder)
    assert code == 1
    assert "is not what was run: the file was changed" in out


def test_wrong_use_of_resume_and_compare_ends_with_2_and_a_word(tmp_path, task):
    folder = tmp_path / "r"
    assert progevo("run", "era", "--task", task, "--iterations", 1, "--out", folder)[0] == 0
    before = (folder / "journal.jsonl").read_bytes()
    for arguments, word in [
        (("resume", tmp_path / "nothing"), "is not a run folder"),
        (("best", tmp_path / "nothing"), "by default one under runs/"),
        (("show", tmp_path / "nothing", 3), f"{tmp_path / 'nothing'} is not a run folder"),
        (("show", tmp_path / "nothing", "--replies"), f"{tmp_path / 'nothing'} is not a run folder"),
        (("resume", folder, "--iterations", "3"), "takes +N"),
        (("resume", folder, "--allow-drift", "data"), "which has not changed"),
        (("replay", folder, "--rescore", "0"), "at least 1"),
        (("resume", folder / "journal.jsonl"), f"it is a file of the run {folder}: name that folder"),
        (("compare", folder, folder), "a run is named twice"),
        (("compare", folder, tmp_path), "there is no such file; name a run folder or its result.json"),
        (("compare", task), "it is not JSON"),
        (("compare", "--task", task, "--search", "era", "--seeds", 0), "--seeds is 0; it must be at least 1"),
        (
            ("compare", "--task", task, "--search", "era", "--search", "era"),
            "was given era, era; name each search once",
        ),
        (("compare", "--task", task, "--search", "era", "--out", folder), f"{folder} holds a run of its own"),
        (("run", "era", "--task", task, "--out", task), f"{task} is no folder; name another one with --out"),
        (("run", "era", "--task", task, "--out", task / "x"), f"{task} is no folder; name another one with --out"),
        (("best", folder, "--out", ""), "it is a folder; name a file"),
        (("best", folder, "--out", tmp_path / "none" / "b.py"), f"there is no folder {tmp_path / 'none'}; make it"),
        (("best", folder, "--out", task / "b.py"), f"{task} is no folder; name another place"),
        (("export", folder, "--out", tmp_path), f"{tmp_path} cannot be written: it is a folder; name a file"),
        (("plot", folder, "--out", tmp_path / "none" / "p.png"), f"there is no folder {tmp_path / 'none'}; make it"),
        (("compare", folder, "--seeds", "3"), "not both"),
        (("compare", "--task", task), "add --search NAME"),
        (("compare", "--task", task, "--search", "greedy", "--search", "nope", "--out", tmp_path / "none"), "'nope'"),
        (("run", "era", "--task", task, "--max-minutes", "-1"), "max_minutes is -1"),
        (("run", "era", "--task", task, "--schedule", "chaos", "--out", tmp_path / "x"), "the schedules are"),
        (("run", "era", "--task", task, "--acceptance", "x", "--out", tmp_path / "x"), "there are mean, no_regression"),
    ]:
        code, out, err = progevo(*arguments)
        assert (code, out) == (2, ""), err
        assert word in err
        assert "Traceback" not in err
    task.write_text(TASK.replace("30.0", "31.0"))
    code, _, err = progevo("resume", folder, "--iterations", "+1")
    assert code == 2
    assert "task: was" in err
    assert "--allow-drift task" in err
    assert (folder / "journal.jsonl").read_bytes() == before
    task.rename(tmp_path / "moved.py")
    assert "cannot" in progevo("resume", folder)[2] or "not there" in progevo("resume", folder)[2]
    code, _, err = progevo("resume", folder, "--task", tmp_path / "moved.py", "--allow-drift", "task")
    assert code == 0, err


def test_two_writers_are_one_too_many(tmp_path, task):
    process = start("run", "era", "--task", task, "--iterations", 500, "--out", tmp_path / "r")
    wait_for_nodes(tmp_path / "r", 1)
    code, _, err = progevo("resume", tmp_path / "r")
    assert code == 2
    assert "another process is writing the run" in err
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"progevo resume {tmp_path / 'r'} goes on with it" in err


def test_an_interrupt_while_held_out_cases_are_scored_is_heard(tmp_path, task):
    task.write_text(TASK.replace("time.sleep(0.02)", "time.sleep(1.5 if x == 1 else 0)"))
    process = start("run", "era", "--task", task, "--iterations", 1, "--out", tmp_path / "r")
    heard = ""
    while "held-out part" not in heard:
        heard = process.stderr.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping: waiting for 1 in flight" in err
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    if result["best"]["node"]:  # otherwise the seed was all that there was to score
        assert result["stop_reason"] == "interrupted"
        assert result["best"]["test"] is None
    code, out, err = progevo("resume", tmp_path / "r", "--json")
    assert code == 0, err
    assert json.loads(out)["best"]["test"] is not None


def test_searches_are_compared_at_equal_budgets(tmp_path, task):
    code, out, err = progevo(
        "compare", "--task", task, "--search", "best_of_n", "--search", "greedy", "--seeds", 2,
        "--max-evaluations", 4, "--out", tmp_path / "c", "--json",
    )  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    assert [row["name"] for row in found["rows"]] == ["best_of_n", "greedy"]
    assert [(row["seeds"], row["enough"]) for row in found["rows"]] == [(2, False)] * 2
    folders = sorted(path for path in (tmp_path / "c").iterdir())
    assert [path.name for path in folders] == [f"{name}_seed{n}" for name in ("best_of_n", "greedy") for n in (0, 1)]
    code, out, _ = progevo("compare", *folders)
    assert code == 0
    assert out.count("fewer than three seeds") == 3
    longer = tmp_path / "longer"
    shutil.copytree(folders[0], longer)
    assert progevo("resume", longer, "--max-evaluations", 6)[0] == 0
    code, _, err = progevo("compare", longer, folders[2])
    assert code == 2
    assert "their budget differs" in err
    assert "evaluations 6" in err
    assert "evaluations 4" in err
    assert os.listdir(tmp_path / "c") != []


#: A task whose score sends the signals that the file `trap` names, once the run in a folder that it names has begun.
TRAPPED = TASK.replace(
    "def score(split, found):\n",
    """
import os
import signal
from pathlib import Path

def score(split, found):
    trap = Path(__file__).with_name("trap")
    if trap.exists():
        folder, *names = trap.read_text().splitlines()
        if Path(folder).exists():
            trap.unlink()
            for name in names:
                os.kill(os.getpid(), getattr(signal, name))
""",
)


@pytest.mark.parametrize("signals", [["SIGINT"], ["SIGINT", "SIGTERM"]])
def test_a_comparison_that_is_interrupted_says_what_is_kept_and_goes_on(tmp_path, task, signals):
    task.write_text(TRAPPED)
    out = tmp_path / "c"
    (tmp_path / "trap").write_text("\n".join([str(out / "greedy_seed0"), *signals]))
    settings = ("compare", "--task", task, "--search", "best_of_n", "--search", "greedy", "--seeds", 1, "--out", out)
    code, shown, err = progevo(*settings, "--iterations", 4)
    assert (code, shown) == (130, ""), err
    assert "1 of 2 runs are finished" in err
    assert f"the same command with --out {out} goes on" in err
    assert "Traceback" not in err
    kept = (out / "best_of_n_seed0" / "journal.jsonl").read_bytes()
    code, _, err = progevo(*settings, "--iterations", 5)
    assert code == 2
    assert "by other settings (iterations 4 there, 5 here)" in err
    code, shown, err = progevo(*settings, "--iterations", 4, "--json")
    assert code == 0, err
    found = json.loads(shown)
    assert [(row["name"], row["seeds"]) for row in found["rows"]] == [("best_of_n", 1), ("greedy", 1)]
    assert (out / "best_of_n_seed0" / "journal.jsonl").read_bytes() == kept


def test_every_run_of_a_comparison_takes_its_own_config_again(tmp_path, task):
    code, _, err = progevo(
        "compare", "--task", task, "--search", "era", "--search", "greedy", "--seeds", 2, "--iterations", 1,
        "--out", tmp_path / "c",
    )  # fmt: skip
    assert code == 0, err
    for search in ("era", "greedy"):
        for seed in (0, 1):
            config = tomllib.loads((tmp_path / "c" / f"{search}_seed{seed}" / "config.toml").read_text())
            assert (config["search"], config["seed"]) == (search, seed)
