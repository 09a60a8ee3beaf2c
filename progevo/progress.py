"""Progress on stderr: one live line on a terminal, one plain line a candidate elsewhere."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, TextIO

from progevo.holdout import planning_line
from progevo.types import Node

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from progevo.plan import Plan


class Lines:
    """Plain lines: for pipes, files and logs. Also what the live form prints above its bar."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._plan: Plan | None = None

    def started(self, plan: Plan) -> None:
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
        self.say(f"sandbox   {box.backend} {box.version}, {box.rung}, profile {box.profile}")
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
        return f"{first}  (best on search {metric.value(best.score):.5f}, {data})"

    def stopping(self, in_flight: int) -> None:
        self.say(f"stopping: waiting for {in_flight} in flight; interrupt again to give them up")

    def testing(self, best: Node) -> None:
        self.say(f"scoring the seed and the best (node {best.index}) on the held-out part")

    def done(self) -> None:
        """Where to find it all."""
        assert self._plan is not None
        folder = self._plan.folder
        self.say(f"written to {folder}: report.html, best.py, result.json, all candidates (progevo show {folder} NODE)")

    def unfinished(self) -> None:
        """How to go on with a run that was stopped."""
        if self._plan is not None:
            self.say(f"progevo resume {self._plan.folder} goes on with it")

    def close(self) -> None: ...

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class Live(Lines):
    """A bar with the best so far and the outcomes by status; the plan stands above it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._counts: Counter[str] = Counter()
        self._bar: Bar | None = None

    def started(self, plan: Plan) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        super().started(plan)
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=Console(file=self._stream))
        self._bar.add_task("scoring the seed", total=plan.iterations)
        self._bar.start()

    def told(self, node: Node, best: Node) -> None:
        assert self._bar is not None and self._plan is not None
        self._counts[node.outcome.status] += 1
        metric = self._plan.domain.metric
        if node.index == best.index:
            self.say(self.line(node, best))
        failed = ", ".join(f"{count} {status}" for status, count in sorted(self._counts.items()) if status != "ok")
        text = f"best on search {metric.value(best.score):.5f} {metric.name}, {self._plan.domain.data.source}"
        task = self._bar.task_ids[0]
        self._bar.update(task, completed=node.index, description=f"{text}; {failed}" if failed else text)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        if self._bar is not None and self._bar.live.is_started:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            super().say(text)


def metric_words(plan: Plan) -> str:
    """The metric as people say it: name, direction, unit."""
    metric = plan.domain.metric
    unit = f" ({metric.unit})" if metric.unit else ""
    return f"{metric.direction} {metric.name}{unit}"


def open_progress() -> Lines:
    """Live on a terminal, plain elsewhere."""
    return Live() if sys.stderr is not None and sys.stderr.isatty() else Lines()
