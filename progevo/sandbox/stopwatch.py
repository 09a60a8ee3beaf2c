"""Both ends of a stopwatch: one call of a program, timed by a process that the candidate can neither see nor touch.

This file is trusted, stands alone (standard library, and `blackbox` and `wire` beside it) and runs on both sides.
Outside the sandbox it is a process that the host starts, once for one candidate after another. It holds what the
program is called on, and the clock. Inside, it gives the harness one object. The two speak over a socket pair that no
other candidate has ever had an end of; a message is its length (8 bytes, native) and so many bytes:

    inside: b"r", once the program has been imported and is ready
    outside: what the program is warmed up with;    inside: its output
    outside: the problem, and the clock starts;     inside: its output, and with its last byte the clock stops

Whoever is too slow, or says anything else, is no longer listened to. That a program was too slow, or its output too
long, the host hears at once, so that it can end it; everything else once the candidate has closed its end.

    python -I stopwatch.py DESCRIPTOR
"""

from __future__ import annotations

import importlib
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


# ---- inside


class Stopwatch:
    """The candidate's end: `ready()` once, then `take()` and `give(output)` twice; the second time counts."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def ready(self) -> None:
        """Says that the program has been imported; what was until now was not timed, though it is capped."""
        self._channel.sendall(READY)

    def take(self) -> bytearray:
        """What the program is to be called on, as bytes. Raises `ConnectionError` where it was too slow."""
        (size,) = SIZE.unpack(received(self._channel, SIZE.size))
        return received(self._channel, size)

    def give(self, pieces: Sequence[Any]) -> None:
        """Hands the output over: the bytes of all pieces, one after another."""
        self._channel.sendall(SIZE.pack(sum(memoryview(piece).nbytes for piece in pieces)))
        for piece in pieces:
            self._channel.sendall(piece)


def received(channel: socket.socket, size: int, deadline: float | None = None) -> bytearray:
    """So many bytes. Raises `ConnectionError` at the end, and `TimeoutError` past a deadline (of `perf_counter`)."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        if deadline is not None:
            channel.settimeout(left(deadline))
        count = channel.recv_into(view[at : at + (1 << 20)])
        if not count:
            raise ConnectionError("the stopwatch has stopped: the call took too long")
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
        messages = [SIZE.pack(size) + received(control, size) for size in told["sizes"]]
        stages = [Stage(name, cap_s) for name, cap_s in told["stages"]]
        seconds: list[float] = []
        output: bytes | bytearray = b""
        stopped = None
        with socket.socket(fileno=descriptors[0]) as channel:
            try:
                output = timed(channel, stages, messages, told["most_bytes"], seconds)
                listen_on(channel)
            except Stopped as error:  # said before the candidate can know
                stopped = {"status": error.status, "reason": str(error)}
            except (OSError, ValueError):
                seconds.clear()
            word = wire.encode({"seconds": seconds, "stopped": stopped, "follows": len(output)})
            control.sendall(word + output)


def timed(
    channel: socket.socket, stages: Sequence[Stage], messages: Sequence[bytes], most_bytes: int, seconds: list[float]
) -> bytes | bytearray:
    """The last output; appends what each stage took. Raises `Stopped`, or `OSError` or `ValueError` for what is said
    out of turn.
    """
    output: bytes | bytearray = b""
    for number, stage in enumerate(stages):
        began = time.perf_counter()
        deadline = began + stage.cap_s
        try:
            if number == 0:
                if received(channel, len(READY), deadline) != READY:
                    raise ValueError("not a word of the harness's")
            else:
                channel.settimeout(left(deadline))
                channel.sendall(messages[number - 1])
                output = answer(channel, stage, most_bytes, deadline)
        except TimeoutError:
            raise Stopped("timeout", f"{stage.name} took more than {stage.cap_s:.3g} s") from None
        seconds.append(time.perf_counter() - began)
    return output


def answer(channel: socket.socket, stage: Stage, most_bytes: int, deadline: float) -> bytearray:
    """One output. Raises `Stopped` where it announces too many bytes."""
    (size,) = SIZE.unpack(received(channel, SIZE.size, deadline))
    if size > most_bytes:
        raise Stopped("output_limit", f"{stage.name} gave {size} bytes; at most {most_bytes} are taken")
    return received(channel, size, deadline)


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
