"""Reference searches: what a search must beat at an equal budget before anyone should believe in it.

- `best_of_n` always asks for a child of the seed: n independent tries, of which the best counts.
- `random_parent` asks for a child of any program that works, all equally likely.
- `greedy` always asks for a child of the best.

They differ in nothing but the parent. None of them has constants, and none names inspirations.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from progevo.search.questions import Questions
from progevo.types import Ask, Json, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NoConstants:
    """A search about which nothing can be set."""


class _Reference:
    """What the three have in common: a tree, and one way to choose the parent."""

    def __init__(self) -> None:
        self._questions = Questions()
        self._depths: list[int] = []

    def ask(self) -> Ask:
        return self._questions.put(self._parent(self._questions.ready()))

    def tell(self, node: Node, /) -> None:
        self._questions.answer(node)
        self._depths.append(0 if node.parent is None else self._depths[node.parent] + 1)
        self._take(node)

    def constants(self) -> dict[str, Json]:
        return {}

    def summary(self) -> dict[str, Json]:
        nodes, asked = self._questions.told, self._questions.asked
        return {"tree": {"nodes": nodes, "depth": max(self._depths, default=0), "root_visits": asked}}

    def _parent(self, step: int) -> int:
        """The index of the node to expand."""
        raise NotImplementedError

    def _take(self, node: Node) -> None:
        """Keeps what the choice needs to know of a node."""


class BestOfN(_Reference):
    """Asks for children of the seed alone; a `progevo.search.Search`."""

    def _parent(self, step: int) -> int:
        return 0


class RandomParent(_Reference):
    """Asks for a child of any node that scored, or of the seed where none did; a `progevo.search.Search`.

    Args:
        seed: what every draw derives from, together with the step of the ask.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._seed = seed
        self._scored: list[int] = []

    def _parent(self, step: int) -> int:
        return random.Random(f"progevo {self._seed} {step} ask").choice(self._scored or [0])

    def _take(self, node: Node) -> None:
        if math.isfinite(node.score):
            self._scored.append(node.index)


class Greedy(_Reference):
    """Asks for a child of the best node, the first of equals; a `progevo.search.Search`."""

    def __init__(self) -> None:
        super().__init__()
        self._best, self._best_score = 0, -math.inf

    def _parent(self, step: int) -> int:
        return self._best

    def _take(self, node: Node) -> None:
        if node.score > self._best_score:
            self._best, self._best_score = node.index, node.score
