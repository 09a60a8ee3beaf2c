"""From a recorded reply to the draw of a candidate: the one way, for replies of today and of an earlier run."""

from __future__ import annotations

from progevo.propose.archive import Recorded
from progevo.propose.price import Price
from progevo.propose.reply import Reply, read_reply
from progevo.types import Candidate, Draw, Program


def read(recorded: Recorded, entrypoint: str, parent: str | None, *, edit: bool) -> Reply:
    """What a recorded reply holds; with `edit`, changes to the parent were asked for, and not a whole program."""
    return read_reply(
        recorded.body,
        status=recorded.status,
        content_type=recorded.content_type,
        entrypoint=entrypoint,
        parent=parent,
        edit=edit,
    )


def draw_of(recorded: Recorded, reply: Reply, price: Price | None) -> Draw:
    """What drawing a reply came to; its cost is the provider's word where there is one, else by the price."""
    cost_usd = reply.cost_usd
    if cost_usd is None and price is not None:
        cost_usd = price.cost_usd(reply.tokens)
    return Draw(
        model=recorded.model,
        verdict=reply.verdict,
        kind=reply.kind,
        fault=reply.fault,
        steps=reply.steps,
        tokens=reply.tokens,
        cost_usd=cost_usd,
        seconds=round(recorded.seconds, 3),
        file=recorded.file,
    )


def candidate_of(reply: Reply, draws: list[Draw], note: str = "") -> Candidate:
    """The candidate that the last of some draws makes: its program, or the word why there is none."""
    model = draws[-1].model
    if reply.source is not None:
        return Candidate(program=Program(reply.source), origin=model, draws=tuple(draws))
    count = f", the last of {len(draws)} replies" if len(draws) > 1 else ""
    reason = f"damaged ({reply.kind}, {reply.fault}{count}): {reply.reason or 'it holds no program'}{note}"
    return Candidate(program=None, origin=model, reason=reason, draws=tuple(draws))
