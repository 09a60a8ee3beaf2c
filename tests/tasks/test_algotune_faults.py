"""tasks.algotune: ways to look faster than one is, each with the outcome that is right."""

from __future__ import annotations

from contextlib import closing

import pytest

from progevo import Candidate, GatePolicy, Program, evaluate, find_domain
from progevo.domain import SEARCH
from progevo.evaluators.timing import Speedup
from progevo.sandbox.probe import open_sandbox
from progevo.tasks.algotune import task
from tests.tasks.algotune_checkout import checkout

#: The reference sleeps for 20 ms; a program that does too, and one that need not.
SLOW = """
import time
def work(problem):
    time.sleep(0.02)
    return {'squares': [v * v + 1.0 for v in problem['values']]}
"""
FAST = """
class Solver:
    def solve(self, problem):
        return {'squares': [v * v + 1.0 for v in problem['values']]}
"""

#: About as fast as the reference, whatever it does to look faster.
NO_FASTER = {
    "a cache by value": SLOW
    + """
CACHE = {}
def solve(problem):
    key = repr(problem)
    CACHE[key] = CACHE.get(key) or work(problem)
    return CACHE[key]
""",
    "a cache in a file": SLOW
    + """
import json, os
def solve(problem):
    path = '/tmp/' + str(abs(hash(repr(problem))))
    if not os.path.exists(path):
        json.dump(work(problem), open(path, 'w'))
    return json.load(open(path))
""",
    "patched clocks": SLOW
    + """
sleep = time.sleep
for name in ('perf_counter', 'monotonic', 'time', 'process_time'):
    setattr(time, name, lambda: 0.0)
    setattr(time, name + '_ns', lambda: 0)
class Solver:
    def solve(self, problem, **kwargs):
        return work(problem)
""",
    "work before it is asked": SLOW
    + """
class Solver:
    def __init__(self):
        self.kept = {}
    def solve(self, problem):
        self.kept.setdefault(len(self.kept), work(problem))
        return work(problem)
""",
}
#: Not a solution, and why.
INVALID = {
    "it judges itself": (
        """
is_solution = lambda *a: True
class Solver:
    is_solution = lambda *a: True
    def solve(self, problem):
        return {'squares': []}
""",
        "bad_output",
        "the task's check says no",
    ),
    "the reference is looked for": (
        """
import sys, gc
def solve(problem):
    for each in [*sys.modules.values(), *gc.get_objects()]:
        if hasattr(each, 'is_solution') or hasattr(each, 'generate_problem'):
            return each.Task().solve(problem)
    raise LookupError('nothing of it is here')
""",
        "crashed",
        "LookupError: nothing of it is here",
    ),
    "the task's files are looked for": (
        """
import os
def solve(problem):
    own = ('standin.py', 'trusted.py', 'excerpt.py', 'description.txt', 'generation.json')
    found = [name for _, _, names in os.walk('/') for name in names if name in own]
    raise LookupError(str(found))
""",
        "crashed",
        "LookupError: []",
    ),
    "numpy is patched": (
        """
import numpy as np
np.allclose = np.isclose = lambda *a, **k: True
np.all = lambda *a, **k: True
abs = lambda x: 0.0
def solve(problem):
    return {'squares': [0.0] * len(problem['values'])}
""",
        "bad_output",
        "the task's check says no",
    ),
    "a lazy list": (
        """
class Lazy(list):
    def __iter__(self):
        return iter([1.0])
    def __len__(self):
        return 4
def solve(problem):
    return {'squares': Lazy()}
""",
        "bad_output",
        "the solution holds a value of type program.Lazy",
    ),
    "a spoofed array": (
        """
class Array:
    __class__ = list
    shape = (4,)
    def __array__(self, *a, **k):
        return 1
    def __len__(self):
        return 4
def solve(problem):
    return {'squares': Array()}
""",
        "bad_output",
        "the solution holds a value of type program.Array",
    ),
    "a generator": (
        """
def solve(problem):
    return {'squares': (v * v + 1.0 for v in problem['values'])}
""",
        "bad_output",
        "the solution holds a value of type builtins.generator",
    ),
    "NaN, which the check lets pass": (
        """
def solve(problem):
    return {'squares': [float('nan')] * len(problem['values'])}
""",
        "bad_output",
        "the solution holds 4 nan",
    ),
    "None, over which the check stumbles": (
        """
def solve(problem):
    return None
""",
        "bad_output",
        "the check raised TypeError",
    ),
    "right for the first rows alone": (
        """
def solve(problem):
    right = [v * v + 1.0 for v in problem['values']]
    return {'squares': [*right[:-1], 0.0]}
""",
        "bad_output",
        "the task's check says no",
    ),
    "a little off": (
        """
def solve(problem):
    return {'squares': [1.0001 * (v * v + 1.0) for v in problem['values']]}
""",
        "bad_output",
        "the task's check says no",
    ),
    "too much work at import": (
        """
import time
time.sleep(30)
def solve(problem):
    return 1
""",
        "timeout",
        "its import took more than 0.5 s",
    ),
    "too much work in its constructor": (
        """
import time
class Solver:
    def __init__(self):
        time.sleep(30)
    def solve(self, problem):
        return 1
""",
        "timeout",
        "its import took more than 0.5 s",
    ),
    "ten times as slow": (
        """
import time
def solve(problem):
    time.sleep(0.02 if len(KEPT) == 0 else 3.0)
    KEPT.append(1)
KEPT = []
""",
        "timeout",
        "its timed call took more than 0.",
    ),
    "it dies": (
        """
import os
def solve(problem):
    os._exit(0)
""",
        "crashed",
        "exited with status 0",
    ),
}
#: At the end of a solver.
SPOIL = """
        problem['values'].clear()
        problem['order'].sort()
        return squares
"""


