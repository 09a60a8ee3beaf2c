"""Budget: what a run may use, what it has used, and the word that says why it stops.

Looked at between nodes: nothing in flight is ever ended for a budget's sake. A cap that is `None` changes nothing.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from progevo.errors import ConfigError
from progevo.types import Draw

#: How many candidates a run proposes that was given no cap at all.
ITERATIONS = 40
#: Copies cost no evaluation: a run capped in evaluations alone ends after so many times as many candidates.
ITERATIONS_AN_EVALUATION = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may use, over all its sessions together.

    Attributes:
        iterations: candidates to propose; copies count.
        evaluations: runs of the search part in the sandbox: the seed, every candidate that is no copy (each as often
            as `repeats` says) and confirmations. Held-out runs at the end come on top.
        calls, tokens, cost_usd: what a model may be asked, kept by the proposer before each call.
        seconds: wall time, without the time between two sessions.
        patience: candidates in a row without a new best.
        target: a search value in the metric's own terms that is good enough.
    """

    iterations: int | None = None
    evaluations: int | None = None
    calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    patience: int | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            value = getattr(self, entry.name)
            if value is None:
                continue
            least = {"iterations": 0, "target": -math.inf, "patience": 1, "evaluations": 1}.get(entry.name, 0.0)
            if not math.isfinite(value):
                raise ConfigError(f"the budget of {entry.name} must be a finite number (got {value})")
            if value < least:
                raise ConfigError(f"the budget of {entry.name} must be at least {least:g} (got {value})")

    def caps(self) -> dict[str, float]:
        """Every cap that is set, iterations aside, by name."""
        values = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None and name != "iterations"}

    def settled(self) -> Budget:
        """With a number of iterations in any case, so that every run ends."""
        if self.iterations is not None:
            return self
        whole = ITERATIONS if self.evaluations is None else self.evaluations * ITERATIONS_AN_EVALUATION
        return dataclasses.replace(self, iterations=whole)


@dataclass(slots=True, kw_only=True)
class Spent:
    """What a run has used so far; grows with every event of the journal."""

    asked: int = 0
    told: int = 0
    evaluations: int = 0
    held_out: int = 0
    calls: int = 0
    #: Known ones; `unknown_tokens` and `unknown_cost` say that some are not.
    tokens: int = 0
    cost_usd: float = 0.0
    unknown_tokens: bool = False
    unknown_cost: bool = False
    seconds: float = 0.0
    since_best: int = 0

    def draw(self, draw: Draw) -> None:
        """Counts one reply of a model."""
        self.calls += 1
        if draw.tokens.prompt is None or draw.tokens.completion is None:
            self.unknown_tokens = True
        self.tokens += (draw.tokens.prompt or 0) + (draw.tokens.completion or 0)
        self.cost_usd += draw.cost_usd or 0.0
        self.unknown_cost |= draw.cost_usd is None


def spent_up(budget: Budget, spent: Spent, *, seconds: float, in_flight: int, cost: int, reached: bool) -> str | None:
    """Which budget forbids one more question, by its name in results; `None` while none does.

    Args:
        seconds: how long the run has been going.
        in_flight: questions that are open; each may still cost an evaluation.
        cost: evaluations that one question may cost at most.
        reached: whether the best is as good as the target.
    """
    if reached:
        return "target"
    if budget.patience is not None and spent.since_best >= budget.patience:
        return "patience"
    if budget.evaluations is not None and spent.evaluations + (in_flight + 1) * cost > budget.evaluations:
        return "evaluations"
    for name, used in (
        ("iterations", spent.asked),
        ("calls", spent.calls),
        ("tokens", spent.tokens),
        ("cost_usd", spent.cost_usd),
        ("seconds", seconds),
    ):
        cap = getattr(budget, name)
        if cap is not None and used >= cap:
            return name
    return None
