"""Flat PUCT: one PUCT value for every node of the tree, and the node with the largest is expanded.

The search of Aygün et al. 2025, "An AI system to help scientists write expert-level empirical software" (Algorithm 1),
as its released code has it: google-research/era, `implementation/futs.py` at commit 796b7d8, named beside the lines
that follow it. Flat means that nobody walks down from the root: all nodes stand in one contest,

    puct = rank + c_puct * (1 / N) * sqrt(sum of visits) / (1 + visits)

where `rank` is 0 for the worst score of the N nodes and 1 for the best. docs/fidelity.md lists the departures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from progevo.errors import ConfigError
from progevo.search.questions import Questions
from progevo.types import Ask, Json, Node

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: How many nodes, from the best downwards, are weighed at first; every further strip is twice as wide.
FIRST_STRIP = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPuctConstants:
    """What people may set about Flat PUCT."""

    #: The weight of exploration, finite and not negative; 0 always expands the best node.
    c_puct: float = 1.0


class FlatPuct:
    """Asks for a child of the node with the largest PUCT; a `progevo.search.Search`.

    A visit is counted for the asked node and all its ancestors when the question is put, not when it is answered,
    so that questions in flight do not all fall on one parent. With one in flight the order is the released code's.

    Args:
        c_puct: The weight of exploration, finite and not negative; 0 always expands the best node.

    Raises:
        ConfigError: `c_puct` is not such a number.
    """

    def __init__(self, c_puct: float = 1.0) -> None:
        if not (math.isfinite(c_puct) and c_puct >= 0):
            raise ConfigError(f"c_puct must be a finite number, 0 or larger (got {c_puct})")
        import numpy as np  # here and below, not above: start-up time that `progevo --help` should not pay

        self._c_puct = float(c_puct)
        # By index: what each node is in the tree.
        self._parents: list[int] = []  # -1 for the root
        self._anchors: list[int] = []  # see _visit
        self._depths: list[int] = []
        self._visits: NDArray[np.int64] = np.zeros(64, np.int64)
        # By rank: who holds it, and with which score. Worst first, equals by index (futs.py, compute_rank_scores).
        self._ranked: NDArray[np.int64] = np.zeros(64, np.int64)
        self._scores: NDArray[np.float64] = np.zeros(64, np.float64)
        self._nodes = 0
        self._depth = 0
        self._total_visits = 0
        self._best = 0
        self._best_score = -math.inf
        self._questions = Questions()

    def ask(self) -> Ask:
        """The node to expand: the largest PUCT, the lowest index among equals. Counts the visit at once.

        Raises:
            ValueError: the seed has not been told yet.
        """
        self._questions.ready()
        parent = self._choose()
        self._visit(parent)
        return self._questions.put(parent)

    def tell(self, node: Node, /) -> None:
        """Takes the seed, then one answer to each open question, in any order.

        A failed node keeps its place in the contest, below all others: it counts in N and in the ranks.

        Raises:
            ValueError: the index is not the next one, the step is not open, or the parent is not the one asked for.
        """
        self._questions.answer(node)
        score = -math.inf if math.isnan(node.score) else float(node.score)
        if self._nodes == len(self._visits):
            self._grow()
        rank = int(self._scores[: self._nodes].searchsorted(score, side="right"))  # after its equals
        for held, value in ((self._scores, score), (self._ranked, node.index)):
            held[rank + 1 : self._nodes + 1] = held[rank : self._nodes]
            held[rank] = value

        if node.parent is None:
            self._parents.append(-1)
            self._anchors.append(-1)
            self._depths.append(0)
        else:
            parent = node.parent
            even = node.index - parent == parent - self._parents[parent]
            self._parents.append(parent)
            self._anchors.append(self._anchors[parent] if even else parent)
            self._depths.append(self._depths[parent] + 1)
            # The visit of its own; its ancestors got theirs at `ask` (futs.py, backpropagate_visit).
            self._visits[node.index] = 1
            self._total_visits += 1
        self._nodes += 1
        self._depth = max(self._depth, self._depths[-1])
        if score > self._best_score:
            self._best, self._best_score = node.index, score

    def constants(self) -> dict[str, Json]:
        return {"c_puct": self._c_puct}

    def summary(self) -> dict[str, Json]:
        return {"tree": {"nodes": self._nodes, "depth": self._depth, "root_visits": int(self._visits[0])}}

    def visits(self, index: int) -> int:
        """The visits of a node: its own, its descendants', and those of questions in flight below it.

        Raises:
            ValueError: no such node has been told.
        """
        if not 0 <= index < self._nodes:
            raise ValueError(f"there is no node {index}: {self._nodes} nodes have been told, counted from 0")
        return int(self._visits[index])

    def best(self) -> int:
        """The index of the best node, the first of equals; 0 while every node has failed.

        Raises:
            ValueError: the seed has not been told yet.
        """
        if not self._nodes:
            raise ValueError("there is no best node before the seed has been told")
        return self._best

    def _choose(self) -> int:
        """The node with the largest PUCT (futs.py, compute_pucts and the `max` in search).

        Only as many nodes are weighed as could win. From the best rank downwards, a node of rank r has at most
        the PUCT of rank r with one visit (every node but a lone root has one), and floating-point division and
        addition keep that order; so the walk ends where this bound falls below what has been found. Equality goes
        on, as an equal with a lower index wins.
        """
        import numpy as np

        count = self._nodes
        if count == 1:
            return 0
        weight = self._c_puct * (1 / count) * math.sqrt(self._total_visits)
        chosen, largest = 0, -math.inf
        high, width = count, FIRST_STRIP
        while high > 0 and (high - 1) / (count - 1) + weight / (1 + 1) >= largest:
            low = max(0, high - width)
            strip = self._ranked[low:high]
            pucts = np.arange(low, high) / (count - 1) + weight / (1 + self._visits[strip])
            top = float(pucts.max())
            first = int(strip[pucts == top].min())
            if top > largest or (top == largest and first < chosen):
                chosen, largest = first, top
            high, width = low, 2 * width
        return chosen

    def _visit(self, index: int) -> None:
        """Counts one visit for a node and all its ancestors, in a loop: a chain may be 100,000 nodes deep.

        Along a chain the indexes are evenly spaced: by 1, or by k with k questions in flight. Such a run is counted
        in one stroke, from the node up to its anchor, the first ancestor out of step; anything else node by node.
        """
        self._total_visits += self._depths[index] + 1
        while index >= 0:
            parent, anchor = self._parents[index], self._anchors[index]
            if parent == anchor:
                self._visits[index] += 1
            else:
                stride = index - parent
                self._visits[anchor + stride : index + 1 : stride] += 1
            index = anchor

    def _grow(self) -> None:
        import numpy as np

        self._visits = np.concatenate((self._visits, np.zeros_like(self._visits)))
        self._ranked = np.concatenate((self._ranked, np.zeros_like(self._ranked)))
        self._scores = np.concatenate((self._scores, np.zeros_like(self._scores)))
