from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.errors import ConfigError
from progevo.search import flat_puct
from progevo.search.flat_puct import FlatPuct
from progevo.testing import SearchCase, drive, node
from progevo.types import Ask

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "futs_serial.json"

FAILED = -math.inf
# Few distinct values, so that ties are common.
SCORES = st.lists(
    st.sampled_from([FAILED, -1.0, -0.0, 0.0, 0.25, 1.0, 2.0]) | st.floats(-3, 3), min_size=1, max_size=60
)
C_PUCTS = st.sampled_from([0.0, 1e-300, 0.1, 1.0, 3.0, 50.0, 1e17, 1e308])


class TestContract(SearchCase):
    def make(self) -> FlatPuct:
        return FlatPuct()


# The released code, node by node


def golden_cases():
    if not GOLDEN.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"{GOLDEN} is not here"))]
    cases = json.loads(GOLDEN.read_text())["cases"]
    return [pytest.param(case, id=f"{case['kind']}-{case['c_puct']}-{case['iterations']}") for case in cases]


@pytest.mark.parametrize("case", golden_cases())
def test_golden(case):
    search = FlatPuct(case["c_puct"])
    scores = [FAILED if score is None else score for score in (case["root_score"], *case["child_scores"])]
    assert [ask.parent for ask in drive(search, scores)] == case["expanded"]
    assert [search.visits(index) for index in range(len(scores))] == case["visits"]
    assert search.best() == case["best_index"]
    assert scores[search.best()] == (FAILED if case["best_score"] is None else case["best_score"])


# A plain model


class Model:
    """The formula as it reads. `reserve` counts a visit when the question is put, else when it is answered."""

    def __init__(self, c_puct: float, *, reserve: bool) -> None:
        self.c_puct, self.reserve = c_puct, reserve
        self.scores: list[float] = []
        self.parents: list[int | None] = []
        self.visits: list[int] = []
        self.asked = 0

    def pucts(self) -> list[float]:
        n = len(self.scores)
        ranks = [0.5]
        if n > 1:
            order = sorted(range(n), key=lambda i: self.scores[i])
            ranks = [order.index(i) / (n - 1) for i in range(n)]
        total = sum(self.visits)
        return [
            rank + self.c_puct * (1 / n) * math.sqrt(total) / (1 + own)
            for rank, own in zip(ranks, self.visits, strict=True)
        ]

    def ask(self) -> Ask:
        pucts = self.pucts()
        parent = pucts.index(max(pucts))
        if self.reserve:
            self.climb(parent)
        self.asked += 1
        return Ask(self.asked, parent)

    def tell(self, told) -> None:
        self.scores.append(told.score)
        self.parents.append(told.parent)
        self.visits.append(0 if told.parent is None else 1)
        if told.parent is not None and not self.reserve:
            self.climb(told.parent)

    def climb(self, index) -> None:
        while index is not None:
            self.visits[index] += 1
            index = self.parents[index]


@given(SCORES, C_PUCTS, st.sampled_from([1, 3, 1024]))
def test_serial_order_is_the_formulas(scores, c_puct, strip):
    search, model = FlatPuct(c_puct), Model(c_puct, reserve=False)
    with mock.patch.object(flat_puct, "FIRST_STRIP", strip):
        assert drive(search, scores) == drive(model, scores)
    assert [search.visits(index) for index in range(len(scores))] == model.visits
    assert search.best() == scores.index(max(scores))


@given(SCORES, C_PUCTS, st.sampled_from([1, 3, 1024]), st.integers(1, 12), st.none() | st.integers(0, 9))
def test_order_with_questions_in_flight(scores, c_puct, strip, in_flight, shuffle):
    def run(search):
        rng = None if shuffle is None else random.Random(shuffle)
        return drive(search, scores, in_flight=in_flight, rng=rng)

    search, model = FlatPuct(c_puct), Model(c_puct, reserve=True)
    with mock.patch.object(flat_puct, "FIRST_STRIP", strip):
        assert run(search) == run(model)
    assert [search.visits(index) for index in range(len(scores))] == model.visits


