"""tasks.hyp2f1.moves: one textbook step each, sound where it applies, and better than the seed once they add up."""

from __future__ import annotations

import ast
import difflib
import functools
import math
import random
import re
import warnings
from pathlib import Path

import pytest
from scipy import special

from progevo import find_domain, gate, run
from progevo.tasks.hyp2f1 import task
from progevo.tasks.hyp2f1.moves import MOVES
from progevo.types import Move, Program

SEED = (Path(task.__file__).parent / "seed.py").read_text("utf-8")
BY_NAME = {move.name: move for move in MOVES}


def after(*names: str, seed: int = 0) -> str:
    """The seed program after some moves."""
    rng, source = random.Random(seed), SEED
    for name in names:
        changed = BY_NAME[name].rewrite(source, rng)
        assert changed is not None, name
        source = changed
    return source


#: Programs to which the moves apply that find nothing in the seed.
BEFORE = {
    "watch-cancellation": after("own-series"),
    "watch-terms": after("inverse"),
    "stop-early": after("own-series"),
    "sum-exactly": after("own-series"),
    "set-number": after("pfaff"),
}
#: Written by somebody else.
FOREIGN = """\
import math
from scipy import special

TINY = 1e-300  # kept


def hyp2f1(a, b, c, z):
    # kept
    if z < 0:
        return math.exp(-a * math.log1p(-z)) * special.hyp2f1(a, c - b, c, z / (z - 1))
    if abs(z) < TINY: return 1.0
    return special.hyp2f1(a, b, c, z)
"""
ODD = {
    "empty": "",
    "no Python": "def hyp2f1(:\n",
    "one line": "hyp2f1 = lambda a, b, c, z: special.hyp2f1(a, b, c, z)\n",
    "one-line function": "def hyp2f1(a, b, c, z): return special.hyp2f1(a, b, c, z)\n",
    "other arguments": "def hyp2f1(p, q, r, x):\n    return special.hyp2f1(p, q, r, x)\n",
    "star arguments": "def hyp2f1(*args):\n    return special.hyp2f1(*args)\n",
    "no call of SciPy's": "def hyp2f1(a, b, c, z):\n    return 1.0\n",
    "only a docstring": 'def hyp2f1(a, b, c, z):\n    """special.hyp2f1"""\n',
    "a series of its own": "def series(x):\n    return x\n\n\n" + SEED,
    "a series without a loop": "def series(a, b, c, z):\n    pass\n\n\n" + SEED,
    "an inverse of its own": "def inverse(x):\n    return x + 1\n\n\n" + SEED,
    "huge": SEED + "\n\nx = 1" * 20_000,
}


def called(source: str, *point: float) -> float:
    names: dict = {}
    exec(compile(source, "program", "exec"), names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return names["hyp2f1"](*point)


@functools.cache
def walk(seed: int, steps: int = 15) -> list[tuple[Move, str, str]]:
    rng, source = random.Random(f"walk {seed}"), SEED
    taken: list[tuple[Move, str, str]] = []
    while len(taken) < steps:
        move = rng.choice(MOVES)
        changed = move.rewrite(source, rng)
        if changed is not None:
            taken.append((move, source, changed))
            source = changed
    return taken


def test_names_and_descriptions():
    assert len(BY_NAME) == len(MOVES) == 10
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", move.name) and move.about.endswith(".") for move in MOVES)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
def test_every_move_applies_to_the_seed_or_to_what_another_made_of_it(move):
    assert (move.rewrite(SEED, random.Random(0)) is None) == (move.name in BEFORE)
    source = BEFORE.get(move.name, SEED)
    for seed in range(5):
        changed = move.rewrite(source, random.Random(seed))
        assert changed is not None
        assert changed == move.rewrite(source, random.Random(seed))


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
def test_no_move_makes_an_easy_value_wrong(move):
    source = BEFORE.get(move.name, SEED)
    for seed in range(6):
        changed = move.rewrite(source, random.Random(seed))
        assert changed is not None
        for point in [(0.3, 0.7, 1.9, -30.0), (0.3, 0.8, 1.9, -3.0), (1.3, 0.7, 2.1, -0.6), (0.3, 0.7, 1.9, 0.95)]:
            found = called(changed, *point)
            assert type(found) is float
            assert found == pytest.approx(float(special.hyp2f1(*point)), rel=1e-10)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
@pytest.mark.parametrize("source", [*ODD.values(), FOREIGN], ids=[*ODD, "foreign"])
def test_odd_programs_are_changed_or_left_but_never_raise(move, source):
    for seed in range(4):
        changed = move.rewrite(source, random.Random(seed))
        assert changed is None or (changed != source and ast.parse(changed))
        if changed is not None and source is FOREIGN:
            assert changed.count("# kept") == 2


@pytest.mark.parametrize("seed", range(3))
def test_each_step_of_a_walk_is_small_and_passes_the_gate(seed):
    for move, before, made in walk(seed):
        new = [line for line in difflib.ndiff(before.splitlines(), made.splitlines()) if line.startswith("+ ")]
        assert 1 <= len(new) <= 18, move.name
        assert Program(made).twin != Program(before).twin
        assert gate.check(made, task.GATE, "hyp2f1").ok, move.name


@pytest.mark.parametrize("seed", range(3))
def test_the_end_of_a_walk_still_computes(seed):
    source = walk(seed)[-1][2]
    assert math.isfinite(called(source, 3.45, -2.7, 5.1, -7.5))


def test_a_formula_comes_once():
    assert BY_NAME["pfaff"].rewrite(after("pfaff"), random.Random(0)) is None


def test_the_series_never_calls_itself():
    rng, source = random.Random(0), after("inverse", "own-series")
    while (changed := BY_NAME["own-series"].rewrite(source, rng)) is not None:
        source = changed
    assert source.count("special.hyp2f1(") == 1
    assert called(source, 0.3, 0.7, 1.9, 0.99) == pytest.approx(float(special.hyp2f1(0.3, 0.7, 1.9, 0.99)))


def test_twenty_offline_iterations_beat_the_seed_on_the_test_part(tmp_path):
    result = run(find_domain("hyp2f1"), search="era", iterations=20, seed=0, out=tmp_path / "run")
    assert result["gain"]["test"] > 0.2
    assert result["gain"]["resolved"] is True
    seed, best = (result[name]["test_metrics"] for name in ("seed_program", "best"))
    assert best["solved"] - seed["solved"] == result["gain"]["gained"] - result["gain"]["lost"] > 0
    assert 0 <= result["gain"]["catastrophic"] <= result["gain"]["lost"]
    assert {"edge_digits", "edge_solved"} <= set(best)
