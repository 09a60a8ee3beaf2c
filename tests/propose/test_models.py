"""propose.models and propose.price: names, weights and prices as people write them, and whom the next call asks."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from progevo import Candidate, Node, Outcome
from progevo.config import Llm
from progevo.errors import ConfigError
from progevo.propose.models import Model, choose, read_models
from progevo.propose.price import Price, read_price, table_price
from progevo.types import Draw, Tokens

LOCAL = "http://127.0.0.1:8080/v1"


def read(*model, **settings):
    return read_models(Llm(model=model, base_url=LOCAL, **settings))


@pytest.mark.parametrize(
    ("text", "name", "weight"),
    [
        ("gpt-5", "gpt-5", 1.0),
        ("llama3:8b", "llama3:8b", 1.0),
        ("llama3:8b=0.3", "llama3:8b", 0.3),
        ("org/model:free=2", "org/model:free", 2.0),
        ("a=b", "a=b", 1.0),
        ("a=b=3", "a=b", 3.0),
    ],
)
def test_a_model_is_a_name_with_a_weight_behind_the_last_equals_sign(text, name, weight):
    (model,) = read(text)
    assert (model.name, model.weight) == (name, weight)


@pytest.mark.parametrize("text", ["", "=1", "a=0", "a=-1", "a=inf", "a=nan"])
def test_a_weight_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="--model"):
        read(text)


def test_a_model_is_named_once():
    with pytest.raises(ConfigError, match="twice"):
        read("a", "a=2")
    with pytest.raises(ConfigError, match="--model"):
        read()


def test_temperature_and_price_are_for_all_or_for_one():
    a, b = read("a", "b:1", temperature=("b:1=0.2", "0.7"), price=("a=1/2",))
    assert (a.temperature, b.temperature) == (0.7, 0.2)
    assert a.price == Price(prompt=1.0, completion=2.0, source="given")
    assert b.price is None
    assert [model.temperature for model in read("a", "b")] == [None, None]
    for wrong in (
        {"temperature": ("c=1",)},
        {"temperature": ("warm",)},
        {"temperature": ("-1",)},
        {"price": ("c=1/1",)},
    ):
        with pytest.raises(ConfigError):
            read("a", "b", **wrong)


@pytest.mark.parametrize("text", ["", "1", "1/2/3", "a/b", "-1/2", "1/inf", "nan/1"])
def test_a_price_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="--price takes"):
        read_price(text)


def test_a_cost_is_known_only_where_the_tokens_are():
    price = read_price("2/10")
    assert price.cost_usd(Tokens(prompt=1000, completion=100)) == pytest.approx(0.003)
    assert price.cost_usd(Tokens(prompt=1000)) is price.cost_usd(Tokens()) is None
    assert price.cost_usd(Tokens(prompt=1000, completion=100, cached=900)) == pytest.approx(0.003)
    cheap = Price(prompt=2.0, completion=10.0, cached=0.5, source="x")
    assert cheap.cost_usd(Tokens(prompt=1000, completion=100, cached=900)) == pytest.approx(
        (100 * 2 + 900 * 0.5 + 100 * 10) / 1e6
    )
    # A provider that counts more of them than there were does not make it negative.
    assert cheap.cost_usd(Tokens(prompt=10, completion=0, cached=900)) == pytest.approx(10 * 0.5 / 1e6)


def test_the_table_knows_prices_by_provider_and_says_so_where_it_does_not():
    pytest.importorskip("genai_prices", reason="the extra prices is not installed")
    price = table_price("gpt-5", "https://api.openai.com/v1")
    assert price is not None
    assert (price.prompt, price.completion) == (1.25, 10.0)
    assert price.source.startswith("genai-prices ")
    assert table_price("no-such-model", "https://api.openai.com/v1") is None
    assert table_price("gpt-5", LOCAL) is None  # a server that calls its model so is not that provider


def history(*children, draws=None):
    """A seed at 0 and one child of it for each (model, score, tokens)."""
    ok = Outcome(status="ok", score=0.0)
    nodes = [Node(index=0, step=0, parent=None, candidate=Candidate(program=None, origin="seed"), outcome=ok)]
    for model, score, tokens in children:
        outcome = Outcome(status="ok", score=score) if score is not None else Outcome(status="crashed", reason="x")
        draw = Draw(model=model, verdict="ok", tokens=Tokens(prompt=0, completion=tokens))
        candidate = Candidate(program=None, origin=model, draws=(draw,))
        nodes.append(Node(index=len(nodes), step=len(nodes), parent=0, candidate=candidate, outcome=outcome))
    return tuple(nodes)


def asked(policy, nodes, models, count=2000):
    return Counter(choose(models, policy, nodes, random.Random(f"{step}")).name for step in range(count))


MODELS = (Model(name="a"), Model(name="b"))


def test_a_fixed_choice_follows_the_weights():
    models = (Model(name="a", weight=3.0), Model(name="b", weight=1.0))
    counts = asked("fixed", history(), models)
    assert counts["a"] == pytest.approx(1500, abs=80)
    assert choose(models[:1], "bandit", history(), random.Random(0)).name == "a"


def test_a_bandit_starts_even_and_turns_to_what_pays_without_giving_up():
    even = asked("bandit", history(), MODELS)
    assert even["a"] == pytest.approx(1000, abs=100)
    nodes = history(*[("a", 1.0, 10), ("b", -1.0, 10)] * 8)
    counts = asked("bandit", nodes, MODELS)
    assert counts["a"] > 1700
    assert counts["b"] > 0


def test_a_bandit_counts_what_each_costs():
    nodes = history(*[("a", 1.0, 100), ("b", 1.0, 10)] * 8)
    assert asked("bandit", nodes, MODELS)["b"] > 1950
    # Where what one of them costs is unknown, neither is preferred for it.
    nodes = history(*[("a", 1.0, 100), ("b", 1.0, None)] * 8)
    assert asked("bandit", nodes, MODELS)["b"] == pytest.approx(1000, abs=120)


def test_a_choice_depends_on_history_and_generator_alone():
    nodes = history(("a", 1.0, 3), ("b", None, 5), ("b", 0.5, 5))
    for policy in ("fixed", "bandit"):
        assert asked(policy, nodes, MODELS, 50) == asked(policy, nodes, MODELS, 50)
