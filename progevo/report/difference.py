"""Difference: what a node changed of its parent's program, for terminals, hidden characters shown by their number."""

from __future__ import annotations

import difflib

from progevo.errors import RunError
from progevo.record import Record
from progevo.visible import visible


def difference(record: Record, index: int) -> list[tuple[str, str]]:
    """The unified difference as lines, each with its kind: `head`, `place`, `new`, `gone` or `same`.

    Raises `RunError` for the seed, and where one of the two has no program.
    """
    node = record.nodes[index]
    if node.parent is None:
        raise RunError(f"node {index} is the seed: it has no parent to differ from")
    texts = []
    for each in (record.nodes[node.parent], node):
        if each.candidate.program is None:
            raise RunError(f"node {each.index} has no program: {each.outcome.reason}")
        texts.append(each.candidate.program.source.split("\n"))
    before, after = texts
    lines = difflib.unified_diff(before, after, f"node {node.parent}", f"node {index}", lineterm="")
    return [(_kind(place, line), visible(line)) for place, line in enumerate(lines)]


def _kind(place: int, line: str) -> str:
    if place < 2:
        return "head"
    return {"@": "place", "+": "new", "-": "gone"}.get(line[:1], "same")
