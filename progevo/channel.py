"""What the model channel did to a run: pure functions of its nodes' draws, so that a journal tells all of it again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from progevo.types import Draw, Json, Node, Tokens

#: The half-width of a 95 % interval in standard errors, for a normal distribution.
Z_95 = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What draws cost; `None` where the provider of any of them did not say, or no price is known."""

    calls: int = 0
    tokens: int | None = 0
    cost_usd: float | None = 0.0


def draws_of(nodes: Iterable[Node]) -> list[Draw]:
    """Every reply that was drawn for these nodes, redraws included, in order."""
    return [draw for node in nodes for draw in node.candidate.draws]


def spending(draws: Sequence[Draw]) -> Spending:
    """What draws cost together."""
    costs = [draw.cost_usd for draw in draws]
    return Spending(
        calls=len(draws),
        tokens=total([tokens(draw.tokens) for draw in draws]),
        cost_usd=None if None in costs else math.fsum(cost for cost in costs if cost is not None),
    )


def tokens(counted: Tokens) -> int | None:
    """Prompt and completion tokens together; the reasoned and the cached ones are parts of these."""
    return total([counted.prompt, counted.completion])


def total(counts: Sequence[int | None]) -> int | None:
    """A sum that is unknown where any part of it is."""
    return None if None in counts else sum(count for count in counts if count is not None)


def reply_damage(nodes: Iterable[Node], attempts_allowed: int | None) -> dict[str, Json]:
    """How many replies arrived as something other than Python, and what drawing again cost (`docs/result-file.md`).

    `rate` is `damaged / drawn`, `interval` its 95 % interval; both `None` where nothing was drawn.
    """
    nodes = list(nodes)
    drawn = draws_of(nodes)
    again = [draw for node in nodes for draw in node.candidate.draws[1:]]
    damaged = [draw for draw in drawn if draw.verdict == "damaged"]
    kinds, faults = Counter(draw.kind for draw in damaged), Counter(draw.fault for draw in damaged)
    interval = wilson(len(damaged), len(drawn))
    return {
        "drawn": len(drawn),
        "damaged": len(damaged),
        "recovered": sum(draw.verdict == "recovered" for draw in drawn),
        "by_kind": dict(sorted(kinds.items())),
        "by_fault": dict(sorted(faults.items())),
        "attempts_allowed": attempts_allowed,
        "redraws": {
            "count": len(again),
            "tokens": spending(again).tokens,
            "seconds": round(math.fsum(draw.seconds for draw in again), 3),
        },
        "rate": len(damaged) / len(drawn) if drawn else None,
        "interval": list(interval) if interval is not None else None,
    }


def wilson(count: int, of: int) -> tuple[float, float] | None:
    """The 95 % interval of a share, which stays between 0 and 1 and is sound for small numbers; `None` for none.

    Wilson, J. Am. Stat. Assoc. 22 (1927), 209-212.
    """
    if of == 0:
        return None
    share, square = count / of, Z_95**2
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = Z_95 * math.sqrt(share * (1 - share) / of + square / (4 * of**2)) / (1 + square / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def models(nodes: Iterable[Node]) -> list[dict[str, Json]]:
    """For every model that was asked, by name: replies drawn and damaged, nodes written, tokens by kind, and cost."""
    nodes = list(nodes)
    drawn = draws_of(nodes)
    writers = Counter(
        node.candidate.draws[-1].model for node in nodes if node.candidate.draws and node.candidate.program is not None
    )
    found: list[dict[str, Json]] = []
    for name in sorted({draw.model for draw in drawn}):
        own = [draw for draw in drawn if draw.model == name]
        kinds: dict[str, Json] = {
            kind: total([getattr(draw.tokens, kind) for draw in own])
            for kind in ("prompt", "completion", "reasoning", "cached")
        }
        found.append(
            {
                "name": name,
                "drawn": len(own),
                "damaged": sum(draw.verdict == "damaged" for draw in own),
                "nodes": writers[name],
                "tokens": kinds,
                "cost_usd": spending(own).cost_usd,
            }
        )
    return found
