"""Options that cap what a run may use, and the `Budget` that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from progevo.budget import Budget
    from progevo.config import Settings

Command = Callable[..., None]


def budget_options(command: Command) -> Command:
    """The caps that both `run` and `resume` take."""
    for option in reversed(
        (
            click.option("--max-evaluations", type=int, help="Candidates run in the sandbox, held-out runs aside."),
            click.option("--max-minutes", type=float, help="Wall time; what is in flight is finished."),
            click.option("--max-calls", type=int, help="Replies drawn from models."),
            click.option("--max-tokens", type=int, help="Tokens of all replies (of one: --reply-tokens)."),
            click.option("--max-cost", type=float, help="US dollars that models may cost."),
            click.option("--patience", type=int, help="Candidates in a row without a new best."),
            click.option("--target", type=float, help="A value of the metric on search that is good enough."),
        )
    ):
        command = option(command)
    return command


def budget_of(settings: Settings) -> Budget:
    from progevo.budget import Budget

    names = ("max_evaluations", "max_minutes", "max_calls", "max_tokens", "max_cost")
    caps = {name: getattr(settings, name) for name in names}
    return Budget(
        iterations=settings.iterations, **caps_of({**caps, "patience": settings.patience, "target": settings.target})
    )


def caps_of(given: dict[str, Any]) -> dict[str, Any]:
    """Caps by the names of `Budget`, as far as they were given."""
    minutes = given["max_minutes"]
    caps = {
        "evaluations": given["max_evaluations"],
        "seconds": minutes * 60 if minutes is not None else None,
        "calls": given["max_calls"],
        "tokens": given["max_tokens"],
        "cost_usd": given["max_cost"],
        "patience": given["patience"],
        "target": given["target"],
    }
    return {name: value for name, value in caps.items() if value is not None}
