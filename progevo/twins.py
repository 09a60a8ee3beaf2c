"""Twins: which candidates repeat a program that has been scored, or answer every case as another one does."""

from __future__ import annotations

from collections.abc import Sequence

from progevo.types import Candidate, Node, Outcome

#: Words of a crash that the host's load or a limit may have caused (`progevo.sandbox.outcome`).
_ACCIDENTS = ("(limit ", "killed by ", "it ended before it answered")


def repeatable(outcome: Outcome) -> bool:
    """Whether another run of the same program would end the same: then a copy takes the outcome over.

    Timeouts, memory, output and lost sandboxes depend on the host's load, and so do crashes by a signal or a limit.
    """
    if outcome.status == "crashed":
        return not any(word in outcome.reason for word in _ACCIDENTS)
    return outcome.status in ("ok", "gate_refused", "bad_output", "stage_failed")


def same_program(one: Candidate, node: Node) -> bool:
    """Whether a candidate is the program of a node, comments and layout aside.

    A text that the gate refused is compared letter by letter: there are some whose mere parsing takes gigabytes.
    """
    if one.program is None or node.candidate.program is None:
        return False
    if one.program.id == node.candidate.program.id:
        return True
    return node.outcome.status != "gate_refused" and one.program.twin == node.candidate.program.twin


class Twins:
    """The first node of every program and of every answer. Grows as nodes are told; looked up from any thread."""

    def __init__(self) -> None:
        self._by_text: dict[str, int] = {}
        self._by_tree: dict[str, int] = {}
        self._by_answer: dict[str, int] = {}

    def refused(self, candidate: Candidate, told: int) -> int | None:
        """The node, among the first `told`, with this very text, which the gate refused."""
        return self._among(self._by_text.get(candidate.program.id) if candidate.program else None, told)

    def scored(self, candidate: Candidate, told: int) -> int | None:
        """The node, among the first `told`, with this program, whose outcome a copy takes over."""
        return self._among(self._by_tree.get(candidate.program.twin) if candidate.program else None, told)

    def same_answer(self, node: Node) -> int | None:
        """The first node with another program and the same answer to every case."""
        if node.twin_of is not None or node.outcome.answer_id is None:
            return None
        return self._by_answer.get(node.outcome.answer_id)

    def add(self, node: Node) -> None:
        """Takes a node that has been told."""
        program = node.candidate.program
        if program is None or node.twin_of is not None or not repeatable(node.outcome):
            return
        if node.outcome.status == "gate_refused":
            self._by_text.setdefault(program.id, node.index)
            return
        self._by_tree.setdefault(program.twin, node.index)
        if node.outcome.answer_id is not None:
            self._by_answer.setdefault(node.outcome.answer_id, node.index)

    @staticmethod
    def _among(index: int | None, told: int) -> int | None:
        # Only what had been told when the step was asked, or the outcome would depend on who was faster.
        return index if index is not None and index < told else None


def no_op(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether a copy is one of its own parent, which may be a copy itself."""
    return (
        node.twin_of is not None
        and node.parent is not None
        and node.twin_of in (node.parent, nodes[node.parent].twin_of)
    )
