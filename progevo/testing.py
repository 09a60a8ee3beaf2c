"""For people who write a part of progevo: builders of plain values, and the contract of a part as a test class.

A new search is put to the test by a subclass in a file that pytest collects:

    from progevo.testing import SearchCase

    class TestMySearch(SearchCase):
        def make(self):
            return MySearch()
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence

from progevo.search import Search
from progevo.types import Ask, Candidate, Node, Outcome, Program


def node(
    index: int,
    step: int,
    parent: int | None,
    score: float,
    *,
    source: str | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Node:
    """A node with a program of its own, or with this source; negative infinity as a score makes it a failed one.

    A score that is not a number, which no `Outcome` can be made with, is forced upon it.
    """
    candidate = Candidate(program=Program(f"answer = {index}\n" if source is None else source), origin="testing")
    if score == -math.inf:
        outcome = Outcome(status="crashed", reason="made to fail")
    else:
        outcome = Outcome(status="ok", score=0.0 if math.isnan(score) else score, metrics=metrics or {})
    if math.isnan(score):
        object.__setattr__(outcome, "score", score)
    return Node(index=index, step=step, parent=parent, candidate=candidate, outcome=outcome)


def empty_reply(index: int, step: int, parent: int) -> Node:
    """A node for which the proposer had no program."""
    outcome = Outcome(status="no_program", reason="made to be empty")
    candidate = Candidate(program=None, origin="testing", reason="made to be empty")
    return Node(index=index, step=step, parent=parent, candidate=candidate, outcome=outcome)


def drive(
    search: Search, scores: Sequence[float], *, in_flight: int = 1, rng: random.Random | None = None
) -> list[Ask]:
    """Runs a fresh search over scores that are known beforehand; returns what it asked, in order.

    Args:
        search: A search that has been told nothing yet.
        scores: One score a node, in the order of telling; the first is the seed's.
        in_flight: How many questions are kept open, as far as scores last.
        rng: Draws which open question is answered next; without it the oldest is.
    """
    search.tell(node(0, 0, None, scores[0]))
    asks: list[Ask] = []
    waiting: list[Ask] = []
    for index in range(1, len(scores)):
        while len(waiting) < in_flight and len(asks) < len(scores) - 1:
            asks.append(search.ask())
            waiting.append(asks[-1])
        answered = waiting.pop(rng.randrange(len(waiting)) if rng else 0)
        search.tell(node(index, answered.step, answered.parent, scores[index]))
    return asks


class SearchCase:
    """The contract of `progevo.search.Search`, as tests; a subclass says how a fresh search is made."""

    def make(self) -> Search:
        """A search that has been told nothing; equal to any other that this returns."""
        raise NotImplementedError("a subclass of SearchCase returns its search from make()")

    def test_asking_before_the_seed_is_refused(self) -> None:
        _refused(self.make().ask)

    def test_telling_without_an_ask_is_refused(self) -> None:
        search = self.make()
        search.tell(node(0, 0, None, 0.5))
        _refused(lambda: search.tell(node(1, 1, 0, 0.5)))

    def test_a_second_seed_is_refused(self) -> None:
        search = self.make()
        search.tell(node(0, 0, None, 0.5))
        _refused(lambda: search.tell(node(1, 0, None, 0.5)))

    def test_a_step_answered_twice_is_refused(self) -> None:
        search = self.make()
        search.tell(node(0, 0, None, 0.5))
        first, _second = search.ask(), search.ask()
        search.tell(node(1, first.step, first.parent, 0.5))
        _refused(lambda: search.tell(node(2, first.step, first.parent, 0.5)))

    def test_a_refusal_changes_nothing(self) -> None:
        undisturbed, disturbed = self.make(), self.make()
        for search in (undisturbed, disturbed):
            search.tell(node(0, 0, None, 0.5))
        for index, score in enumerate(_scores(40), start=1):
            expected, ask = undisturbed.ask(), disturbed.ask()
            assert ask == expected, f"after a refused tell the search asked {ask}, without it {expected}"
            _refused(lambda: disturbed.tell(node(index, ask.step + 1, ask.parent, 9.0)))  # noqa: B023 (called at once)
            for search in (undisturbed, disturbed):
                search.tell(node(index, ask.step, ask.parent, score))

    def test_one_after_another(self) -> None:
        self._soundly(_scores(200))

    def test_many_in_flight(self) -> None:
        self._soundly(_scores(200), in_flight=32)

    def test_told_out_of_order(self) -> None:
        self._soundly(_scores(200), in_flight=8, rng=random.Random(3))

    def test_more_in_flight_than_nodes(self) -> None:
        search = self.make()
        search.tell(node(0, 0, None, 0.5))
        asks = [search.ask() for _ in range(50)]
        assert [ask.parent for ask in asks] == [0] * 50, "only the seed can be a parent while only the seed is told"
        for index, ask in enumerate(reversed(asks), start=1):
            search.tell(node(index, ask.step, ask.parent, 0.5))

    def test_every_program_failed(self) -> None:
        self._soundly([-math.inf] * 100)
        self._soundly([-math.inf] * 100, in_flight=8, rng=random.Random(4))

    def test_only_the_seed_works(self) -> None:
        self._soundly([0.0] + [-math.inf] * 100, in_flight=4)

    def test_every_score_ties(self) -> None:
        self._soundly([1.0] * 100)
        self._soundly([1.0] * 100, in_flight=8, rng=random.Random(5))

    def test_scores_far_apart(self) -> None:
        self._soundly([1e308, -1e308, 5e-324, -0.0, 0.0, -math.inf] * 10)

    def test_a_score_that_is_no_number_ranks_as_failed(self) -> None:
        failed, nan = (
            drive(self.make(), [other if score == -math.inf else score for score in _scores(200)], in_flight=3)
            for other in (-math.inf, math.nan)
        )
        assert failed == nan, "a score that is not a number was not taken as that of a failed program"

    def test_replies_without_a_program(self) -> None:
        search = _Watched(self.make())
        search.tell(node(0, 0, None, 0.5))
        for index, score in enumerate(_scores(100), start=1):
            ask = search.ask()
            empty = index % 2 == 1
            search.tell(empty_reply(index, ask.step, ask.parent) if empty else node(index, ask.step, ask.parent, score))

    def test_ten_thousand_nodes(self) -> None:
        self._soundly(_scores(10_000), in_flight=4, rng=random.Random(6))

    def test_a_replay_equals_the_live_run(self) -> None:
        """Asks and tells as a journal would hold them, put again to a fresh search in that order."""
        live = _Recorded(self.make())
        drive(live, _scores(300), in_flight=5, rng=random.Random(8))
        replayed = self.make()
        for event in live.events:
            if isinstance(event, Node):
                replayed.tell(event)
            else:
                ask = replayed.ask()
                assert ask == event, f"the live search asked {event}, its replay {ask}"

    def test_the_same_tells_give_the_same_asks(self) -> None:
        first, again = (drive(self.make(), _scores(300), in_flight=4, rng=random.Random(7)) for _ in range(2))
        assert first == again, "the same tells gave different asks: a search draws nothing from clock or global state"

    def test_what_results_hold_is_strict_json(self) -> None:
        search = self.make()
        constants = json.dumps(search.constants(), allow_nan=False)
        drive(search, [-math.inf, *_scores(20)])
        json.dumps(search.summary(), allow_nan=False)
        assert json.dumps(search.constants(), allow_nan=False) == constants, "constants changed during the search"

    def _soundly(self, scores: Sequence[float], *, in_flight: int = 1, rng: random.Random | None = None) -> None:
        """Drives a fresh search; each ask must have the next step and name none but nodes told before it."""
        drive(_Watched(self.make()), scores, in_flight=in_flight, rng=rng)


class _Watched:
    """A search whose every ask is looked at."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._told = 0
        self._asked = 0
        self.constants = search.constants
        self.summary = search.summary

    def ask(self) -> Ask:
        ask = self._search.ask()
        self._asked += 1
        assert ask.step == self._asked, f"ask number {self._asked} came with step {ask.step}: steps are 1, 2, ..."
        for name in (ask.parent, *ask.inspirations):
            assert 0 <= name < self._told, f"{ask} names node {name}, but {self._told} nodes have been told"
        return ask

    def tell(self, node: Node, /) -> None:
        self._search.tell(node)
        self._told += 1


class _Recorded:
    """A search whose asks and tells are kept in order."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.events: list[Ask | Node] = []
        self.constants = search.constants
        self.summary = search.summary

    def ask(self) -> Ask:
        ask = self._search.ask()
        self.events.append(ask)
        return ask

    def tell(self, node: Node, /) -> None:
        self.events.append(node)
        self._search.tell(node)


def _scores(count: int) -> list[float]:
    """Scores with ties and failures among them, the same at every call."""
    rng = random.Random(count)
    return [-math.inf if rng.random() < 0.2 else round(rng.gauss(0.0, 1.0), 1) for _ in range(count)]


def _refused(call: Callable[[], object]) -> None:
    try:
        call()
    except ValueError:
        return
    raise AssertionError("a ValueError was due: the call breaks the contract of ask and tell")
