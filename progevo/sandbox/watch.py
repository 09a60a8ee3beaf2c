"""The host's eyes on one cell: it feeds the job in, drains what comes out, holds the limits, and ends the cell."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from progevo.sandbox import wire
from progevo.sandbox.answerer import SILENCE, Talk
from progevo.sandbox.cell import CORES, FILLING_BYTES_S, Cell
from progevo.sandbox.cgroup import NO_ACCOUNT, Account
from progevo.sandbox.launch import SILENT
from progevo.types import Job, Limits, Usage

#: From start to the first word on `control`: interpreter, namespaces and trusted imports, none of the candidate's.
STARTUP_S = 60.0
#: How much of each of a candidate's stdout and stderr is kept, from the end: a flood on one cannot hide the other.
TAIL_BYTES = 8 * 1024
#: How often the sums over all processes are taken: rlimits hold for one process each. When there is room for less than
#: can be used up in that time, as soon as it can be.
POLL_S, POLL_LEAST_S = 0.1, 0.005
#: By how much the sum may be over `cpu_s`: a single process is ended by its own limit first, which names the cause.
SLACK_S = 0.15

Verdict = Literal["ended", "vanished", "stopped", "timeout", "cpu_limit", "memory_limit", "output_limit", "no_start"]


@dataclass(kw_only=True)
class Ending:
    """How a sandbox ended, seen from outside. `end` is the word of who forked the candidate, `body` its own claim."""

    verdict: Verdict = "no_start"
    end: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    #: What was wrong with a frame on `control`, and with the candidate's.
    fault: str = ""
    flaw: str = ""
    #: Limits that the kernel did not grant the supervisor, each with the reason.
    refused: dict[str, Any] = field(default_factory=dict)
    log: bytes = b""
    #: What stdout and stderr carried, as far as it was read.
    output_bytes: int = 0
    usage: Usage = Usage()


def frames_of(job: Job, limits: Mapping[str, Any], talk: Talk = SILENCE) -> bytes:
    """A job as the two frames that `watch` sends: the limits to set, and then the candidate and what it is given."""
    candidate = {
        "source": job.program.source,
        "entrypoint": job.entrypoint,
        "request": dict(job.inputs.request),
        "outside": talk.facts,
    }
    return wire.encode({"limits": dict(limits)}) + wire.encode(candidate)


def watch(cell: Cell, limits: Limits, job: bytes, talk: Talk = SILENCE, account: Account = NO_ACCOUNT) -> Ending:
    """How the candidate's run ended. Nothing of the cell is alive afterwards; raises `Alive` where something is.

    `job` is what `frames_of` makes of it; the candidate's process sets the limits for itself. The frames are sent, and
    after them its end of a black box, and the clock starts, when it is said on `control` that the process is there.
    From then on the kernel counts for it on the account.
    """
    words, answers = wire.Reader(wire.MAX_HEADER_BYTES), wire.Reader(limits.answer_bytes)
    ending, log = Ending(), Log(cell)
    started = time.monotonic()
    deadline, poll, answered = started + STARTUP_S, started, 0.0
    #: Where more may be said. Where nobody tells how a candidate ended, its own silence does.
    speaking = {cell.control, cell.channel}
    with selectors.DefaultSelector() as selector:
        for stream in (cell.control, cell.channel, *cell.streams):
            selector.register(stream, selectors.EVENT_READ)
        if talk.bell is not None:
            selector.register(talk.bell, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(max(0.0, min(deadline, poll) - time.monotonic())):
                if key.fileobj is talk.bell:
                    selector.unregister(talk.bell)
                    if talk.stopped():
                        ending.verdict = "stopped"
                elif key.fileobj is cell.channel:
                    if _listen(cell, answers, ending) is False:
                        selector.unregister(cell.channel)
                        speaking.discard(cell.channel)
                        if ending.body is not None or ending.flaw:
                            # The clock stands; to end it takes its time where it holds much memory.
                            answered = time.monotonic()
                            deadline, poll = answered + STARTUP_S, math.inf
                            cell.finish()
                elif key.fileobj is not cell.control:
                    with contextlib.suppress(BlockingIOError):  # it can open the pipe's other end, and take back
                        if not log.take(key.fd):
                            selector.unregister(key.fileobj)
                elif not _hear(cell, words, ending):
                    selector.unregister(cell.control)
                    speaking.discard(cell.control)
                elif ending.verdict == "vanished" and job:
                    cell.begin()
                    account.add(cell)
                    cell.channel.settimeout(STARTUP_S)
                    with contextlib.suppress(OSError):
                        cell.channel.sendall(job)
                    talk.hand_over(cell)
                    # Readable need not mean that anything can be read: a byte out of band, or one that it takes back.
                    cell.channel.setblocking(False)
                    job, started = b"", time.monotonic()
                    deadline, poll = started + limits.wall_s, started + _room_s(limits)
            if ending.verdict in ("ended", "stopped") or not speaking:
                break
            if log.size > limits.output_bytes:
                ending.verdict = "output_limit"
                break
            # Also while there is always something to read: a steady drip must not hold the clock.
            now = time.monotonic()
            if now >= deadline:
                if ending.verdict == "vanished" and not answered:
                    ending.verdict = "timeout"
                elif ending.verdict == "no_start":
                    ending.fault = f"it {SILENT} {STARTUP_S:g} s"
                break
            if now >= poll and ending.verdict != "vanished":
                poll = now + POLL_S  # nobody is running yet
            elif now >= poll:
                used_s, memory = cell.measure()
                used_s = max(used_s, account.cpu_s())
                if memory > limits.memory_bytes:
                    memory = cell.weigh(limits.memory_bytes)
                if used_s > limits.cpu_s + SLACK_S:
                    ending.verdict = "cpu_limit"
                    break
                if memory > limits.memory_bytes or account.overdrawn():
                    ending.verdict = "memory_limit"
                    break
                poll = time.monotonic() + _room_s(limits, used_s, memory)
    wall_s = (answered or time.monotonic()) - started
    cell.channel.setblocking(False)
    while ending.verdict in ("ended", "vanished") and _listen(cell, answers, ending):
        pass  # what it sent before it ended by itself
    cpu_s = max(_number(ending.end.get("cpu_s")) or 0.0, cell.measure()[0])
    cell.end()
    cpu_s = max(cpu_s, account.cpu_s())
    if ending.verdict in ("ended", "vanished") and account.overdrawn():
        ending.verdict = "memory_limit"  # whatever it says, one of its processes was ended for that
    ending.output_bytes, ending.log = log.size, log.rest()
    rss = _number(ending.end.get("max_rss_bytes"))
    ending.usage = Usage(wall_s=wall_s, cpu_s=cpu_s, max_rss_bytes=None if rss is None else int(rss))
    return ending


class Log:
    """The ends of a cell's stdout and stderr, and how much there was of both."""

    def __init__(self, cell: Cell) -> None:
        self._streams = cell.streams
        self._tails = {stream.fileno(): b"" for stream in cell.streams}
        self.size = 0
        for stream in cell.streams:
            os.set_blocking(stream.fileno(), False)

    def take(self, descriptor: int) -> bool:
        """Takes what has come; whether more may come. Raises `BlockingIOError` where nothing is there."""
        data = os.read(descriptor, 1 << 16)
        self._tails[descriptor] = (self._tails[descriptor] + data)[-TAIL_BYTES:]
        self.size += len(data)
        return bool(data)

    def take_until(self, control: socket.socket, timeout_s: float) -> bool:
        """Takes what comes, so that nobody waits for room, until `control` can be read. Whether it could in time."""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            for source in (control, *self._streams):
                selector.register(source, selectors.EVENT_READ)
            while (left_s := deadline - time.monotonic()) > 0:
                ready = [key for key, _ in selector.select(left_s)]
                if any(key.fileobj is control for key in ready):
                    return True
                for key in ready:
                    with contextlib.suppress(BlockingIOError):
                        if not self.take(key.fd):
                            selector.unregister(key.fileobj)
        return False

    def rest(self) -> bytes:
        """The two ends, one after the other, with what is left in the pipes now that their writers are gone."""
        for stream in self._streams:
            with contextlib.suppress(OSError):
                while self.take(stream.fileno()):
                    pass
        return b"".join(self._tails.values())


