"""How much a program differs from others, by its text alone: OpenEvolve's quick stand-in for an edit distance.

After algorithmicsuperintelligence/openevolve, `openevolve/database.py` at commit 411fb59, named beside the lines that
follow it. A program is measured against a reference of the first programs that came, so one measure costs the same
however many there are.
"""

from __future__ import annotations

from typing import NamedTuple

from progevo.types import Program


class Signature(NamedTuple):
    """What the distance needs to know of a text."""

    length: int
    lines: int
    characters: frozenset[str]


class Reference(NamedTuple):
    """A program that others are measured against, and what it measured itself when it came."""

    signature: Signature
    diversity: float | None


class Diversity:
    """Measures programs against the first `reference_size` distinct ones.

    While the reference grows, a program is measured against those before it; a text that comes again measures what it
    did before. A copy of a text therefore always lies where the text lies.
    """

    def __init__(self, reference_size: int) -> None:
        self._size = reference_size
        self._references: dict[str, Reference] = {}  # by the program's id

    def measure(self, program: Program) -> float | None:
        """The mean distance to the reference (_get_cached_diversity); `None` for the first, which has no other."""
        if program.id in self._references:
            return self._references[program.id].diversity
        own = signature(program.source)
        distances = [distance(own, other.signature) for other in self._references.values()]
        diversity = sum(distances) / len(distances) if distances else None
        if len(self._references) < self._size:
            self._references[program.id] = Reference(own, diversity)
        return diversity


def signature(source: str) -> Signature:
    return Signature(len(source), source.count("\n"), frozenset(source))


def distance(one: Signature, other: Signature) -> float:
    """A tenth of the difference in length, ten for every line, a half for every character that only one has.

    `_fast_code_diversity` in OpenEvolve.
    """
    length = abs(one.length - other.length)
    lines = abs(one.lines - other.lines)
    return length * 0.1 + lines * 10 + len(one.characters ^ other.characters) * 0.5
