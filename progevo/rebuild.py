"""Rebuild: a search as it stood after the last event of a journal."""

from __future__ import annotations

from progevo.errors import RunError
from progevo.record import Prefix, Record
from progevo.search import Search


def rebuild(search: Search, record: Record) -> None:
    """Leads a fresh search through everything that was asked and told.

    Raises `RunError` where it asks for something else than the journal says: it is not the search that was run.
    """
    for difference in replayed(search, record):
        raise RunError(
            f"{record.folder} cannot go on: {difference}; its search is not the one that this version of progevo has"
        )


def replayed(search: Search, record: Record) -> list[str]:
    """Where the search asks for something else than the journal says; ends at the first, since all else follows."""
    told = 0
    for question in record.questions:
        for node in Prefix(record.nodes, question.told)[told:]:
            search.tell(node)
        told = question.told
        ask = search.ask()
        if ask != question.ask:
            return [
                f"step {question.ask.step} asked for a child of node {question.ask.parent} with inspirations"
                f" {list(question.ask.inspirations)}; replayed, step {ask.step} asks for node {ask.parent}"
                f" with {list(ask.inspirations)}"
            ]
    for node in record.nodes[told:]:
        search.tell(node)
    return []
