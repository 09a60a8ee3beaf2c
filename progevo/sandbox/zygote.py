"""The zygote, inside a sandbox of its own: imports once, and makes a fresh, jailed child for every candidate.

The zygote holds trusted imports and public inputs, and never sees a byte of a candidate: each child can read its
memory. A child is one raw clone into new process, mount, IPC, network, UTS and cgroup namespaces, with a fresh
/proc and fresh scratch; it gives up every capability and then is a supervisor like any other (see `runner`), the
first process of its own namespace, which nothing inside can kill. The host asks with one byte, and gets the child's
socket, the ends of its stdout and stderr, and a descriptor of its process.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from progevo.sandbox import runner, wire
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import runner  # both lie beside this file inside the sandbox
    import wire

#: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWPID, NEWNET; CLONE_PIDFD; SIGCHLD.
NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
CLONE_PIDFD, SIGCHLD = 0x00001000, 17
CLONE = {"x86_64": 56, "aarch64": 220}
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 262144
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
CAPABILITY_VERSION_3 = 0x20080522
HUGE_PAGE, MADV_COLLAPSE = 2 * 1024 * 1024, 25

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Prepares once, then answers the host until it hangs up; argument 1 is the descriptor of its socket."""
    control = runner.open_control()
    told = runner.read_frame(control)
    room = neighbouring_room() if told["packages"] else []
    surroundings = runner.prepare(told)
    del room
    warm_up = getattr(surroundings.harness, "warm_up", None)
    if warm_up is not None:
        warm_up(runner.INPUTS)
    gc.collect()
    gc.freeze()  # so that no child's collector writes to, and so copies, what all share
    join_pages()
    control.sendall(wire.encode({"kind": "ready"}))
    while control.recv(1):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        make_child(control, surroundings, told)


def neighbouring_room() -> list[bytes]:
    """Holds room for the imports' objects in one stretch of memory until it is dropped, for `join_pages`.

    The interpreter takes memory by the MiB wherever there is a gap between libraries. Here it takes 64 MiB at once,
    and keeps a stretch for as long as a single object lies in it.
    """
    return [bytes(400) for _ in range(160_000)][::1000]


def join_pages() -> None:
    """Makes pages of 2 MiB out of small ones: a child copies, and at its end gives back, one entry for each.

    Saves a quarter of what a child costs where the packages are large. Where the kernel will not (before Linux 6.1,
    without huge pages, in gaps), nothing changes.
    """
    for line in Path("/proc/self/maps").read_text("utf-8", "replace").splitlines():
        place, rights, _, _, file, *_ = line.split()
        start, end = (int(address, 16) for address in place.split("-"))
        if rights.startswith("rw") and file == "0":
            for page in range(-(-start // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE):
                libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE)


def make_child(control: socket.socket, surroundings: runner.Surroundings, told: dict[str, Any]) -> None:
    """One jailed supervisor, handed over to the host; a byte `e` instead where the kernel refuses it."""
    host_end, child_end = socket.socketpair()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    pid, pidfd = clone()
    if pid == 0:
        os.dup2(out_write, 1)
        os.dup2(err_write, 2)
        be_supervisor(child_end, surroundings, told)
    if pid > 0:
        socket.send_fds(control, [b"c"], [host_end.fileno(), out_read, err_read, pidfd])
        os.close(pidfd)
    else:
        control.sendall(b"e")
    for end in (host_end, child_end):
        end.close()
    for descriptor in (out_read, out_write, err_read, err_write):
        os.close(descriptor)


def clone() -> tuple[int, int]:
    """A child in namespaces of its own and a descriptor of its process; (0, -1) in the child, (-1, -1) on failure.

    A raw call, since no wrapper takes these flags; the interpreter is told of the fork as `os.fork` would tell it.
    The C library's own notion of the thread's number is stale in the child, which only forks again.
    """
    pidfd = ctypes.c_int(-1)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = libc.syscall(
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


def be_supervisor(control: socket.socket, surroundings: runner.Surroundings, told: dict[str, Any]) -> NoReturn:
    """Jails this process, the first of its namespaces, and supervises one candidate."""
    try:
        runner.close_descriptors({0, 1, 2, control.fileno()})
        os.setsid()
        fresh_mounts(told["mounts"])
        os.chdir("/tmp")
        drop_capabilities()
        runner.supervise(control, surroundings)
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(2, f"zygote: {type(error).__name__}: {error}\n".encode())
    os._exit(0)


def fresh_mounts(mounts: dict[str, Any]) -> None:
    """A /proc of this namespace alone, and empty scratch; what is bound under the old scratch stays in sight."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    kept = [(os.open(path, os.O_PATH), path) for path in mounts["keep"]]
    for place, size in mounts["scratch"].items():
        mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={size}")
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
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_RDONLY, "mode=0")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None)
    if libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() if options else None) != 0:
        raise OSError(ctypes.get_errno(), f"mount on {target}: {os.strerror(ctypes.get_errno())}")


def drop_capabilities() -> None:
    """Gives up every power, for good: bounding and ambient set first, then the rest."""
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails past the last one, which is as good
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION_3, 0))
    nothing = ctypes.create_string_buffer(bytes(24))
    if libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), f"capset: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
