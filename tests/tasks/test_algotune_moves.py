"""tasks.algotune.moves: one change each, where it applies; right or wrong is for the check to say."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import random
import re

import numpy as np
import pytest

from progevo import gate
from progevo.tasks.algotune.moves import CHECKS, METHODS, MOVES, OVERWRITES, TOLERANCES
from progevo.tasks.algotune.problem import OWN, own
from progevo.tasks.algotune.task import IMPORTS
from progevo.types import GatePolicy
from tests.tasks.test_algotune import SMALL, module

BY_NAME = {move.name: move for move in MOVES}
POLICY = GatePolicy(imports=IMPORTS)
#: Written by somebody else, with everything under other names.
FOREIGN = """\
import bisect as b  # kept
import numpy as np, scipy.linalg
from numpy import linalg as la
from scipy import linalg as sl, signal
from scipy.integrate import solve_ivp as ivp


class Solver:
    def solve(self, problem):
        out = []
        for k in range(3):
            eye = np.eye(len(problem)); grid = np.arange(k)
            out.append(la.solve(problem + eye, grid))  # kept
            out.sort()
        scipy.linalg.svd(problem)
        return ivp(f, (0, 1), [1.0]), signal.correlate(out, out), sl.eigh(problem)
"""
ODD = {
    "empty": "",
    "no Python": "def solve(:\n",
    "nothing to change": "def solve(problem):\n    return problem\n",
    "names that are not imported": "def solve(p):\n    np.eye(3)\n    return solve_ivp(p, method='RK45')\n",
    "star arguments": "from scipy.linalg import solve\n\n\ndef f(*args):\n    return solve(*args)\n",
    "a relative import": "from . import solve\n\n\ndef f(a):\n    return solve(a)\n",
}


def test_names_and_descriptions():
    assert len(BY_NAME) == len(MOVES) == 7
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", move.name) and move.about.endswith(".") for move in MOVES)


@pytest.mark.parametrize("name", OWN)
def test_every_problem_of_ours_has_a_move_and_what_it_makes_still_runs(name):
    seed = own(name).seed.source
    problem = module(name).generate_problem(SMALL[name], random_seed=1)
    made = {move.rewrite(seed, random.Random(draw)) for move in MOVES for draw in range(8)} - {None}
    assert made
    right = 0
    for source in made:
        assert gate.check(source, POLICY, "Solver").ok
        changed = [line for line in difflib.ndiff(seed.splitlines(), source.splitlines()) if line[0] in "+-"]
        assert len([line for line in changed if line[0] == "+" and line[2:].strip()]) <= 3, changed
        names: dict = {}
        exec(compile(source, "program", "exec"), names)
        right += module(name).is_solution(problem, names["Solver"]().solve(problem))
    assert right >= 1


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
def test_calls_are_known_under_whatever_name(move):
    found = {move.rewrite(FOREIGN, random.Random(draw)) for draw in range(20)} - {None}
    assert found
    for source in found:
        ast.parse(source)
        assert "# kept" in source
        assert source.count("\n") <= FOREIGN.count("\n") + 2


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
def test_where_nothing_applies_it_says_so(move, odd):
    assert move.rewrite(ODD[odd], random.Random(1)) is None


def test_what_each_move_does_to_a_text():
    def one(name: str, source: str, draw: int = 0) -> str | None:
        return BY_NAME[name].rewrite(source, random.Random(draw))

    head = "from scipy.linalg import solve\nimport numpy as np\n\n\n"
    assert one("leave-check-out", f"{head}x = solve(a, b)\n") == f"{head}x = solve(a, b, check_finite=False)\n"
    assert one("leave-check-out", f"{head}x = solve(a, b, check_finite=False)\n") is None
    assert one("in-place", f"{head}x = solve(a, b)\n") == f"{head}x = solve(a, b, overwrite_a=True)\n"
    assert one("other-library", f"{head}x = solve(a, b)\n") == (
        "from scipy.linalg import solve\nimport numpy as np\nfrom numpy.linalg import solve as numpy_solve\n\n\n"
        "x = numpy_solve(a, b)\n"
    )
    assert one("other-library", f"{head}x = solve(a, b, assume_a='pos')\n") is None  # the other one has no such keyword
    loop = "for k in range(9):\n    y = np.eye(n) * k\n"
    assert one("made-once", head + loop) == f"{head}made = np.eye(n)\n{loop.replace('np.eye(n)', 'made')}"
    assert one("made-once", f"{head}for n in range(9):\n    y = np.eye(n)\n") is None  # another one each time
    assert one("made-once", f"{head}for k in range(9):\n    n = k\n    y = np.eye(n)\n") is None
    assert one("insort", "def f(x, y):\n    x.append(y + 1)\n    x.sort()\n") == (
        "from bisect import insort\ndef f(x, y):\n    insort(x, y + 1)\n"
    )
    assert one("insort", "def f(x, y, z):\n    x.append(y)\n    z.sort()\n") is None
    assert one("insort", "def f(x, y):\n    x.append(y)\n    x.sort(reverse=True)\n") is None


@pytest.mark.parametrize("table", [METHODS, TOLERANCES, CHECKS, OVERWRITES])
def test_the_tables_name_functions_and_keywords_that_there_are(table):
    """As scipy itself says."""
    for name, choices in table.items():
        module_name, _, function = name.rpartition(".")
        found = getattr(importlib.import_module(module_name), function)
        try:
            keywords = set(inspect.signature(found).parameters)
        except ValueError:  # compiled, and silent about it
            keywords = set(re.findall(r"\w+(?==)", found.__doc__.splitlines()[0]))
        assert not set(choices) - keywords or "options" in keywords, (name, keywords)


def test_a_move_finds_a_faster_way_that_holds():
    """Cross-correlation by way of Fourier transforms: the same numbers."""
    seed = own("lag_correlation").seed.source
    made = {BY_NAME["set-method"].rewrite(seed, random.Random(draw)) for draw in range(10)}
    [fast] = [source for source in made if source and "'fft'" in source]
    names: dict = {}
    exec(compile(fast, "program", "exec"), names)
    problem = module("lag_correlation").generate_problem(500, random_seed=3)
    solution = names["Solver"]().solve(problem)
    assert module("lag_correlation").is_solution(problem, solution)
    assert isinstance(solution, np.ndarray)