def _room_s(limits: Limits, used_s: float = 0.0, memory: int = 0) -> float:
    """How long it takes at least to reach a limit, within the bounds of how often to look."""
    cpu_s, memory_s = (limits.cpu_s + SLACK_S - used_s) / CORES, (limits.memory_bytes - memory) / FILLING_BYTES_S
    return max(POLL_LEAST_S, min(POLL_S, cpu_s, memory_s))


def _hear(cell: Cell, reader: wire.Reader, ending: Ending) -> bool:
    """Takes what is said on `control` into `ending`. Whether there may be more of it."""
    try:
        data = cell.control.recv(1 << 16)
        for body in reader.feed(data):
            header, _ = wire.decode(body, max_header_bytes=wire.MAX_HEADER_BYTES)
            if header.get("kind") == "started":
                ending.verdict = "vanished"  # until it is said how it ended
            elif header.get("kind") == "refused":
                ending.refused = header["limits"]
            elif header.get("kind") == "ended":
                ending.verdict, ending.end = "ended", header
                return False
        return bool(data)
    except wire.WireError as error:
        ending.fault = str(error)
    except OSError:  # it has hung up
        pass
    return False


def _listen(cell: Cell, reader: wire.Reader, ending: Ending) -> bool | None:
    """Takes what the candidate has sent into `ending`: its first frame counts. Whether there may be more of it; `None`
    where nothing was there.
    """
    if ending.body is not None or ending.flaw:
        return False
    try:
        data = cell.channel.recv(1 << 20)
        for body in reader.feed(data):
            ending.body = body
            return False
        return bool(data)
    except wire.WireError as error:
        ending.flaw = str(error)
    except BlockingIOError:  # nothing there yet, whatever was announced
        return None
    except OSError:  # it has hung up
        pass
    return False


def _number(claim: object) -> float | None:
    """A finite, non-negative number from inside; `None` for anything else."""
    return float(claim) if isinstance(claim, (int, float)) and 0 <= claim < 1e15 else None
