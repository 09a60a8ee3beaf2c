"""Preview: what a run would do, ask and cost, without a key, a network or a sandbox."""

from __future__ import annotations

import dataclasses
from typing import Any

from progevo import prompt
from progevo.budget import Budget
from progevo.config import Settings
from progevo.domain import Domain

#: Characters of English and of code that a token stands for, roughly.
CHARACTERS_A_TOKEN = 4


def preview(domain: Domain, settings: Settings, budget: Budget) -> dict[str, Any]:
    """The plan, the first prompt, and an estimate of tokens and cost; what cannot be estimated is `None`.

    Raises `ConfigError` for settings that a run would refuse too.
    """
    budget = budget.settled()
    iterations = budget.iterations or 0
    found: dict[str, Any] = {
        "task": domain.name,
        "data": domain.data.source,
        "search": settings.search,
        "iterations": iterations,
        "workers": settings.workers,
        "seed": settings.seed,
        "proposer": settings.chosen_proposer,
        "models": [],
        "prompt": [],
        "estimate": None,
    }
    if settings.chosen_proposer != "llm":
        return found
    from progevo.propose.llm import check_budget, worst_case
    from progevo.propose.models import read_models
    from progevo.types import Tokens

    llm = settings.llm
    models = read_models(llm)
    check_budget(domain, llm, models, budget)
    messages = prompt.first(domain, edit=llm.edit)
    size = sum(len(message.content) for message in messages) // CHARACTERS_A_TOKEN
    total = sum(model.weight for model in models)
    described = []
    cost: float | None = 0.0
    for model in models:
        reply = Tokens(prompt=size, completion=llm.reply_tokens)
        one = model.price.cost_usd(reply) if model.price is not None else None
        share = model.weight / total
        cost = None if cost is None or one is None else cost + one * share * iterations
        described.append(
            {
                "name": model.name,
                "share": share,
                "temperature": model.temperature,
                "price_source": model.price.source if model.price is not None else None,
                "call_usd": one,
                "call_usd_at_most": worst_case(model, messages, llm.reply_tokens).cost_usd,
            }
        )
    return {
        **found,
        "base_url": llm.base_url,
        "models": described,
        "model_policy": llm.model_policy,
        "edit": llm.edit,
        "reply_attempts": llm.reply_attempts,
        "budget": dataclasses.asdict(budget),
        "prompt": [message._asdict() for message in messages],
        "estimate": {
            "estimated": True,
            "prompt_tokens_a_call": size,
            "reply_tokens_a_call": llm.reply_tokens,
            "calls": iterations,
            "cost_usd": cost,
        },
    }
