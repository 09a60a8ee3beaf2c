"""One candidate in each form of the sandbox, with its wall and CPU time.

Wall is from the moment a candidate is there to the moment its answer is read and nothing of its sandbox is alive.
CPU is that of every process that worked for it: this process's own thread, and then, for forms that start a sandbox
of their own, what the kernel sums up when the dead are collected (RUSAGE_CHILDREN); for the warm forms the zygote's
share since the last candidate, the first process of its namespaces, read while it waits to be collected, and the
candidate's own processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import resource
import select
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from progevo.bench import plain
from progevo.domain import SEARCH, find_domain
from progevo.errors import SandboxUnavailable
from progevo.sandbox import probe, wire
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.cell import Cell
from progevo.sandbox.interpreter import find_interpreter
from progevo.sandbox.launch import Surroundings
from progevo.sandbox.profile import ENVIRONMENT, load_profile
from progevo.sandbox.source import Source, Zygote
from progevo.sandbox.watch import Ending, frames_of, watch
from progevo.types import Inputs, Job, Limits, Program

Form = Literal["none", "cold", "pool", "warm", "warm_spare"]
FORMS: tuple[Form, ...] = ("none", "cold", "pool", "warm", "warm_spare")
#: How long a spare is given to become ready, and then to come to rest.
READY_S, SETTLE_S = 60.0, 0.01


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program that comes with progevo, and what it runs with."""

    name: str
    profile: str
    job: Job


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one candidate cost, in seconds."""

    wall_s: float
    cpu_s: float


class Runner(Protocol):
    """Runs one case in one form, as often as it is asked."""

    def measure(self) -> Cost:
        """One candidate, with whatever waits for it being ready."""
        ...

    def burst(self, count: int) -> float:
        """Seconds that `count` candidates take, each straight after the one before."""
        ...

    def close(self) -> None: ...


def trivial(profile: str, source: str = "def solve():\n    return 7.0\n", **limits: float) -> Case:
    """A program that returns a number, or another one that needs no input."""
    return Case(
        name="trivial",
        profile=profile,
        job=Job(
            program=Program(source),
            entrypoint="solve",
            harness=Path(probe.__file__).with_name("probe_harness.py"),
            inputs=Inputs(),
            limits=dataclasses.replace(Limits(), **limits),  # type: ignore[arg-type]
        ),
    )


def task_seed(task: str) -> Case:
    """The seed of a built-in task, on its search part."""
    domain = find_domain(task)
    job = Job(
        program=domain.seed,
        entrypoint=domain.entrypoint,
        harness=domain.evaluator.harness,
        inputs=domain.evaluator.inputs(SEARCH),
        limits=domain.limits,
    )
    return Case(name=f"{task}-seed", profile=domain.profile, job=job)


def open_runner(case: Case, form: Form) -> Runner:
    return Plain(case) if form == "none" else Boxed(case, form)


def open_source(case: Case, form: Form) -> Source:
    """Where this case's cells come from, without the `Bubblewrap` around them."""
    box = Bubblewrap(load_profile(case.profile), {"cold": "cold", "pool": "pool"}.get(form, "warm"))  # type: ignore[arg-type]
    return box.new_source(Surroundings.of(case.job))


def frames(job: Job) -> bytes:
    """What a cell is sent: the limits, and then the candidate."""
    return frames_of(job, dataclasses.asdict(job.limits))


def until_readable(waiting: socket.socket) -> None:
    """Returns when the other side has said its word: the zygote that a child is there, who forked one the same."""
    select.select([waiting], [], [], READY_S)
    time.sleep(SETTLE_S)