@pytest.mark.parametrize("c_puct", [1.0, 30.0])
@pytest.mark.parametrize("in_flight", [1, 3])
def test_order_in_a_tree_of_several_strips(c_puct, in_flight):
    rng = random.Random(11)
    scores = [FAILED if rng.random() < 0.1 else round(rng.random(), 2) for _ in range(300)]
    with mock.patch.object(flat_puct, "FIRST_STRIP", 16):
        asks = drive(FlatPuct(c_puct), scores, in_flight=in_flight)
    assert asks == drive(Model(c_puct, reserve=True), scores, in_flight=in_flight)


@given(SCORES, st.integers(1, 12))
def test_visits_add_up(scores, in_flight):
    search = FlatPuct()
    asks = drive(search, scores, in_flight=in_flight)
    depths = [0]
    # Answered in the order of asking, so that ask i led to node i + 1.
    for ask in asks:
        depths.append(depths[ask.parent] + 1)
    visits = [search.visits(index) for index in range(len(scores))]
    # Each node counts once for itself (the seed does not) and once for every ancestor.
    assert sum(visits) == sum(depth + 1 for depth in depths[1:])
    assert visits[0] == len(scores) - 1
    assert search.summary() == {"tree": {"nodes": len(scores), "depth": max(depths), "root_visits": len(scores) - 1}}


# By hand


def test_numbers_of_a_small_tree():
    model = Model(1.0, reserve=True)
    for told in (node(0, 0, None, 0.2), node(1, 1, 0, 0.1), node(2, 2, 0, 0.3)):
        model.tell(told)
    model.visits = [2, 1, 2]
    assert model.pucts() == [
        1 / 2 + 1 * (1 / 3) * math.sqrt(5) / (1 + 2),
        0 + 1 * (1 / 3) * math.sqrt(5) / (1 + 1),
        1 + 1 * (1 / 3) * math.sqrt(5) / (1 + 2),
    ]


def test_three_expansions_by_hand():
    search = FlatPuct()
    search.tell(node(0, 0, None, 0.0))
    assert search.visits(0) == 0
    assert search.ask() == Ask(1, 0)
    search.tell(node(1, 1, 0, -1.0))
    assert [search.visits(index) for index in range(2)] == [1, 1]
    # 0: 1 + 1/2 sqrt(2)/2 = 1.354; 1: 0 + 1/2 sqrt(2)/2 = 0.354.
    assert search.ask() == Ask(2, 0)
    search.tell(node(2, 2, 0, -0.5))
    assert [search.visits(index) for index in range(3)] == [2, 1, 1]
    # 0: 1 + 1/3 sqrt(4)/3 = 1.222; 1: 0 + 1/3 sqrt(4)/2 = 0.333; 2: 1/2 + 1/3 sqrt(4)/2 = 0.833.
    assert search.ask() == Ask(3, 0)
    search.tell(node(3, 3, 0, 1.0))
    assert [search.visits(index) for index in range(4)] == [3, 1, 1, 1]
    # 0: 2/3 + 1/4 sqrt(6)/4 = 0.820; 3: 1 + 1/4 sqrt(6)/2 = 1.306.
    assert search.ask() == Ask(4, 3)
    assert [search.visits(index) for index in range(4)] == [4, 1, 1, 2]
    assert search.best() == 3


def test_questions_in_flight_spread_over_parents():
    search = FlatPuct(c_puct=4.0)
    drive(search, [0.0, 1.0])
    # Visits are [1, 1]: rank + 4 * 1/2 * sqrt(2)/2 gives 1.414 and 2.414. After that ask they are [2, 2], then
    # [3, 3] and so on: node 0 is an ancestor of all, so node 1 stays ahead ...
    assert [search.ask().parent for _ in range(3)] == [1, 1, 1]

    search = FlatPuct(c_puct=4.0)
    search.tell(node(0, 0, None, 1.0))
    search.tell(node(1, search.ask().step, 0, 0.0))
    # ... while visits kept for a child of node 0 leave node 1 alone. [1, 1]: 2.414 and 1.414; [2, 1]: 1 + 4 * 1/2 *
    # sqrt(3)/3 = 2.155 and 1.732; [3, 1]: 1 + 4 * 1/2 * sqrt(4)/4 = 2 and 2, and the first of equals is taken;
    # [4, 1]: 1 + 4 * 1/2 * sqrt(5)/5 = 1.894 and 2.236.
    assert [search.ask().parent for _ in range(4)] == [0, 0, 0, 1]
    assert [search.visits(0), search.visits(1)] == [5, 2]


