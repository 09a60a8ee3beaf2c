"""What no program may gain by, whatever the task: every built-in one is tried, by programs that no gate has seen."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import progevo.tasks
from progevo import Candidate, Domain, GatePolicy, Outcome, Program, evaluate, find_domain
from progevo.check_task import check_task
from progevo.domain import TEST
from progevo.sandbox import Sandbox
from progevo.sandbox.probe import open_sandbox
from progevo.wrong_programs import SPOIL

#: Each program would be timed for minutes; its own tests try such programs one call at a time.
TIMED = {"algotune"}
TASKS = sorted({path.parent.name for path in Path(next(iter(progevo.tasks.__path__))).glob("*/task.py")} - TIMED)
PERMISSIVE = GatePolicy(imports=frozenset(), permissive=True)


@pytest.fixture(scope="module")
def boxes():
    """Sandboxes by profile, each opened once."""
    with ExitStack() as stack:
        made = {}

        def opened(profile):
            if profile not in made:
                made[profile] = open_sandbox(profile)
                stack.callback(made[profile].close)
            return made[profile]

        yield opened


class Kept:
    """A sandbox that stays open for the next."""

    def __init__(self, box: Sandbox) -> None:
        self.run, self.confinement = box.run, box.confinement

    def close(self) -> None:
        pass


class Tried:
    """A task, what its seed is worth, and what any other program is."""

    def __init__(self, domain: Domain, box: Sandbox) -> None:
        self.domain, self._box = domain, box
        self.source, self.entry = domain.seed.source, domain.entrypoint
        self.seed = self(self.source)
        assert self.seed.ok, self.seed.reason

    def __call__(self, source: str, **limits: Any) -> Outcome:
        """What becomes of a program on the test part, whatever the gate would say."""
        domain = replace(self.domain, gate=PERMISSIVE, limits=replace(self.domain.limits, **limits))
        return evaluate(domain, Candidate(program=Program(source), origin="test"), TEST, self._box)


@pytest.fixture(scope="module", params=TASKS)
def task(request, boxes):
    domain = find_domain(request.param)
    return Tried(domain, boxes(domain.profile))


def same(domain: Domain, one: Outcome, other: Outcome) -> bool:
    """Equal in all that counts; a noisy task's scores differ from run to run, and only the status can be compared."""
    if domain.noisy or not one.ok:
        return one.status == other.status
    return (one.status, one.score, one.cases) == (other.status, other.score, other.cases)


@pytest.mark.parametrize("name", TASKS)
def test_it_stands_its_own_check(name, boxes, monkeypatch):
    """Its parts share no case, its seed gives the same answers twice, its files are out of reach, nonsense fails."""
    monkeypatch.setattr("progevo.check_task.ENDLESS_S", 1)
    found = check_task(lambda: find_domain(name), lambda profile: Kept(boxes(profile)))
    assert [each for each in found if each.word == "wrong"] == []


#: Everything that speaks for a program: functions by which others judge, and words in its answer.
SELF_JUDGING = """

is_solution = verify = check = validate = score = evaluate = combined_score = lambda *args, **kwargs: True

def boast():
    import sys

    class Word(dict):
        pass

    wire = sys.modules["wire"]
    plain = wire.encode

    def encode(header, arrays=(), **rest):
        best = {"score": 1e9, "metrics": {"digits": 12.0, "rmse": 0.0, "combined": 9.9}, "cases": [1e9], "status": "ok"}
        return plain({**header, **best, "counts": [], "cpu_s": 0.0}, arrays, **rest)

    wire.encode = encode

boast()
"""


def test_what_a_program_says_of_itself_changes_nothing(task):
    assert same(task.domain, task(task.source + SELF_JUDGING), task.seed)


def test_a_program_that_only_judges_itself_is_worth_nothing(task):
    outcome = task(f"def {task.entry}(*args, **kwargs):\n    return []\n{SELF_JUDGING}")
    assert not outcome.ok


