"""A cell: one sandbox with its processes, its streams and its two sockets."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import IO, NamedTuple, TypeVar

import psutil

#: How long a killed tree may take to be gone, before its outermost process is killed as well, and that one then. The
#: kernel takes more than ten seconds for what a candidate may have within usual limits, on a machine with others.
REAP_S, LAST_S = 60.0, 1.0
#: How often to look, and after how long, whether all that a candidate has started stands still.
STOPS, STOP_S = 50, 0.001
#: Of one candidate, at most.
CORES = min(os.cpu_count() or 1, 8)
#: How fast processes fill memory that they have not touched before.
FILLING_BYTES_S = CORES * 2 * 1024**3
#: How it is said that a process is gone.
GONE = (FileNotFoundError, ProcessLookupError)
#: Where among the facts of a process it stands when it has started.
START = 19
TICKS, PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Lost(Exception):
    """No cell is to be had, or one does not end: the host's fault."""


class Alive(Lost):
    """Processes of a cell that has been killed are still there: nothing that it said counts."""


def readable(descriptor: int, timeout_s: float) -> bool:
    """Whether a descriptor becomes readable in time; `select` knows none above 1023."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


class Known(NamedTuple):
    """A process by its number and when it has started, in the words of proc(5): together they are unique."""

    pid: int
    start: bytes

    @property
    def stands_still(self) -> bool:
        """Whether it has stopped, or is gone."""
        with contextlib.suppress(*GONE):
            facts = _facts(self.pid)
            return facts[START] != self.start or facts[0] in b"TtZX"
        return True

    def send(self, number: int) -> None:
        """Sends it a signal, unless it is gone. Raises `OSError` where this process has no descriptor left for that."""
        with contextlib.suppress(*GONE):
            process = os.pidfd_open(self.pid)
            try:
                # Looked up afterwards: it has had its number all the time, so the descriptor is of none but this one.
                if _facts(self.pid)[START] == self.start:
                    signal.pidfd_send_signal(process, number)
            finally:
                os.close(process)


class Cell:
    """One sandbox, from its first process to the last grandchild; it holds one candidate, once.

    Args:
        control: the socket of who has forked the candidate and says how it ended.
        channel: the candidate's own.
        streams: the ends of its stdout and stderr.
        init: a descriptor of its first process: when that is gone, all are. `None` where it did not start.
        candidate: a descriptor of the candidate's process, where that is not a child of the first one.
        outermost: the bwrap process that started it, for a sandbox of its own.
    """

    def __init__(
        self,
        *,
        control: socket.socket,
        channel: socket.socket,
        streams: tuple[IO[bytes], IO[bytes]],
        init: int | None,
        candidate: int | None = None,
        outermost: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.control, self.channel, self.streams = control, channel, streams
        self._init, self._candidate, self._outermost = init, candidate, outermost
        #: When it has to be gone, once it has been asked to end.
        self._deadline: float | None = None
        #: The numbers that processes have by their descriptors.
        self._numbers: dict[int, int] = {}
        self._most_s = self._before_s = 0.0
        self._cpu_s: dict[Known, float] = {}

    @property
    def alive(self) -> bool:
        """Whether its first process runs."""
        return self._init is not None and not readable(self._init, 0)

    def kill(self) -> None:
        """Kills the first process, and so every process in it; safe to call twice, from any thread."""
        with contextlib.suppress(ProcessLookupError, OSError):
            if self._init is not None:
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            elif self._outermost is not None and self._outermost.returncode is None:
                os.kill(self._outermost.pid, signal.SIGKILL)

    def finish(self) -> None:
        """Ends the candidate, so that `control` tells how it ended."""
        if self._candidate is not None:
            self.kill()
        else:
            with contextlib.suppress(OSError):  # it has ended by itself
                self.control.sendall(b"e")

    def end(self) -> None:
        """Kills it, and returns when every process of it is gone. Raises `Alive` where that does not come about."""
        self.kill()
        alive = []
        if self._init is not None and not readable(self._init, self.patience_s()):
            alive += self.processes()
        if self._outermost is not None:
            if self._init is None:
                # A child of bwrap that has not got as far as its own namespace waits for ever when bwrap is gone.
                self._kill_group()
            # bwrap collects its first process: killed now, it would leave a zombie.
            if not self._collected(self.patience_s()):
                self._kill_group()
                if not self._collected(LAST_S):
                    alive.append(self._outermost.pid)
        blame(alive)

    def patience_s(self) -> float:
        """How much longer it may take to be gone; counted from the first question."""
        now = time.monotonic()
        self._deadline = self._deadline or now + REAP_S
        return max(0.0, self._deadline - now)

    def _collected(self, patience_s: float) -> bool:
        """Whether bwrap ends in time."""
        assert self._outermost is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._outermost.wait(patience_s)
        return self._outermost.returncode is not None

    def _kill_group(self) -> None:
        """Kills bwrap, which leads a session of its own, and what it has forked there."""
        assert self._outermost is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._outermost.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends it and gives its descriptors back. Raises `Alive` as `end` does."""
        try:
            self.end()
        finally:
            for descriptor in (self._init, self._candidate):
                if descriptor is not None:
                    os.close(descriptor)
            self._init = self._candidate = None
            for stream in (self.control, self.channel, *self.streams):
                stream.close()

    def measure(self) -> tuple[float, int]:
        """CPU seconds so far, of the dead too, and bytes of memory now, of all processes together."""
        memory, alive_s = 0, 0.0
        for pid in self.processes():
            with contextlib.suppress(OSError):
                facts = _facts(pid)
                unshared = _unshared_bytes(pid, facts[0])
                user, system, children_user, children_system = map(int, facts[11:15])
                self._cpu_s[Known(pid, facts[START])] = (user + system) / TICKS
                alive_s += (user + system + children_user + children_system) / TICKS
                memory += unshared
        # The dead whom somebody has waited for are in that one's sum, the others in what was seen of them.
        self._most_s = max(self._most_s, alive_s, sum(self._cpu_s.values()))
        return max(0.0, self._most_s - self._before_s), memory

    def begin(self) -> None:
        """From here on CPU is the candidate's: what its first process has used for imports is not."""
        if self._candidate is None:  # the child of a zygote has used nothing
            self._before_s += self.measure()[0]

    def weigh(self, most_bytes: int) -> int:
        """Bytes of memory now, of all processes together, what several of them share counted once.

        `measure` counts the pages that a fork shares for each process: an upper bound, and a hundred times cheaper. To
        weigh takes the kernel tens of milliseconds on a busy machine. Where it may have grown beyond `most_bytes` in
        that time, the candidate is weighed again, and stands still for it; if it has more, it does not go on.
        """
        began = time.monotonic()
        memory = sum(map(_fair_bytes, self.processes()))
        if memory + FILLING_BYTES_S * (time.monotonic() - began) <= most_bytes:
            return memory
        stopped = self._stop()
        memory = sum(map(_fair_bytes, self.processes()))
        if memory <= most_bytes:
            for process in stopped:
                process.send(signal.SIGCONT)
        return memory

    def _stop(self) -> set[Known]:
        """Stops the candidate's processes, also those that they start meanwhile; those that have not been so before.

        The first process of all is ours, and starts none.
        """
        held: set[Known] = set()
        stopped: set[Known] = set()
        for _ in range(STOPS):
            still = all(process.stands_still for process in held)  # a fork that has begun is finished first
            new = {process for pid in self.processes()[1:] if (process := _known(pid)) is not None} - held
            if still and not new:
                break
            # A number that is still one of these has not been given to somebody else's process. The kernel's lists lack
            # some while processes come and go: those are for the next round.
            listed = self.processes()
            new = {process for process in new if process.pid in listed}
            held |= new
            for process in held:
                if not process.stands_still:  # it is new, or others have made it go on
                    stopped.add(process)
                    process.send(signal.SIGSTOP)
            time.sleep(STOP_S)
        return stopped

    def processes(self) -> list[int]:
        """Every process in it, parents before children, the oldest child first.

        Asked of the kernel itself: to look through all of a host's takes milliseconds.
        """
        found = [pid for pid in (self.pid, self._number(self._candidate)) if pid is not None]
        for pid in found:
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
                        found += map(int, children.read().split())
        return found

    @property
    def candidate(self) -> int:
        """The host's number of the candidate's process, while that has started nothing yet; 0 where all is gone."""
        return (self.processes() or [0])[-1]

    @property
    def pid(self) -> int | None:
        """The host's number of its first process; `None` where it is gone."""
        return self._number(self._init)

    def _number(self, process: int | None) -> int | None:
        """The host's number of the process that a descriptor is of; `None` where it is gone."""
        if process is None or readable(process, 0):
            return None
        if process not in self._numbers:
            with open(f"/proc/self/fdinfo/{process}", encoding="ascii") as facts:
                number = re.search(r"^Pid:\s*(-?\d+)", facts.read(), re.MULTILINE)
            assert number is not None
            self._numbers[process] = int(number[1])
        return self._numbers[process] if self._numbers[process] > 0 else None


