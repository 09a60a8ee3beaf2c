"""new-task and check-task: the starter is sound, and each mistake that an author can make is named in plain words."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from progevo.check_task import check_task
from progevo.domain import find_domain
from progevo.errors import ConfigError, RunError
from progevo.new_task import new_task
from progevo.sandbox.probe import open_sandbox
from progevo.sandbox.profile import load_profile


@pytest.fixture
def folder(tmp_path) -> Path:
    new_task("mine", tmp_path)
    return tmp_path / "mine"


def change(folder: Path, file: str, *pairs: tuple[str, str]) -> None:
    text = (folder / file).read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (folder / file).write_text(text)


class Kept:
    """A sandbox that stays open from test to test."""

    def __init__(self, box) -> None:
        self.run = box.run

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def box():
    with closing(open_sandbox("stdlib")) as made:
        yield Kept(made)


@pytest.fixture
def findings(folder, box, monkeypatch):
    """Checks the folder as it is by then."""
    monkeypatch.setattr("progevo.check_task.ENDLESS_S", 1)

    def opened(profile: str) -> Kept:
        load_profile(profile)
        return box

    return lambda: check_task(lambda: find_domain(str(folder)), opened)


def only(word: str, found) -> dict[str, str]:
    return {each.about: each.text for each in found if each.word == word}


class TestNewTask:
    def test_it_writes_a_folder_whose_task_has_that_name(self, folder):
        assert [path.name for path in sorted(folder.iterdir())] == ["moves.py", "prompt.md", "seed.py", "task.py"]
        domain = find_domain(str(folder))
        assert domain.name == "mine"
        assert [path.name for path in domain.sources] == ["moves.py", "prompt.md", "seed.py", "task.py"]

    @pytest.mark.parametrize("name", ["Mine", "my-task", "9", "class", "", "../x", "a/b"])
    def test_a_name_that_is_none_is_refused(self, tmp_path, name):
        with pytest.raises(ConfigError, match="cannot be called"):
            new_task(name, tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_what_is_there_is_left_alone(self, folder):
        (folder / "task.py").write_text("mine")
        with pytest.raises(RunError, match="there already"):
            new_task("mine", folder.parent)
        assert (folder / "task.py").read_text() == "mine"

    def test_two_folders_of_one_name_do_not_share_their_moves(self, folder, tmp_path):
        new_task("mine", tmp_path / "other")
        change(tmp_path / "other" / "mine", "moves.py", ('name="set-window"', 'name="other"'))
        names = [find_domain(str(path)).moves[0].name for path in (folder, tmp_path / "other" / "mine", folder)]
        assert names == ["set-window", "other", "set-window"]

    def test_what_was_edited_since_the_last_load_is_seen(self, folder):
        find_domain(str(folder))
        change(folder, "moves.py", ('name="set-window"', 'name="edited"'))
        assert find_domain(str(folder)).moves[0].name == "edited"


def test_the_starter_is_sound(findings):
    found = findings()
    assert [each for each in found if each.word != "ok"] == []
    assert {each.about for each in found} == {
        "loading", "prompt", "entry point", "moves", "parts", "seed", "limits", "cases", "determinism", "truth",
        "wrong programs", "score direction",
    }  # fmt: skip


#: The mistake, where it is made, and what is said about it.
TASK = "task.py"
MISTAKES = {
    "no Python": (TASK, [("def score(", "def score((")], "loading", "SyntaxError"),
    "domain() raises": (TASK, [("name=NAME,", "name=NAME + 1,")], "loading", "TypeError"),
    "cases differ from call to call": (
        TASK,
        [("evaluator=Calls(cases=CASES", "evaluator=Calls(cases={s: [[random.random()] * 60] * 40 for s in CASES}")],
        "loading",
        "fixed seed",
    ),
    "a prompt without the entry point": ("prompt.md", [("smooth(samples)", "f(x)")], "prompt", "never names 'smooth'"),
    "a seed without the entry point": ("seed.py", [("def smooth(", "def other(")], "entry point", "smooth"),
    "a seed that the gate refuses": ("seed.py", [("WINDOW = 1", "import os\n\nWINDOW = 1")], "entry point", "os"),
    "a marker without its twin": (
        "seed.py",
        [("WINDOW = 1", "# EVOLVE-BLOCK-START\nWINDOW = 1")],
        "markers",
        "pair up",
    ),
    "a seed that crashes": ("seed.py", [("len(near))", "0)")], "seed", "ends as crashed"),
    "a move that raises": ("moves.py", [("rng.randint(1, 8)", "rng.nothing()")], "moves", "AttributeError"),
    "a move into the forbidden": ("moves.py", [("sorted(near)[len(near) // 2]", "eval('1')")], "moves", "take-median"),
    "one part twice": (
        TASK,
        [('rng = random.Random(f"{NAME} {split}")', "rng = random.Random(0)")],
        "parts",
        "search cases too",
    ),
    "the same questions without ids": (
        TASK,
        [
            ('rng = random.Random(f"{NAME} {split}")', "rng = random.Random(0)"),
            ("case_ids={split: [tuple(case) for case in cases] for split, cases in CASES.items()},", ""),
        ],
        "parts",
        "hold nothing back",
    ),
    "a score with the wrong sign": (TASK, [("score=-math.sqrt", "score=math.sqrt")], "score direction", "minus"),
    "a wrong sign that no case gives away": (
        TASK,
        [("score=-math.sqrt", "score=math.sqrt"), (", cases=tuple(errors)", "")],
        "score direction",
        "larger-is-better",
    ),
    "cases of another metric": (TASK, [("cases=tuple(errors)", "cases=tuple(2 * e for e in errors)")], "cases", "say"),
    "answers by the clock": (
        TASK,
        [('frozenset({"math", "statistics"})', 'frozenset({"time"})')],
        "determinism",
        "other answers",
    ),
    "a score by lot": (
        TASK,
        [("errors = []", "errors = [random.random()]"), (", cases=tuple(errors)", "")],
        "determinism",
        "other scores",
    ),
    "the answer in the question": (
        TASK,
        [
            ("[noisy for noisy, _ in drawn(split)]", '[{"noisy": a, "clean": b} for a, b in drawn(split)]'),
            ("[tuple(case) for case in cases]", '[tuple(case["noisy"]) for case in cases]'),
        ],
        "truth",
        "argument 0['clean']",
    ),
    "nonsense that counts as perfect": (
        TASK,
        [("smooth = numbers(output, SAMPLES)", "smooth = output if isinstance(output, list) and output else clean")],
        "wrong programs",
        "BadOutput",
    ),
    "a profile that is not there": (TASK, [('profile="stdlib"', 'profile="none"')], "sandbox", "no sandbox profile"),
    "too little memory": (TASK, [("256 * 1024 * 1024", "1024")], "sandbox", "memory_bytes"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(folder, findings, mistake):
    file, pairs, about, words = MISTAKES[mistake]
    change(folder, file, *pairs)
    if mistake == "answers by the clock":
        change(
            folder,
            "seed.py",
            ("WINDOW = 1", "import time\n\nWINDOW = 1"),
            ("smoothed = []", "smoothed = []\n    x = time.time_ns()"),
        )
        change(folder, "seed.py", ("sum(near) / len(near)", "sum(near) / len(near) + x % 1000 * 1e-9"))
    if mistake == "the answer in the question":
        change(folder, "seed.py", ("smoothed = []", 'samples = samples["noisy"]\n    smoothed = []'))
    found = only("wrong", findings())
    assert about in found
    assert words in found[about]
    # One mistake is not blamed on everything.
    assert len(found) <= 2


EVALUATOR = """
class Own(Calls):
    @property
    def harness(self):
        return HERE / "harness.py"

    def inputs(self, split, /):
        return Inputs(files={FILES})

    def score(self, split, answer, /):
        return Score(score=-1.0)
