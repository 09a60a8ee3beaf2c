"""Opening a proposer by the word that people type."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from progevo.budget import Budget
from progevo.config import Llm, is_loopback
from progevo.domain import Domain
from progevo.errors import ConfigError
from progevo.propose import Proposer

if TYPE_CHECKING:
    from progevo.propose.models import Model

RECORDED = "recorded:"


def open_proposer(
    word: str,
    domain: Domain,
    *,
    llm: Llm = Llm(),
    budget: Budget = Budget(),
    folder: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Proposer:
    """The proposer that `word` names: "mutate", "llm", or "recorded:FILE".

    Args:
        word: as typed.
        domain: the task.
        llm: how models are asked.
        budget: what all calls together may come to: its calls, tokens and dollars.
        folder: the run folder, where raw replies are kept under `llm/`; `None` keeps none.
        say: hears in a line what a person should know while models are asked.

    Raises `ConfigError` for a word that is none, and for settings that cannot be. Nothing is asked, nothing written.
    """
    archive = folder if llm.keep_replies else None
    if word == "mutate":
        from progevo.propose.mutate import Mutate  # libcst takes 0.2 s to import: only for whoever proposes

        return Mutate(moves=domain.moves, entrypoint=domain.entrypoint)
    if word == "llm":
        return _open_llm(domain, llm, budget, archive, folder, say)
    if word.startswith(RECORDED) and word != RECORDED:
        from progevo.propose.archive import Archive, read_recording
        from progevo.propose.recorded import Replay

        replies = read_recording(Path(word.removeprefix(RECORDED)))
        return Replay(
            replies,
            entrypoint=domain.mark,
            attempts=llm.reply_attempts,
            archive=Archive(archive),
            edit=llm.edit == "diff",
        )
    raise ConfigError(
        f"there is no proposer {word!r}; the proposers are mutate, llm (with --model NAME) and recorded:FILE"
    )


def _open_llm(
    domain: Domain, llm: Llm, budget: Budget, archive: Path | None, folder: Path | None, say: Callable[[str], None]
) -> Proposer:
    from progevo.propose.archive import Archive
    from progevo.propose.endpoint import Endpoint
    from progevo.propose.llm import Asker
    from progevo.propose.models import read_models
    from progevo.propose.transport import Http, check_key, hide

    models = read_models(llm)
    again = "" if folder is None else f"; what came before is kept, to go on: progevo resume {shlex.quote(str(folder))}"
    say(f"models    {', '.join(_described(model) for model in models)} at {llm.base_url}")
    key = check_key(os.environ.get("OPENAI_API_KEY"))
    hidden = hide(key)
    place = urlsplit(llm.base_url)
    if key and place.scheme == "http" and not is_loopback(place.hostname or ""):
        say(f"the key goes to {place.hostname} as plain text: its base URL starts with http and not with https")
    return Asker(
        domain=domain,
        llm=llm,
        models=models,
        endpoint=Endpoint(llm, Http(llm.base_url, key), say=say),
        archive=Archive(archive),
        budget=budget,
        again=again,
        hide=lambda text: hidden(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass"),
    )


def _described(model: Model) -> str:
    price = "price unknown" if model.price is None else f"price {model.price.source}"
    warmth = "" if model.temperature is None else f", temperature {model.temperature:g}"
    return f"{model.name} (weight {model.weight:g}{warmth}, {price})"
