"""The host's hold on what answers candidates from outside: black boxes and stopwatches, each a process of its own.

One process serves one candidate after another, each over a socket pair of its own, whose other end goes into the
sandbox with the job (see `blackbox` and `stopwatch` for what the two say to each other).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from progevo.sandbox import blackbox, wire
from progevo.sandbox.cell import Cell
from progevo.sandbox.launch import STARTER
from progevo.types import BlackBox, Count, Inputs, Job, Limits, Status, Stopwatch, Timing

ROOM = Path(__file__).parent
#: How long one may take to be ready, and to say what it has found once its candidate is gone.
PATIENCE_S = 30.0

Partner = BlackBox | Stopwatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What such a process has to say of a candidate."""

    counts: tuple[Count, ...] = ()
    timings: tuple[Timing, ...] = ()
    #: How a candidate ends that went beyond what the process lets it have.
    stopped: tuple[Status, str] | None = None


def program_of(partner: Partner) -> tuple[str, ...]:
    """What answers: a program of this folder, and its arguments."""
    if isinstance(partner, BlackBox):
        return str(ROOM / "blackbox.py"), str(partner.file)
    return (str(ROOM / "stopwatch.py"),)


def counts_of(rows: Iterable[tuple[int, int, float, float | None]], values: Iterable[float]) -> tuple[Count, ...]:
    """Counts as they travel: calls, refused, CPU here and of the candidate, and, apart since it may be NaN, the value.

    There is a value where there is the candidate's CPU.
    """
    return tuple(
        Count(
            calls=calls,
            refused=refused,
            cpu_s=cpu_s,
            candidate_cpu_s=candidate_cpu_s,
            value=None if candidate_cpu_s is None else value,
        )
        for (calls, refused, cpu_s, candidate_cpu_s), value in zip(rows, values, strict=True)
    )


class Answerer:
    """One answering process, kept for candidates of one kind. Raises `OSError` where it has died."""

    def __init__(self, program: tuple[str, ...], core: int | None) -> None:
        self.program, self.core = program, core
        self.control, theirs = socket.socketpair()
        self.control.settimeout(PATIENCE_S)
        with theirs:
            # From the thread that lives as long as the host: with it, it dies (see `launch`).
            self._process = STARTER.submit(
                subprocess.Popen,
                [sys.executable, "-I", *program, str(theirs.fileno())],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            ).result()

    @property
    def pid(self) -> int:
        return self._process.pid

    def serve(self, partner: Partner, most_bytes: int = Limits().answer_bytes) -> socket.socket:
        """A candidate's end of a socket pair, at the other end of which this process answers from now on."""
        ours, theirs = socket.socketpair()
        with ours:
            try:
                socket.send_fds(self.control, [b"s"], [ours.fileno()])
                self.control.sendall(self._told(partner, most_bytes))
            except OSError:
                theirs.close()
                raise
        return theirs

    def _told(self, partner: Partner, most_bytes: int) -> bytes:
        if isinstance(partner, BlackBox):
            told: dict[str, Any] = {
                "problems": list(partner.problems),
                "budget": partner.budget,
                "arity": partner.arity,
                "in_turn": partner.in_turn,
            }
            return wire.encode({**told, "core": self.core})
        messages = (partner.warm_up, partner.problem)
        stages = [
            ["its import", partner.ready_s],
            ["its warm-up", partner.warm_up_s],
            ["its timed call", partner.call_s],
        ]
        told = {"stages": stages, "sizes": [len(message) for message in messages], "most_bytes": most_bytes}
        return wire.encode({**told, "core": self.core}) + b"".join(messages)

    def found(self) -> Found:
        """What it has to say. For when every copy of the candidate's end is closed: only then does it stop."""
        header, arrays = wire.decode(self._exactly(wire.LENGTH.unpack(self._exactly(wire.LENGTH.size))[0]))
        if "counted" in header:
            return Found(counts=counts_of(header["counted"], arrays[0]))
        output, seconds = self._exactly(header["follows"]), header["seconds"]
        if header["stopped"] is not None:
            return Found(stopped=(header["stopped"]["status"], header["stopped"]["reason"]))
        if len(seconds) != 3:
            return Found()
        ready_s, warm_up_s, call_s = seconds
        return Found(timings=(Timing(ready_s=ready_s, warm_up_s=warm_up_s, call_s=call_s, output=output),))

    def _exactly(self, size: int) -> bytes:
        pieces = bytearray()
        while len(pieces) < size:
            piece = self.control.recv(min(size - len(pieces), 1 << 20))
            if not piece:
                raise ConnectionError("the process that answers candidates from outside has died")
            pieces += piece
        return bytes(pieces)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self.control.close()


