"""The trusted task in a process of its own: makes problems, solves them by its reference, judges solutions.

This file stands alone (standard library, and `typed` beside it). The host starts it; no candidate is ever near it, and
what a candidate answered arrives as bytes that `typed` makes plain values of. The task's own code runs here, and no
longer than the host lets it: it may be slow, print, or fail, and takes nothing else along.

    python trusted.py DESCRIPTOR      first message: {"file", "argument", "typed"}; then one answer for each question

FILE is a trusted Python file: a task by itself, or, where there is an argument, one whose `task(argument)` makes it.
A task has three functions: `generate_problem(n, random_seed)`, `solve(problem)` and `is_solution(problem, solution)`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

SIZE = struct.Struct("<Q")
#: How often packing and unpacking is timed; the least counts.
ROUNDS = 3
#: What a round trip takes beside that, about: two processes waking each other, and the output into sealed memory.
WAKE_S, OUTPUT_BYTES_PER_S = 1e-4, 6e9


class Desk:
    """Answers questions about one task."""

    def __init__(self, make: Callable[[], Any], typed: ModuleType) -> None:
        #: Makes the task anew: what generating leaves behind in one, no solver finds.
        self.make, self.typed = make, typed

    def generate(self, n: int, seed: int) -> dict[str, Any]:
        """A problem of size n, as bytes. Tasks that draw from a global generator find that seeded too."""
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
        return {"problem": self.typed.whole(self.make().generate_problem(n=n, random_seed=seed))}

    def solve(self, problem: bytes, again: bool) -> dict[str, Any]:
        """The reference's solution, what it took, and what its way over the wire takes at least; CPU seconds.

        With `again` it is solved a second time for its time: the first call of anything is slow.
        """
        solution, solve_s = self._solved(problem)
        if again:
            solution, solve_s = min((solution, solve_s), self._solved(problem), key=lambda pair: pair[1])
        wire_s = math.inf
        for _ in range(ROUNDS):
            mapped = bytearray(problem)
            began = time.process_time()
            self.typed.unpacked(mapped, share=True)
            pieces = self.typed.packed(solution)
            wire_s = min(wire_s, time.process_time() - began)
        output = b"".join(pieces)
        return {
            "output": output,
            "not_finite": self.typed.not_finite(self.typed.unpacked(output)),
            "solve_s": solve_s,
            "wire_s": wire_s + WAKE_S + len(output) / OUTPUT_BYTES_PER_S,
        }

    def _solved(self, problem: bytes) -> tuple[Any, float]:
        value, task = self.typed.unpacked(problem), self.make()
        began = time.process_time()
        solution = task.solve(value)
        return solution, time.process_time() - began

    def check(self, problem: bytes, output: bytes, not_finite: Mapping[str, int]) -> dict[str, Any]:
        """What is wrong with a solution, in words; nothing where it holds.

        The problem is a fresh copy: what solved it may have destroyed its own. Numbers that are not finite are refused
        before the task is asked, unless the reference's solution has as many of the kind: many checks let a NaN pass.
        """
        try:
            solution = self.typed.unpacked(output)
        except self.typed.NotPlain as error:
            return {"wrong": f"the solution cannot be read: {error}"}
        found = self.typed.not_finite(solution)
        if found != not_finite:
            has, should = (_kinds(counts) for counts in (found, not_finite))
            return {"wrong": f"the solution holds {has}, the reference's holds {should}"}
        try:
            holds = bool(self.make().is_solution(self.typed.unpacked(problem), solution))
        except Exception as error:
            return {"wrong": f"the check raised {type(error).__name__}: {str(error)[:300]}"}
        return {"wrong": "" if holds else "the task's check says no"}


def _kinds(counts: Mapping[str, int]) -> str:
    return " and ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "finite numbers alone"


def main() -> None:
    """Answers the host until it hangs up."""
    stay_small_and_die_along()
    channel = socket.socket(fileno=int(sys.argv[1]))
    typed = loaded(Path(__file__).with_name("typed.py"), "typed")
    desk = None
    while (data := received(channel)) is not None:
        question = typed.unpacked(data)
        within_s = question.pop("within_s")
        # A task that never comes back ends this process, also when the host is gone.
        signal.setitimer(signal.ITIMER_REAL, within_s)
        try:
            if desk is None:
                desk = Desk(maker(**question), typed)
                answer: dict[str, Any] = {}
            else:
                answer = getattr(desk, question.pop("do"))(**question)
        except Exception as error:
            answer = {"raised": f"{type(error).__name__}: {str(error)[:500]}"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        data = typed.whole(answer)
        channel.sendall(SIZE.pack(len(data)) + data)


def stay_small_and_die_along() -> None:
    """Leaves half the memory to others, and ends with the host, where the kernel can tell of that."""
    pages = os.sysconf("SC_PHYS_PAGES")
    if pages > 0:
        most = pages * os.sysconf("SC_PAGE_SIZE") // 2
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

    def wait(host: int) -> None:
        with contextlib.suppress(OSError, AttributeError):  # elsewhere than on Linux: the alarm of a question, later
            select.select([os.pidfd_open(host)], [], [])
            os._exit(1)

    threading.Thread(target=wait, args=(os.getppid(),), daemon=True).start()


def maker(file: str, argument: Any) -> Callable[[], Any]:
    """What makes the task; it has been made once."""
    module = loaded(Path(file), "trusted_task")
    if argument is None:
        return lambda: module
    module.task(argument)
    return lambda: module.task(argument)


def loaded(path: Path, name: str) -> ModuleType:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def received(channel: socket.socket) -> bytes | None:
    """The next message; `None` where the host is gone."""
    with contextlib.suppress(ConnectionError):
        (size,) = SIZE.unpack(exactly(channel, SIZE.size))
        return exactly(channel, size)
    return None


def exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = channel.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise ConnectionError
        data += piece
    return bytes(data)


if __name__ == "__main__":
    with open(os.devnull, "w", encoding="utf-8") as sink:  # tasks print, and log
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    main()
