"""Both ends of a stopwatch: one call of a program, timed by a process that the candidate can neither see nor touch.

This file is trusted, stands alone (standard library, and `blackbox` and `wire` beside it) and runs on both sides.
Outside the sandbox it is a process that the host starts, once for one candidate after another. It holds what the
program is called on, and the clock. Inside, it gives the harness one object. The two speak over a socket pair that no
other candidate has ever had an end of:

    inside: b"r", once the program has been imported and is ready
    outside: what the program is warmed up with;    inside: its output
    outside: the problem, and the clock starts;     inside: its output, and then the clock stops

A message is its length (8 bytes, native) and so many bytes. Where the system can (Linux) the bytes themselves go by
memory: with the length of a problem come two descriptors, one to map the problem from, one to write the output to. When
the length of an output arrives, that memory is sealed, and only then the clock stops: nothing in there can be changed
any more, so that it can be read at leisure. A megabyte through a socket takes as long as many a program that is timed.

Whoever is too slow, or says anything else, is no longer listened to. That a program was too slow, or its output too
long, the host hears at once, so that it can end it; everything else once the candidate has closed its end.

    python -I stopwatch.py DESCRIPTOR
"""

from __future__ import annotations

import fcntl
import importlib
import mmap
import os
import socket
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from progevo.sandbox import blackbox
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import blackbox  # lies beside this file on either side

    sys.path.pop(0)

SIZE = struct.Struct("=Q")
READY = b"r"
GONE = "the stopwatch has stopped: the call took too long"
#: Whether there is memory that can be handed over, and sealed: its size at the start, its content at the end.
BY_MEMORY = hasattr(os, "memfd_create") and hasattr(fcntl, "F_SEAL_WRITE")


# ---- inside


class Stopwatch:
    """The candidate's end: `ready()` once, then `take()` and `give(output)` twice; the second time counts."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        #: Where the output is written to, if not to the socket.
        self._room: int | None = None

    def ready(self) -> None:
        """Says that the program has been imported; what was until now was not timed, though it is capped."""
        self._channel.sendall(READY)

    def take(self) -> Any:
        """What the program is to be called on, as a buffer of its own. Raises `ConnectionError` if it was too slow."""
        head, descriptors, _, _ = socket.recv_fds(self._channel, SIZE.size, 2)
        if not head:
            raise ConnectionError(GONE)
        (size,) = SIZE.unpack(head)
        if not descriptors:
            return received(self._channel, size)
        problem, self._room = descriptors
        data = mmap.mmap(problem, size, access=mmap.ACCESS_COPY)
        os.close(problem)
        return data

    def give(self, pieces: Sequence[Any]) -> None:
        """Hands the output over: the bytes of all pieces, one after another."""
        size = sum(memoryview(piece).nbytes for piece in pieces)
        if self._room is None:
            self._channel.sendall(SIZE.pack(size))
            for piece in pieces:
                self._channel.sendall(piece)
            return
        for piece in pieces:
            view = memoryview(piece)
            while view.nbytes:
                view = view[os.write(self._room, view) :]
        os.close(self._room)
        self._channel.sendall(SIZE.pack(size))


def received(channel: socket.socket, size: int, deadline: float | None = None) -> bytearray:
    """So many bytes. Raises `ConnectionError` at the end, and `TimeoutError` past a deadline (of `perf_counter`)."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        if deadline is not None:
            channel.settimeout(left(deadline))
        count = channel.recv_into(view[at : at + (1 << 20)])
        if not count:
            raise ConnectionError(GONE)
        at += count
    return data


# ---- outside


class Stage(NamedTuple):
    """What a program is doing, and how long it may."""

    name: str
    cap_s: float


