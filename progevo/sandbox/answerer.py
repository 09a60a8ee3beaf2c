"""The host's hold on black boxes: processes outside every sandbox that answer a candidate's calls and count them.

One process serves one candidate after another, each over a socket pair of its own, whose other end goes into the
sandbox with the job (see `blackbox` for what the two say to each other).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from progevo.sandbox import blackbox, wire
from progevo.sandbox.cell import Cell
from progevo.sandbox.launch import STARTER
from progevo.types import BlackBox, Count, Job

PROGRAM = Path(__file__).with_name("blackbox.py")
#: How long one may take to be ready, and to say what it has counted once its candidate is gone.
PATIENCE_S = 30.0


class Answerer:
    """One answering process, kept for the functions of one file. Raises `OSError` where it has died."""

    def __init__(self, file: Path, core: int | None) -> None:
        self.file, self.core = file, core
        self._control, theirs = socket.socketpair()
        self._control.settimeout(PATIENCE_S)
        with theirs:
            # From the thread that lives as long as the host: with it, it dies (see `launch`).
            self._process = STARTER.submit(
                subprocess.Popen,
                [sys.executable, "-I", str(PROGRAM), str(file), str(theirs.fileno())],
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

    def serve(self, box: BlackBox) -> socket.socket:
        """A candidate's end of a socket pair, at the other end of which this process answers from now on."""
        ours, theirs = socket.socketpair()
        with ours:
            told = {
                "problems": list(box.problems),
                "budget": box.budget,
                "arity": box.arity,
                "core": self.core,
                "in_turn": box.in_turn,
            }
            try:
                socket.send_fds(self._control, [b"s"], [ours.fileno()])
                self._control.sendall(wire.encode(told))
            except OSError:
                theirs.close()
                raise
        return theirs

    def counted(self) -> tuple[Count, ...]:
        """What it has counted. For when every copy of the candidate's end is closed: only then does it stop."""
        reader = wire.Reader(wire.MAX_HEADER_BYTES)
        while not (bodies := reader.feed(data := self._control.recv(1 << 16))):
            if not data:
                raise ConnectionError("the process that answers a black box has died")
        header, (values,) = wire.decode(bodies[0])
        return tuple(
            Count(
                calls=calls,
                refused=refused,
                cpu_s=cpu_s,
                candidate_cpu_s=candidate_cpu_s,
                value=None if candidate_cpu_s is None else value,
            )
            for (calls, refused, cpu_s, candidate_cpu_s), value in zip(header["counted"], values, strict=True)
        )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._control.close()


class Talk:
    """One candidate's talk with a black box, or with none."""

    def __init__(self, answerer: Answerer | None = None, box: BlackBox | None = None) -> None:
        self._answerer, self._box, self._channel = answerer, box, None
        #: What the candidate's process is told about it.
        self.facts: dict[str, Any] | None = None
        self.counts: tuple[Count, ...] = ()
        if answerer is not None and box is not None:
            self.facts = {"arity": box.arity, "core": answerer.core}
            self._channel = answerer.serve(box)

    def hand_over(self, cell: Cell) -> None:
        """Gives the candidate its end, and keeps none."""
        if self._channel is not None and self._box is not None:
            with self._channel:
                if self._box.in_turn:  # before the candidate can write there
                    self._channel.sendall(blackbox.PID.pack(cell.candidate))
                socket.send_fds(cell.channel, [b"b"], [self._channel.fileno()])

    def end(self) -> None:
        """Takes what was counted, once the candidate and all its processes are gone. Raises `OSError`."""
        if self._answerer is not None and self._channel is not None:
            self._channel.close()
            self.counts = self._answerer.counted()


SILENCE = Talk()


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
        box = job.inputs.black_box
        if box is None:
            yield SILENCE
            return
        answerer = self._take(box.file)
        try:
            talk = Talk(answerer, box)
            yield talk
        except BaseException:
            answerer.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(answerer)
                return
        answerer.close()

    def _take(self, file: Path) -> Answerer:
        with self._lock:
            for answerer in self._idle:
                if answerer.file == file:
                    self._idle.remove(answerer)
                    return answerer
            core = next(self._cores)
        return Answerer(file, core)

    def close(self) -> None:
        """Ends those that wait; those in use end with their runs."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for answerer in idle:
            answerer.close()
