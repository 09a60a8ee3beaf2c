"""The cost of a search's own thinking, ask and tell together."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from progevo.errors import ConfigError
from progevo.search.flat_puct import FlatPuct
from progevo.testing import node
from progevo.types import Json

#: How many pairs of ask and tell are measured, the last ones of a tree grown to its size.
PAIRS = 300

T = TypeVar("T")


def bench_search(sizes: Sequence[int] = (100, 1_000, 10_000, 100_000)) -> dict[str, Json]:
    """What `progevo bench search --json` prints."""
    return {"schema": "progevo.bench/1", "rows": search_rows(sizes)}


def search_rows(sizes: Sequence[int]) -> list[Json]:
    """One row a size: what one ask and its tell cost Flat PUCT at the end of a tree grown to that many nodes.

    Scores are random, the same at every call. Beside it stands a plain transcription of the formula, which takes
    over the grown tree and goes on for a few pairs, as many as it can do in about a second; `ratio` is how many
    times the median CPU time of Flat PUCT it needs, `same_parents` whether both asked for the same parents.

    Raises:
        ConfigError: a size is too small to measure.
    """
    if small := [size for size in sizes if size < 2]:
        raise ConfigError(f"a tree of {small[0]} nodes has no ask and tell to measure: sizes are 2 or larger")
    return [_row(size) for size in sizes]


def _row(size: int) -> Json:
    rng = random.Random(size)
    search = FlatPuct()
    scores, parents, depths = [rng.random()], [-1], [0]
    search.tell(node(0, 0, None, scores[0]))

    def pair() -> tuple[float, float]:
        score = rng.random()
        ask, asking = _timed(search.ask)
        child = node(len(scores), ask.step, ask.parent, score)
        _, telling = _timed(lambda: search.tell(child))
        scores.append(score)
        parents.append(ask.parent)
        depths.append(depths[ask.parent] + 1)
        return asking[0] + telling[0], asking[1] + telling[1]

    spent = [pair() for _ in range(size - 1)][-PAIRS:]
    depth = max(depths)

    plain = _Plain(scores, parents, [search.visits(index) for index in range(size)])
    plain_spent: list[tuple[float, float]] = []
    same_parents = True
    for _ in range(max(3, min(PAIRS, 1_000_000 // size))):
        pair()
        parent, cost = _timed(lambda: plain.expand(scores[-1]))
        plain_spent.append(cost)
        same_parents = same_parents and parent == parents[-1]

    mine, theirs = (statistics.median(cpu for _, cpu in costs) for costs in (spent, plain_spent))
    return {
        "search": "flat_puct",
        "nodes": size,
        "depth": depth,
        **_spread(spent),
        "plain": _spread(plain_spent),
        "ratio": theirs / mine if mine else None,
        "same_parents": same_parents,
    }


class _Plain:
    """The formula of Flat PUCT written down as it reads, over sorted lists: the yardstick."""

    def __init__(self, scores: Sequence[float], parents: Sequence[int], visits: Sequence[int]) -> None:
        self.scores, self.parents, self.visits = list(scores), list(parents), list(visits)

    def expand(self, score: float) -> int:
        """Chooses a parent and gives it a child with this score; returns the parent."""
        count = len(self.scores)
        ranks = [0.5] * count
        if count > 1:
            for place, index in enumerate(sorted(range(count), key=self.scores.__getitem__)):
                ranks[index] = place / (count - 1)
        weight = 1.0 * (1 / count) * math.sqrt(sum(self.visits))
        pucts = [rank + weight / (1 + visits) for rank, visits in zip(ranks, self.visits, strict=True)]
        parent = pucts.index(max(pucts))
        self.scores.append(score)
        self.parents.append(parent)
        self.visits.append(1)
        ancestor = parent
        while ancestor >= 0:
            self.visits[ancestor] += 1
            ancestor = self.parents[ancestor]
        return parent


def _timed(call: Callable[[], T]) -> tuple[T, tuple[float, float]]:
    """What the call returned, with its wall and CPU time in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, (time.perf_counter() - wall, time.process_time() - cpu)


def _spread(costs: Sequence[tuple[float, float]]) -> dict[str, Json]:
    """Median and 95th percentile (nearest rank) of wall and CPU times, in milliseconds."""
    spread: dict[str, Json] = {"pairs": len(costs)}
    for name, seconds in zip(("wall_ms", "cpu_ms"), zip(*costs, strict=True), strict=True):
        ordered = sorted(1000 * value for value in seconds)
        spread[name] = {"median": statistics.median(ordered), "p95": ordered[math.ceil(0.95 * len(ordered)) - 1]}
    return spread
