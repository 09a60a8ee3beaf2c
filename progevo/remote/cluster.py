"""A Dask cluster as a `Crew`: its workers, on other machines or on this one, behind `Client.get_executor`.

Dask gives an order to another worker by itself where one was lost, up to its own `allowed-failures`. An order that was
sent twice may run twice; one answer is taken. A cancelled order that has begun keeps its worker until the sandbox there
ends it, so deadlines are the sandbox's, here as anywhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from progevo.errors import ConfigError, SandboxUnavailable
from progevo.execute import LOST
from progevo.remote.order import Assignment, Refusal, Reply, plain, value
from progevo.remote.worker import greet_aside

SCHEME = "dask://"
#: How long a scheduler may take to answer, also after a connection was lost.
CONNECT_S = 10.0
#: How long a run waits for its first worker, and for another once none is left.
FIRST_WORKER_S, NO_WORKER_S = 60.0, 300.0
#: How often it is asked whether any are there.
COUNT_S = 5.0


class Cluster:
    """The workers of one scheduler. Raises `ConfigError` where it cannot be reached, or Dask is not installed."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
            from distributed.client import ClosedClientError
            from distributed.scheduler import KilledWorker, NoWorkerError
        except ImportError:
            raise ConfigError(
                f"{SCHEME}{address} needs Dask, which is not installed here: pip install 'progevo[dask]'"
            ) from None
        self.name = SCHEME + address
        # CommClosedError and every timeout are among OSError.
        self.lost = (*LOST, OSError, KilledWorker, NoWorkerError, ClosedClientError)
        try:
            self._client: Any = Client(address, timeout=CONNECT_S, set_as_default=False, name="progevo")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"no Dask scheduler answers at {self.name} ({error}); start one with `dask scheduler`, and workers with"
                " `dask worker HOST:PORT` (docs/cluster.md)"
            ) from None
        self.executor: Executor = self._client.get_executor(pure=False)
        self._lock = threading.Lock()
        #: When workers were last counted, and when that first found none.
        self._counted = time.monotonic()
        self._alone: float | None = None

    def greet(self, assignment: Assignment) -> Mapping[str, Reply]:
        # Not by the executor: it would wait behind what the workers have to do for others.
        try:
            self._client.wait_for_workers(1, timeout=FIRST_WORKER_S)
            said = self._client.run(greet_aside, plain(assignment), on_error="return")
        except OSError as error:
            raise ConfigError(
                f"no worker has come to {self.name} within {FIRST_WORKER_S:g} s ({error}); start some with"
                " `dask worker HOST:PORT` (docs/cluster.md)"
            ) from None
        here = {name: _reply(name, found) for name, found in said.items() if not isinstance(found, OSError)}
        if not here:
            raise ConfigError(f"every worker of {self.name} was lost while it was greeted: {said}")
        return here

    def look(self) -> None:
        while self._client.status == "connecting":  # for `CONNECT_S` at most
            time.sleep(0.1)
        if self._client.status != "running":
            raise SandboxUnavailable(
                f"the scheduler at {self.name} is gone; what was scored until then is in the run folder: start"
                " a scheduler and workers again, and go on with progevo resume"
            )
        with self._lock:
            now = time.monotonic()
            if now < self._counted + COUNT_S:
                return
            self._counted = now
            try:
                anybody = bool(self._client.nthreads())
            except OSError:
                return  # the connection is being lost: the status will say so
            self._alone = None if anybody else self._alone or now
            if self._alone is not None and now > self._alone + NO_WORKER_S:
                raise SandboxUnavailable(
                    f"{self.name} has had no worker for {NO_WORKER_S:g} s; what was scored until then is in the run"
                    " folder: start workers, and go on with progevo resume"
                )

    def close(self) -> None:
        self._client.close(timeout=CONNECT_S)


def connect(word: str) -> Cluster:
    """The cluster that a word of `--executor` names. Raises `ConfigError` for a word that names none."""
    scheme, _, address = word.partition("://")
    host, _, port = address.rpartition(":")
    if f"{scheme}://" != SCHEME or not host or not port.isdecimal():
        raise ConfigError(f"there is no executor {word!r}; it is local, or dask://HOST:PORT for a Dask scheduler")
    return Cluster(address)


def _reply(name: str, found: Any) -> Reply:
    if isinstance(found, Exception):
        text = str(found) or type(found).__name__
        return Reply(refusal=Refusal(worker="silent", reason=f"{text}; is the same progevo installed there?"))
    return value(Reply, found)
