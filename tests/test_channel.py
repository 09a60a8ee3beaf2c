"""channel: what draws add up to, by hand; what is not known stays unknown."""

from __future__ import annotations

import json
from importlib import resources

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo import Candidate, Node, Outcome, Program
from progevo.channel import models, reply_damage, spending, wilson
from progevo.types import Draw, Tokens


def draw(verdict="ok", kind="", fault="", tokens=(10, 5), model="a", seconds=1.0, cost=0.5):
    counted = Tokens(prompt=tokens[0], completion=tokens[1]) if tokens is not None else Tokens()
    return Draw(model=model, verdict=verdict, kind=kind, fault=fault, tokens=counted, seconds=seconds, cost_usd=cost)


def node(index, *draws, program=True):
    candidate = Candidate(program=Program(f"x = {index}\n") if program else None, origin="x", draws=draws)
    outcome = Outcome(status="ok", score=0.0) if program else Outcome(status="no_program", reason="x")
    return Node(index=index, step=index, parent=0 if index else None, candidate=candidate, outcome=outcome)


CUT = draw("damaged", "cut", "budget", seconds=2.0)
NODES = (
    node(0),
    node(1, CUT, draw("damaged", "splice", "channel"), draw("recovered")),
    node(2, draw()),
    node(3, CUT, CUT, program=False),
    node(4, draw(model="b", tokens=None, cost=None)),
)


def test_every_draw_counts_once():
    found = reply_damage(NODES, 4)
    interval = found.pop("interval")
    assert found == {
        "drawn": 7,
        "damaged": 4,
        "recovered": 1,
        "by_kind": {"cut": 3, "splice": 1},
        "by_fault": {"budget": 3, "channel": 1},
        "attempts_allowed": 4,
        "redraws": {"count": 3, "tokens": 45, "seconds": 4.0},
        "rate": 4 / 7,
    }
    assert interval == pytest.approx([0.2505, 0.8418], abs=5e-4)


def test_what_a_run_has_cost_is_unknown_where_any_draw_is():
    known = [draw for node in NODES[:4] for draw in node.candidate.draws]
    assert spending(known).tokens == 90
    assert spending(known).cost_usd == 3.0
    whole = spending([*known, *NODES[4].candidate.draws])
    assert (whole.calls, whole.tokens, whole.cost_usd) == (7, None, None)
    assert spending([]).tokens == 0
    assert spending([]).cost_usd == 0.0


def test_models_by_name_with_tokens_by_kind():
    a, b = models(NODES)
    assert a == {
        "name": "a", "drawn": 6, "damaged": 4, "nodes": 2,
        "tokens": {"prompt": 60, "completion": 30, "reasoning": None, "cached": None}, "cost_usd": 3.0,
    }  # fmt: skip
    assert (b["name"], b["nodes"], b["cost_usd"], b["tokens"]["prompt"]) == ("b", 1, None, None)
    assert models(NODES[:1]) == []


def test_a_run_without_a_model_has_no_rate():
    found = reply_damage([node(0)], None)
    assert (found["drawn"], found["rate"], found["interval"], found["redraws"]["tokens"]) == (0, None, None, 0)


def test_intervals_from_the_literature():
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3: Wilson's score without continuity correction.
    for count, of, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson(count, of) == pytest.approx((low, high), abs=5e-5)
    assert wilson(0, 0) is None


@given(st.integers(0, 500), st.integers(1, 500))
def test_an_interval_holds_its_share_and_stays_between_0_and_1(count, of):
    count = min(count, of)
    found = wilson(count, of)
    assert found is not None
    low, high = found
    assert 0.0 <= low <= count / of + 1e-12
    assert count / of - 1e-12 <= high <= 1.0


def test_what_stands_in_results_follows_the_schema():
    schema = json.loads((resources.files("progevo") / "result.schema.json").read_text())
    for name, value in (("reply_damage", reply_damage(NODES, 4)), ("reply_damage", reply_damage([], None))):
        part = {**schema["properties"][name], "$defs": schema["$defs"]}
        jsonschema.Draft202012Validator(part).validate(json.loads(json.dumps(value)))
    part = {**schema["$defs"]["model"], "$defs": schema["$defs"]}
    for model in models(NODES):
        jsonschema.Draft202012Validator(part).validate(model)
