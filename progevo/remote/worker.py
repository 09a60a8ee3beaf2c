"""A worker's side: `greet` and `work`, which any executor can call by name. Plain data in, plain data out.

A worker keeps a room for every assignment: the task that it has found for itself, and a sandbox, opened once, whose
warm zygote waits for the next program. With the worker its sandboxes end, however it ends (see `sandbox.launch`).
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from progevo.dataset import find_data
from progevo.domain import Domain, find_domain
from progevo.errors import ConfigError, DataError, ProgevoError, SandboxUnavailable
from progevo.evaluate import job_of
from progevo.fingerprint import fingerprint, versions
from progevo.remote.order import Assignment, Greeting, Order, Refusal, Reply, ended, plain, value
from progevo.sandbox import Sandbox
from progevo.sandbox.probe import open_sandbox
from progevo.sandbox.profile import load_profile
from progevo.sandbox.prove import prove
from progevo.types import Program

#: So many rooms at a time: a warm sandbox takes memory. The one that was used longest ago goes first.
ROOMS = 4


@dataclass(kw_only=True)
class Room:
    """What a worker has for one assignment."""

    domain: Domain
    box: Sandbox
    greeting: Greeting
    #: Orders that are being run.
    busy: int = 0


class Fork:
    """Whether this process was forked from one with several threads: it has their locks, and none of them."""

    def __init__(self) -> None:
        self.torn = self._threads = False
        os.register_at_fork(before=self._before, after_in_child=self._after)

    def _before(self) -> None:
        self._threads = threading.active_count() > 1

    def _after(self) -> None:
        self.torn = self.torn or self._threads


_fork = Fork()
_rooms: dict[str, Room] = {}
_lock = threading.Lock()


def greet(assignment: Mapping[str, Any]) -> dict[str, Any]:
    """What this worker has for an `Assignment`, or why it has nothing, as a `Reply`; its sandbox is open afterwards."""
    try:
        with _room(value(Assignment, assignment)) as room:
            return plain(Reply(greeting=room.greeting))
    except ProgevoError as error:
        return plain(Reply(refusal=_refusal(error)))


async def greet_aside(assignment: Mapping[str, Any]) -> dict[str, Any]:
    """`greet` for a worker that has something else to do meanwhile."""
    import asyncio  # takes a tenth of what the whole of progevo takes

    return await asyncio.to_thread(greet, assignment)


def work(order: Mapping[str, Any]) -> dict[str, Any]:
    """How an `Order` ended, as a `Reply`. It is not begun by a worker that has something else than it should have."""
    asked = value(Order, order)
    try:
        with _room(asked.assignment) as room:
            if room.greeting.fingerprint != asked.fingerprint:
                return plain(Reply(greeting=room.greeting))
            job = job_of(room.domain, Program(asked.source), asked.split)
            return plain(Reply(ended=ended(room.box.run(job))))
    except ProgevoError as error:
        return plain(Reply(refusal=_refusal(error)))


def leave() -> None:
    """Closes every sandbox of this worker; what runs in one ends as lost."""
    with _lock:
        rooms = list(_rooms.values())
        _rooms.clear()
    for room in rooms:
        room.box.close()


@contextmanager
def _room(assignment: Assignment) -> Iterator[Room]:
    """The room for an assignment, opened where there is none yet."""
    if _fork.torn:
        raise ConfigError(
            "this process was forked from one with several threads, and cannot start sandboxes; make the pool with"
            " mp_context=multiprocessing.get_context('spawn')"
        )
    key = repr(assignment)
    with _lock:
        # Last in, last to go.
        room = _rooms[key] = _rooms.pop(key) if key in _rooms else _open(assignment)
        room.busy += 1
        idle = [name for name, each in _rooms.items() if not each.busy]
        left = [_rooms.pop(name) for name in idle[: max(0, len(_rooms) - ROOMS)]]
    for each in left:
        each.box.close()
    try:
        yield room
    finally:
        with _lock:
            room.busy -= 1


def _open(assignment: Assignment) -> Room:
    ours = versions().get("progevo", "")
    if ours != assignment.version:
        raise ConfigError(f"its progevo is {ours}; the run's is {assignment.version}")
    domain = replace(_task(assignment), limits=assignment.limits)
    box = open_sandbox(domain.profile, assignment.form)
    try:
        proof = prove(box, load_profile(domain.profile))
        greeting = Greeting(
            worker=_name(), fingerprint=fingerprint(domain, box.confinement), confinement=box.confinement, proof=proof
        )
    except BaseException:
        box.close()
        raise
    return Room(domain=domain, box=box, greeting=greeting)


def _task(assignment: Assignment) -> Domain:
    """The task as this machine has it. Raises `DataError` where its data is not here."""
    data = None
    if assignment.data is not None:
        found = find_data(assignment.sha256) if assignment.sha256 is not None else None
        data = found or Path(assignment.data)
        if not os.path.exists(data):
            raise DataError(
                f"the task's data, sha256 {assignment.sha256}, is neither in this machine's data folder"
                f" nor at {data}; put it into a folder below $PROGEVO_DATA"
            )
    domain = find_domain(assignment.task, data=data, options=assignment.options)
    if domain.data.sha256 != assignment.sha256:
        raise DataError(
            f"the data of the task {assignment.task!r} has sha256 {domain.data.sha256} here ({domain.data.source});"
            f" the run's has {assignment.sha256}"
        )
    return domain


def _refusal(error: ProgevoError) -> Refusal:
    return Refusal(worker=_name(), reason=str(error), unconfined=isinstance(error, SandboxUnavailable))


def _name() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"


atexit.register(leave)
