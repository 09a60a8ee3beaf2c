"""Where cells come from: started when asked for, started ahead, or made by a zygote that has imported everything."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Protocol

from progevo.sandbox.cell import Cell, Lost
from progevo.sandbox.cgroup import Cgroups, Shared
from progevo.sandbox.launch import SCRATCH, SHARED_MEMORY, SILENT, Launcher, Surroundings
from progevo.sandbox.watch import STARTUP_S, Log

#: A zygote is replaced after this many candidates or seconds: its children share where things lie in memory.
RECYCLE_CANDIDATES, RECYCLE_S = 500, 1800.0
#: What a zygote needs, inside its own user namespace, to jail its children, who give it up before they read a byte: to
#: make namespaces and mounts, to enter them, also those of a process that nobody may look into, to drop powers.
POWERS = ("CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SETPCAP")
#: How many descriptors a zygote hands over with a child (`zygote.make_child`).
CHILD = 6
#: What the supervisor of a single candidate needs for its mounts. It gives them up before it imports anything.
MOUNTING = ("CAP_SYS_ADMIN", "CAP_SETPCAP")


class Source(Protocol):
    """Makes cells, one at a time: a slot for one candidate after another."""

    def take(self) -> Cell:
        """A cell that waits for its candidate. Raises `Lost`."""
        ...

    def prepare(self) -> None:
        """Gets ready for the next `take`, once a candidate is done. Raises nothing."""
        ...

    def close(self) -> None:
        """Ends what waits, and what makes it. Raises `Alive` where that does not end."""
        ...


class Fresh:
    """Starts a whole sandbox for every candidate: when asked (the cold form), or one ahead (the pool form)."""

    def __init__(self, launcher: Launcher, surroundings: Surroundings, told: bytes, *, ahead: bool) -> None:
        self._launcher, self._surroundings, self._told, self._ahead = launcher, surroundings, told, ahead
        self._waiting: Cell | None = None

    def take(self) -> Cell:
        cell, self._waiting = self._waiting, None
        return cell or self._start()

    def prepare(self) -> None:
        if self._ahead:
            with contextlib.suppress(OSError, Lost):
                self._waiting = self._start()

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.close()

    def _start(self) -> Cell:
        cell = self._launcher.start(self._surroundings, powers=MOUNTING)
        with contextlib.suppress(OSError):  # a cell that is gone already says so when it is watched
            cell.control.sendall(self._told)
        return cell


class Zygote:
    """Asks one zygote for a child per candidate, one ahead (the warm form)."""

    def __init__(
        self, launcher: Launcher, surroundings: Surroundings, told: bytes, cgroups: Cgroups | None = None
    ) -> None:
        self._launcher, self._surroundings, self._told, self._cgroups = launcher, surroundings, told, cgroups
        #: The sandbox that the zygote itself is in, once there is one, and its account, where the kernel keeps one.
        self.home: Cell | None = None
        self.account: Shared | None = None
        #: After how many candidates it is replaced.
        self.recycle = RECYCLE_CANDIDATES
        #: What it has printed: of imports, and why it could not make a child.
        self._log: Log | None = None
        #: Whether a child has been asked for that nobody has taken yet.
        self._asked = False
        self._made, self._born = 0, 0.0

    def take(self) -> Cell:
        if self.home is not None and (self._made >= self.recycle or time.monotonic() - self._born > RECYCLE_S):
            self.close()
        if self.home is not None:
            with contextlib.suppress(OSError, Lost):
                child = self._child()
                if child.alive:
                    return child
                child.close()
            self.close()  # it has died while nobody looked: no candidate is lost by that
        return self._child()

    def prepare(self) -> None:
        if self.home is not None and not self._asked:
            with contextlib.suppress(OSError):
                self._ask(self.home)

    def close(self) -> None:
        home, account = self.home, self.account
        self.home, self.account, self._asked = None, None, False
        try:
            if home is not None:
                home.close()  # and with it the child that waits, if any, and what is left of others
        finally:
            if account is not None:
                account.remove()

    def _ask(self, home: Cell) -> None:
        home.control.sendall(b"n")
        self._asked = True

    def _child(self) -> Cell:
        if self.home is None:
            self.home = self._start()
        if not self._asked:
            self._ask(self.home)
        assert self._log is not None
        if not self._log.take_until(self.home.control, STARTUP_S):
            raise Lost(f"the zygote has not made a child in {STARTUP_S:g} s")
        answer, descriptors, _, _ = socket.recv_fds(self.home.control, 1, CHILD)
        self._asked = False
        if answer != b"c" or len(descriptors) != CHILD:
            for descriptor in descriptors:
                os.close(descriptor)
            raise Lost("the zygote could not make a child")
        self._made += 1
        word, channel, out, err, init, candidate = descriptors
        return Cell(
            control=socket.socket(fileno=word),
            channel=socket.socket(fileno=channel),
            streams=(open(out, "rb", buffering=0), open(err, "rb", buffering=0)),
            init=init,
            candidate=candidate,
        )

    def _start(self) -> Cell:
        home = self._launcher.start(self._surroundings, "zygote.py", POWERS)
        home.control.settimeout(STARTUP_S)
        self._log = log = Log(home)
        why, fault = "", "it said nothing"
        try:
            if self._cgroups is not None:  # before it imports, or forks
                self.account = Shared(self._cgroups, home)
            home.control.sendall(self._told)
            if not log.take_until(home.control, STARTUP_S):
                why = f"it {SILENT} {STARTUP_S:g} s"
            elif home.control.recv(1) == b"r":
                self._made, self._born = 0, time.monotonic()
                return home
        except OSError as error:
            fault = str(error)
        with contextlib.closing(home):
            home.end()
            said = log.rest().decode("utf-8", "replace")[-2000:]
        raise Lost(f"the zygote did not start: {why or said or fault}")


def mounts(launcher: Launcher, surroundings: Surroundings) -> dict[str, object]:
    """What a zygote's child has to mount anew: the places of scratch, and what is shown under them all the same."""
    shown = [str(path) for path in launcher.shown()]
    scratch = {SCRATCH: surroundings.scratch_bytes, SHARED_MEMORY: launcher.profile.shm_bytes}
    keep = [path for path in shown if any(path.startswith(f"{place}/") for place in scratch)]
    hide = [path for path in launcher.hidden() if any(path.startswith(f"{place}/") for place in scratch)]
    return {"scratch": scratch, "keep": keep, "hide": hide}
