"""The kernel's own account of a candidate, where this user may have one: a control group for each.

In it the memory of all processes together has a hard limit, and CPU is counted for the dead too, whether or not anybody
has waited for them. Both kinds of hierarchy are taken: version 1 (the controllers `memory` and `cpuacct`, each with a
tree of its own) and version 2 (one tree; `memory` where it can be handed on, CPU always). Groups are made below the one
that this process is in, so that whatever limits that one holds.

Version 2 hands memory on only from a group that holds no process itself. So this process moves into a group of its own
below, but only if nobody else is in its group: as in a delegated scope (`systemd-run --user --scope -p Delegate=yes`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from progevo.sandbox.cell import Cell

#: What the kernel needs for the processes themselves (page tables, stacks, descriptors), on top of what they ask for.
OVERHEAD_BYTES = 32 * 1024 * 1024
NAME = "progevo"


class Account:
    """What the kernel has counted for one candidate; this one counts nothing."""

    def add(self, cell: Cell) -> None:
        """Counts a candidate's process and all that it will start, from now on."""

    def cpu_s(self) -> float:
        """CPU seconds so far, of the dead too."""
        return 0.0

    def overdrawn(self) -> bool:
        """Whether the kernel has ended a process because all of them together had too much memory."""
        return False


NO_ACCOUNT = Account()


@dataclass(frozen=True, kw_only=True)
class Files:
    """What the files of a group are called."""

    limit: str
    #: At nought memory over the limit is not swapped out.
    swap: str
    used: str
    events: str
    #: The file, and the word in it, that say how often the limit was met.
    met: str
    met_word: bytes
    cpu: str
    #: How the number of the CPU file begins, and how many of its units make a second.
    cpu_word: bytes
    cpu_units: int


FILES = {
    "v1": Files(
        limit="memory.limit_in_bytes",
        swap="memory.swappiness",
        used="memory.usage_in_bytes",
        events="memory.oom_control",
        met="memory.failcnt",
        met_word=b"",
        cpu="cpuacct.usage",
        cpu_word=b"",
        cpu_units=10**9,
    ),
    "v2": Files(
        limit="memory.max",
        swap="memory.swap.max",
        used="memory.current",
        events="memory.events",
        met="memory.events",
        met_word=b"oom ",
        cpu="cpu.stat",
        cpu_word=b"usage_usec ",
        cpu_units=10**6,
    ),
}


