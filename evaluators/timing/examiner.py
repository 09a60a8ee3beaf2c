"""The host's hold on the process that has the trusted task: asks it, and ends it where it takes too long."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from progevo.errors import TaskError
from progevo.evaluators.timing import typed
from progevo.types import Json

PROGRAM = Path(__file__).resolve().with_name("trusted.py")
SIZE = struct.Struct("<Q")
#: What a task's file may take to be imported.
LOAD_S = 60.0
#: One thread, as the candidates have; and sets in the same order in every run.
ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"),
    **dict.fromkeys(("VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    "PYTHONHASHSEED": "0",
}


class TooSlow(Exception):
    """The task did not answer in time."""


class Failed(Exception):
    """The task raised, or its process has died; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """Where a task is: a trusted file that is one by itself, or whose `task(argument)` makes one."""

    file: Path
    argument: Json = None
    #: What people call the task.
    name: str = "task"


class Examiner:
    """The trusted task of one loader; safe to call from several threads, one after the other.

    Its process is started when it is first asked, again after it was ended, and ends with this object or this process.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._end: weakref.finalize[Any, Any] | None = None

    def __getstate__(self) -> Loader:
        return self.loader  # another process starts its own

    def __setstate__(self, loader: Loader) -> None:
        self.__init__(loader)  # type: ignore[misc]

    def generate(self, n: int, seed: int, within_s: float) -> bytes:
        """A problem, as bytes. Raises `Failed` or `TooSlow`."""
        problem: bytes = self._ask("generate", within_s, n=n, seed=seed)["problem"]
        return problem

    def solve(self, problem: bytes, within_s: float, *, again: bool = False) -> dict[str, Any]:
        """See `trusted.Desk.solve`. Raises `Failed` or `TooSlow`."""
        return self._ask("solve", within_s, problem=problem, again=again)

    def check(self, problem: bytes, output: bytes, not_finite: Mapping[str, int], within_s: float) -> str:
        """What is wrong with a solution; empty where it holds. Raises `Failed` or `TooSlow`."""
        found = self._ask("check", within_s, problem=problem, output=output, not_finite=dict(not_finite))
        wrong: str = found["wrong"]
        return wrong

    def close(self) -> None:
        """Ends the process, if there is one."""
        with self._lock:
            self._close()

    def _ask(self, do: str, within_s: float, **question: Any) -> dict[str, Any]:
        with self._lock:
            if self._channel is None:
                self._start()
            return self._answer({"do": do, **question}, within_s)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "HOME", "LANG")}
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-B", str(PROGRAM), str(theirs.fileno())],
                env={**kept, **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._channel = ours
        self._end = weakref.finalize(self, _end, process, ours)
        try:
            self._answer({"file": str(self.loader.file), "argument": self.loader.argument}, LOAD_S)
        except (Failed, TooSlow) as error:
            self._close()
            raise TaskError(f"{self.loader.name} cannot be loaded: {error}") from error

    def _answer(self, question: dict[str, Any], within_s: float) -> dict[str, Any]:
        assert self._channel is not None
        data = typed.whole({**question, "within_s": within_s})
        self._channel.settimeout(within_s + 5.0)  # by itself it ends at `within_s`
        try:
            self._channel.sendall(SIZE.pack(len(data)) + data)
            (size,) = SIZE.unpack(self._exactly(SIZE.size))
            answer: dict[str, Any] = typed.unpacked(self._exactly(size))
        except (OSError, EOFError) as error:
            code = self._close()
            if isinstance(error, TimeoutError) or code == -14:  # SIGALRM
                raise TooSlow(f"more than {within_s:g} s") from None
            raise Failed(f"its process ended with {code}") from None
        if "raised" in answer:
            raise Failed(answer["raised"])
        return answer

    def _exactly(self, size: int) -> bytes:
        assert self._channel is not None
        data = bytearray()
        while len(data) < size:
            piece = self._channel.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _close(self) -> int | None:
        code = self._end() if self._end is not None else None
        self._channel = self._end = None
        return code


def _end(process: subprocess.Popen[bytes], channel: socket.socket) -> int:
    """Ends a process, and says with what code it ended."""
    channel.close()
    try:
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return process.returncode