class Stopped(Exception):
    """A candidate went beyond a cap: the status it ends with, and why."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def main() -> None:
    """Times one candidate after another, until the host hangs up."""
    control = socket.socket(fileno=int(sys.argv[1]))
    blackbox.hold_on()
    sys.path.insert(0, str(Path(__file__).parent))
    wire = importlib.import_module("wire")
    while True:
        word, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not word:
            return
        told = blackbox.read_frame(control, wire)
        blackbox.pin(told["core"])
        parcels = [Parcel(received(control, size), told["most_bytes"]) for size in told["sizes"]]
        stages = [Stage(name, cap_s) for name, cap_s in told["stages"]]
        seconds: list[float] = []
        output: bytes | bytearray = b""
        stopped = None
        with socket.socket(fileno=descriptors[0]) as channel:
            try:
                output = timed(channel, stages, parcels, seconds)
                listen_on(channel)
            except Stopped as error:  # said before the candidate can know
                stopped = {"status": error.status, "reason": str(error)}
            except (OSError, ValueError):
                seconds.clear()
            for parcel in parcels:
                parcel.close()
            word = wire.encode({"seconds": seconds, "stopped": stopped, "follows": len(output)})
            control.sendall(word + output)


class Parcel:
    """What a program is called on, and room for its output, ready to be handed over."""

    def __init__(self, problem: bytes | bytearray, most_bytes: int) -> None:
        self._most_bytes, self._descriptors = most_bytes, []
        self._message: bytes | bytearray = SIZE.pack(len(problem))
        if not BY_MEMORY:
            self._message += problem
            return
        for data, size in ((problem, len(problem)), (b"", most_bytes)):
            memory = os.memfd_create("progevo", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            self._descriptors.append(memory)
            view = memoryview(data)
            while view.nbytes:
                view = view[os.write(memory, view) :]
            os.truncate(memory, size)
            os.lseek(memory, 0, os.SEEK_SET)
            seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | (fcntl.F_SEAL_WRITE if data else 0)
            fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)

    def make_room(self, size: int) -> None:
        """Has memory ready for an output of about this size: to get it from the kernel takes longer than to fill it."""
        if self._descriptors and size:
            os.posix_fallocate(self._descriptors[1], 0, min(size, self._most_bytes))

    def send(self, channel: socket.socket, deadline: float) -> None:
        """Hands it over. Raises `TimeoutError`."""
        channel.settimeout(left(deadline))
        if self._descriptors:
            socket.send_fds(channel, [self._message], self._descriptors)
        else:
            channel.sendall(self._message)

    def output(self, channel: socket.socket, stage: Stage, deadline: float, seconds: list[float], began: float) -> Any:
        """The output, once it is whole and nobody can change it; appends what it took. Raises `Stopped`."""
        (size,) = SIZE.unpack(received(channel, SIZE.size, deadline))
        if size > self._most_bytes:
            raise Stopped("output_limit", f"{stage.name} gave {size} bytes; at most {self._most_bytes} are taken")
        if not self._descriptors:
            data: Any = received(channel, size, deadline)
            seconds.append(time.perf_counter() - began)
            return data
        room = self._descriptors[1]
        try:
            fcntl.fcntl(room, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        except OSError:
            raise Stopped("bad_output", f"{stage.name} has left its output open to be changed later") from None
        seconds.append(time.perf_counter() - began)
        with mmap.mmap(room, self._most_bytes, access=mmap.ACCESS_READ) as whole:
            return whole[:size]

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


def timed(
    channel: socket.socket, stages: Sequence[Stage], parcels: Sequence[Parcel], seconds: list[float]
) -> bytes | bytearray:
    """The last output; appends what each stage took. Raises `Stopped`, or `OSError` or `ValueError` for what is said
    out of turn.
    """
    output: bytes | bytearray = b""
    for number, stage in enumerate(stages):
        if number > 1:
            parcels[number - 1].make_room(len(output))  # as large as the last one
        began = time.perf_counter()
        deadline = began + stage.cap_s
        try:
            if number == 0:
                if received(channel, len(READY), deadline) != READY:
                    raise ValueError("not a word of the harness's")
                seconds.append(time.perf_counter() - began)
            else:
                parcels[number - 1].send(channel, deadline)
                output = parcels[number - 1].output(channel, stage, deadline, seconds, began)
        except TimeoutError:
            raise Stopped("timeout", f"{stage.name} took more than {stage.cap_s:.3g} s") from None
    return output


def left(deadline: float) -> float:
    """Seconds until a deadline. Raises `TimeoutError` past it: a time-out of 0 would mean not to wait at all."""
    remaining = deadline - time.perf_counter()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def listen_on(channel: socket.socket) -> None:
    """Waits until the candidate's end is closed, whatever still comes."""
    channel.settimeout(None)
    while channel.recv(1 << 16):
        pass


if __name__ == "__main__":
    main()