class Group(Account):
    """A control group, and what it has counted since it was last begun with."""

    def __init__(self, cgroups: Cgroups, limit_bytes: int | None) -> None:
        self.limit_bytes: int | None = None
        self._files = FILES[cgroups.version]
        name = f"{NAME}-{os.getpid()}-{next(_numbers)}"
        self._folders = [folder / name for folder in dict.fromkeys((cgroups.memory, cgroups.cpu)) if folder]
        self._open: list[int] = []
        try:
            for folder in self._folders:
                folder.mkdir()
            self._procs = [self._opened(folder, "cgroup.procs", os.O_WRONLY) for folder in self._folders]
            self._cpu = self._opened(cgroups.cpu and cgroups.cpu / name, self._files.cpu)
            memory = cgroups.memory and cgroups.memory / name
            files = (self._files.events, self._files.met, self._files.used)
            self._events, self._met, self._used = (self._opened(memory, file) for file in files)
            self._memory = memory
            if limit_bytes is not None:
                self.limit(limit_bytes)
            self.begin()
        except BaseException:
            self.remove()
            raise

    def _opened(self, folder: Path | None, file: str, mode: int = os.O_RDONLY) -> int | None:
        if folder is None:
            return None
        self._open.append(os.open(folder / file, mode))
        return self._open[-1]

    def limit(self, limit_bytes: int) -> None:
        """Limits memory. What is over the limit is not swapped out either."""
        if self._memory is None:
            return
        (self._memory / self._files.limit).write_text(str(limit_bytes + OVERHEAD_BYTES))
        if (self._memory / self._files.swap).exists():  # a kernel without swap has none
            (self._memory / self._files.swap).write_text("0")
        self.limit_bytes = limit_bytes

    def used_bytes(self) -> int:
        """Memory now, as far as it is counted."""
        return 0 if self._used is None else _number(self._used)

    def begin(self) -> None:
        """Counts from here."""
        self._before_s = 0.0
        self._before_s, self._before = self.cpu_s(), self._ended()

    def add(self, cell: Cell) -> None:
        for pid in cell.processes()[1:]:  # the first has limits of its own, and is not the candidate's
            self.add_process(pid)

    def add_process(self, pid: int) -> None:
        """Counts one process."""
        with contextlib.suppress(ProcessLookupError):  # it has ended: there is nothing to count
            for procs in self._procs:
                if procs is not None:
                    os.write(procs, b"%d" % pid)

    def cpu_s(self) -> float:
        if self._cpu is None:
            return 0.0
        return _number(self._cpu, self._files.cpu_word) / self._files.cpu_units - self._before_s

    def overdrawn(self) -> bool:
        # A host that is out of memory ends processes too, and that is its own fault: then the limit was not met.
        return all(now > before for now, before in zip(self._ended(), self._before, strict=True))

    def _ended(self) -> tuple[int, int]:
        """How many processes the kernel has ended in it for want of memory, and how often it has met its limit."""
        if self._events is None or self._met is None:
            return 0, 0
        return _number(self._events, b"oom_kill "), _number(self._met, self._files.met_word)

    @property
    def clean(self) -> bool:
        """Whether the last candidate has left so little (what the kernel frees later) that the next one has room."""
        return self.used_bytes() < OVERHEAD_BYTES // 2

    def remove(self) -> None:
        """Removes it. One that still holds a process stays for a later `find`."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()
        for folder in self._folders:
            _remove(folder)


class Shared(Account):
    """The account of a zygote with all its children, of whom one at a time is a candidate.

    To move a process into a group takes the kernel several milliseconds, so the zygote is moved there once, and its
    children are born there.
    """

    def __init__(self, cgroups: Cgroups, zygote: Cell) -> None:
        self._group = Group(cgroups, None)
        try:
            for pid in zygote.processes():
                self._group.add_process(pid)
        except BaseException:
            self._group.remove()
            raise
        #: What the zygote holds itself.
        self._base_bytes = 0

    def admit(self, limit_bytes: int) -> Account:
        """The account of the next candidate, which may hold so many bytes."""
        self._base_bytes = self._base_bytes or self._group.used_bytes()
        if self._group.limit_bytes != self._base_bytes + limit_bytes:
            self._group.limit(self._base_bytes + limit_bytes)
        return self

    def add(self, cell: Cell) -> None:
        self._group.begin()

    def cpu_s(self) -> float:
        return self._group.cpu_s()

    def overdrawn(self) -> bool:
        return self._group.overdrawn()

    def remove(self) -> None:
        """Removes it, once the zygote is gone."""
        self._group.remove()


@dataclass(frozen=True, kw_only=True)
class Cgroups:
    """Where groups can be made: a folder for memory, one for CPU; in version 2 they are one.

    A group serves one candidate after another: to make one takes the kernel longer than to count in it.
    """

    version: str
    memory: Path | None
    cpu: Path | None
    _idle: list[Group] = field(default_factory=list)
    _closed: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def opened(self, limit_bytes: int) -> Iterator[Account]:
        """An account for a candidate whose memory, files in scratch included, has this limit.

        For when every process of it is gone afterwards.
        """
        group = None
        with contextlib.suppress(IndexError):
            group = self._idle.pop()  # safe from several threads
            if group.limit_bytes != limit_bytes or not group.clean:
                group.remove()
                group = None
        group = group or Group(self, limit_bytes)
        try:
            group.begin()
            yield group
        except BaseException:
            group.remove()
            raise
        if self._closed.is_set():
            group.remove()
        else:
            self._idle.append(group)

    def close(self) -> None:
        """Removes the groups that nobody uses; those in use go when they are done with."""
        self._closed.set()
        while self._idle:
            self._idle.pop().remove()


_numbers = itertools.count()


def find(proc: Path = Path("/proc/self"), versions: tuple[str, ...] = ("v1", "v2")) -> Cgroups | None:
    """Where this process may make groups that count something; `None` where it may not. Raises nothing.

    `proc` is the folder of this process's `cgroup` and `mountinfo` (proc(5)).
    """
    for version in versions:
        with contextlib.suppress(OSError, ValueError):
            found = _first_version(proc) if version == "v1" else _second_version(proc)
            if found is not None:
                for folder in dict.fromkeys((found.memory, found.cpu)):
                    if folder is not None:
                        _sweep(folder)
                _try(found)
                return found
    return None


def _try(cgroups: Cgroups) -> None:
    """Counts for a process that only waits: to try is the only way to know. Raises `OSError` or `ValueError`."""
    with subprocess.Popen(["/bin/sh", "-c", "read _"], stdin=subprocess.PIPE, env={}) as waits:
        group = Group(cgroups, 1 << 30)
        try:
            group.add_process(waits.pid)
        finally:
            waits.communicate()
            group.remove()


def _first_version(proc: Path) -> Cgroups | None:
    memory, cpu = (_own(proc, controller) for controller in ("memory", "cpuacct"))
    return Cgroups(version="v1", memory=memory, cpu=cpu) if memory or cpu else None


def _second_version(proc: Path) -> Cgroups | None:
    own = _own(proc, "")
    if own is None:
        return None
    return Cgroups(version="v2", memory=own if _hands_memory_on(own) else None, cpu=own)


def _own(proc: Path, controller: str) -> Path | None:
    """The folder of the group that this process is in, for a controller of version 1, or for version 2 with none."""
    path = None
    for line in (proc / "cgroup").read_text().splitlines():
        number, controllers, place = line.split(":", 2)
        if controller in controllers.split(",") and (controller or number == "0"):
            path = place
    if path is None:
        return None
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, target = (re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), part) for part in before.split()[3:5])
        kind, _, options = after.split(" ", 2)
        inside = os.path.relpath(path, root)
        right = controller in options.split(",") if kind == "cgroup" else kind == "cgroup2" and not controller
        if right and not inside.startswith(".."):
            folder = Path(target, inside)
            return folder if os.access(folder / "cgroup.procs", os.W_OK) else None
    return None


def _hands_memory_on(own: Path) -> bool:
    """Whether groups below this one of version 2 get a limit of memory; makes room for that where it may."""
    if "memory" in (own / "cgroup.subtree_control").read_text().split():
        return True
    inside = [int(pid) for pid in (own / "cgroup.procs").read_text().split()]
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    if "memory" not in (own / "cgroup.controllers").read_text().split() or not inside or not ours.issuperset(inside):
        return False
    below = own / f"{NAME}-{os.getpid()}-host"
    below.mkdir(exist_ok=True)
    try:
        for pid in inside:
            (below / "cgroup.procs").write_text(str(pid))
        (own / "cgroup.subtree_control").write_text("+memory")
    except OSError:
        for pid in inside:
            with contextlib.suppress(OSError):
                (own / "cgroup.procs").write_text(str(pid))
        _remove(below)
        return False
    return True


def _number(descriptor: int, word: bytes = b"") -> int:
    """The number at the beginning of a line of an open file, behind a word."""
    found = re.search(rb"^%s(\d+)$" % word, os.pread(descriptor, 4096, 0), re.MULTILINE)
    if found is None:
        raise ValueError(f"a control group does not say {word.decode() or 'a number'}")
    return int(found[1])


def _remove(group: Path) -> None:
    """Removes a group that holds no process."""
    with contextlib.suppress(OSError):
        group.rmdir()


def _sweep(folder: Path) -> None:
    """Removes what a process that was killed has left."""
    for group in folder.glob(f"{NAME}-*-*"):
        pid = group.name.split("-")[1]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            _remove(group)
