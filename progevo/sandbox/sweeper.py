"""Outlives a host that is killed, for a third of a second, and ends what that one was just starting.

bwrap dies with its parent from the moment when it has asked for that. Its child waits at that time for a word from it,
and would wait for ever: nothing tells it that bwrap is gone. Whatever the host has started carries a mark in its
command line; this process waits for the host's end, kills what is marked, and ends.

    python -I -S sweeper.py HOST MARK
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

#: When to look, after the host's end. What bwrap's end leaves waiting is there at once.
LOOKS_S = (0.0, 0.1, 0.2)


def main() -> None:
    host, mark = int(sys.argv[1]), sys.argv[2]
    with contextlib.suppress(ProcessLookupError):  # it is gone already
        process = os.pidfd_open(host)
        if os.getppid() == host:  # else its number has been given to another
            select.select([process], [], [])
    for pause_s in LOOKS_S:
        time.sleep(pause_s)
        for process in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes, but this one, whose command line holds the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    main()