def blame(pids: list[int]) -> None:
    """Raises `Alive`, with their numbers and states as `ps` shows them, if any of these processes is still there."""
    words = []
    for pid in pids:
        with contextlib.suppress(OSError, psutil.Error):
            words.append(f"{pid} ({psutil.Process(pid).status()})")
    if words:
        raise Alive(
            f"the sandbox was killed, and after {REAP_S:g} s not all of it was gone: {', '.join(words[:8])}"
            f"{f' and {len(words) - 8} more' if len(words) > 8 else ''}"
        )


def _facts(pid: int) -> list[bytes]:
    """What the kernel says of a process, from its state, field 3 of proc(5), on. Raises one of `GONE` where it is."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()  # behind the command's name, which may hold anything


def _known(pid: int) -> Known | None:
    """The process that has a number now, if any."""
    with contextlib.suppress(*GONE):
        return Known(pid, _facts(pid)[START])
    return None


def _with_memory(pid: int, state: bytes) -> str:
    """Where the kernel says how much memory a process has: its first thread may have ended before the others."""
    if state == b"Z":
        for thread in reversed(os.listdir(f"/proc/{pid}/task")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/statm", "rb") as file:
                if not file.read().startswith(b"0 "):
                    return f"{pid}/task/{thread}"
    return str(pid)


def _unshared_bytes(pid: int, state: bytes) -> int:
    """Resident memory of a process that is no file's; `state` as in proc(5). Raises `OSError` where it is gone."""
    with open(f"/proc/{_with_memory(pid, state)}/statm", "rb") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * PAGE_BYTES


