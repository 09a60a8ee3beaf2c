"""The nursery, a small process beside the zygote: makes a supervisor, in namespaces of its own, for every candidate.

It has parted from the zygote before the imports, so that its children are small. Each is one raw clone into new
process, mount, IPC, network, UTS and cgroup namespaces, with a fresh /proc and fresh scratch. It gives up every
capability and is then a supervisor like any other (see `runner`): the first process of its namespace, which nothing
inside can kill. The candidate itself is the zygote's child and is handed in from there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from progevo.sandbox import runner
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import runner  # lies beside this file inside the sandbox

#: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWPID, NEWNET; CLONE_PIDFD; SIGCHLD.
NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
CLONE_PIDFD, SIGCHLD = 0x00001000, 17
CLONE = {"x86_64": 56, "aarch64": 220}
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 262144
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
CAPABILITY_VERSION_3 = 0x20080522
#: Each file of a scratch takes the kernel about a KiB beside its content, which no other limit counts.
FILES = 65_536
#: What a supervisor is born with: the host's socket, the candidate's channel, the zygote's word, stdout and stderr.
DESCRIPTORS = 5


def open_nursery(told: dict[str, Any]) -> socket.socket:
    """Starts the nursery as a child of this process; the socket on which `make_supervisor` asks it."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        runner.close_descriptors({0, 1, 2, theirs.fileno()})
        serve(theirs, told)
    theirs.close()
    return ours


def make_supervisor(nursery: socket.socket, descriptors: list[int]) -> int | None:
    """Asks for a supervisor that holds `descriptors`; a descriptor of its process, `None` where the kernel refused."""
    socket.send_fds(nursery, [b"n"], descriptors)
    answer, made, _, _ = socket.recv_fds(nursery, 1, 1)
    if not answer:
        sys.exit("the nursery is gone")
    return made[0] if made else None


def serve(zygote: socket.socket, told: dict[str, Any]) -> NoReturn:
    """Makes a supervisor whenever the zygote asks for one, until it hangs up."""
    while True:
        asked, descriptors, _, _ = socket.recv_fds(zygote, 1, DESCRIPTORS)
        if not asked:
            os._exit(0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        pid, pidfd = clone()
        if pid == 0:
            be_supervisor(descriptors, told)
        if pid > 0:
            socket.send_fds(zygote, [b"s"], [pidfd])
            os.close(pidfd)
        else:
            zygote.sendall(b"e")
        for descriptor in descriptors:
            os.close(descriptor)


def clone() -> tuple[int, int]:
    """A child in namespaces of its own and a descriptor of its process; (0, -1) in the child, (-1, -1) on failure.

    A raw call, since no wrapper takes these flags; the interpreter is told of the fork as `os.fork` would tell it.
    The C library's own notion of the thread's number is stale in the child, which only forks again.
    """
    pidfd = ctypes.c_int(-1)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = runner.libc.syscall(
        ctypes.c_long(CLONE[os.uname().machine]),
        ctypes.c_ulong(NEW_NAMESPACES | CLONE_PIDFD | SIGCHLD),
        None,
        ctypes.byref(pidfd),
        None,
        None,
    )
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0, -1
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid, pidfd.value


def be_supervisor(descriptors: list[int], told: dict[str, Any]) -> NoReturn:
    """Jails this process, the first of its namespaces, and supervises the candidate that the zygote hands in."""
    control, channel, word, out, err = descriptors
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        runner.close_descriptors({0, 1, 2, control, channel, word})
        os.setsid()
        fresh_mounts(told["mounts"])
        os.chdir("/tmp")
        drop_capabilities()
        runner.settle(bytes.fromhex(told["filter"]))
        # Orphans come to the first process of a namespace; ignored like this, they are collected by the kernel.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        zygote = socket.socket(fileno=word)
        zygote.sendall(b"r")
        _, (child,), _, _ = socket.recv_fds(zygote, 1, 1)
        runner.attend(
            socket.socket(fileno=control),
            socket.socket(fileno=channel),
            child,
            told["answer_bytes"],
            lambda: runner.read_frame(zygote),  # only its parent, the zygote, is told how the candidate ended
        )
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(2, f"nursery: {type(error).__name__}: {error}\n".encode())
    os._exit(0)


def fresh_mounts(mounts: dict[str, Any]) -> None:
    """A /proc of this namespace alone, and empty scratch; what is bound under the old scratch stays in sight."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    kept = [(os.open(path, os.O_PATH), path) for path in mounts["keep"]]
    for place, size in mounts["scratch"].items():
        mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={size},nr_inodes={FILES}")
    for descriptor, path in kept:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            os.makedirs(path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND | MS_REC)
        mount("none", path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
        os.close(descriptor)
    for path in mounts["hide"]:
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_RDONLY, "mode=0")
        else:
            mount("/dev/null", path, None, MS_BIND)


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None)
    if runner.libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() if options else None) != 0:
        raise OSError(ctypes.get_errno(), f"mount on {target}: {os.strerror(ctypes.get_errno())}")


def drop_capabilities() -> None:
    """Gives up every power, for good: bounding and ambient set first, then the rest."""
    for capability in range(64):
        runner.libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails past the last one, which is as good
    runner.libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION_3, 0))
    nothing = ctypes.create_string_buffer(bytes(24))
    if runner.libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), f"capset: {os.strerror(ctypes.get_errno())}")