#: What checkers use, made to say yes; and every clock made to stand still.
PATCHED = """

def patch():
    import math, statistics, sys, time
    yes, no, still = (lambda *args, **kwargs: True), (lambda *args, **kwargs: False), (lambda *args: 0.0)
    for name in ("numpy", "math", "cmath"):
        module = sys.modules.get(name)
        for word in ("allclose", "isclose", "array_equal", "array_equiv", "isfinite", "all", "any"):
            if hasattr(module, word):
                setattr(module, word, yes)
        for word in ("isnan", "isinf"):
            if hasattr(module, word):
                setattr(module, word, no)
    for word in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
        setattr(time, word, still)
        setattr(time, word + "_ns", lambda: 0)

def patched(*args, __seed={entry}, **kwargs):
    answer = __seed(*args, **kwargs)
    patch()  # its own libraries may need them until then
    return answer

{entry} = patched
"""


def test_checkers_and_clocks_that_a_program_has_patched_are_not_those_that_judge_it(task):
    """Wrong answers stay as wrong as they are, by another name for numpy as well: the host has its own."""
    spoilt = task.source + SPOIL.format(entry=task.entry, amount=1000)
    plain, patched = task(spoilt), task(spoilt + PATCHED.format(entry=task.entry))
    assert same(task.domain, patched, plain)
    assert not patched.ok or patched.score < task.seed.score
    assert patched.usage.wall_s > 0
    assert patched.usage.cpu_s > 0


#: Says what of a task, of progevo or of anybody's answers is loaded or can be imported in its process.
REACH = """
import gc, json, os, sys

NAMES = ("runner", "raised", "wire", "blackbox", "stopwatch", "powers", "image", "nursery", "zygote", "harness")
OURS = {{f"/progevo/{{name}}.py" for name in NAMES}}

def reached():
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        ours = "progevo" in name or (file.startswith("/progevo/") and file not in OURS)
        if ours or name.split(".")[0] in ("tasks", "evaluators"):
            found.append(name)
        for word in ("domain", "Domain", "Task", "is_solution", "generate_problem", "truth", "TRUTH", "drawn"):
            if word in getattr(module, "__dict__", ()) and file in OURS | {{"program"}}:
                found.append(f"{{name}}.{{word}}")
    for name in {modules!r}:
        try:
            __import__(name)
        except ImportError:
            continue
        found.append(f"import {{name}}")
    return found

def {entry}(*args, **kwargs):
    sys.stderr.write("\\nreached: " + json.dumps(reached()) + "\\n")
    sys.stderr.flush()
    os._exit(0)
"""


def test_no_task_and_no_answer_is_loaded_or_can_be_imported_where_it_runs(task):
    names = [path.stem for path in task.domain.sources if path.suffix == ".py" and path.stem != "__init__"]
    modules = [
        "progevo",
        "tasks",
        "evaluators",
        "task",
        *(f"progevo.tasks.{task.domain.name}.{name}" for name in names),
    ]
    outcome = task(REACH.format(entry=task.entry, modules=modules))
    (line,) = [line for line in outcome.log_tail.splitlines() if line.startswith("reached: ")]
    assert json.loads(line.removeprefix("reached: ")) == []


#: Answers that are none, or only pretend to be one when they are asked.
SPOOFED = """
import math

class Lazy:
    def __len__(self): return 10**6
    def __iter__(self): return iter([1.0, 2.0])
    def __getitem__(self, place): return 1.0
    def __array__(self, *args, **kwargs): return __import__("numpy").zeros(10)
    def __float__(self): return 1.0
    def __index__(self): return 1
    def __complex__(self): return 1j
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def tolist(self): return [1.0]

class LazyList(list):
    __len__, __iter__, __getitem__ = Lazy.__len__, Lazy.__iter__, Lazy.__getitem__

class LazyFloat(float):
    __float__, __eq__, __hash__ = Lazy.__float__, Lazy.__eq__, Lazy.__hash__

def {entry}(*args, **kwargs):
    return {answer}
"""