class Boxed:
    """A case in the sandbox; `warm` makes the child when it is asked, `warm_spare` and `pool` have one waiting."""

    def __init__(self, case: Case, form: Form) -> None:
        self._case, self._ahead = case, form in ("pool", "warm_spare")
        self._job = frames(case.job)
        self.source = open_source(case, form)
        self._zygote_s = 0.0
        self._run(self.source.take())  # starts the zygote, and shows that the case works here
        self._zygote_s = self._zygote_cpu_s()
        self._prepare()

    def measure(self) -> Cost:
        if self._ahead and isinstance(self.source, Zygote) and self.source.home is not None:
            until_readable(self.source.home.control)
        host_s, dead_s, started = time.thread_time(), _collected_s(), time.perf_counter()
        cell = self.source.take()
        taken = time.perf_counter()
        if self._ahead:
            until_readable(cell.control)
        child, ready = cell.pid, time.perf_counter()
        ending = self._watch(cell)
        cell.close()
        done = time.perf_counter()
        cpu_s = time.thread_time() - host_s
        if isinstance(self.source, Zygote):  # to look costs time of its own, which is no candidate's
            # The dead first process waits for the nursery to collect it: its last figure stands.
            zygote_s = self._zygote_cpu_s()
            cpu_s += zygote_s - self._zygote_s + _own_cpu_s(child) + (ending.usage.cpu_s or 0.0)
            self._zygote_s = zygote_s
        cpu_s += _collected_s() - dead_s
        host_s = time.thread_time()
        self._prepare()
        cpu_s += time.thread_time() - host_s
        return Cost(wall_s=(taken - started) + (done - ready), cpu_s=cpu_s)

    def burst(self, count: int) -> float:
        self._prepare()
        started = time.perf_counter()
        for _ in range(count):
            self._run(self.source.take())
            self._zygote_s = self._zygote_cpu_s()  # these are not for `measure` to count
            self._prepare()
        return time.perf_counter() - started

    def close(self) -> None:
        self.source.close()

    def _prepare(self) -> None:
        if self._ahead and not getattr(self.source, "_waiting", None):
            self.source.prepare()

    def _run(self, cell: Cell) -> None:
        try:
            self._watch(cell)
        finally:
            cell.close()

    def _watch(self, cell: Cell) -> Ending:
        ending = watch(cell, self._case.job.limits, self._job)
        header = wire.decode(ending.body)[0] if ending.body is not None else {}
        if header.get("kind") != "answer":
            said = header.get("reason") or ending.log.decode("utf-8", "replace")[-500:] or ending.verdict
            raise SandboxUnavailable(
                f"{self._case.name} with the profile {self._case.profile!r} does not run here: {said}"
            )
        return ending

    def _zygote_cpu_s(self) -> float:
        """Of the zygote and of the nursery beside it, its first child."""
        home = self.source.home if isinstance(self.source, Zygote) else None
        return sum(map(_own_cpu_s, home.processes()[:2])) if home is not None else 0.0


class Plain:
    """A case in a plain interpreter: no sandbox, no limits. Only for programs that come with progevo."""

    def __init__(self, case: Case) -> None:
        profile, interpreter = load_profile(case.profile), find_interpreter()
        self._inputs = tempfile.TemporaryDirectory(prefix="progevo-bench-")
        for name, path in case.job.inputs.files.items():
            os.symlink(path, Path(self._inputs.name) / name)
        told = {
            "packages": [str(path) for path in interpreter.packages] if profile.packages else [],
            "preload": list(profile.preload),
            "harness": str(case.job.harness),
            "inputs": self._inputs.name,
            "source": case.job.program.source,
            "entrypoint": case.job.entrypoint,
            "request": dict(case.job.inputs.request),
        }
        self._told = json.dumps(told).encode()
        self._command = [str(interpreter.executable), "-P", "-s", "-S", "-B", plain.__file__]
        self._environment = {**ENVIRONMENT, **profile.environment}
        self.measure()

    def measure(self) -> Cost:
        host_s, dead_s, started = time.thread_time(), _collected_s(), time.perf_counter()
        subprocess.run(self._command, input=self._told, stdout=subprocess.PIPE, env=self._environment, check=True)
        wall_s = time.perf_counter() - started
        return Cost(wall_s=wall_s, cpu_s=time.thread_time() - host_s + _collected_s() - dead_s)

    def burst(self, count: int) -> float:
        return sum(self.measure().wall_s for _ in range(count))

    def close(self) -> None:
        self._inputs.cleanup()


def _collected_s() -> float:
    """CPU seconds of all children that have been collected, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _own_cpu_s(pid: int | None) -> float:
    """CPU seconds of one process, its first thread: also of a dead one that nobody has collected yet."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return 0.0