def test_nodes_in_flight_are_not_in_n():
    search = FlatPuct()
    search.tell(node(0, 0, None, 0.0))
    search.ask()
    assert search.summary() == {"tree": {"nodes": 1, "depth": 0, "root_visits": 1}}


def test_without_exploration_the_best_is_expanded():
    search = FlatPuct(c_puct=0)
    assert [ask.parent for ask in drive(search, [0.0, 1.0, 0.5, 2.0, 2.0, 1.0])] == [0, 1, 1, 3, 4]
    assert search.best() == 3


def test_nan_ranks_as_failed():
    asks = []
    for score in (math.nan, FAILED):
        search = FlatPuct()
        search.tell(node(0, 0, None, FAILED))
        for index in range(1, 30):
            ask = search.ask()
            told = node(index, ask.step, ask.parent, FAILED if index % 3 == 0 else float(index % 7))
            if index % 3 == 0:
                object.__setattr__(told.outcome, "score", score)  # no outcome can be made with it
            search.tell(told)
            asks.append(ask.parent)
        assert search.best() == 13
    assert asks[:29] == asks[29:]


# Size


@pytest.mark.parametrize("in_flight", [1, 4])
def test_chain_of_100_000_nodes(in_flight):
    """Every node beats the last, so that each is expanded at once; about 2 s, with a wide margin for busy hosts."""
    count = 100_000
    search = FlatPuct()
    start = time.process_time()
    asks = drive(search, [float(index) for index in range(count)], in_flight=in_flight)
    assert time.process_time() - start < 30
    depth = count - 1 if in_flight == 1 else count // in_flight
    assert search.summary() == {"tree": {"nodes": count, "depth": depth, "root_visits": count - 1}}
    if in_flight == 1:
        assert [ask.parent for ask in asks] == list(range(count - 1))
        assert search.visits(1000) == count - 1000


def test_numpy_waits_until_a_search_is_made():
    code = "import sys, progevo.search.flat_puct; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# Refusals


@pytest.mark.parametrize("c_puct", [-1.0, math.nan, math.inf, -math.inf])
def test_c_puct_is_finite_and_not_negative(c_puct):
    with pytest.raises(ConfigError, match="c_puct must be a finite number, 0 or larger"):
        FlatPuct(c_puct)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (node(1, 1, 0, 0.0), "told node 1, but indexes follow the order of telling: 3 is next"),
        (node(4, 3, 0, 0.0), "3 is next"),
        (node(3, 1, 0, 0.0), "step 1, which has been answered before"),
        (node(3, 0, None, 0.0), "step 0, which was never asked"),
        (node(3, 4, 0, 0.0), "step 4, which was never asked"),
        (node(3, 3, 1, 0.0), r"step 3 asked for a child of node 2 \(got 1\)"),
        (node(3, 3, None, 0.0), r"step 3 asked for a child of node 2 \(got None\)"),
    ],
)
def test_tells_that_are_refused(told, words):
    search = FlatPuct()
    drive(search, [0.0, 1.0, 2.0])
    assert search.ask() == Ask(3, 2)
    with pytest.raises(ValueError, match=words):
        search.tell(told)
    search.tell(node(3, 3, 2, 0.0))


@pytest.mark.parametrize("seed", [node(0, 1, None, 0.0), node(0, 0, 0, 0.0)])
def test_seeds_that_are_refused(seed):
    with pytest.raises(ValueError, match="the seed has step 0 and no parent"):
        FlatPuct().tell(seed)


def test_nothing_is_known_before_the_seed():
    search = FlatPuct()
    with pytest.raises(ValueError, match="tell node 0"):
        search.ask()
    with pytest.raises(ValueError, match="no best node"):
        search.best()
    with pytest.raises(ValueError, match="no node 0: 0 nodes"):
        search.visits(0)
    assert search.constants() == {"c_puct": 1.0}


@settings(max_examples=20)
@given(st.integers(-5, 5))
def test_visits_of_nodes_that_are_not_there(index):
    search = FlatPuct()
    drive(search, [0.0, 1.0])
    if index in (0, 1):
        assert search.visits(index) == 1
    else:
        with pytest.raises(ValueError, match="there is no node"):
            search.visits(index)
