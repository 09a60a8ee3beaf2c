"""The loop. One candidate's way through the house, in order and never backwards:

    Search.ask -> Journal -> [Proposer.propose -> gate.check -> Sandbox.run(harness, program, inputs) -> score (host)]
      -> Outcome -> Journal.append (fsync) -> Record, Search.tell -> progress

What stands in brackets is `progevo.judge`, in as many threads as there are workers; everything else happens here, in
one thread. Everything that the loop knows is in its `Record`, which follows from the journal alone: so `resume` is
`read_run`, a search led through what was asked and told, and the same loop. The order of asking and telling is the
schedule's (`progevo.schedule`), when to stop the budget's (`progevo.budget`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli_w

from progevo import result as results
from progevo.budget import Budget
from progevo.domain import SEARCH, Domain
from progevo.edit import regions
from progevo.errors import ConfigError, TaskError
from progevo.evaluate import job_of
from progevo.events import Resumed
from progevo.execute import LOCAL, Handed
from progevo.files import write_file
from progevo.fingerprint import check_drift, drift, fingerprint
from progevo.holdout import blind, check_parts, seal
from progevo.journal import Journal, read_run
from progevo.loop import Loop, Progress
from progevo.loop import Silence as Silence  # known by this name
from progevo.plan import Plan, config, new_folder, now, started
from progevo.propose import Proposer
from progevo.propose.open import open_proposer
from progevo.rebuild import rebuild
from progevo.record import ACCEPTANCES, Record
from progevo.sandbox import Sandbox
from progevo.sandbox.probe import open_sandbox
from progevo.sandbox.profile import load_profile
from progevo.sandbox.prove import prove
from progevo.schedule import check_workers, schedule_of
from progevo.search import Search
from progevo.search.catalogue import make_search
from progevo.types import Json


def run(
    domain: Domain,
    *,
    search: str = "era",
    constants: Mapping[str, Any] | None = None,
    proposer: str | Proposer = "mutate",
    iterations: int | None = None,
    budget: Budget | None = None,
    workers: int = 1,
    schedule: str | None = None,
    seed: int = 0,
    repeats: int = 1,
    acceptance: str = "mean",
    top: int = 1,
    out: str | Path | None = None,
    sandbox: str | Sandbox = "auto",
    executor: Executor | str | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    settings: Mapping[str, Any] | None = None,
) -> results.Result:
    """What a search found: the content of `result.json` in the run folder.

    Args:
        domain: the task.
        search: which search, by the word people type ("era", "openevolve"; see `progevo.search.catalogue`).
        constants: the search's constants by name, where they differ from its own.
        proposer: a name ("mutate", "recorded:FILE") or a `Proposer`: one of your own, or a model's by `open_proposer`.
        iterations: how many candidates to propose; short for `Budget(iterations=...)`. 40 where nothing is capped.
        budget: what the run may use.
        workers: how many are in flight at a time.
        schedule: "serial", "ordered", "sync" or "async"; by default serial for one worker, ordered for several.
        seed: what every random draw derives from, together with the step.
        repeats: how often each program is run, and its score averaged: for tasks that are noisy.
        acceptance: what may be called best: "mean", the largest score; "no_regression", the largest among those that
            get no search case wrong which the seed had right.
        top: how many of the best are scored on the held-out part at the end, besides the seed.
        out: the run folder, new or empty; `None` makes one under `runs/`.
        sandbox: a form ("auto", "warm", "pool", "cold") of what the domain's profile asks for, or one of your own.
        executor: where candidates are run: "local" (the default), "dask://HOST:PORT", or an executor of your own, which
            is not shut down (`progevo.remote`; docs/cluster.md).
        progress: hears what happens.
        stop: when set, nothing more is asked; what is in flight is finished and told.
        settings: what else to record in `config.toml` and in the journal.

    Raises:
        SandboxUnavailable: nothing on this host can confine a candidate; nothing has been executed.
        TaskError: the task's own seed program does not score, or its EVOLVE-BLOCK markers do not pair up, or a test
            case is a search case too.
        ConfigError: an argument is not what the rule says.
        ProposerError: the proposer failed for good; everything until then is in the run folder.
        RunError: the run folder cannot be written.
    """
    made = make_search(search, constants or {}, seed)
    sealed, lock = seal(domain)
    chosen = _make_proposer(proposer, blind(domain))
    if workers < 1 or seed < 0 or repeats < 1 or top < 1:
        raise ConfigError("a run has workers at least 1, repeats at least 1, top at least 1 and a seed of at least 0")
    _check_acceptance(acceptance, domain)
    _check_seed(domain)
    check_parts(domain)
    budget = budget or Budget()
    budget = (replace(budget, iterations=iterations) if iterations is not None else budget).settled()
    order = schedule_of(schedule, workers)
    with contextlib.ExitStack() as stack:
        box, proof = _open_sandbox(stack, sandbox, sealed, executor)
        plan = Plan(
            domain=sealed,
            search=search,
            constants=made.constants(),
            proposer=chosen.name,
            budget=budget,
            workers=workers,
            schedule=order,
            seed=seed,
            repeats=repeats,
            acceptance=acceptance,
            top=top,
            folder=Path(out) if out is not None else new_folder(search, domain.name, seed),
            confinement=box.confinement,
            proof=proof,
            settings=settings or {},
        )
        first = started(plan)
        journal = stack.enter_context(contextlib.closing(Journal(plan.folder)))
        write_file(plan.folder / "config.toml", tomli_w.dumps(config(plan)).encode())
        loop = Loop(plan, made, chosen, box, journal, Record(folder=plan.folder), lock, progress, stop)
        loop.note(first)
        return loop.run()


def resume(
    folder: str | Path,
    domain: Domain,
    *,
    proposer: str | Proposer | None = None,
    more: int = 0,
    budget: Mapping[str, Any] | None = None,
    workers: int | None = None,
    allow_drift: Sequence[str] = (),
    sandbox: str | Sandbox = "auto",
    executor: Executor | str | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> results.Result:
    """Goes on with a run, as if it had never stopped; what it found is the content of its `result.json`.

    Args:
        folder: the run folder.
        domain: the task; its content must be what it was.
        proposer: the proposer's name, or the `Proposer` of your own that the run was started with.
        more: so many more iterations than it had.
        budget: caps to change, by the names of `Budget`.
        workers: so many candidates in flight from now on, where the schedule is async; others fix it for good.
        allow_drift: what may have changed since, by the names of `progevo.fingerprint`; goes into the result.
        sandbox, executor, progress, stop: as for `run`.

    Raises:
        ConfigError: something changed that changes what a score means, and is not allowed by name.
        RunError: the folder holds no run, another process writes it, or its search asks differently now.
        And what `run` raises.
    """
    folder = Path(folder)
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(contextlib.closing(Journal.reopen(folder)))
        record = read_run(folder, logs=True)
        first = record.start
        assert first is not None  # read_run has seen to it
        sealed, lock = seal(domain)
        check_parts(domain)
        if isinstance(proposer or first.proposer, str) and first.proposer != "mutate":
            raise ConfigError(f"{folder} was proposed for by {first.proposer!r}; hand in that proposer to go on")
        chosen = _make_proposer(proposer or first.proposer, blind(domain))
        if chosen.name != first.proposer:
            raise ConfigError(f"{folder} was proposed for by {first.proposer!r}, not by {chosen.name!r}")
        made = make_search(first.search, first.constants, first.seed)
        box, proof = _open_sandbox(stack, sandbox, sealed, executor)
        found = drift(record.fingerprint(), fingerprint(sealed, box.confinement))
        check_drift(found, allow_drift)
        changed = replace(record.budget, **dict(budget or {}))
        assert changed.iterations is not None
        changed = replace(changed, iterations=changed.iterations + more)
        workers = record.workers if workers is None else workers
        check_workers(first.schedule, record.workers, workers)
        rebuild(made, record)
        plan = Plan(
            domain=sealed,
            search=first.search,
            constants=made.constants(),
            proposer=chosen.name,
            budget=changed,
            workers=workers,
            schedule=schedule_of(first.schedule, workers),
            seed=first.seed,
            repeats=first.repeats,
            acceptance=first.acceptance,
            top=first.top,
            folder=folder,
            confinement=box.confinement,
            proof=proof,
            settings=first.settings,
        )
        _tell_spent(chosen, record)
        journal.note(f"{now()} resumed after {len(record.nodes)} nodes, {len(record.open)} questions open")
        loop = Loop(plan, made, chosen, box, journal, record, lock, progress, stop)
        if changed != record.budget or found or workers != record.workers:
            loop.note(Resumed(budget=changed, drift=found, workers=workers if workers != record.workers else None))
        return loop.run()


def report(folder: str | Path) -> results.Result:
    """Writes `result.json` and `best.py` anew from the journal. Raises `RunError` where it holds no scored program."""
    record = read_run(Path(folder))
    search = replayed_search(record)
    record.best_node()
    return results.write(Path(folder), record, search.summary())


def replayed_search(record: Record) -> Search:
    """The search of a run, led through all that was asked and told. Raises `RunError` where it differs."""
    assert record.start is not None
    search = make_search(record.start.search, record.start.constants, record.start.seed)
    rebuild(search, record)
    return search


def _open_sandbox(
    stack: contextlib.ExitStack, sandbox: str | Sandbox, domain: Domain, executor: Executor | str | None
) -> tuple[Sandbox, Mapping[str, Json] | None]:
    """The sandbox, here or elsewhere, and what its self-test held where it is one of ours."""
    profile = load_profile(domain.profile)
    if isinstance(sandbox, str):
        # Before a folder is made: a job that can never run is refused without a trace.
        profile.check(job_of(domain, domain.seed, SEARCH))
    if executor not in (None, LOCAL):
        from progevo.remote.elsewhere import elsewhere  # a tenth of what the rest of progevo takes to start

        away = elsewhere(executor, sandbox, domain)
        if away is not None:
            return stack.enter_context(contextlib.closing(away)), away.proof
    box, proof = sandbox, None
    if isinstance(box, str):
        box = stack.enter_context(contextlib.closing(open_sandbox(domain.profile, box)))
        proof = prove(box, profile)
    if isinstance(executor, Executor):
        box = Handed(box, executor)
    return box, proof


def _tell_spent(proposer: Proposer, record: Record) -> None:
    """A proposer that keeps a ledger of its own learns what the run has drawn before."""
    restore = getattr(proposer, "restore", None)
    if restore is not None:
        restore([draw for node in record.nodes for draw in node.candidate.draws])


def _check_acceptance(acceptance: str, domain: Domain) -> None:
    if acceptance not in ACCEPTANCES:
        raise ConfigError(f"there is no acceptance {acceptance!r}; there are {', '.join(ACCEPTANCES)}")
    if acceptance == "no_regression" and domain.right is None:
        raise ConfigError(
            f"the task {domain.name!r} has no notion of a case that was got right (Domain.right):"
            " acceptance no_regression needs one"
        )


def _check_seed(domain: Domain) -> None:
    """Before anything is run: a proposer would only stumble over such markers when it is asked for a change."""
    try:
        regions(domain.seed.source)
    except ConfigError as error:
        raise TaskError(f"in the seed program of the task {domain.name!r} {error}") from None


def _make_proposer(proposer: str | Proposer, domain: Domain) -> Proposer:
    return open_proposer(proposer, domain) if isinstance(proposer, str) else proposer