"""


class TestAnEvaluatorOfOnesOwn:
    def make(self, folder: Path, harness: str, files: str = "{}") -> None:
        change(folder, TASK, ("from progevo import Domain", "from progevo import Inputs, Domain"))
        change(folder, TASK, ("\ndef domain(", EVALUATOR.replace("{FILES}", files) + "\n\ndef domain("))
        change(
            folder,
            TASK,
            ("evaluator=Calls(", "evaluator=Own("),
            ('RMSE", direction="minimize", aggregate="root_mean"', 'x", direction="minimize"'),
        )
        (folder / "harness.py").write_text(f"class BadOutput(Exception):\n    pass\n\n{harness}")

    def test_a_harness_that_never_calls_the_program_is_found(self, folder, findings):
        self.make(folder, "def run(entry, request, inputs):\n    return 1, []\n")
        assert "is the entry point called at all?" in only("wrong", findings())["limits"]

    def test_a_task_that_hands_out_its_own_file_is_found(self, folder, findings):
        harness = "def run(entry, request, inputs):\n    return entry([1.0] * 60), []\n"
        self.make(folder, harness, '{"notes.txt": HERE / "task.py"}')
        assert "the input notes.txt" in only("wrong", findings())["truth"]


def test_what_is_worth_a_look_is_noted_and_no_failure(folder, findings):
    change(folder, TASK, ("moves=MOVES,", 'splits=("search",),'))
    change(folder, "prompt.md", ((folder / "prompt.md").read_text(), ""))
    found = findings()
    assert only("wrong", found) == {}
    assert {"prompt", "parts"} <= set(only("note", found))


def test_a_scorer_that_stumbles_is_noted(folder, findings):
    change(folder, TASK, ("smooth = numbers(output, SAMPLES)", "smooth = list(output)"))
    assert "BadOutput would say why" in only("note", findings())["wrong programs"]


def progevo(*arguments: str, cwd: Path):
    return subprocess.run(
        [sys.executable, "-m", "progevo", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_the_commands(tmp_path):
    made = progevo("new-task", "mine", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert "progevo check-task ./mine" in made.stdout
    good = progevo("check-task", "./mine", "--json", cwd=tmp_path)
    assert good.returncode == 0
    assert {each["word"] for each in json.loads(good.stdout)} == {"ok"}
    (tmp_path / "mine" / "prompt.md").write_text("Do something.")
    bad = progevo("check-task", "./mine", cwd=tmp_path)
    assert bad.returncode == 1
    assert "wrong  prompt: it never names 'smooth'" in bad.stdout
    assert progevo("check-task", "./nothing", cwd=tmp_path).returncode == 2
    assert progevo("new-task", "mine", cwd=tmp_path).returncode == 2