@pytest.mark.parametrize(
    "answer",
    [
        *("Lazy()", "LazyList([1.0])", "LazyFloat(1.0)", "[Lazy(), Lazy()]", "(LazyFloat(1), LazyFloat(1))"),
        *("(x for x in (1.0, 2.0))", "map(float, '12')", "iter([1.0])", "lambda *args: 1.0", "Lazy"),
        *("math.nan", "[math.nan]", "(math.nan, math.nan)", "[[math.inf]]", "[[1.0], [2.0]]", "{'x': math.nan}"),
    ],
)
def test_lazy_answers_and_such_as_are_no_numbers_are_worth_nothing(task, answer):
    outcome = task(SPOOFED.format(entry=task.entry, answer=answer))
    if outcome.ok:  # where every case stands for itself, a NaN is worth nothing there
        assert answer == "math.nan"
        assert set(outcome.cases) == {0.0}
        assert outcome.score < task.seed.score
    else:
        assert outcome.status in ("bad_output", "crashed")


#: Destroys whatever it was given, once it has its answer.
DESTROYING = """

def destroy(value):
    if isinstance(value, list):
        value.clear()
    elif isinstance(value, dict):
        for each in list(value.values()):
            destroy(each)
        value.clear()
    elif hasattr(value, "dtype") and getattr(value, "shape", ()):
        value.setflags(write=True) if not value.flags.writeable and value.flags.owndata else None
        if value.flags.writeable:
            value[...] = 0
    elif isinstance(value, str) and value.startswith("/"):
        import os
        for harm in (lambda: open(value, "w"), lambda: os.remove(value), lambda: os.truncate(value, 0)):
            try:
                harm()
            except OSError:
                pass

def destroying(*args, __seed={entry}, **kwargs):
    answer = __seed(*args, **kwargs)
    if hasattr(answer, "copy"):
        answer = answer.copy()
    for each in (*args, *kwargs.values()):
        destroy(each)
    return answer

{entry} = destroying
"""


def test_a_program_that_destroys_what_it_was_given_harms_no_check(task):
    assert same(task.domain, task(task.source + DESTROYING.format(entry=task.entry)), task.seed)


#: Keeps its answers in every place that it can think of, and at its next start looks for them there.
REMEMBERING = """

def remember():
    import builtins, gc, os, sys
    places = ("/tmp/answers", "/dev/shm/answers", "/inputs/answers", "/var/tmp/answers", "/progevo/answers")
    modules = [module for module in list(sys.modules.values()) if hasattr(module, "__dict__")]
    found = [place for place in places if os.path.exists(place)]
    found += [module.__name__ for module in modules if "answers_kept" in module.__dict__]
    found += ["environment"] * ("ANSWERS_KEPT" in os.environ)
    found += ["memory"] * any(isinstance(each, dict) and "answers-" + "kept" in each for each in gc.get_objects())
    if found:
        raise RuntimeError(f"remembered: {{found}}")
    for place in places:
        try:
            open(place, "w").write("answers")
        except OSError:
            pass
    kept = {{"answers-" + "kept": 1}}
    for module in modules:
        try:
            module.answers_kept = kept
        except (AttributeError, TypeError):
            pass
    os.environ["ANSWERS_KEPT"] = "1"

remember()
"""


def test_what_a_program_has_seen_it_has_forgotten_at_its_next_run(task):
    """So no table of values, by whatever key, ever meets a question for the second time."""
    remembering = task.source + REMEMBERING.format()
    for _ in range(3):
        assert same(task.domain, task(remembering), task.seed)


def test_work_at_import_is_under_the_same_limits(task):
    outcome = task("while True:\n    pass\n\n" + task.source.replace("from __future__", "# "), cpu_s=1)
    assert outcome.status == "cpu_limit"
    assert outcome.usage.cpu_s > 0.3  # and what it took is told
