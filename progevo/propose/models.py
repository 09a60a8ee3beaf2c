"""The models of a run, and which of them is asked next."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from progevo import channel
from progevo.config import Llm, named
from progevo.errors import ConfigError
from progevo.propose.price import Price, read_price, table_price
from progevo.propose.worth import Record
from progevo.types import Node

Policy = Literal["fixed", "bandit"]


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model, as it is asked."""

    name: str
    weight: float = 1.0
    temperature: float | None = None
    #: `None` where nobody knows what it costs.
    price: Price | None = None


def read_models(llm: Llm) -> tuple[Model, ...]:
    """The models that the settings name. Raises `ConfigError`."""
    if not llm.model:
        raise ConfigError("no model was named; add --model NAME")
    weights = dict(_weighted(text) for text in llm.model)
    if len(weights) < len(llm.model):
        raise ConfigError(f"a model is named twice: {', '.join(llm.model)}")
    names = list(weights)
    temperatures = named(llm.temperature, names, "temperature")
    prices = named(llm.price, names, "price")
    return tuple(
        Model(
            name=name,
            weight=weight,
            temperature=_temperature(temperatures[name]) if name in temperatures else None,
            price=read_price(prices[name]) if name in prices else table_price(name, llm.base_url),
        )
        for name, weight in weights.items()
    )


def choose(models: Sequence[Model], policy: Policy, history: Sequence[Node], rng: random.Random) -> Model:
    """The model that is asked next; depends on the arguments alone.

    "fixed" draws by weight. "bandit" draws by weight times what each model's nodes have been worth (`Record`, by
    Thompson's rule) for what they cost, relative to the dearest.
    """
    if len(models) == 1:
        return models[0]
    if policy == "fixed":
        return rng.choices(models, weights=[model.weight for model in models])[0]
    record = Record.of(history, _writer)
    cost = _relative_cost(models, history)
    return max(models, key=lambda model: model.weight * record.drawn(model.name, rng) / cost(model.name))


def _writer(node: Node) -> str | None:
    """The model that a node was drawn from, also where no program came of it."""
    return node.candidate.draws[-1].model if node.candidate.draws else None


def _relative_cost(models: Sequence[Model], history: Sequence[Node]) -> Callable[[str], float]:
    """What a node of each model costs, as a share of the dearest: in dollars where all are known, else in tokens.

    1 for all where neither is known of every model, which includes that one has not been asked yet.
    """
    means: dict[str, tuple[float | None, float | None]] = {}
    for model in models:
        nodes = [node for node in history if _writer(node) == model.name]
        spent = channel.spending(channel.draws_of(nodes))
        count = len(nodes) or None
        means[model.name] = (
            spent.cost_usd / count if count and spent.cost_usd is not None else None,
            spent.tokens / count if count and spent.tokens is not None else None,
        )
    for unit in (0, 1):
        found = {name: value for name, mean in means.items() if (value := mean[unit])}
        if len(found) == len(models):
            most = max(found.values())
            return lambda name: found[name] / most
    return lambda name: 1.0


def _weighted(text: str) -> tuple[str, float]:
    """NAME or NAME=WEIGHT, where a name may hold colons, slashes, and an equals sign that no number follows."""
    name, equals, last = text.rpartition("=")
    try:
        weight = float(last) if equals else 1.0
    except ValueError:
        name, equals, weight = text, "", 1.0
    if not equals:
        name = text
    if not name or not 0 < weight < float("inf"):
        raise ConfigError(f"--model takes NAME or NAME=WEIGHT with a weight above 0; it was given {text!r}")
    return name, weight


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ConfigError(f"--temperature takes NUMBER or NAME=NUMBER, from 0 on; it was given {text!r}")
    return value
