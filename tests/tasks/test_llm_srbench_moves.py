"""tasks.llm_srbench.moves: one term or one step each, sound where they apply, and together better than the seed."""

from __future__ import annotations

import ast
import difflib
import random
import re

import numpy as np
import pytest

from progevo import find_domain, gate, run
from progevo.evaluators.equations.expression import parse
from progevo.tasks.llm_srbench import task
from progevo.tasks.llm_srbench.discover_moves import MOVES as DISCOVER_MOVES
from progevo.tasks.llm_srbench.moves import MOVES, PARAMETERS
from progevo.types import Program

SEED = task.linear(("t", "x", "v"))
DISCOVER = (task.HERE / "discover.py").read_text("utf-8")
BY_NAME = {move.name: move for move in MOVES}

#: Written by somebody else.
FOREIGN = """\
import numpy as np  # kept


def equation(x, v, p):
    # kept
    k = p[2]
    drag = k * v**3
    return p[0] * np.sin(x) - drag + (p[5] - x)
"""
ODD = {
    "empty": "",
    "no Python": "def equation(:\n",
    "a lambda": "equation = lambda x, params: params[0] * x\n",
    "one line": "def equation(x, params): return params[0] * x\n",
    "no inputs": "def equation(params):\n    return params[0]\n",
    "star arguments": "def equation(*args):\n    return args[0]\n",
    "no return": "def equation(x, params):\n    y = params[0] * x\n",
    "a bare return": "def equation(x, params):\n    return\n",
    "an index that is no number": "def equation(x, params):\n    n = 0\n    return params[n] * x\n",
    "all parameters used": "def equation(x, params):\n    return "
    + " + ".join(f"params[{n}] * x ** {n}" for n in range(PARAMETERS))
    + "\n",
    "nothing but a name": "def equation(x, params):\n    return x\n",
    "another name": "def other(x, params):\n    return params[0] * x\n",
}


def values(source: str, inputs: int = 3) -> np.ndarray:
    """What an equation gives for positive inputs and parameters of about one."""
    names: dict = {}
    exec(compile(source, "program", "exec"), names)
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        found: np.ndarray = names["equation"](*rng.uniform(0.5, 1.5, (inputs, 20)), rng.uniform(0.5, 1.5, PARAMETERS))
    return found


def used(source: str) -> set[int]:
    return {int(number) for number in re.findall(r"(?:params|p)\[(\d+)\]", source)}


def test_names_and_descriptions():
    for moves, count in ((MOVES, 10), (DISCOVER_MOVES, 10)):
        assert len({move.name for move in moves}) == len(moves) == count
        assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", move.name) and move.about.endswith(".") for move in moves)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
def test_every_move_changes_one_line_of_the_seed_into_an_equation_that_runs(move):
    for seed in range(8):
        changed = move.rewrite(SEED, random.Random(seed))
        assert changed is not None
        assert changed == move.rewrite(SEED, random.Random(seed))
        new = [line for line in difflib.ndiff(SEED.splitlines(), changed.splitlines()) if line.startswith("+ ")]
        assert next(line for line in new if line.strip("+ ") and "import" not in line).startswith("+     return")
        assert len([line for line in new if line.strip("+ ")]) <= 2  # the sum, and an import
        assert gate.check(changed, task.GATES["equation"], "equation").ok
        assert values(changed).shape == (20,)
        assert max(used(changed)) < PARAMETERS


@pytest.mark.parametrize("name", [move.name for move in MOVES if move.name.startswith("add-")])
def test_a_term_that_is_added_is_one_more_and_brings_parameters_of_its_own(name):
    for seed in range(8):
        changed = BY_NAME[name].rewrite(SEED, random.Random(seed))
        before, after = (next(line for line in text.splitlines() if "return" in line) for text in (SEED, changed))
        assert after.startswith(f"{before} + params[4] * ")
        assert used(changed) - used(SEED) <= {4, 5}


