"""Both ends of a black box: a function that a candidate may call as often as its budget allows and never look into.

This file is trusted, stands alone (standard library, and `wire` beside it) and runs on both sides. Outside the sandbox
it is a process that the host starts, once for one candidate after another. It alone holds the function's parameters,
answers, counts, and says at the end what it has counted. Inside, it gives the harness one callable for each problem.

The two speak over a socket pair that no other candidate has ever had an end of, in frames of native byte order:

    question = problem (4 bytes), points (4 bytes), then points times `arity` float64
    reply    = word (4 bytes), values (4 bytes), then so many float64, at least one; a refusal's means nothing

Every point is one call. A question that asks for more points than the problem has calls left is refused as a whole,
and ends nothing else. Whoever sends anything but questions is no longer answered; what was counted stands.

Where problems are asked about in turn, the host has first sent the number of the candidate's process (4 bytes). A
question of 0 points then carries one float64, the candidate's value of the problem, whose turn is over with that; its
reply means nothing. A question out of turn is none. How much CPU a candidate has used until then is read from outside,
so what it knew of a problem, and for how long, cannot be made to look like anything else.

    python -I blackbox.py FILE DESCRIPTOR      FILE defines function(parameters) -> f, the call f(*point) -> float
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import importlib
import importlib.util
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

HEAD, ONE_REPLY = struct.Struct("=II"), struct.Struct("=IId")
PID, VALUE = struct.Struct("=I"), struct.Struct("=d")
ANSWERED, REFUSED = 0, 1
#: Longer arrays are asked for in pieces, so that neither end ever holds more than this of the other's.
MAX_POINTS = 4096
#: After so many points of one question it is seen whether anybody still waits for the reply.
GLANCE = 16
SILENT = "the black box answers no more: it was sent something else than questions, or a reply was not read to its end"
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4

Function = Callable[..., float]


class BudgetSpent(Exception):
    """A problem has no call left."""


# ---- inside


class BlackBox:
    """The candidate's end: one callable for each problem, which takes numbers, or numpy arrays of one shape."""

    def __init__(self, channel: socket.socket, arity: int) -> None:
        self._channel, self._arity, self._lock = channel, arity, threading.Lock()
        self._one = struct.Struct(f"=II{arity}d")
        self._late: BaseException | None = None

    def problem(self, number: int) -> Callable[..., Any]:
        """`f(*point)` of one problem: a float, or an array where a coordinate is one; each element is one call.

        It raises `BudgetSpent` for a call beyond the budget.
        """

        def f(*point: Any) -> Any:
            if len(point) != self._arity:
                raise TypeError(f"it takes {self._arity} numbers, and was given {len(point)}")
            if all(isinstance(coordinate, float | int) for coordinate in point):
                return self._value(number, point)
            return self._values(number, point)

        return f

    def hand_in(self, number: int, value: float) -> None:
        """Says what the candidate makes of a problem, whose turn is over with that."""
        self._asked(HEAD.pack(number, 0) + VALUE.pack(value))

    def interrupt(self, error: BaseException) -> None:
        """Raises `error`, for the handler of a signal: at once, or as soon as the question under way is answered.

        What is left of a reply when its reader is torn away would be taken for the next one.
        """
        if not self._lock.locked():
            raise error
        self._late = error

    def _value(self, number: int, point: Sequence[float]) -> float:
        word, _, value = ONE_REPLY.unpack(self._asked(self._one.pack(number, 1, *point)))
        return float(value) if word == ANSWERED else _spent()

    def _values(self, number: int, point: Sequence[Any]) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is None:  # a fraction, a decimal, a number of the candidate's own
            return self._value(number, [float(coordinate) for coordinate in point])
        columns = numpy.broadcast_arrays(*(numpy.asarray(coordinate, dtype=numpy.float64) for coordinate in point))
        shape = columns[0].shape
        points = numpy.stack([column.reshape(-1) for column in columns], axis=1)
        values = numpy.empty(len(points))
        for start in range(0, len(points), MAX_POINTS):
            piece = points[start : start + MAX_POINTS]
            reply = self._asked(HEAD.pack(number, len(piece)) + piece.tobytes())
            if HEAD.unpack_from(reply)[0] != ANSWERED:
                _spent()
            values[start : start + len(piece)] = numpy.frombuffer(reply, offset=HEAD.size)
        return values.reshape(shape) if shape else float(values[0])

    def _asked(self, question: bytes) -> bytes:
        """The whole reply to a question; a reply that cannot be read to its end is the last one."""
        with self._lock:
            if self._channel.fileno() < 0:
                raise ConnectionError(SILENT)
            try:
                self._channel.sendall(question)
                reply = _exactly(self._channel, ONE_REPLY.size)
                _, count = HEAD.unpack_from(reply)
                if count > 1:
                    reply += _exactly(self._channel, VALUE.size * (count - 1))
            except BaseException:
                self._channel.close()
                raise
        if self._late is not None:
            late, self._late = self._late, None
            raise late
        return reply


def _spent() -> NoReturn:
    raise BudgetSpent("no call is left")


def _exactly(channel: socket.socket, size: int) -> bytes:
    pieces = channel.recv(size)
    while len(pieces) < size:
        piece = channel.recv(min(size - len(pieces), 1 << 16))
        if not piece:
            raise ConnectionError(SILENT)
        pieces += piece
    return pieces


