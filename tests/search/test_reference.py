"""The reference searches: whom they ask, and nothing else."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from progevo.search.reference import BestOfN, Greedy, RandomParent
from progevo.testing import SearchCase, drive

FAILED = -math.inf
SCORES = st.lists(st.sampled_from([FAILED, -1.0, -0.0, 0.0, 0.5, 2.0]) | st.floats(-3, 3), min_size=1, max_size=40)


class TestBestOfNContract(SearchCase):
    def make(self) -> BestOfN:
        return BestOfN()


class TestRandomParentContract(SearchCase):
    def make(self) -> RandomParent:
        return RandomParent(seed=3)


class TestGreedyContract(SearchCase):
    def make(self) -> Greedy:
        return Greedy()


@given(SCORES, st.integers(1, 5))
def test_best_of_n_asks_the_seed_alone(scores, in_flight):
    search = BestOfN()
    assert {ask.parent for ask in drive(search, scores, in_flight=in_flight)} <= {0}
    depth = min(1, len(scores) - 1)
    assert search.summary() == {"tree": {"nodes": len(scores), "depth": depth, "root_visits": len(scores) - 1}}


@given(SCORES)
def test_greedy_asks_the_first_of_the_best(scores):
    asks = drive(Greedy(), scores)
    for told, ask in enumerate(asks, start=1):
        assert ask.parent == scores.index(max(scores[:told]))


def test_greedy_by_hand():
    search = Greedy()
    # The best after each tell: 0 (1.0); still 0, as 1.0 is an equal and not better; 2 (3.0); still 2.
    assert [ask.parent for ask in drive(search, [1.0, 1.0, 3.0, FAILED, 2.0])] == [0, 0, 2, 2]
    assert search.summary() == {"tree": {"nodes": 5, "depth": 2, "root_visits": 4}}


@given(SCORES, st.integers(0, 3))
def test_random_parent_never_asks_a_failure_while_anything_works(scores, seed):
    for told, ask in enumerate(drive(RandomParent(seed), scores), start=1):
        works = [index for index, score in enumerate(scores[:told]) if score > FAILED]
        assert ask.parent in (works or [0])


def test_random_parent_asks_all_that_work_equally_often():
    search = RandomParent(seed=5)
    drive(search, [0.0, 5.0, FAILED, -7.0])
    asked = Counter(search.ask().parent for _ in range(6000))
    assert set(asked) == {0, 1, 3}
    # 2,000 expected each, standard deviation 37.
    assert all(abs(count - 2000) < 200 for count in asked.values())


def test_the_seed_decides_what_random_parent_asks():
    one, same, other = (
        [ask.parent for ask in drive(RandomParent(seed), [float(index) for index in range(60)])] for seed in (1, 1, 2)
    )
    assert one == same != other
