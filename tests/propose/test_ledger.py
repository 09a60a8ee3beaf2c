"""propose.ledger: no order of calls, reports and failures passes a budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo.budget import Budget
from progevo.errors import BudgetSpent
from progevo.propose.ledger import Ledger, Worst
from progevo.types import Draw, Tokens

WORSTS = st.builds(Worst, tokens=st.integers(1, 500), cost_usd=st.floats(0.01, 2.0))
#: For each call: its worst case, what share of it is reported (`None`: nothing), and how many calls end before it.
CALLS = st.lists(st.tuples(WORSTS, st.one_of(st.none(), st.just("lost"), st.floats(0.0, 1.0)), st.integers(0, 3)))


def refusal(ledger, worst):
    """The budget for whose sake a call is refused, if it is."""
    try:
        ledger.reserve(worst)
    except BudgetSpent as spent:
        return spent.budget
    return None


@given(CALLS, st.integers(1, 20), st.integers(1, 3000), st.floats(0.1, 10.0))
def test_what_was_spent_and_is_in_flight_never_passes_a_cap(calls, most, tokens, cost):
    ledger = Ledger(Budget(calls=most, tokens=tokens, cost_usd=cost))
    in_flight: list = []
    spent_calls, spent_tokens, spent_cost = 0, 0, 0.0
    for worst, share, ended in calls:
        for _ in range(min(ended, len(in_flight))):
            before, reported = in_flight.pop(0)
            if reported == "lost":
                ledger.release(before)
                continue
            spent_calls += 1
            known = reported is not None
            used = (int(before.tokens * reported), before.cost_usd * reported) if known else (None, None)
            ledger.settle(before, *used)
            spent_tokens += used[0] if known else before.tokens
            spent_cost += used[1] if known else before.cost_usd
        refused = refusal(ledger, worst)
        if refused is not None:
            over = {
                "calls": spent_calls + len(in_flight) + 1 > most,
                "tokens": spent_tokens + sum(w.tokens for w, _ in in_flight) + worst.tokens > tokens,
                "cost_usd": spent_cost + sum(w.cost_usd for w, _ in in_flight) + worst.cost_usd > cost - 1e-9,
            }
            assert over[refused]
        else:
            in_flight.append((worst, share))
        assert spent_calls + len(in_flight) <= most
        assert spent_tokens + sum(w.tokens for w, _ in in_flight) <= tokens
        assert spent_cost + sum(w.cost_usd for w, _ in in_flight) <= cost + 1e-9


def test_without_caps_nothing_is_refused():
    ledger = Ledger(Budget())
    for _ in range(1000):
        ledger.reserve(Worst(tokens=None, cost_usd=None))


def test_a_worst_case_that_is_unknown_does_not_fit_a_cap():
    with pytest.raises(BudgetSpent, match="tokens"):
        Ledger(Budget(tokens=10**9)).reserve(Worst(tokens=None, cost_usd=None))


def test_what_earlier_sessions_drew_counts_and_what_reported_nothing_as_its_worst_case():
    known = Draw(model="m", verdict="ok", tokens=Tokens(prompt=30, completion=10), cost_usd=0.5)
    worst = Worst(tokens=100, cost_usd=1.0)
    ledger = Ledger(Budget(calls=4, tokens=340, cost_usd=4.0))
    ledger.restore([known, Draw(model="m", verdict="ok")], worst)  # 40 + 100 tokens, 0.5 + 1 dollars, 2 calls
    ledger.reserve(worst)
    ledger.reserve(worst)
    ledger.release(worst)
    with pytest.raises(BudgetSpent, match="tokens"):
        ledger.reserve(Worst(tokens=101, cost_usd=0.0))
    ledger.reserve(worst)
