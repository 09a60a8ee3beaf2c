"""Proposers: each makes one candidate out of a parent."""

from __future__ import annotations

from typing import Protocol

from progevo.types import Brief, Candidate


class Proposer(Protocol):
    """Makes one candidate. Called from several threads at once; all randomness comes from `brief.rng`.

    A reply that holds no program is a `Candidate` with `program=None` and a reason, not an exception.
    Raises `ProposerError` when nothing more can be proposed (the model is gone, the recording has ended), and
    `BudgetSpent` when the next call would pass a budget: the run stops with its name, and can be resumed. Only before
    the first draw for a candidate, as draws are recorded with their candidate: one whose redraws cannot be paid is
    returned without a program, with the draws that it had.

    Three more methods are called where there are any: `restore(draws)`, before a run goes on, with every draw that it
    has recorded, for a proposer that counts what it spends; and for one that waits for a network `drain()`, when a run
    is to end with what is in flight, and `close()`, when it is given up.
    """

    @property
    def name(self) -> str:
        """The name that results carry: "mutate", "llm", ..."""
        ...

    def propose(self, brief: Brief, /) -> Candidate:
        """One candidate for `brief.parent`."""
        ...


def drain(proposer: Proposer) -> None:
    """Lets a proposer finish what it has in flight and try nothing again, if it has a `drain()` for that."""
    finish = getattr(proposer, "drain", None)
    if callable(finish):
        finish()


def close(proposer: Proposer) -> None:
    """Gives up what a proposer has in flight and closes what it holds open, if it has a `close()` for that."""
    end = getattr(proposer, "close", None)
    if callable(end):
        end()
