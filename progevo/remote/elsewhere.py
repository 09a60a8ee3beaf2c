"""A `Sandbox` whose runs happen elsewhere: by a person's own executor, or on the machines of a cluster."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any

from progevo.domain import Domain, Trial
from progevo.errors import ConfigError, SandboxUnavailable
from progevo.execute import LOST, lost
from progevo.fingerprint import content_id, drift, fingerprint, listed, versions
from progevo.remote import Crew
from progevo.remote.cluster import connect
from progevo.remote.order import Assignment, Greeting, Order, Reply, execution, plain, value
from progevo.remote.worker import greet, work
from progevo.sandbox import Confinement, Sandbox
from progevo.types import Execution, Job, Json

#: How often whoever waits for an order looks up, to see whether anybody is there to do it.
LOOK_UP_S = 1.0

CLOSED = Execution(status="sandbox_lost", reason="the run let go of its workers")


class Pool:
    """A person's own executor as a `Crew`. It is not shut down."""

    name = "the executor"
    lost = LOST

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def greet(self, assignment: Assignment) -> Mapping[str, Reply]:
        """One worker speaks for all; each looks for itself before it begins."""
        return {"the first worker": value(Reply, self.executor.submit(greet, plain(assignment)).result())}

    def look(self) -> None:
        """Such an executor says for itself when it is broken."""

    def close(self) -> None:
        """It is not ours."""


class Elsewhere:
    """The sandboxes of a crew's workers, all alike.

    Raises:
        ConfigError: a worker has something else than this process; the message lists what.
        SandboxUnavailable: a worker cannot confine a program, or nobody is left. `run` raises both, too.
    """

    def __init__(self, crew: Crew, domain: Domain, form: str) -> None:
        self._crew, self._domain = crew, domain
        self._assignment = assignment(domain, form)
        self._held: set[Future[dict[str, Any]]] = set()
        self._lock = threading.Lock()
        self._closed = False
        said = crew.greet(self._assignment)
        greetings = {name: _greeting(reply, name, crew.name) for name, reply in said.items()}
        first = next(iter(greetings.values()))
        self.confinement: Confinement = first.confinement
        self.proof: Mapping[str, Json] = first.proof
        #: What every worker has to have.
        self._fingerprint = fingerprint(domain, first.confinement)
        for name, greeting in greetings.items():
            self._check(greeting, name)

    def run(self, job: Job) -> Execution:
        order = Order(
            assignment=self._assignment, fingerprint=self._fingerprint, split=job.split, source=job.program.source
        )
        if self._closed:
            return CLOSED
        try:
            self._look()
            reply = value(Reply, self._wait(self._crew.executor.submit(work, plain(order))))
        except self._crew.lost as error:
            self._look()
            return CLOSED if self._closed else lost(error)
        if reply.ended is None:
            self._check(_greeting(reply, "a worker", self._crew.name), "a worker")
        assert reply.ended is not None
        return execution(reply.ended)

    def close(self) -> None:
        """What workers have begun ends by its own limits, and is not heard."""
        self._closed = True
        with self._lock:
            held = list(self._held)
        for future in held:
            future.cancel()
        self._crew.close()

    def _wait(self, future: Future[dict[str, Any]]) -> dict[str, Any]:
        with self._hold(future):
            while not future.done():
                self._look()
                wait([future], LOOK_UP_S)
            return future.result()

    def _look(self) -> None:
        if not self._closed:
            self._crew.look()

    @contextlib.contextmanager
    def _hold(self, future: Future[dict[str, Any]]) -> Iterator[None]:
        with self._lock:
            self._held.add(future)
        try:
            yield
        finally:
            with self._lock:
                self._held.discard(future)

    def _check(self, greeting: Greeting, name: str) -> None:
        found = drift(self._fingerprint, greeting.fingerprint)
        if found:
            raise ConfigError(
                f"{name} of {self._crew.name} ({greeting.worker}) would score by something else than this run:"
                f"{listed(found, 'here', 'there')}\n"
                "make it the same there, or stop that worker; scores by both would not compare"
            )


def elsewhere(executor: Executor | str, sandbox: str | Sandbox, domain: Domain) -> Elsewhere | None:
    """The workers that an executor stands for; `None` where candidates run in a sandbox of this process.

    That is so for an executor whose jobs are threads of this process, for a sandbox of a person's own and for a task
    that another process could not find by its name.

    Raises `ConfigError` for a word that is none, where it can never be so, and what `Elsewhere` raises.
    """
    if isinstance(executor, str):
        if not isinstance(sandbox, str):
            raise ConfigError(f"the sandboxes of {executor} are its workers'; one of your own cannot go there")
        _check_findable(domain)
        return _opened(connect(executor), domain, sandbox)
    if isinstance(executor, ThreadPoolExecutor) or not isinstance(sandbox, str):
        return None
    from concurrent.futures import ProcessPoolExecutor  # only here: it takes its time

    if isinstance(executor, ProcessPoolExecutor) or domain.reference is not None:
        _check_findable(domain)
        return _opened(Pool(executor), domain, sandbox)
    return None


def _opened(crew: Crew, domain: Domain, form: str) -> Elsewhere:
    try:
        return Elsewhere(crew, domain, form)
    except BaseException:
        crew.close()
        raise


def _check_findable(domain: Domain) -> None:
    if isinstance(getattr(domain.evaluator, "unsealed", domain.evaluator), Trial):
        raise ConfigError(
            f"the task {domain.name!r} takes several runs of a candidate, which no order names: run it on this machine"
            " (--executor local)"
        )
    if domain.reference is None:
        raise ConfigError(
            f"the task {domain.name!r} was not found by find_domain, so another process could not find it either:"
            " make it a task with a name (docs/add-a-domain.md), or run it on this machine"
        )


def assignment(domain: Domain, form: str) -> Assignment:
    """What a worker is told about a run's task."""
    reference = domain.reference
    assert reference is not None
    return Assignment(
        version=versions().get("progevo", ""),
        task=reference.task,
        content=content_id(domain),
        sha256=domain.data.sha256,
        data=reference.data,
        options=reference.options,
        limits=domain.limits,
        form=form,
    )


def _greeting(reply: Reply, name: str, crew: str) -> Greeting:
    """What a worker has. Raises what it refused with."""
    if reply.greeting is None:
        refusal = reply.refusal
        assert refusal is not None
        kind = SandboxUnavailable if refusal.unconfined else ConfigError
        raise kind(f"{name} of {crew} ({refusal.worker}) is not fit for this run: {refusal.reason}")
    return reply.greeting
