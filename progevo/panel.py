"""The live panel of a run, as rich draws it: how far it is, its best, failures, rate, what is left, and the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from progevo.plan import Plan
    from progevo.record import Record

#: No wider than eyes like, whatever the terminal.
WIDTH = 100


class Panel:
    """Reads the record of a run that goes on; rich asks it anew at every refresh.

    Args:
        clock: seconds from some start.
        now: the time of day, for the estimated end.
    """

    def __init__(
        self,
        plan: Plan,
        record: Record,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._plan, self._record, self._clock, self._now = plan, record, clock, now
        self._began = clock()
        self._seconds_before = record.spent.seconds
        self._before = self._used()
        #: What it does when it no longer searches; nothing can be estimated then.
        self.doing: str | None = None

    def close(self) -> None:
        """The run is over: says when and why instead of estimating it."""
        self.doing = f"at {self._now():%H:%M}, stopped by {self._record.stop_reason or 'an error'}"

    def __rich__(self) -> Frame:
        plan, record = self._plan, self._record
        done = max(0, len(record.nodes) - 1)
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(ratio=1)
        grid.add_row(Text(f"{done}/{plan.iterations}"), ProgressBar(plan.iterations, done, complete_style="cyan"))
        for name, text in (
            ("best on search", self._best()),
            ("failed", self._failed()),
            ("rate", self._rate()),
            ("left", self._left()),
            ("end", self.doing or self._end()),
        ):
            grid.add_row(name, Text(text))  # as text: a name may hold what rich takes for its mark-up
        title = Text(f"{plan.domain.name}, {plan.search}, seed {plan.seed}")
        return Frame(grid, title=title, title_align="left", width=WIDTH)

    def _best(self) -> str:
        record, domain = self._record, self._plan.domain
        if not record.nodes:
            return "scoring the seed"
        metric, which = domain.metric, f"node {record.best}" if record.best else "the seed"
        unit = f" in {metric.unit}" if metric.unit else ""
        seed = f"; seed {metric.value(record.nodes[0].score):.6g}" if record.best else ""
        return f"{metric.value(record.best_score):.6g} {metric.name}{unit} ({which}){seed}; {domain.data.source}"

    def _failed(self) -> str:
        counts = Counter(node.outcome.status for node in self._record.nodes if not node.outcome.ok)
        causes = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        return f"{counts.total()} of {len(self._record.nodes)}: {causes}" if causes else "none"

    def _rate(self) -> str:
        told, seconds = self._used()["iterations"] - self._before["iterations"], self._clock() - self._began
        if not told or not seconds:
            return "not known yet"
        a_minute = 60 * told / seconds
        return f"{a_minute:,.{0 if a_minute >= 100 else 1}f} candidates a minute"

    def _left(self) -> str:
        spent, used = self._record.spent, self._used()
        at_most = {"tokens": spent.unknown_tokens, "cost_usd": spent.unknown_cost}
        words = []
        for name, cap in self._caps().items():
            rest = cap - min(cap, max(0.0, used[name]))
            words.append(f"at most {amount(rest, name)}" if at_most.get(name) else amount(rest, name))
        if (patience := self._plan.budget.patience) is not None:
            words.append(f"{max(0, patience - spent.since_best)} more without a new best")
        return ", ".join(words)

    def _end(self) -> str:
        """When the first cap is reached at the rate of this session. Patience and a target may end it before."""
        seconds, used = self._clock() - self._began, self._used()
        ends = []
        for name, cap in self._caps().items():
            if (fresh := used[name] - self._before[name]) > 0 and seconds > 0:
                ends.append((max(0.0, cap - used[name]) * seconds / fresh, name))
        if not self._record.nodes or not ends:
            return "not known yet"
        rest, name = min(ends)
        return f"about {self._now() + timedelta(seconds=rest):%H:%M}, in {spell(rest)}, by {name}"

    def _caps(self) -> dict[str, float]:
        caps = {"iterations": float(self._plan.iterations), **self._plan.budget.caps()}
        return {name: cap for name, cap in caps.items() if name not in ("patience", "target")}

    def _used(self) -> dict[str, float]:
        spent = self._record.spent
        return {
            "iterations": len(self._record.nodes) - 1,  # -1 before the seed, which takes its time like any other
            "evaluations": spent.evaluations,
            "calls": spent.calls,
            "tokens": spent.tokens,
            "cost_usd": spent.cost_usd,
            "seconds": self._seconds_before + self._clock() - self._began,
        }


def amount(rest: float, name: str) -> str:
    """So much of what a budget counts, in words."""
    match name:
        case "seconds":
            return spell(rest)
        case "cost_usd":
            return f"{rest:,.2f} USD"
        case _:
            return f"{rest:,.0f} {name.removesuffix('s') if rest == 1 else name}"


def spell(seconds: float) -> str:
    """A time as people read it: "42 s", "3 min 05 s", "2 h 07 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