@pytest.fixture(scope="module")
def domain(tmp_path_factory):
    """One nap, of two problems a part; the gate lets everything pass, so that it is not what stops an attack."""
    before, task.COUNT = task.COUNT, {"search": 2, "test": 2}
    try:
        made = find_domain("algotune", data=checkout(tmp_path_factory.mktemp("a") / "b"), options={"problem": "nap"})
    finally:
        task.COUNT = before
    assert isinstance(made.evaluator, Speedup)
    made.evaluator.runs, made.evaluator.ready_s = 1, 0.5
    yield type(made)(**{**vars(made), "gate": GatePolicy(imports=frozenset(), permissive=True)})
    made.evaluator.examiner.close()


@pytest.fixture(scope="module")
def box():
    with closing(open_sandbox("timed")) as box:
        yield box


def outcome(domain, box, source: str):
    return evaluate(domain, Candidate(program=Program(source), origin="test"), SEARCH, box)


def test_an_honest_program_gets_what_it_is_worth(domain, box):
    found = outcome(domain, box, FAST)
    assert found.ok, found.reason
    assert found.score > 5
    assert found.score < 20_000  # never infinite
    assert found.metrics["speedup"] == found.score
    assert found.log_tail.count("times faster: reference") == 2


@pytest.mark.parametrize("name", NO_FASTER)
def test_what_only_looks_faster_is_not(domain, box, name):
    found = outcome(domain, box, NO_FASTER[name])
    assert found.ok, found.reason
    assert 0.3 < found.score < 1.6


@pytest.mark.parametrize("name", INVALID)
def test_what_is_no_solution_has_no_score(domain, box, name):
    source, status, reason = INVALID[name]
    found = outcome(domain, box, source)
    assert found.status == status, found.reason
    assert reason in found.reason


def test_a_problem_that_was_destroyed_is_checked_against_a_pristine_one(domain, box):
    destroying = (
        FAST.replace("return", "squares =").rstrip()
        + "\n        problem['values'].clear(); problem['order'].sort()\n        return squares\n"
    )
    found = outcome(domain, box, destroying)
    assert found.ok, found.reason


def test_a_function_does_as_well_as_a_class(domain, box):
    gated = type(domain)(**{**vars(domain), "gate": GatePolicy(imports=frozenset())})
    text = "def solve(problem):\n    return {'squares': [v * v + 1.0 for v in problem['values']]}\n"
    assert outcome(gated, box, text).ok
    assert outcome(gated, box, "def other(problem):\n    return 1\n").status == "gate_refused"
    both = "def solve(problem):\n    return None\n" + FAST
    assert outcome(gated, box, both).ok  # the class comes first
