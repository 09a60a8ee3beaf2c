"""The cost of a search's own thinking, ask and tell together."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from progevo.bench.figures import Cost, cost_spread, timed
from progevo.bench.islands import island_rows
from progevo.bench.loop import loop_figures
from progevo.errors import ConfigError
from progevo.search.flat_puct import FlatPuct
from progevo.testing import node
from progevo.types import Json

#: How many pairs of ask and tell are measured, the last ones of a tree grown to its size.
PAIRS = 300

#: The sizes that are measured unless others are asked for.
TREES = (100, 1_000, 10_000, 100_000)
ISLANDS = (1_000, 10_000)
#: The most nodes of a whole run that is measured.
LOOP = 10_000


def bench_search(sizes: Sequence[int] | None = None) -> dict[str, Json]:
    """What `progevo bench search --json` prints: Flat PUCT under `rows`, the islands under `islands`, then the loop."""
    trees = search_rows(sizes or TREES)
    loop = loop_figures(min(LOOP, max(sizes or TREES)))
    return {"schema": "progevo.bench/1", "rows": trees, "islands": island_rows(sizes or ISLANDS, PAIRS), **loop}


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

    def pair() -> Cost:
        score = rng.random()
        ask, asking = timed(search.ask)
        child = node(len(scores), ask.step, ask.parent, score)
        _, telling = timed(lambda: search.tell(child))
        scores.append(score)
        parents.append(ask.parent)
        depths.append(depths[ask.parent] + 1)
        return asking.and_then(telling)

    spent = [pair() for _ in range(size - 1)][-PAIRS:]
    depth = max(depths)

    plain = _Plain(scores, parents, [search.visits(index) for index in range(size)])
    plain_spent: list[Cost] = []
    same_parents = True
    for _ in range(max(3, min(PAIRS, 1_000_000 // size))):
        pair()
        parent, cost = timed(lambda: plain.expand(scores[-1]))
        plain_spent.append(cost)
        same_parents = same_parents and parent == parents[-1]

    mine, theirs = (statistics.median(cost.cpu_s for cost in costs) for costs in (spent, plain_spent))
    return {
        "search": "flat_puct",
        "nodes": size,
        "depth": depth,
        **cost_spread(spent),
        "plain": cost_spread(plain_spent),
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
