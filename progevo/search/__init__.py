"""Searches: each decides which node to expand next. One protocol for all, and a catalogue of those that have a name.

`flat_puct` is ERA's tree search. `islands` is OpenEvolve's, with `population` (who lives where), `grid` (which cell)
and `diversity` (how much a text differs). `reference` holds those that others are compared with; `questions` is the
contract of ask and tell that all of them share.
"""

from __future__ import annotations

from typing import Protocol

from progevo.types import Ask, Json, Node


class Search(Protocol):
    """Decides which node is expanded next.

    The seed is told first (index 0, step 0, no parent). After that every `ask` is answered by exactly one
    `tell` whose node carries the ask's `step`; several asks may be open at once, and be answered in any order.
    A failed program is told like any other, with a score of negative infinity.
    """

    def ask(self) -> Ask:
        """Which node to expand. Raises `ValueError` before the seed has been told."""
        ...

    def tell(self, node: Node, /) -> None:
        """Takes a scored node. Raises `ValueError` for a step that was not asked, or answered before."""
        ...

    def constants(self) -> dict[str, Json]:
        """The numbers that define this search, as written into results (`{"c_puct": 1.0}`)."""
        ...

    def summary(self) -> dict[str, Json]:
        """The shape of what was searched, as written into results (`{"tree": {...}}`)."""
        ...
