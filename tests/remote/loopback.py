"""Dask on this machine: a scheduler and workers, each a process of its own, as people start them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import psutil

from progevo import Candidate, Domain, Program, find_domain

TASK = str(Path(__file__).with_name("slow_task.py"))
PATIENCE_S = 60.0


def slow_task(**options) -> Domain:
    return find_domain(TASK, options=options)


def program(number: float) -> str:
    return f"def solve(x):\n    return {number}\n"


def slow_program(number: float, name: str, seconds: float) -> str:
    """One whose process can be told, from outside, by its name (at most 15 characters), where there is a /proc."""
    return (
        f"import time\ntry:\n    open('/proc/self/comm', 'w').write({name!r})\nexcept OSError:\n    pass\n"
        f"def solve(x):\n    time.sleep({seconds / 2})\n    return {number}\n"
    )


@dataclass
class Scripted:
    """A proposer that has written everything down beforehand, by step."""

    sources: list[str]
    name: str = "scripted"

    def propose(self, brief):
        return Candidate(program=Program(self.sources[brief.step - 1]), origin="scripted")


@dataclass
class Loopback:
    folder: Path
    address: str
    scheduler: subprocess.Popen
    workers: list[subprocess.Popen] = field(default_factory=list)

    @property
    def word(self) -> str:
        return self.address.replace("tcp://", "dask://")

    def add_worker(self, *, nanny: bool, **environment: str) -> subprocess.Popen:
        worker = _dask(
            self.folder,
            ["worker", self.address, "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard"],
            ["--nanny" if nanny else "--no-nanny", "--local-directory", str(self.folder)],
            **environment,
        )
        self.workers.append(worker)
        return worker

    def worker_of(self, process: psutil.Process) -> psutil.Process:
        """The worker that a process is a descendant of; under a nanny, the nanny's child."""
        started = {worker.pid for worker in self.workers}
        line = [process, *process.parents()]
        place = next(number for number, each in enumerate(line) if each.pid in started)
        nanny = "--nanny" in line[place].cmdline()
        return line[place - nanny]


@contextlib.contextmanager
def loopback(folder: Path, workers: int, *, nanny: bool) -> Iterator[Loopback]:
    """A scheduler and workers of one thread each; all are gone afterwards."""
    file = folder / "scheduler.json"
    scheduler = _dask(
        folder,
        ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)],
    )
    with contextlib.ExitStack() as stack:
        stack.callback(end, scheduler)
        wait_until(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler's file")
        made = Loopback(folder, json.loads(file.read_text())["address"], scheduler)
        try:
            for _ in range(workers):
                made.add_worker(nanny=nanny)
            yield made
        finally:
            for worker in made.workers:
                end(worker)


def _dask(folder: Path, *arguments: list[str], **environment: str) -> subprocess.Popen:
    with open(folder / "dask.log", "a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *chain(*arguments)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            start_new_session=True,
        )


def end(process: subprocess.Popen) -> None:
    """Ends a process that this module has started, and its children."""
    family = descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(15)
    process.kill()
    process.wait()
    for each in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


def descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def named(name: str) -> psutil.Process | None:
    """The process of that name, if there is one."""
    return next((each for each in psutil.process_iter(["name"]) if each.info["name"] == name), None)


def is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(0.02)