class Talk:
    """One candidate's talk with such a process, or with none."""

    def __init__(self, answerer: Answerer | None = None, partner: Partner | None = None, most_bytes: int = 0) -> None:
        self._answerer, self._partner, self._most_bytes = answerer, partner, most_bytes
        self._begun = self._heard = False
        #: What the candidate's process is told about it.
        self.facts: dict[str, Any] | None = None
        self.found = Found()
        if isinstance(partner, BlackBox):
            self.facts = {"kind": "black_box", "arity": partner.arity}
        elif partner is not None:
            self.facts = {"kind": "stopwatch"}

    @property
    def bell(self) -> socket.socket | None:
        """Readable once the process has something to say while the candidate may still be there."""
        return self._answerer.control if self._answerer and isinstance(self._partner, Stopwatch) else None

    def hand_over(self, cell: Cell) -> None:
        """Gives the candidate its end, and keeps none. Raises `OSError` where the process has died.

        The two are kept on one core: to wake a process on another one takes five times as long, and what is timed
        has no other.
        """
        if self._answerer is None or self._partner is None:
            return
        if self._answerer.core is not None:
            for pid in cell.processes():
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(pid, {self._answerer.core})
        with self._answerer.serve(self._partner, self._most_bytes) as channel:
            self._begun = True
            with contextlib.suppress(OSError):  # a cell that is gone is noticed by whoever watches it
                if isinstance(self._partner, BlackBox) and self._partner.in_turn:
                    channel.sendall(blackbox.PID.pack(cell.candidate))  # before the candidate can write there
                socket.send_fds(cell.channel, [b"b"], [channel.fileno()])

    def stopped(self) -> bool:
        """Hears what the bell has rung for: whether the candidate has to be ended. Raises `OSError`."""
        self.end()
        return self.found.stopped is not None

    def end(self) -> None:
        """Hears what was found, once the candidate and all its processes are gone. Raises `OSError`."""
        if self._answerer is not None and self._begun and not self._heard:
            self.found, self._heard = self._answerer.found(), True


SILENCE = Talk()


def partner_of(inputs: Inputs) -> Partner | None:
    """What a job has outside, if anything."""
    return inputs.black_box or inputs.stopwatch


class Answerers:
    """The answering processes of one sandbox: as many as candidates are running, kept for the next ones."""

    def __init__(self) -> None:
        self._idle: list[Answerer] = []
        self._lock = threading.Lock()
        self._cores = itertools.cycle(sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None])
        self._closed = False

    @contextlib.contextmanager
    def asked(self, job: Job) -> Iterator[Talk]:
        """A talk for this job; what answers is kept if all went well."""
        partner = partner_of(job.inputs)
        if partner is None:
            yield SILENCE
            return
        answerer = self._take(program_of(partner))
        try:
            yield Talk(answerer, partner, job.limits.answer_bytes)
        except BaseException:
            answerer.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(answerer)
                return
        answerer.close()

    def _take(self, program: tuple[str, ...]) -> Answerer:
        with self._lock:
            for answerer in self._idle:
                if answerer.program == program:
                    self._idle.remove(answerer)
                    return answerer
            core = next(self._cores)
        return Answerer(program, core)

    def close(self) -> None:
        """Ends those that wait; those in use end with their runs."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for answerer in idle:
            answerer.close()
