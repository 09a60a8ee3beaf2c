"""Options of the command line that say how models are asked; their names are those of `progevo.config.Llm`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from progevo.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--model",
        multiple=True,
        metavar="NAME[=WEIGHT]",
        help="A model to ask, as its endpoint calls it; may be given again, with weights.",
    ),
    click.option(
        "--base-url",
        envvar=["PROGEVO_RUN_BASE_URL", "OPENAI_BASE_URL"],
        help="An OpenAI-compatible endpoint. The key comes from OPENAI_API_KEY.  [default: https://api.openai.com/v1]",
    ),
    click.option("--temperature", multiple=True, metavar="[NAME=]NUMBER", help="For all models, or for one."),
    click.option("--reply-tokens", type=int, help="The longest reply to ask for (sent as max_tokens)."),
    click.option("--reasoning-effort", help="Sent as it is: low, medium, high, ..."),
    click.option(
        "--model-seed/--no-model-seed", default=None, help="Send a seed drawn from the run's with every call."
    ),
    click.option("--extra-body", metavar="JSON", help="An object to add to the body of every request."),
    click.option(
        "--edit", type=click.Choice(["full", "diff"]), help="Ask for programs, or for blocks.  [default: full]"
    ),
    click.option("--reply-attempts", type=int, help="Replies to draw until one holds a program.  [default: 4]"),
    click.option(
        "--keep-replies/--no-keep-replies", default=None, help="Keep raw replies under llm/.  [default: keep]"
    ),
    click.option(
        "--model-policy", type=click.Choice(["fixed", "bandit"]), help="How a model is chosen.  [default: fixed]"
    ),
    click.option(
        "--price",
        multiple=True,
        metavar="[NAME=]IN/OUT",
        help="US dollars for a million prompt and completion tokens.",
    ),
    click.option("--call-timeout", type=float, metavar="SECONDS", help="Of one request.  [default: 600]"),
    click.option(
        "--call-deadline", type=float, metavar="SECONDS", help="Of one reply, all tries together.  [default: 1800]"
    ),
    click.option("--dry-run", is_flag=True, help="Print plan, first prompt and estimated cost; ask nobody."),
)


def model_options(command: Command) -> Command:
    """Adds them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def model_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags as settings: an option that may be given again and was not is none. Raises `ConfigError`."""
    found: dict[str, Any] = {name: None if value == () else value for name, value in flags.items()}
    text = found.get("extra_body")
    if text is not None:
        try:
            body = json.loads(str(text))
        except ValueError as error:
            raise ConfigError(f"--extra-body takes a JSON object; it was given something else ({error})") from None
        if not isinstance(body, dict):
            raise ConfigError(f"--extra-body takes a JSON object; it was given {type(body).__name__}")
        found["extra_body"] = body
    return found
