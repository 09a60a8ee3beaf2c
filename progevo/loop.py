"""The loop: one session of a run, from the first question to the last line. `progevo.run` tells its story."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Protocol

from progevo import events, judge
from progevo import result as results
from progevo.budget import spent_up
from progevo.domain import SEARCH, TEST
from progevo.errors import BudgetSpent, ProposerError, SandboxUnavailable, TaskError
from progevo.execute import open_executor
from progevo.holdout import Seal
from progevo.journal import Journal
from progevo.plan import Plan, now
from progevo.propose import Proposer, close, drain
from progevo.record import Question, Record
from progevo.sandbox import Sandbox
from progevo.search import Search
from progevo.types import Candidate, Node, Outcome

#: So many lost sandboxes one after another, and the host is not fit to go on.
LOST_IN_A_ROW = 3
#: How much of a failed seed's log is said.
LOG_LENGTH = 1000
#: How often the loop looks up from waiting, to hear whether it is to stop.
LOOK_UP_S = 0.2


class Progress(Protocol):
    """Hears what a run does, in order, from one thread. The record is the run's own, growing: to be read alone."""

    def started(self, plan: Plan, record: Record, /) -> None: ...
    def told(self, node: Node, best: Node, /) -> None: ...
    def stopping(self, in_flight: int, /) -> None: ...
    def testing(self, best: Node, /) -> None: ...


class Silence:
    """A `Progress` that shows nothing."""

    def started(self, plan: Plan, record: Record) -> None: ...
    def told(self, node: Node, best: Node) -> None: ...
    def stopping(self, in_flight: int) -> None: ...
    def testing(self, best: Node) -> None: ...