def _fair_bytes(pid: int) -> int:
    """Memory of a process, with a fair part of what it shares; 0 where it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        try:
            # Nothing for one whose first thread has ended before the others.
            return int(process.memory_full_info().pss) or _bytes_of_threads(pid)
        except psutil.AccessDenied:
            return int(process.memory_info().rss - process.memory_info().shared)
    return 0


def _bytes_of_threads(pid: int) -> int:
    """Memory of a process whose first thread has ended: an upper bound."""
    with contextlib.suppress(OSError):
        return _unshared_bytes(pid, b"Z")
    return 0


Held = TypeVar("Held", bound=Cell)


class InUse:
    """The cells that runs are in, which `close` ends from outside."""

    def __init__(self) -> None:
        self._cells: set[Cell] = set()
        self._lock = threading.Lock()
        self.closed = False

    @contextlib.contextmanager
    def hold(self, cell: Held) -> Iterator[Held]:
        """The cell for the length of a run; it is closed afterwards."""
        with self._lock:
            self._cells.add(cell)
            if self.closed:
                cell.kill()
        try:
            yield cell
        finally:
            with self._lock:
                self._cells.discard(cell)
            cell.close()

    def close(self) -> None:
        """Kills what is held, and from now on whatever comes."""
        with self._lock:
            self.closed = True
            for cell in self._cells:
                cell.kill()
