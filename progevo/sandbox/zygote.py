"""The zygote, inside a sandbox of its own: imports once, and forks a fresh, jailed child for every candidate.

The zygote holds trusted imports and public inputs, and never sees a byte of a candidate: each child can read its
memory. It is large, and to fork it once costs what a whole candidate may cost; so a candidate is one fork of it, and
its namespaces come from a small process beside it (see `nursery`). The child joins them and gives up every capability
before it reads a byte. The host asks with one byte, and gets two sockets, on which the zygote tells how the child ended
and the child itself answers, the ends of stdout and stderr, and descriptors of the first process and of the child.
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
    from progevo.sandbox import image, nursery, powers, runner, wire
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import image  # all of them lie beside this file inside the sandbox
    import nursery
    import powers
    import runner
    import wire

CLONE_NEWPID = 0x20000000
#: The C library, called without letting go of the interpreter.
PYTHON = ctypes.PyDLL(None)


def main() -> None:
    """Prepares once, then answers the host until it hangs up; argument 1 is the descriptor of its socket."""
    control = runner.open_control()
    told = runner.read_frame(control)
    powers.close_mounts()  # as all its children will see them
    namespaces = nursery.open_nursery(told)
    room = image.Room(64 if told["packages"] else 0)
    surroundings = runner.prepare(told)
    warm_up = getattr(surroundings.harness, "warm_up", None)
    if warm_up is not None:
        warm_up(runner.INPUTS)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # what has been printed is this process's, and no child's
    gc.collect()
    gc.freeze()  # so that no child's collector writes to, and so copies, what all share
    image.share(room)
    control.sendall(b"r")  # ready
    serve(control, namespaces, surroundings)


def serve(control: socket.socket, namespaces: socket.socket, surroundings: runner.Surroundings) -> None:
    """Makes a child whenever the host asks, and tells the host how each one ended."""
    #: By a descriptor of its process: the number of a child, and the socket on which the host hears of it.
    children: dict[int, tuple[int, socket.socket]] = {}
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready in children:
                pid, word = children.pop(ready)
                poll.unregister(ready)
                os.close(ready)
                with word, contextlib.suppress(OSError):  # nobody may listen any more
                    word.sendall(runner.end_of(pid))
            elif not control.recv(1):
                return
            elif (made := make_child(control, namespaces, surroundings)) is not None:
                child, pid, word = made
                children[child] = pid, word
                poll.register(child, select.POLLIN)


def make_child(
    control: socket.socket, namespaces: socket.socket, surroundings: runner.Surroundings
) -> tuple[int, int, socket.socket] | None:
    """One jailed candidate, handed over to the host: a descriptor of its process, its number, and the socket on which
    the host hears how it ended. `None`, and a byte `e` for the host, where the kernel refuses.
    """
    init = nursery.make_namespaces(namespaces)
    host_word, word = socket.socketpair()
    host_channel, channel = socket.socketpair()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    made = None
    try:
        if init is None:
            raise OSError("there are no namespaces")
        join(init, CLONE_NEWPID)  # of the children to come
        pid = fork()
        if pid == 0:
            os.dup2(out_write, 1)
            os.dup2(err_write, 2)
            be_candidate(init, channel, surroundings)
        child = os.pidfd_open(pid)
        word.sendall(runner.STARTED)
        passed = [host_word.fileno(), host_channel.fileno(), out_read, err_read, init, child]
        socket.send_fds(control, [b"c"], passed)
        made = child, pid, word
    except OSError as error:
        print(f"zygote: {error}", file=sys.stderr, flush=True)
        word.close()
        control.sendall(b"e")
    for end in (host_word, host_channel, channel):
        end.close()
    for descriptor in (out_read, out_write, err_read, err_write, *([init] if init is not None else [])):
        os.close(descriptor)
    return made


def fork() -> int:
    """As `os.fork`, but where this process has a single thread, which holds no lock, none of the handlers is called.

    They mend locks and threads of a parent that has several, or draw new seeds, which every child is given anyway. They
    reach all over the memory, so that it falls apart into small pages, and cost a quarter of a child.
    """
    plain = getattr(PYTHON, "_Fork", None)  # glibc 2.34, musl 1.2.2
    if plain is None or len(os.listdir("/proc/self/task")) > 1:
        return os.fork()
    return int(plain())


def be_candidate(init: int, channel: socket.socket, surroundings: runner.Surroundings) -> NoReturn:
    """Moves this process into the namespaces made for it, jails it, and makes it the candidate."""
    try:
        join(init, nursery.NEW_NAMESPACES & ~CLONE_NEWPID)
        os.chdir("/tmp")
        powers.drop_capabilities()  # before it reads a byte
        runner.settle(surroundings.filter)
        rehearse()
        runner.become_candidate(surroundings, channel)
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(2, f"zygote: {type(error).__name__}: {error}\n".encode())
    os._exit(1)


def rehearse() -> None:
    """Does what every candidate begins and ends with, so that the pages for it are this child's own beforehand."""
    frame = wire.encode({"kind": "rehearsal"})
    wire.decode(frame[wire.LENGTH.size :])
    exec(compile("def rehearsal(): pass", "rehearsal", "exec", dont_inherit=True), {})


def join(process: int, namespaces: int) -> None:
    """Enters namespaces of another process (a descriptor of it); raises `OSError` where the kernel refuses."""
    if runner.libc.setns(process, namespaces) != 0:
        raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
