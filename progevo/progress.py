"""Progress on stderr: one live panel on a terminal, one plain line a candidate elsewhere."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from typing import TYPE_CHECKING, TextIO

from progevo.budget import ITERATIONS
from progevo.execute import LOCAL
from progevo.holdout import planning_line
from progevo.types import Node
from progevo.visible import visible

if TYPE_CHECKING:
    from rich.live import Live as Drawn

    from progevo.panel import Panel
    from progevo.plan import Plan
    from progevo.record import Record

#: The options that raise what has ended a run.
CAPS = {
    "evaluations": "--max-evaluations",
    "seconds": "--max-minutes",
    "calls": "--max-calls",
    "tokens": "--max-tokens",
    "cost_usd": "--max-cost",
    "patience": "--patience",
}
#: How often the panel is drawn anew.
REFRESHES_PER_S = 2


class Lines:
    """Plain lines: for pipes, files and logs. Also what the live form prints above its panel."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._plan: Plan | None = None

    def started(self, plan: Plan, record: Record) -> None:
        self._plan = plan
        domain, box = plan.domain, plan.confinement
        rows = f", {domain.data.rows} rows" if domain.data.rows is not None else ""
        workers = f"{plan.workers} worker{'s' * (plan.workers != 1)}"
        self.say(f"task      {domain.name}: {metric_words(plan)}")
        self.say(f"data      {domain.data.source}{rows}")
        if domain.trust == "self_reported":
            self.say("warning   scores are self-reported: the evaluator shares a process with the candidate, which can")
            self.say("          forge them; there is no held-out part. A task of progevo's own is scored on the host")
        caps = {"iterations": plan.iterations, **plan.budget.caps()}
        capped = ", ".join(f"{value:g} {name}" for name, value in caps.items())
        self.say(f"search    {plan.search}, {capped}, {workers}, {plan.schedule.name}, seed {plan.seed}")
        self.say(f"proposer  {plan.proposer}")
        where = plan.settings.get("executor", LOCAL)
        on = "" if where == LOCAL else f", on the workers of {where}"
        self.say(f"sandbox   {box.backend} {box.version}, {box.rung}, profile {box.profile}{on}")
        if (expected := planning_line(domain, plan.repeats)) is not None:
            self.say(f"test      {expected}")
        self.say(f"folder    {plan.folder}")

    def told(self, node: Node, best: Node) -> None:
        self.say(self.line(node, best))

    def line(self, node: Node, best: Node) -> str:
        """One candidate in one line."""
        assert self._plan is not None
        metric, data = self._plan.domain.metric, self._plan.domain.data.source
        what = f"{metric.value(node.score):.5f}" if node.outcome.ok else f"{node.outcome.status}: {node.outcome.reason}"
        copy = f" (as node {node.twin_of})" if node.twin_of is not None else ""
        mark = " *" if node.index == best.index else ""
        of = f"{node.index}/{self._plan.iterations}"
        first = f"[{of:>7}] {node.candidate.origin:<28.28} {what[:160]}{copy}{mark}"
        # What a candidate raised stands in its reason: a terminal would obey it, and a line feed would end the line.
        return visible(f"{first}  (best on search {metric.value(best.score):.5f}, {data})").replace("\n", " ")

    def stopping(self, in_flight: int) -> None:
        self.say(f"stopping: waiting for {in_flight} in flight; interrupt again to give them up")

    def testing(self, best: Node) -> None:
        self.say(f"scoring the seed and the best (node {best.index}) on the held-out part")

    def done(self, stopped_by: str | None) -> None:
        """Where to find it all, and how to go on; a run that was interrupted was stopped by nothing of its own."""
        assert self._plan is not None
        folder, named = self._plan.folder, self._named()
        self.say(f"page      {folder / 'report.html'} (progevo report {named} --open)")
        self.say(f"best      {folder / 'best.py'}; any other candidate: progevo show {named} NODE")
        if stopped_by is not None:
            self.say(f"resume    progevo resume {named} {self._more(stopped_by)}")
        else:
            self.unfinished()

    def _more(self, stopped_by: str) -> str:
        """What raises the cap that has ended the run, to twice as much: any other one would change nothing."""
        assert self._plan is not None
        if stopped_by == "target":
            return "--target VALUE (a better one)"
        if stopped_by not in CAPS:
            return f"--iterations +{self._plan.iterations or ITERATIONS}"
        cap = 2 * getattr(self._plan.budget, stopped_by)
        return f"{CAPS[stopped_by]} {cap / 60 if stopped_by == 'seconds' else cap:g}"

    def unfinished(self) -> None:
        """How to go on with a run that was stopped."""
        if self._plan is not None:
            self.say(f"progevo resume {self._named()} goes on with it")

    def _named(self) -> str:
        """The folder as a shell takes it."""
        assert self._plan is not None
        return shlex.quote(str(self._plan.folder))

    def close(self) -> None: ...

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more; the run goes on
            print(text, file=self._stream, flush=True)


class Live(Lines):
    """One panel that is drawn anew in its place, with new bests above it; see `progevo.panel`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._panel: Panel | None = None
        self._live: Drawn | None = None

    def started(self, plan: Plan, record: Record) -> None:
        from rich.console import Console
        from rich.live import Live as Drawn

        from progevo.panel import Panel

        super().started(plan, record)
        self._panel = panel = Panel(plan, record)
        self._live = Drawn(
            console=Console(file=self._stream), get_renderable=panel.__rich__, refresh_per_second=REFRESHES_PER_S
        )
        self._live.start()

    def told(self, node: Node, best: Node) -> None:
        if node.index == best.index:
            super().told(node, best)

    def stopping(self, in_flight: int) -> None:
        super().stopping(in_flight)
        self._do(f"waiting for {in_flight} in flight")

    def testing(self, best: Node) -> None:
        super().testing(best)
        self._do("scoring the seed and the best on the held-out part")

    def close(self) -> None:
        if self._panel is not None and self._live is not None:
            self._panel.close()
            self._live.stop()

    def say(self, text: str) -> None:
        if self._live is not None and self._live.is_started:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            super().say(text)

    def _do(self, what: str) -> None:
        assert self._panel is not None
        self._panel.doing = what


def metric_words(plan: Plan) -> str:
    """The metric as people say it: name, direction, unit."""
    metric = plan.domain.metric
    unit = f" ({metric.unit})" if metric.unit else ""
    return f"{metric.direction} {metric.name}{unit}"


def open_progress() -> Lines:
    """Live on a terminal that can move its cursor, plain elsewhere."""
    moves = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return Live() if sys.stderr is not None and sys.stderr.isatty() and moves else Lines()
