"""tasks.integrals.moves: one change each, sound where it applies, and together better than the seed."""

from __future__ import annotations

import ast
import difflib
import math
import random
import re
import warnings
from pathlib import Path

import pytest

from progevo import gate
from progevo.tasks.integrals import task
from progevo.tasks.integrals.moves import KEYWORDS, MOVES
from progevo.types import Program

SEED = (Path(task.__file__).parent / "seed.py").read_text("utf-8")
BY_NAME = {move.name: move for move in MOVES}
#: Written by somebody else.
FOREIGN = """\
import math  # kept
from scipy.integrate import quad


def integrate(f, a, b):
    # kept
    options = {"limit": 70}
    if b == math.inf: return quad(f, a, b, **options)[0]
    return quad(f, a, b, epsabs=1e-9)[0]
"""
ODD = {
    "empty": "",
    "no Python": "def integrate(:\n",
    "one line": "integrate = lambda f, a, b: quad(f, a, b)[0]\n",
    "one-line function": "def integrate(f, a, b): return quad(f, a, b)[0]\n",
    "other arguments": "def integrate(g, low, high):\n    return quad(g, low, high)[0]\n",
    "no quad": "def integrate(f, a, b):\n    return 0.0\n",
    "star arguments": "def integrate(*args):\n    return quad(*args)[0]\n",
}


def integrated(source: str, f, a: float, b: float) -> float:
    names: dict = {}
    exec(compile(source, "program", "exec"), names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return names["integrate"](f, a, b)


def test_names_and_descriptions():
    assert len(BY_NAME) == len(MOVES) == 6
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", move.name) and move.about.endswith(".") for move in MOVES)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
def test_every_move_applies_to_the_seed_and_leaves_easy_integrals_right(move):
    for seed in range(6):
        changed = move.rewrite(SEED, random.Random(seed))
        assert changed is not None
        assert changed == move.rewrite(SEED, random.Random(seed))
        new = [line for line in difflib.ndiff(SEED.splitlines(), changed.splitlines()) if line.startswith("+ ")]
        assert 1 <= len(new) <= 10
        assert gate.check(changed, task.GATE, "integrate").ok
        assert integrated(changed, lambda x: x * x, 0.0, 3.0) == pytest.approx(9.0, rel=1e-9)
        assert integrated(changed, lambda x: math.exp(-x), 0.0, math.inf) == pytest.approx(1.0, rel=1e-7)
        root = integrated(changed, lambda x: math.exp(-x * x), -math.inf, math.inf)
        assert root == pytest.approx(math.sqrt(math.pi), rel=1e-7)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
@pytest.mark.parametrize("source", [*ODD.values(), FOREIGN], ids=[*ODD, "foreign"])
def test_odd_programs_are_changed_or_left_but_never_raise(move, source):
    for seed in range(4):
        changed = move.rewrite(source, random.Random(seed))
        assert changed is None or (changed != source and ast.parse(changed))
        if changed is not None and source is FOREIGN:
            assert changed.count("# kept") == 2
            assert "**options)" in changed


@pytest.mark.parametrize("name", KEYWORDS)
def test_a_keyword_replaces_its_old_value(name):
    source, rng = SEED, random.Random(0)
    for _ in range(10):
        source = BY_NAME[f"set-{name}"].rewrite(source, rng) or source
    assert source.count(f"{name}=") == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_walk_goes_on_computing(seed):
    rng, source = random.Random(seed), SEED
    for _ in range(12):
        before, source = source, rng.choice(MOVES).rewrite(source, rng) or source
        assert source == before or Program(source).twin != Program(before).twin
    assert gate.check(source, task.GATE, "integrate").ok
    assert integrated(source, lambda x: x * x, 0.0, 3.0) == pytest.approx(9.0, rel=1e-9)
