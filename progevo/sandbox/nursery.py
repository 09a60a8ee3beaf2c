"""The nursery, a small process beside the zygote: makes new namespaces for every candidate.

It has parted from the zygote before the imports, so that its children are small. Each is one raw clone into new
process, mount, IPC, network, UTS and cgroup namespaces, with a fresh /proc and fresh scratch. It gives up every
capability and then sleeps: the first process of its namespaces, which nothing inside can kill, and with which all that
is inside ends. The candidate itself is the zygote's child and moves in from there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from progevo.sandbox import image, powers, runner
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import image  # all of them lie beside this file inside the sandbox
    import powers
    import runner

#: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWPID, NEWNET; CLONE_PIDFD; SIGCHLD.
NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
CLONE_PIDFD, SIGCHLD = 0x00001000, 17
CLONE = {"x86_64": 56, "aarch64": 220}


def open_nursery(told: dict[str, Any]) -> socket.socket:
    """Starts the nursery as a child of this process; the socket on which `make_namespaces` asks it."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        runner.close_descriptors({0, 1, 2, theirs.fileno()})
        image.share(image.Room(0))
        serve(theirs, told["mounts"])
    theirs.close()
    return ours


def make_namespaces(nursery: socket.socket) -> int | None:
    """Asks for new namespaces; a descriptor of their first process, `None` where the kernel refused."""
    nursery.sendall(b"n")
    answer, made, _, _ = socket.recv_fds(nursery, 1, 1)
    if not answer:
        sys.exit("the nursery is gone")
    return made[0] if made else None


def serve(zygote: socket.socket, mounts: dict[str, Any]) -> NoReturn:
    """Makes namespaces whenever the zygote asks for some, until it hangs up."""
    while zygote.recv(1):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        ready, tell = os.pipe()
        pid, pidfd = clone()
        if pid == 0:
            be_first(mounts, tell, (zygote.fileno(), ready))
        os.close(tell)
        if os.read(ready, 1):
            socket.send_fds(zygote, [b"s"], [pidfd])
        else:
            zygote.sendall(b"e")
        for descriptor in (ready, pidfd):
            if descriptor >= 0:
                os.close(descriptor)
    os._exit(0)


def clone() -> tuple[int, int]:
    """A child in namespaces of its own and a descriptor of its process; (0, -1) in the child, (-1, -1) on failure.

    A raw call, since no wrapper takes these flags. Neither the interpreter nor the C library learns of the fork: the
    child does a few calls and then sleeps.
    """
    pidfd = ctypes.c_int(-1)
    pid = runner.libc.syscall(
        ctypes.c_long(CLONE[os.uname().machine]),
        ctypes.c_ulong(NEW_NAMESPACES | CLONE_PIDFD | SIGCHLD),
        None,
        ctypes.byref(pidfd),
        None,
        None,
    )
    return (pid, pidfd.value) if pid else (0, -1)


def be_first(mounts: dict[str, Any], tell: int, others: tuple[int, ...]) -> NoReturn:
    """Jails this process, the first of its namespaces, says so, and sleeps until the host ends it."""
    try:
        for descriptor in others:
            os.close(descriptor)
        os.setsid()
        fresh_mounts(mounts)
        os.chdir("/tmp")
        powers.drop_capabilities()
        # The first process of a namespace is deaf to its own inmates' signals, but for those that it has a handler for,
        # and Python comes with one for SIGINT.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Orphans come to the first process of a namespace; ignored like this, they are collected by the kernel.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.write(tell, b"r")
        os.close(tell)
        while True:
            runner.libc.pause()
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(2, f"nursery: {type(error).__name__}: {error}\n".encode())
    os._exit(1)


def fresh_mounts(mounts: dict[str, Any]) -> None:
    """A /proc of this namespace alone, and empty scratch; what is bound under the old scratch stays in sight."""
    powers.mount("none", "/", None, powers.MS_REC | powers.MS_PRIVATE)
    powers.mount("proc", "/proc", "proc", powers.MS_NOSUID | powers.MS_NODEV | powers.MS_NOEXEC)
    powers.fresh_scratch(mounts)
