"""What each origin of candidates has been worth in a run so far: moves of the mutator, models of an endpoint."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from progevo.types import Node

#: What an untried origin starts with, where 1 would make it as good as the average one: each is worth trying early.
HOPE = 3.0


@dataclass(frozen=True)
class Record:
    """What each origin has been worth in a run so far.

    A child is worth the rank of its gain over its parent among all such gains, from 0 for the least to 1 for the
    largest: ranks need no scale, and a failure counts as the least.
    """

    uses: Mapping[str, int]
    worth: Mapping[str, float]

    @classmethod
    def of(cls, history: Sequence[Node], origin_of: Callable[[Node], str | None]) -> Record:
        """The record of all nodes with a parent and an origin."""
        gains = [
            (gain(node, history[node.parent]), origin)
            for node in history
            if node.parent is not None and (origin := origin_of(node)) is not None
        ]
        ordered = sorted(value for value, _ in gains)
        uses, worth = Counter[str](), defaultdict[str, float](float)
        for value, origin in gains:
            below, above = bisect_left(ordered, value), bisect_right(ordered, value)
            uses[origin] += 1
            worth[origin] += (below + above) / (2 * len(ordered))  # equals share their mean rank
        return cls(uses, worth)

    def drawn(self, origin: str, rng: random.Random) -> float:
        """A draw from what is known of an origin's mean worth, between 0 and 1.

        Taking the largest is Thompson's rule (Biometrika 25, 1933): what has not been tried yet comes early, what
        keeps paying comes often, and nothing is ever given up.
        """
        uses, worth = self.uses.get(origin, 0), self.worth.get(origin, 0.0)
        return rng.betavariate(HOPE + worth, 1.0 + uses - worth)


def gain(node: Node, parent: Node) -> float:
    """By how much a node is better than its parent; a failed one never is, whatever its parent was."""
    if not node.outcome.ok:
        return -math.inf
    return node.score - parent.score if parent.outcome.ok else 0.0
