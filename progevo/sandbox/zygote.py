"""The zygote, inside a sandbox of its own: imports once, and forks a fresh, jailed child for every candidate.

The zygote holds trusted imports and public inputs, and never sees a byte of a candidate: each child can read its
memory. It is large, and to fork it once costs what a whole candidate may cost; so a candidate is one fork of it, and
the supervisor, with the candidate's namespaces, comes from a small process beside it (see `nursery`). The child joins
those namespaces and gives up every capability before it reads a byte. The host asks with one byte, and gets the
supervisor's socket, the ends of stdout and stderr, and descriptors of both processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from progevo.sandbox import nursery, powers, runner, wire
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import nursery  # all of them lie beside this file inside the sandbox
    import powers
    import runner
    import wire

CLONE_NEWPID = 0x20000000
HUGE_PAGE, MADV_COLLAPSE = 2 * 1024 * 1024, 25


def main() -> None:
    """Prepares once, then answers the host until it hangs up; argument 1 is the descriptor of its socket."""
    control = runner.open_control()
    told = runner.read_frame(control)
    powers.close_mounts()  # as all its children will see them
    supervisors = nursery.open_nursery(told)
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
    serve(control, supervisors, surroundings)


def serve(control: socket.socket, supervisors: socket.socket, surroundings: runner.Surroundings) -> None:
    """Makes a child whenever the host asks, and tells each child's supervisor how it ended."""
    #: By a descriptor of its process: the number of a child, and the socket of its supervisor.
    children: dict[int, tuple[int, socket.socket]] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready in children:
                pid, supervisor = children.pop(ready)
                poll.unregister(ready)
                os.close(ready)
                with supervisor, contextlib.suppress(OSError):  # it may be gone: so ends a candidate that is killed
                    supervisor.sendall(wire.encode(runner.end_of(pid)))
            elif not control.recv(1):
                return
            elif (made := make_child(control, supervisors, surroundings)) is not None:
                child, pid, supervisor = made
                children[child] = pid, supervisor
                poll.register(child, select.POLLIN)


def neighbouring_room() -> list[bytes]:
    """Holds room for the imports' objects in one stretch of memory until it is dropped, for `join_pages`.

    The interpreter takes memory by the MiB wherever there is a gap between libraries. Here it takes 64 MiB at once,
    and keeps each MiB for as long as a single object lies in it. One each: it fills the fullest first.
    """
    pieces = [b""] * 160_000  # a list that grew would lie in between
    for number in range(len(pieces)):
        pieces[number] = bytes(400)
    return list({id(piece) >> 20: piece for piece in pieces}.values())


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
                runner.libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE)


def make_child(
    control: socket.socket, supervisors: socket.socket, surroundings: runner.Surroundings
) -> tuple[int, int, socket.socket] | None:
    """One jailed candidate with its supervisor, handed over to the host: a descriptor of its process, its number, and
    the supervisor's socket. `None`, and a byte `e` for the host, where the kernel refuses.
    """
    host_end, supervisor_end = socket.socketpair()
    channel, candidate_end = socket.socketpair()
    supervisor, word = socket.socketpair()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    passed = [supervisor_end.fileno(), channel.fileno(), word.fileno(), out_write, err_write]
    init = nursery.make_supervisor(supervisors, passed)
    word.close()
    made = None
    try:
        if init is None or supervisor.recv(1) != b"r":
            raise OSError("there is no supervisor")
        join(init, CLONE_NEWPID)  # of the children to come
        pid = os.fork()
        if pid == 0:
            os.dup2(out_write, 1)
            os.dup2(err_write, 2)
            be_candidate(init, supervisor_end, candidate_end, surroundings)
        child = os.pidfd_open(pid)
        socket.send_fds(supervisor, [b"c"], [child])
        socket.send_fds(control, [b"c"], [host_end.fileno(), out_read, err_read, init, child])
        made = child, pid, supervisor
    except OSError as error:
        print(f"zygote: {error}", file=sys.stderr, flush=True)
        supervisor.close()
        control.sendall(b"e")
    for end in (host_end, supervisor_end, channel, candidate_end):
        end.close()
    for descriptor in (out_read, out_write, err_read, err_write, *([init] if init is not None else [])):
        os.close(descriptor)
    return made


def be_candidate(
    init: int, control: socket.socket, channel: socket.socket, surroundings: runner.Surroundings
) -> NoReturn:
    """Moves this process into the namespaces of its supervisor, jails it, and makes it the candidate."""
    try:
        join(init, nursery.NEW_NAMESPACES & ~CLONE_NEWPID)
        os.chdir("/tmp")
        powers.drop_capabilities()  # before it reads a byte
        runner.settle(surroundings.filter)
        runner.become_candidate(surroundings, control, channel)
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(2, f"zygote: {type(error).__name__}: {error}\n".encode())
    os._exit(1)


def join(process: int, namespaces: int) -> None:
    """Enters namespaces of another process (a descriptor of it); raises `OSError` where the kernel refuses."""
    if runner.libc.setns(process, namespaces) != 0:
        raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
