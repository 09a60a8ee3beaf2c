"""The proposer that replays recorded replies, through the same reading and the same redraws as those of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from progevo import prompt
from progevo.errors import ProposerError
from progevo.propose.archive import Archive, Recorded
from progevo.propose.draw import candidate_of, draw_of, read
from progevo.types import Brief, Candidate, Draw


class Replay:
    """Replays replies by step: a `Proposer` that asks nobody.

    Args:
        replies: by step, in the order of their attempts (`progevo.propose.archive.read_recording`).
        entrypoint: the name that every program defines.
        attempts: how many replies of a step may be used.
        archive: keeps them in the run folder as well, so that it is whole.
        edit: whether changes to the parent were asked for, and not whole programs.
    """

    def __init__(
        self,
        replies: Mapping[int, Sequence[Recorded]],
        *,
        entrypoint: str,
        attempts: int,
        archive: Archive,
        edit: bool = False,
    ) -> None:
        self._replies, self._entrypoint, self._attempts = replies, entrypoint, attempts
        self._archive, self._edit = archive, edit
        self._last = max(replies)

    @property
    def name(self) -> str:
        return "recorded"

    def propose(self, brief: Brief, /) -> Candidate:
        """The program of the step's first reply that holds one. Raises `ProposerError` past the last step."""
        if brief.step > self._last:
            raise ProposerError(f"the recorded replies end with step {self._last}; step {brief.step} was asked for")
        shown = prompt.program_node(brief).candidate.program
        draws: list[Draw] = []
        for recorded in self._replies.get(brief.step, ())[: self._attempts]:
            kept = self._archive.keep(replace(recorded, attempt=len(draws) + 1, file=None))
            reply = read(kept, self._entrypoint, shown.source if shown is not None else None, edit=self._edit)
            draws.append(draw_of(kept, reply, None))
            if reply.verdict != "damaged":
                break
        else:
            if not draws:
                return Candidate(program=None, origin=self.name, reason="no reply was recorded for this step")
        return candidate_of(reply, draws)