class Loop:
    """One session of a run. What it knows is in `record`; what is in flight, in `running`."""

    def __init__(
        self,
        plan: Plan,
        search: Search,
        proposer: Proposer,
        sandbox: Sandbox,
        journal: Journal,
        record: Record,
        lock: Seal,
        progress: Progress | None,
        stop: threading.Event | None,
    ) -> None:
        self.plan, self.search, self.proposer, self.sandbox = plan, search, proposer, sandbox
        self.journal, self.record, self.lock = journal, record, lock
        self.progress, self.stop = progress or Silence(), stop or threading.Event()
        self.running: dict[int, Future[judge.Verdict]] = {}
        self.failure: ProposerError | BudgetSpent | None = None
        self.announced = False
        self.began = time.monotonic() - record.spent.seconds

    def run(self) -> results.Result:
        self.progress.started(self.plan, self.record)
        reason = "failed"
        with self._threads():
            try:
                if not self.record.nodes:
                    self._plant()
                reason = self._grow()
                reason = self._test(reason)
            except BaseException as error:
                if self.running or isinstance(error, KeyboardInterrupt):
                    self.sandbox.close()  # so that nothing waits for what nobody wants any more
                reason = _REASONS.get(type(error), "failed")
                raise
            finally:
                self._end(reason)
        return results.write(self.plan.folder, self.record, self.search.summary())

    def note(self, event: events.Event) -> None:
        """Journal first, then what follows from it: a crash between the two replays cleanly."""
        self.journal.append(event)
        self.record.apply(event)

    def _plant(self) -> None:
        """Scores the seed; without its score there is nothing to rank against."""
        future = self.threads.submit(self.judge.fresh, Candidate(program=self.plan.domain.seed, origin="seed"))
        self._await([future])
        verdict = future.result()
        outcome = verdict.outcome
        if outcome.status == "sandbox_lost":
            raise SandboxUnavailable(f"the sandbox was lost while the seed ran: {outcome.reason}")
        if not outcome.ok:
            log = f"; its log ends:\n{outcome.log_tail.rstrip()[-LOG_LENGTH:]}" if outcome.log_tail.strip() else ""
            name = self.plan.domain.name
            raise TaskError(f"the seed of the task {name!r} does not score: {outcome.status}, {outcome.reason}{log}")
        self._tell(None, verdict)
        self.progress.told(self.record.nodes[0], self.record.nodes[0])

    def _grow(self) -> str:
        """Asks until a budget is spent or somebody stops it; why it stopped."""
        self._confirm()
        for question in self.record.open.values():  # of a session that was cut short
            self._start(question)
        while True:
            reason = self._fill()
            if not self.running:
                if isinstance(self.failure, ProposerError):
                    raise self.failure
                assert reason is not None
                return reason
            self._take(self._next())

    def _fill(self) -> str | None:
        """Puts as many questions as fit; why no more are put, where a budget or a person says so."""
        plan, record = self.plan, self.record
        while True:
            reason = self._reason()
            free = plan.schedule.may_ask(open=len(self.running), filling=record.filling, workers=plan.workers)
            if reason is not None or not free:
                return reason
            ask = self.search.ask()
            self.note(events.Asked(step=ask.step, parent=ask.parent, inspirations=ask.inspirations))
            self._start(record.questions[-1])

    def _reason(self) -> str | None:
        if isinstance(self.failure, BudgetSpent):
            return self.failure.budget
        if self.failure is not None:
            return "proposer_failed"
        if self.stop.is_set():
            return "interrupted"
        plan, target = self.plan, self.plan.budget.target
        return spent_up(
            plan.budget,
            self.record.spent,
            seconds=time.monotonic() - self.began,
            in_flight=len(self.running),
            cost=plan.repeats * (2 if plan.confirm else 1),
            reached=target is not None and self.record.best_score >= plan.domain.metric.score(target),
        )

    def _start(self, question: Question) -> None:
        self.running[question.ask.step] = self.threads.submit(self.judge, question)

    def _next(self) -> int:
        """The step to tell next: the oldest, or where the schedule takes them as they come, one that is done."""
        oldest = min(self.running)
        watched = [self.running[oldest]] if self.plan.schedule.in_order else list(self.running.values())
        self._await(watched)
        return oldest if self.plan.schedule.in_order else min(n for n, done in self.running.items() if done.done())

    def _await(self, futures: Sequence[Future[Any]]) -> None:
        """Waits for one of them, and says so once somebody wants to stop."""
        while True:
            if self.stop.is_set() and not self.announced:
                self.announced = True
                self.progress.stopping(max(1, len(self.running)))
                drain(self.proposer)
            if wait(futures, timeout=LOOK_UP_S, return_when=FIRST_COMPLETED).done:
                return

    def _take(self, step: int) -> None:
        try:
            verdict = self.running.pop(step).result()
        except (ProposerError, BudgetSpent) as error:
            # What else is in flight is still told; the question stays open. One that was told to end has not failed.
            if not (self.announced and isinstance(error, ProposerError)):
                self.failure = self.failure or error
            return
        self._tell(self.record.open[step], self.judge.settle(verdict))
        self._confirm()
        self.progress.told(self.record.nodes[-1], self.record.best_node())
        self._mind_the_host()

    def _tell(self, question: Question | None, verdict: judge.Verdict) -> None:
        node = Node(
            index=len(self.record.nodes),
            step=question.ask.step if question is not None else 0,
            parent=question.ask.parent if question is not None else None,
            candidate=verdict.candidate,
            outcome=verdict.outcome,
            twin_of=verdict.twin_of,
        )
        elapsed_s = time.monotonic() - self.began
        line, node = self.journal.node(node, evaluations=verdict.evaluations, elapsed_s=elapsed_s, right=verdict.right)
        self.record.apply(line, node)
        self.search.tell(self.record.nodes[-1])

    def _confirm(self) -> None:
        """Runs a node again that would be the best: the larger of two lucky samples says little of a program."""
        index = self.record.claimant
        if index is not None:
            runs = self._runs(self.record.nodes[index], SEARCH)
            outcome = events.plain_outcome(judge.average(runs))
            measured = events.measured(outcome, elapsed_s=time.monotonic() - self.began)
            self.note(
                events.Confirmed(
                    index=index, evaluations=len(runs), outcome=events.judgement(outcome), measured=measured
                )
            )

    def _mind_the_host(self) -> None:
        """Stops a run whose host loses one sandbox after another: what follows would say nothing of the programs."""
        last = self.record.nodes[-LOST_IN_A_ROW:]
        if all(node.outcome.status == "sandbox_lost" for node in last):
            raise SandboxUnavailable(
                f"the sandbox was lost {len(last)} times in a row, three attempts each; the last time: "
                f"{last[-1].outcome.reason}; progevo doctor shows whether this host can still run candidates"
            )

    def _test(self, reason: str) -> str:
        """Scores the seed and the best on the held-out part, each program once; why the run stopped.

        Whoever stops a run that has found nothing better gets no score: there is no gain, and each look has its price.
        """
        record, plan = self.record, self.plan
        chosen = {node.index: node for node in (record.nodes[0], *record.ranked(plan.top))}
        untested = [node for index, node in chosen.items() if index not in record.tested]
        vain = reason == "interrupted" and record.best == 0
        if TEST not in plan.domain.splits or not untested or vain:
            return reason
        drained = self.stop.is_set()  # whoever stopped the search wants its result; a stop from here on stops this
        self.lock.open()
        self.progress.testing(record.best_node())
        for node in untested:
            if self.stop.is_set() and not drained:
                return "interrupted"
            runs = self._runs(node, TEST)
            measured = events.measured(runs[0], elapsed_s=time.monotonic() - self.began)
            held_out = tuple(
                events.HeldOutRun(
                    outcome=events.judgement(events.plain_outcome(run)), cases=run.cases, right=self.judge.right(run)
                )
                for run in runs
            )
            self.note(events.HeldOut(index=node.index, runs=held_out, measured=measured))
        return reason

    def _runs(self, node: Node, split: str) -> list[Outcome]:
        future = self.threads.submit(self.judge.runs, node.candidate, split)
        self._await([future])
        return future.result()

    def _end(self, reason: str) -> None:
        """The last line, and what follows from the journal as files, whatever happened."""
        if self.record.stop_reason != reason:
            measured = events.EndMeasured(ended=now(), elapsed_s=round(time.monotonic() - self.began, 3))
            self.note(events.Ended(stop_reason=reason, measured=measured))
        if self.record.nodes:
            results.write(self.plan.folder, self.record, self.search.summary())

    @contextlib.contextmanager
    def _threads(self) -> Iterator[None]:
        """One thread for each candidate in flight, from its proposal to its score: they end with the session, at once
        where it fails.
        """
        plan = self.plan
        self.threads = open_executor(plan.workers)
        self.judge = judge.Judge(
            domain=plan.domain,
            proposer=self.proposer,
            sandbox=self.sandbox,
            record=self.record,
            seed=plan.seed,
            repeats=plan.repeats,
        )
        whole = False
        try:
            yield
            whole = True
        finally:
            if not whole:
                close(self.proposer)
            self.threads.shutdown(wait=whole, cancel_futures=True)


#: What ended a session that did not end by itself.
_REASONS: Mapping[type[BaseException], str] = {
    KeyboardInterrupt: "interrupted",
    ProposerError: "proposer_failed",
    SandboxUnavailable: "sandbox_lost",
}