# ---- outside


class Problem:
    """One function, how many calls it has left, what was counted, and what was handed in."""

    def __init__(self, f: Function, budget: int) -> None:
        self._f, self._left = f, budget
        self.calls = self.refused = 0
        self.cpu_s = 0.0
        self.candidate_cpu_s: float | None = None
        self.value = float("nan")

    def answer(self, points: Sequence[tuple[float, ...]], gone: Callable[[], bool] = lambda: False) -> bytes:
        """The reply to a question. Raises `OSError` once whoever has asked is gone."""
        if len(points) > self._left:
            self.refused += len(points)
            return ONE_REPLY.pack(REFUSED, 1, 0.0)
        self._left -= len(points)
        values = array.array("d")
        for point in points:
            if len(values) % GLANCE == GLANCE - 1 and gone():
                raise BrokenPipeError("nobody waits for the reply any more")
            self.calls += 1
            values.append(self._value(point))
        return HEAD.pack(ANSWERED, len(values)) + values.tobytes()

    def _value(self, point: tuple[float, ...]) -> float:
        try:
            return float(self._f(*point))
        except Exception:  # no value there, as for sin(inf): whatever a candidate asks for ends nothing out here
            return float("nan")


def main() -> None:
    """Answers one candidate after another, until the host hangs up."""
    control = socket.socket(fileno=int(sys.argv[2]))
    hold_on()
    sys.path.insert(0, str(Path(__file__).parent))
    wire = importlib.import_module("wire")
    function = load(Path(sys.argv[1]))
    while True:
        word, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not word:
            return
        told = read_frame(control, wire)
        pin(told["core"])
        problems = [Problem(function(parameters), told["budget"]) for parameters in told["problems"]]
        with socket.socket(fileno=descriptors[0]) as channel, contextlib.suppress(OSError):
            serve(channel, problems, told["arity"], told["in_turn"])
        counted = [[each.calls, each.refused, each.cpu_s, each.candidate_cpu_s] for each in problems]
        control.sendall(wire.encode({"counted": counted}, [[each.value for each in problems]]))


def hold_on() -> None:
    """Ends with the host, is looked into by nobody, and leaves it to the host what an interrupt means."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)  # Darwin has none: there it ends when the host's socket closes
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def load(file: Path) -> Callable[[Any], Function]:
    """What makes a function of its parameters."""
    spec = importlib.util.spec_from_file_location("blackbox_functions", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Callable[[Any], Function] = module.function
    return made


def pin(core: int | None) -> None:
    """Keeps this process on one core, its partner's: to wake a process on another one takes five times as long."""
    if core is not None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {core})


def serve(channel: socket.socket, problems: Sequence[Problem], arity: int, in_turn: bool) -> None:
    """Answers questions until the other end hangs up or sends something else."""
    used_s = clock_of(*PID.unpack(_exactly(channel, PID.size))) if in_turn else None
    turn, begun_s = 0, used_s() if used_s else 0.0
    hung_up = select.poll()
    hung_up.register(channel, 0)  # that it has hung up is told in any case
    before = time.thread_time()
    for number, asked in questions(channel, arity):
        if number >= len(problems) or (in_turn and number != turn):
            return
        problem = problems[number]
        if isinstance(asked, list):
            channel.sendall(problem.answer(asked, lambda: bool(hung_up.poll(0))))
        elif used_s is None:
            return
        else:
            turn, problem.value, now_s = turn + 1, asked, used_s()
            problem.candidate_cpu_s, begun_s = now_s - begun_s, now_s
            channel.sendall(ONE_REPLY.pack(ANSWERED, 1, 0.0))
        now = time.thread_time()
        problem.cpu_s += now - before
        before = now


def clock_of(pid: int) -> Callable[[], float]:
    """What tells the CPU seconds that a process has used so far. It raises `OSError` where that is gone."""
    psutil = importlib.import_module("psutil")

    def used_s() -> float:
        try:
            return float(sum(psutil.Process(pid).cpu_times()[:2]))
        except psutil.Error as error:
            raise ProcessLookupError(str(error)) from None

    return used_s


def questions(channel: socket.socket, arity: int) -> Iterator[tuple[int, list[tuple[float, ...]] | float]]:
    """Problem and points, or the value that is handed in, of one question after another; ends at whatever is none."""
    point = struct.Struct(f"={arity}d")
    rest = b""
    while data := channel.recv(4096):
        rest, at = rest + data if rest else data, 0
        while len(rest) - at >= HEAD.size:
            number, count = HEAD.unpack_from(rest, at)
            if count > MAX_POINTS:
                return
            start, end = at + HEAD.size, at + HEAD.size + (count * point.size if count else VALUE.size)
            if len(rest) < end:
                break
            at = end
            yield number, list(point.iter_unpack(rest[start:end])) if count else VALUE.unpack(rest[start:end])[0]
        rest = rest[at:]


def read_frame(control: socket.socket, wire: Any) -> dict[str, Any]:
    """The header of the host's next frame."""
    (size,) = wire.LENGTH.unpack(_exactly(control, wire.LENGTH.size))
    header: dict[str, Any] = wire.decode(_exactly(control, size))[0]
    return header


if __name__ == "__main__":
    main()
