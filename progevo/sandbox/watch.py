"""The host's eyes on one sandbox: it feeds the job in, drains what comes out, holds the deadline, ends the tree."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO, Literal

import psutil

from progevo.sandbox import wire
from progevo.types import Limits, Usage

#: From start to the supervisor's first word: interpreter and namespaces, no import of the candidate's.
STARTUP_S = 60.0
#: How much of each of a candidate's stdout and stderr is kept, from the end: a flood on one cannot hide the other.
TAIL_BYTES = 8 * 1024
#: How long a killed tree may take to be gone before the outermost process is killed as well.
REAP_S = 10.0
#: How often the sums over all processes are taken: rlimits hold for one process each.
POLL_S = 0.1

Verdict = Literal["ended", "vanished", "timeout", "cpu_limit", "memory_limit", "output_limit", "no_start"]


@dataclass(kw_only=True)
class Ending:
    """How a sandbox ended, as seen from outside. `end` and `body` are the supervisor's and the candidate's claims."""

    verdict: Verdict
    end: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    #: What was wrong with a frame from inside.
    fault: str = ""
    log: bytes = b""
    usage: Usage = Usage()


class Tree:
    """The processes of one sandbox, from the outermost bwrap to the last grandchild."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._init: int | None = None  # pidfd of the namespace's first process: when it is gone, all are
        self._status = b""
        self._cpu_s: dict[tuple[int, float], float] = {}

    def learn(self, data: bytes) -> None:
        """Takes in a piece of bwrap's status lines; the first is `{"child-pid": N}` and more, and comes in pieces."""
        *lines, self._status = (self._status + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, ProcessLookupError):
                pid = json.loads(line).get("child-pid")
                if isinstance(pid, int):
                    self._init = os.pidfd_open(pid)

    def kill(self) -> None:
        """Kills the namespace's first process, and so every process in it; safe to call twice, from any thread."""
        with contextlib.suppress(ProcessLookupError):
            if self._init is not None:
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            elif self.process.returncode is None:
                os.kill(self.process.pid, signal.SIGKILL)

    def measure(self) -> tuple[float, int]:
        """CPU seconds so far, of the dead too, and bytes of memory now, of all processes together."""
        memory = 0
        for pid in _descendants(self.process.pid):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                self._cpu_s[pid, process.create_time()] = sum(process.cpu_times()[:2])
                memory += process.memory_info().rss - process.memory_info().shared
        return sum(self._cpu_s.values()), memory

    def reap(self) -> None:
        """Returns when the whole tree is gone."""
        if self._init is not None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._init, selectors.EVENT_READ)
                selector.select(REAP_S)
            os.close(self._init)
            self._init = None
        try:
            self.process.wait(REAP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def watch(tree: Tree, control: socket.socket, status: BinaryIO, settings: bytes, job: bytes, limits: Limits) -> Ending:
    """How the sandbox ended. Kills it at its deadline or at its output limit; nothing of it is alive afterwards."""
    process = tree.process
    assert process.stdout is not None and process.stderr is not None
    reader = wire.Reader(max(limits.answer_bytes, wire.MAX_HEADER_BYTES))
    ending = Ending(verdict="no_start")
    tails, log_bytes = {process.stdout: b"", process.stderr: b""}, 0
    started = time.monotonic()
    deadline, poll = started + STARTUP_S, started
    with selectors.DefaultSelector() as selector:
        for stream in (control, status, process.stdout, process.stderr):
            selector.register(stream, selectors.EVENT_READ)
        try:
            control.sendall(settings)
        except OSError:
            deadline = started  # it is gone already; what it said is still read below
        while True:
            events = selector.select(min(POLL_S, max(0.0, deadline - time.monotonic())))
            finished = False
            for key, _ in events:
                if key.fileobj is control:
                    finished = _hear(control, reader, ending)
                    if ending.verdict == "vanished" and job:
                        control.settimeout(STARTUP_S)
                        with contextlib.suppress(OSError):
                            control.sendall(job)
                        job, started = b"", time.monotonic()
                        deadline = started + limits.wall_s
                    continue
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is status:
                    tree.learn(data)
                else:
                    stream = process.stdout if key.fileobj is process.stdout else process.stderr
                    tails[stream], log_bytes = (tails[stream] + data)[-TAIL_BYTES:], log_bytes + len(data)
            if finished:
                break
            if log_bytes > limits.output_bytes:
                ending.verdict = "output_limit"
                break
            # Also while there is always something to read: a steady drip must not hold the clock.
            now = time.monotonic()
            if now >= deadline:
                ending.verdict = "no_start" if ending.verdict == "no_start" else "timeout"
                break
            if now >= poll and ending.verdict == "vanished":
                poll = now + POLL_S
                used_s, memory = tree.measure()
                if used_s > limits.cpu_s + 1:  # the process's own limit goes first, it names the cause as well
                    ending.verdict = "cpu_limit"
                    break
                if memory > limits.memory_bytes:
                    ending.verdict = "memory_limit"
                    break
    wall_s = time.monotonic() - started
    cpu_s = _number(ending.end.get("cpu_s")) if ending.end else tree.measure()[0]
    tree.kill()
    tree.reap()
    ending.log = b"".join((tail + _rest(stream))[-TAIL_BYTES:] for stream, tail in tails.items())
    rss = _number(ending.end.get("max_rss_bytes"))
    ending.usage = Usage(wall_s=wall_s, cpu_s=cpu_s, max_rss_bytes=None if rss is None else int(rss))
    return ending


def _descendants(outermost: int) -> list[int]:
    """Every process below this one. Asked of the kernel itself: to look through all of a host's takes milliseconds."""
    found, waiting = [], [outermost]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
                    waiting += map(int, children.read().split())
        found.append(pid)
    return found[1:]


def _hear(control: socket.socket, reader: wire.Reader, ending: Ending) -> bool:
    """Takes what the supervisor sent into `ending`; whether that was its last word."""
    try:
        data = control.recv(1 << 20)
        bodies = reader.feed(data)
        for body in bodies:
            if ending.verdict == "ended":
                ending.body = body
                return True
            header, _ = wire.decode(body, max_header_bytes=wire.MAX_HEADER_BYTES)
            if header.get("kind") == "started":
                ending.verdict = "vanished"  # until it says how it ended
            elif header.get("kind") == "ended":
                ending.verdict, ending.end = "ended", header
                if not header.get("answered"):
                    return True
        return not data
    except wire.WireError as error:
        ending.fault = str(error)
    except OSError:
        pass
    return True


def _number(claim: object) -> float | None:
    """A finite, non-negative number from inside; `None` for anything else."""
    return float(claim) if isinstance(claim, (int, float)) and 0 <= claim < 1e15 else None


def _rest(stream: IO[bytes]) -> bytes:
    """What is left in a pipe whose writers are gone, at most one tail of it."""
    tail = b""
    os.set_blocking(stream.fileno(), False)
    with contextlib.suppress(OSError):
        while piece := os.read(stream.fileno(), 1 << 16):
            tail = (tail + piece)[-TAIL_BYTES:]
    return tail
