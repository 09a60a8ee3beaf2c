"""The budgets of a run's calls: nothing is sent whose worst case, beside that of all in flight, would pass one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from progevo import channel
from progevo.budget import Budget
from progevo.errors import BudgetSpent
from progevo.types import Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The most that one call may cost; `None` where that is not known (and no budget of it is set)."""

    tokens: int | None
    cost_usd: float | None


class Ledger:
    """What may still be spent; shared by all threads that call.

    A call that has ended counts as what it reported; where it reported nothing, as its worst case.
    """

    def __init__(self, budget: Budget) -> None:
        self._caps = {"calls": budget.calls, "tokens": budget.tokens, "cost_usd": budget.cost_usd}
        #: Spent, and reserved for calls in flight.
        self._taken: dict[str, float] = {"calls": 0, "tokens": 0, "cost_usd": 0.0}
        self._lock = threading.Lock()

    def restore(self, draws: Sequence[Draw], worst: Worst) -> None:
        """Counts what earlier sessions of a run have drawn; draws that reported nothing count as `worst`."""
        with self._lock:
            for draw in draws:
                self._add(worst)
                self._settle(worst, channel.tokens(draw.tokens), draw.cost_usd)

    def reserve(self, worst: Worst) -> None:
        """Sets a call's worst case aside. Raises `BudgetSpent`, and sets nothing aside, where it would not fit."""
        with self._lock:
            amounts = {"calls": 1, "tokens": worst.tokens, "cost_usd": worst.cost_usd}
            for name, cap in self._caps.items():
                amount = amounts[name]
                if cap is not None and (amount is None or self._taken[name] + amount > cap):
                    raise BudgetSpent(name)
            self._add(worst)

    def settle(self, worst: Worst, tokens: int | None, cost_usd: float | None) -> None:
        """Puts what a call reported in the place of its worst case."""
        with self._lock:
            self._settle(worst, tokens, cost_usd)

    def release(self, worst: Worst) -> None:
        """Takes back what was set aside for a call that brought no reply."""
        with self._lock:
            self._taken["calls"] -= 1
            self._settle(worst, 0, 0.0)

    def _add(self, worst: Worst) -> None:
        self._taken["calls"] += 1
        self._taken["tokens"] += worst.tokens or 0
        self._taken["cost_usd"] += worst.cost_usd or 0.0

    def _settle(self, worst: Worst, tokens: int | None, cost_usd: float | None) -> None:
        if tokens is not None:
            self._taken["tokens"] += tokens - (worst.tokens or 0)
        if cost_usd is not None:
            self._taken["cost_usd"] += cost_usd - (worst.cost_usd or 0.0)
