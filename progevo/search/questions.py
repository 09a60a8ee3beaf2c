"""The contract of ask and tell that all searches share: which questions are open, and which answers fit."""

from __future__ import annotations

from progevo.types import Ask, Node


class Questions:
    """Numbers the questions of a search, and refuses what breaks the contract before anything has changed."""

    def __init__(self) -> None:
        #: How many nodes have been told, and how many questions were put.
        self.told = 0
        self.asked = 0
        self._open: dict[int, int] = {}  # step -> the parent asked for

    def ready(self) -> int:
        """The step of the next question. Raises `ValueError` before the seed has been told."""
        if not self.told:
            raise ValueError("asked before the seed was told: tell node 0 (step 0, no parent) first")
        return self.asked + 1

    def put(self, parent: int, inspirations: tuple[int, ...] = ()) -> Ask:
        """Opens the next question."""
        self.asked += 1
        self._open[self.asked] = parent
        return Ask(self.asked, parent, inspirations)

    def answer(self, node: Node) -> None:
        """Takes the seed, or closes the question that the node answers.

        Raises:
            ValueError: the index is not the next one, the step is not open, or the parent is not the one asked for.
        """
        if node.index != self.told:
            raise ValueError(f"told node {node.index}, but indexes follow the order of telling: {self.told} is next")
        if node.index == 0:
            if node.step != 0 or node.parent is not None:
                raise ValueError(f"the seed has step 0 and no parent (got step {node.step}, parent {node.parent})")
        elif node.step not in self._open:
            why = "has been answered before" if 1 <= node.step <= self.asked else "was never asked"
            raise ValueError(f"told an answer to step {node.step}, which {why}: every ask is answered by one tell")
        elif node.parent != self._open[node.step]:
            raise ValueError(f"step {node.step} asked for a child of node {self._open[node.step]} (got {node.parent})")
        self._open.pop(node.step, None)
        self.told += 1
