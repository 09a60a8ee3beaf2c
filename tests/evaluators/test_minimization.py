"""evaluators.minimization: what is taken for a point, and that every trial counts. Its task has the other tests."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo.evaluators.minimization import Minimization, Minimum, Trial, harness
from progevo.types import Answer


class Box:
    """The harness's end of a black box, with nothing behind it."""

    def problem(self, number):
        return lambda x, y: float(number)


def asked(entry, trials: int = 3):
    return harness.run(entry, {"seeds": list(range(trials)), "bounds": [-5.0, 5.0], "budget": 9}, "/inputs", Box())


class Lazy(tuple):
    def __iter__(self):
        return iter((1.0, 2.0))


class Liar(float):
    def __float__(self):
        return 2.0


class Array:
    def __len__(self):
        return 2

    def __getitem__(self, place):
        return (1.0, 2.0)[place]

    def __array__(self, *args, **kwargs):
        return np.array([1.0, 2.0])


@pytest.mark.parametrize("answer", [(1.5, 2), [1.5, 2.0], (1.5, 2.0)])
def test_two_numbers_are_a_point(answer):
    assert asked(lambda *_: answer, 1) == ([None], [[1.5, 2.0]])


@pytest.mark.parametrize(
    "answer",
    [
        *("12", b"12", {1.0: 0, 2.0: 0}, {1.0, 2.0}, (number for number in (1.0, 2.0)), map(float, "12"), range(2)),
        *(None, 1.0, (), (1.0,), (1.0, 2.0, 3.0), (1.0, "2"), (True, 2.0), (1.0, 2j), ((1.0,), 2.0), (1.0, None)),
        *(Lazy((1.0, 2.0)), (Liar(1.0), 2.0), Array(), (Decimal(1), 2.0), np.array([1.0, 2.0]), (np.float64(1), 2.0)),
        *((1.0, 10**400),),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_nothing_else_is_and_it_fails_its_trial_alone_with_a_reason(answer):
    reasons, (points,) = asked(lambda f, bounds, budget, seed: answer if seed == 1 else (1.0, 2.0))
    assert [reason is None for reason in reasons] == [True, False, True]
    assert points[:2] == points[4:] == [1.0, 2.0]
    assert all(map(math.isnan, points[2:4]))


TRIALS = [Trial(parameters=n, minimum=Minimum(0.0, 0.0, -1.0), seed=n) for n in range(8)]
BOWL = Minimization(
    file=Path("functions.py"),
    function=lambda parameters: lambda x, y: x * x + y * y - 1.0,
    trials={"search": TRIALS},
    bounds=(-5.0, 5.0),
    budget=9,
)


@given(st.integers(0, 7), st.tuples(st.floats(-5, 5), st.floats(-5, 5)).filter(lambda at: math.hypot(*at) > 1e-3))
def test_no_trial_is_left_out_of_the_score(number, point):
    """Right everywhere but in one trial, whichever it is, is worth less than right everywhere, by what stands there."""
    points = [(0.0, 0.0)] * 8
    assert BOWL.score("search", Answer(arrays=([0.0] * 16,))).score == pytest.approx(1.5, abs=1e-12)
    points[number] = point
    spoilt = BOWL.score("search", Answer(arrays=([coordinate for each in points for coordinate in each],))).score
    distance = math.hypot(*point) / 8
    by_hand = 0.5 / (1 + distance * math.hypot(*point)) + 0.3 / (1 + distance) + 0.2
    assert spoilt == pytest.approx(by_hand * (1.5 if distance < 0.5 else 1.2), abs=1e-9)
