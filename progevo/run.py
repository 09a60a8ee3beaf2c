"""The loop. One candidate's way through the house, in order and never backwards:

    Search.ask -> Proposer.propose -> gate.check -> Sandbox.run(harness, program, inputs) -> score (host)
      -> Outcome -> Journal.append (fsync) -> Search.tell -> progress

With several workers that many candidates are in flight, but they are told strictly in the order of asking. So the
tree depends on the seed and the number of workers alone, never on which candidate happened to end first.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import tomli_w

from progevo import result as results
from progevo.domain import SEARCH, TEST, Domain
from progevo.errors import ConfigError, ProgevoError, ProposerError, SandboxUnavailable, TaskError
from progevo.evaluate import climb, evaluate, job_of, plant, screen
from progevo.execute import open_executor
from progevo.journal import Journal, write_file
from progevo.plan import Plan, config, new_folder, now, versions
from progevo.propose import Proposer
from progevo.sandbox import Sandbox
from progevo.sandbox.probe import open_sandbox
from progevo.sandbox.profile import load_profile
from progevo.sandbox.prove import prove
from progevo.search import Search
from progevo.search.catalogue import make_search
from progevo.types import Ask, Brief, Candidate, Node, Outcome

#: Outcomes that a copy of a program takes over. The others depend on the host's load, and are run again.
REPEATABLE = {"ok", "crashed", "bad_output", "stage_failed"}

#: So many lost sandboxes one after another, and the host is not fit to go on.
LOST_IN_A_ROW = 3


class Progress(Protocol):
    """Hears what a run does, in order, from one thread."""

    def started(self, plan: Plan, /) -> None: ...
    def told(self, node: Node, best: Node, /) -> None: ...
    def stopping(self, in_flight: int, /) -> None: ...
    def testing(self, best: Node, /) -> None: ...


class Silence:
    """A `Progress` that shows nothing."""

    def started(self, plan: Plan) -> None: ...
    def told(self, node: Node, best: Node) -> None: ...
    def stopping(self, in_flight: int) -> None: ...
    def testing(self, best: Node) -> None: ...


def _mutate(domain: Domain) -> Proposer:
    from progevo.propose.mutate import Mutate  # libcst takes 0.2 s to import: only for whoever proposes

    return Mutate(moves=domain.moves, entrypoint=domain.entrypoint)


PROPOSERS: Mapping[str, Callable[[Domain], Proposer]] = {"mutate": _mutate}


def run(
    domain: Domain,
    *,
    search: str = "era",
    constants: Mapping[str, Any] | None = None,
    proposer: str | Proposer = "mutate",
    iterations: int = 40,
    workers: int = 1,
    seed: int = 0,
    out: str | Path | None = None,
    sandbox: str | Sandbox = "auto",
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    settings: Mapping[str, Any] | None = None,
) -> results.Result:
    """What a search found: the content of `result.json` in the run folder.

    Args:
        domain: the task.
        search: which search, by the word people type ("era", "openevolve"; see `progevo.search.catalogue`).
        constants: the search's constants by name, where they differ from its own.
        proposer: a name ("mutate") or a `Proposer` of your own.
        iterations: how many candidates to propose.
        workers: how many are in flight at a time.
        seed: what every random draw derives from, together with the step.
        out: the run folder, new or empty; `None` makes one under `runs/`.
        sandbox: a form ("auto", "warm", "pool", "cold") of what the domain's profile asks for, or one of your own.
        progress: hears what happens.
        stop: when set, nothing more is asked; what is in flight is finished and told.
        settings: what else to record in `config.toml`.

    Raises:
        SandboxUnavailable: nothing on this host can confine a candidate; nothing has been executed.
        TaskError: the task's own seed program does not score.
        ConfigError: an argument is not what the rule says.
        ProposerError: the proposer failed for good; everything until then is in the run folder.
        RunError: the run folder cannot be written.
    """
    made = make_search(search, constants or {}, seed)
    chosen = _make_proposer(proposer, domain)
    if iterations < 0 or workers < 1 or seed < 0:
        raise ConfigError("iterations must be at least 0, workers at least 1 and seed at least 0")
    with contextlib.ExitStack() as stack:
        if isinstance(sandbox, str):
            # Before a folder is made: a job that can never run is refused without a trace.
            load_profile(domain.profile).check(job_of(domain, domain.seed, SEARCH))
            box = stack.enter_context(contextlib.closing(open_sandbox(domain.profile, sandbox)))
            proof = prove(box)
        else:
            box, proof = sandbox, None
        plan = Plan(
            domain=domain,
            search=search,
            proposer=chosen.name,
            iterations=iterations,
            workers=workers,
            seed=seed,
            folder=Path(out) if out is not None else new_folder(search, domain.name, seed),
            confinement=box.confinement,
            proof=proof,
        )
        journal = stack.enter_context(contextlib.closing(Journal(plan.folder)))
        write_file(plan.folder / "config.toml", tomli_w.dumps(config(plan, made.constants(), settings or {})).encode())
        shown = progress or Silence()
        shown.started(plan)
        return _Loop(plan, made, chosen, box, journal, shown, stop or threading.Event()).run()


class _Loop:
    """One run's state: what has been told, what is in flight."""

    def __init__(
        self,
        plan: Plan,
        search: Search,
        proposer: Proposer,
        sandbox: Sandbox,
        journal: Journal,
        progress: Progress,
        stop: threading.Event,
    ) -> None:
        self.plan, self.search, self.proposer, self.sandbox = plan, search, proposer, sandbox
        self.journal, self.progress, self.stop = journal, progress, stop
        self.nodes: list[Node] = []
        self.tested: dict[int, Outcome] = {}
        self.evaluations = 0
        #: Normalised program -> the first node that has it.
        self.twins: dict[str, int] = {}
        self.began = time.monotonic()
        self.started = now()

    def run(self) -> results.Result:
        journal, plan = self.journal, self.plan
        journal.started(task=plan.domain.name, search=plan.search, seed=plan.seed, measured={"started": self.started})
        stop_reason = "failed"
        try:
            self._plant()
            stop_reason = self._grow()
            self._test()
        except KeyboardInterrupt:
            stop_reason = "interrupted"
            raise
        except ProposerError:
            stop_reason = "proposer_failed"
            raise
        except SandboxUnavailable:
            stop_reason = "sandbox_lost"
            raise
        finally:
            journal.ended(stop_reason)
            found = self._finish(stop_reason) if self.nodes else {}
        return found

    def _plant(self) -> None:
        """Scores the seed; without its score there is nothing to rank against."""
        seed = Candidate(program=self.plan.domain.seed, origin="seed")
        domain, outcome = plant(self.plan.domain, self.sandbox)
        self.plan = replace(self.plan, domain=domain)
        self.evaluations += 1
        if outcome.status == "sandbox_lost":
            raise SandboxUnavailable(f"the sandbox was lost while the seed ran: {outcome.reason}")
        if not outcome.ok:
            raise TaskError(
                f"the seed of the task {self.plan.domain.name!r} does not score: {outcome.status}, {outcome.reason}"
            )
        self._tell(Node(index=0, step=0, parent=None, candidate=seed, outcome=outcome))

    def _grow(self) -> str:
        """Asks until the budget is spent; why it stopped."""
        in_flight: deque[tuple[Ask, Future[tuple[Candidate, Outcome, int | None]]]] = deque()
        asked, drained = 0, False
        with open_executor(self.plan.workers) as executor:
            try:
                while True:
                    while (
                        len(in_flight) < self.plan.workers and asked < self.plan.iterations and not self.stop.is_set()
                    ):
                        ask = self.search.ask()
                        self.journal.asked(ask)
                        in_flight.append((ask, executor.submit(self._judge, ask, tuple(self.nodes))))
                        asked += 1
                    if self.stop.is_set() and not drained:
                        drained = True
                        self.progress.stopping(len(in_flight))
                    if not in_flight:
                        return "interrupted" if self.stop.is_set() else "iterations"
                    ask, future = in_flight[0]
                    candidate, outcome, twin_of = future.result()
                    in_flight.popleft()
                    self.evaluations += outcome.status not in ("no_program", "gate_refused") and twin_of is None
                    self._tell(
                        Node(
                            index=len(self.nodes),
                            step=ask.step,
                            parent=ask.parent,
                            candidate=candidate,
                            outcome=outcome,
                            twin_of=twin_of,
                        )
                    )
                    self._mind_the_host()
            except BaseException:
                self.sandbox.close()  # so that leaving the executor does not wait for what nobody wants any more
                raise

    def _mind_the_host(self) -> None:
        """Stops a run whose host loses one sandbox after another: what follows would say nothing of the programs."""
        last = self.nodes[-LOST_IN_A_ROW:]
        if all(node.outcome.status == "sandbox_lost" for node in last):
            raise SandboxUnavailable(
                f"the sandbox was lost {len(last)} times in a row, three attempts each; the last time: "
                f"{last[-1].outcome.reason}; progevo doctor shows whether this host can still run candidates"
            )

    def _judge(self, ask: Ask, history: tuple[Node, ...]) -> tuple[Candidate, Outcome, int | None]:
        """One candidate and what became of it; the third is the node whose outcome it took over, if any."""
        candidate = self._propose(ask, history)
        refused = screen(self.plan.domain, candidate)
        if refused is not None:
            return candidate, refused, None
        assert candidate.program is not None
        twin = self.twins.get(candidate.program.twin)
        # Only what had been told when this step was asked, or the outcome would depend on who was faster.
        if twin is not None and twin < len(history) and history[twin].outcome.status in REPEATABLE:
            return candidate, history[twin].outcome, twin
        return candidate, climb(self.plan.domain, candidate, self.sandbox), None

    def _propose(self, ask: Ask, history: tuple[Node, ...]) -> Candidate:
        rng = random.Random(f"progevo {self.plan.seed} {ask.step} propose")
        brief = Brief(
            step=ask.step,
            parent=history[ask.parent],
            history=history,
            rng=rng,
            inspirations=tuple(history[index] for index in ask.inspirations),
        )
        try:
            return self.proposer.propose(brief)
        except ProgevoError:
            raise
        except Exception as error:
            raise ProposerError(
                f"the proposer {self.proposer.name!r} raised {type(error).__name__} at step {ask.step}: {error};"
                " what was scored until then is in the run folder"
            ) from error

    def _tell(self, node: Node) -> None:
        """Journal first, then search: a crash between the two replays cleanly."""
        # The values of every case of every node would outweigh everything else in memory; only tests need them.
        node = replace(node, outcome=replace(node.outcome, cases=()))
        self.journal.node(node)
        self.search.tell(node)
        self.nodes.append(node)
        if node.candidate.program is not None and node.outcome.status != "gate_refused":
            self.twins.setdefault(node.candidate.program.twin, node.index)
        self.progress.told(node, results.best_of(self.nodes))

    def _test(self) -> None:
        """Scores the seed and the best on the held-out part, once."""
        if TEST not in self.plan.domain.splits:
            return
        best = results.best_of(self.nodes)
        self.progress.testing(best)
        for node in {0: self.nodes[0], best.index: best}.values():
            outcome = evaluate(self.plan.domain, node.candidate, TEST, self.sandbox)
            self.evaluations += 1
            self.journal.tested(node.index, outcome)
            self.tested[node.index] = outcome

    def _finish(self, stop_reason: str) -> results.Result:
        """Writes `best.py` and `result.json`."""
        plan, best = self.plan, results.best_of(self.nodes)
        found = results.build_result(
            domain=plan.domain,
            nodes=self.nodes,
            tested=self.tested,
            confinement=plan.confinement,
            proof=plan.proof,
            search=plan.search,
            constants=self.search.constants(),
            shape=self.search.summary(),
            proposer=plan.proposer,
            seed=plan.seed,
            workers=plan.workers,
            iterations=plan.iterations,
            evaluations=self.evaluations,
            seconds=time.monotonic() - self.began,
            stop_reason=stop_reason,
            versions=versions(),
            started=self.started,
            ended=now(),
        )
        assert best.candidate.program is not None
        write_file(plan.folder / "best.py", best.candidate.program.source.encode("utf-8", "surrogatepass"))
        write_file(plan.folder / results.FILE, results.to_json(found).encode())
        return found


def _make_proposer(proposer: str | Proposer, domain: Domain) -> Proposer:
    if not isinstance(proposer, str):
        return proposer
    if proposer not in PROPOSERS:
        raise ConfigError(f"there is no proposer {proposer!r}; the proposers are {', '.join(PROPOSERS)}")
    return PROPOSERS[proposer](domain)