def test_a_term_that_is_dropped_leaves_the_others_as_they_were():
    terms = {"params[0] * t", "params[1] * x", "params[2] * v", "params[3]"}
    for seed in range(8):
        changed = BY_NAME["drop-term"].rewrite(SEED, random.Random(seed))
        kept = changed.splitlines()[-1].strip().removeprefix("return ").split(" + ")
        assert len(kept) == 3
        assert set(kept) < terms


def test_signs_and_brackets_of_a_sum_survive():
    x, v = np.random.default_rng(3).uniform(0.5, 1.5, (2, 20))
    for seed in range(10):
        changed = BY_NAME["add-drag"].rewrite(FOREIGN, random.Random(seed))
        assert changed is not None
        assert changed.count("# kept") == 2
        assert "p[1] *" in changed
        added = changed.splitlines()[-1].removeprefix("    return p[0] * np.sin(x) - drag + (p[5] - x) + ")
        names: dict = {}
        exec(changed, names)
        p = np.ones(PARAMETERS)
        with_term = names["equation"](x, v, p)
        p[1] = 0.0
        assert np.allclose(names["equation"](x, v, p), np.sin(x) - v**3 + (1.0 - x))
        assert np.allclose(
            with_term - names["equation"](x, v, p), eval(added, {"x": x, "v": v, "p": np.ones(10), "np": np})
        )


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
@pytest.mark.parametrize("source", [*ODD.values(), FOREIGN], ids=[*ODD, "foreign"])
def test_odd_programs_are_changed_or_left_but_never_raise(move, source):
    for seed in range(4):
        changed = move.rewrite(source, random.Random(seed))
        assert changed is None or (changed != source and ast.parse(changed))
        if source == ODD["all parameters used"] and changed is not None:
            assert used(changed) <= set(range(PARAMETERS))


@pytest.mark.parametrize("seed", range(6))
def test_a_walk_goes_on_computing(seed):
    rng, source = random.Random(seed), SEED
    for _ in range(25):
        before, source = source, rng.choice(MOVES).rewrite(source, rng) or source
        assert source == before or Program(source).twin != Program(before).twin
        assert gate.check(source, task.GATES["equation"], "equation").ok
        found = values(source)
        assert found.shape == (20,) or used(source) == set()
    assert max(used(source)) < PARAMETERS


SPEC = {"inputs": ["a", "b"], "output": "y", "about": {}}


def discovered(source: str) -> str:
    names: dict = {}
    exec(compile(source, "program", "exec"), names)
    x = np.random.default_rng(1).uniform(0.5, 2.0, (60, 2))
    found: str = names["discover"](x, 2.0 * x[:, 0] - x[:, 1], SPEC)
    return found


@pytest.mark.parametrize("move", DISCOVER_MOVES, ids=lambda move: move.name)
def test_every_move_for_many_problems_leaves_a_formula_that_can_be_read(move):
    for seed in range(4):
        changed = move.rewrite(DISCOVER, random.Random(seed))
        assert changed is not None
        assert gate.check(changed, task.GATES["discover"], "discover").ok
        assert not isinstance(parse(discovered(changed), {"a": "a", "b": "b"}), float)


@pytest.mark.parametrize("seed", range(3))
def test_a_walk_for_many_problems_goes_on_computing(seed):
    rng, source = random.Random(seed), DISCOVER
    for _ in range(12):
        source = rng.choice(DISCOVER_MOVES).rewrite(source, rng) or source
        assert not isinstance(parse(discovered(source), {"a": "a", "b": "b"}), float)


@pytest.mark.parametrize("move", DISCOVER_MOVES, ids=lambda move: move.name)
@pytest.mark.parametrize(
    "source", ["", "def discover(:", "def discover(x, y, spec):\n    return 'a'\n", "terms = []\n"]
)
def test_odd_programs_for_many_problems_are_left(move, source):
    assert move.rewrite(source, random.Random(0)) is None


def test_moves_improve_on_the_seed_and_the_gain_is_resolved(tmp_path):
    result = run(find_domain("llm_srbench"), iterations=6, seed=0, out=tmp_path / "run")
    assert result["gain"]["search"] > 0
    assert result["gain"]["test"] > 0
    assert result["gain"]["resolved"] is True
