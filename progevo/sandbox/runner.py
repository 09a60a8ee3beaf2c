"""What runs inside the sandbox: a supervisor, and its child, which becomes the candidate.

This file is trusted, stands alone (standard library, and the files beside it) and speaks with the host over two
sockets: `control` is the supervisor's, whom the host believes, `channel` the candidate's, whom it does not. In order:

1. The supervisor makes itself undumpable, so that the candidate, which has the same uid, can neither trace it
   nor open its descriptors. It is the first process of its namespace: nothing inside can kill or stop it. It imports
   the harness and what the profile names, leaves the host's keyring, loads the system-call filter and forks.
2. The child starts a session, closes every descriptor but its own, reads and sets its limits, and only then reads
   the program from its channel, and runs it through the harness.
3. The child packs its answer into one frame on its channel. The supervisor tells the host how the child ended.

Whatever the child sends is a claim of the candidate's. The host checks and scores it. In the warm form `zygote` imports
once, forks every candidate and tells how it ended, and a small process beside it (`nursery`) makes the first process of
every namespace.

Where the kernel has no namespaces (macOS, see `seatbelt`) the sandbox is one process that can start no other. It
prepares, sets its limits and becomes the candidate itself (`stand_alone`); its supervisor is the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import importlib.util
import linecache
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from progevo.sandbox import blackbox, raised, stopwatch, wire
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import blackbox  # all of them lie beside this file inside the sandbox
    import raised
    import stopwatch
    import wire

INPUTS = Path("/inputs")
PR_SET_DUMPABLE, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 4, 22, 2
KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_JOIN_SESSION_KEYRING = 1

#: The frame on which the host sends the candidate its job, and starts its clock.
STARTED = wire.encode({"kind": "started"})

libc = ctypes.CDLL(None, use_errno=True)


class Surroundings(NamedTuple):
    """What is the same for every candidate that this process will see."""

    harness: Any
    #: The system-call filter, as `sock_filter` structures.
    filter: bytes
    seed: int
    #: The folder of the named inputs.
    inputs: Path


def main() -> None:
    """Prepares, and supervises or becomes one candidate; the arguments are descriptors of control and channel."""
    channel = socket.socket(fileno=int(sys.argv[2]))
    control = open_control(channel)
    told = read_frame(control)
    if told.get("mounts"):
        close_mounts(control, told["mounts"])
    surroundings = prepare(told)
    if told.get("alone"):
        stand_alone(control, channel, surroundings)
    supervise(control, channel, surroundings)


def open_control(*others: socket.socket) -> socket.socket:
    """The host's socket, in a process that nothing of its uid can look into, with no other way out but `others`."""
    set_dumpable(False)
    control = socket.socket(fileno=int(sys.argv[1]))
    close_descriptors({0, 1, 2, control.fileno(), *(other.fileno() for other in others)})
    return control


def prepare(told: dict[str, Any]) -> Surroundings:
    """Imports the harness and what the profile names: trusted code, before a byte of a candidate."""
    here = str(Path(__file__).parent)
    sys.path[:] = [place for place in sys.path if place != here]  # the zygote's files have put it there as well
    sys.path.extend(told["packages"])
    if told["packages"]:  # an interpreter that a program starts, as joblib does, finds them too
        os.environ["PYTHONPATH"] = os.pathsep.join(told["packages"])
    for name in told["preload"]:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:  # it is not installed
            pass
        except Exception as error:
            reason = f"{type(error).__name__}: {raised.text_of(error)}"
            sys.exit(f"{name}, which the profile names, cannot be imported: {reason}")
    inputs = Path(told.get("inputs", INPUTS))
    return Surroundings(load_harness(), bytes.fromhex(told["filter"]), told["seed"], inputs)


def close_mounts(control: socket.socket, mounts: dict[str, Any]) -> None:
    """Mounts scratch as the nursery does it for a warm candidate, and gives up the powers for that.

    Where the kernel grants bwrap's processes no powers, what bwrap has mounted stays, and the host is told.
    """
    if TYPE_CHECKING:
        from progevo.sandbox import powers
    else:
        import powers  # lies beside this file where there are namespaces

    try:
        powers.close_mounts()
        powers.fresh_scratch(mounts)
    except OSError as error:
        control.sendall(wire.encode({"kind": "refused", "limits": {"scratch_files": raised.text_of(error)}}))
    os.chdir("/tmp")
    powers.drop_capabilities()  # before it imports a thing


def supervise(control: socket.socket, channel: socket.socket, surroundings: Surroundings) -> None:
    """Runs one candidate in a child of this process, and tells the host how it ended, or ends it when asked to."""
    settle(surroundings.filter)
    pid = os.fork()
    if pid == 0:
        become_candidate(surroundings, channel)
    channel.close()
    signal.signal(signal.SIGCHLD, lambda *_: collect_orphans(pid))
    # Taken before the host is told anything, so that the child cannot be gone and its number used again.
    child = os.pidfd_open(pid)
    control.sendall(STARTED)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(child, select.POLLIN)
    poll.poll()
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # everything in this pid namespace but its init and this process
    control.sendall(end_of(pid))


def sendmsg(
    self: socket.socket,
    buffers: Iterable[bytes],
    ancdata: Iterable[object] = (),
    flags: int = 0,
    address: object = None,
) -> int:
    """`socket.sendmsg` by another call than that which the filter refuses, where nothing is sent along: asyncio, since
    Python 3.12, writes with it.
    """
    if address is not None or list(ancdata):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    return self.send(b"".join(buffers), flags)


def settle(program: bytes) -> None:
    """Gives up, for good, what no process in a sandbox may have: the host's keys, and the calls of the filter."""
    # The first process of a namespace is deaf to its own inmates' signals, but for those that it has a handler for,
    # and Python comes with one for SIGINT.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    leave_keyrings()
    load_filter(program)


def end_of(pid: int) -> bytes:
    """The frame that says how a child of this process ended, and what it used; waits for it."""
    _, status, usage = os.wait4(pid, 0)
    return wire.encode(
        {
            "kind": "ended",
            "exit": os.waitstatus_to_exitcode(status),
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "max_rss_bytes": usage.ru_maxrss * 1024,
        }
    )


def stand_alone(control: socket.socket, channel: socket.socket, surroundings: Surroundings) -> NoReturn:
    """Becomes the candidate without a supervisor beside it: how it ends, and what it costs, the host sees itself."""
    import multiprocessing  # only here: it takes its time

    # Thread pools hold semaphores, which by any other method take a process of their own to look after them.
    multiprocessing.set_start_method("fork", force=True)
    control.sendall(STARTED)
    become_candidate(surroundings, channel)


def collect_orphans(candidate: int) -> None:
    """Collects the dead of others, whom a namespace's first process inherits, and who count as processes until then."""
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and dead.si_pid != candidate:
            os.waitpid(dead.si_pid, 0)


def leave_keyrings() -> None:
    """Exchanges the session keyring, which is the host's own and outlives a sandbox, for an empty one."""
    number = KEYCTL.get(os.uname().machine)
    refused = bool(number) and libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) < 0
    if refused and ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):  # with these nobody in here has keyrings
        sys.exit(f"no session keyring: {os.strerror(ctypes.get_errno())}")


def become_candidate(surroundings: Surroundings, channel: socket.socket) -> NoReturn:
    """Confines this process, reads the program, runs it, sends the answer, and never returns."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    close_descriptors({1, 2, channel.fileno()})
    os.open(os.devnull, os.O_RDONLY)  # takes number 0, the lowest free one: standard input is at its end at once
    set_dumpable(True)  # so that its files in /proc are its own
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as adjust:
        adjust.write(b"1000")  # where memory runs out, the kernel ends candidates first
    random.seed(surroundings.seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(surroundings.seed)
    if surroundings.filter:
        socket.socket.sendmsg = sendmsg  # type: ignore[assignment, method-assign]
    # All above is done by a child that waits; from here on somebody waits for it.
    set_limits(read_frame(channel)["limits"])
    job = read_frame(channel)
    extra = [receive_partner(channel, **job["outside"])] if job.get("outside") else []
    try:
        frame = answer(job, surroundings, *extra)
    except BaseException as error:  # whatever a candidate raises is its outcome, SystemExit included
        frame = wire.encode(raised.failure(error))
    # Before the answer: at the answer the host ends this process.
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError):
        channel.sendall(frame)
    # Not through the interpreter's exit: handlers and threads that the candidate left behind get no say.
    os._exit(0)


def receive_partner(channel: socket.socket, kind: str, arity: int = 0) -> blackbox.BlackBox | stopwatch.Stopwatch:
    """This candidate's end of a black box or a stopwatch, which the host sends along with one byte."""
    _, (descriptor,), _, _ = socket.recv_fds(channel, 1, 1)
    end = socket.socket(fileno=descriptor)
    return blackbox.BlackBox(end, arity) if kind == "black_box" else stopwatch.Stopwatch(end)


def answer(job: dict[str, Any], surroundings: Surroundings, *extra: blackbox.BlackBox | stopwatch.Stopwatch) -> bytes:
    """The frame that holds the candidate's answer."""
    harness = surroundings.harness
    # Without an entry point the harness gets the text, and runs it itself.
    entry = program(job) if job["entrypoint"] else job["source"]
    try:
        value, arrays = harness.run(entry, job["request"], surroundings.inputs, *extra)
        return wire.encode({"kind": "answer", "value": value}, arrays, max_header_bytes=wire.MAX_HEADER_BYTES)
    except (harness.BadOutput, wire.WireError) as error:
        return wire.encode({"kind": "bad_output", "reason": raised.text_of(error)})


def program(job: dict[str, Any]) -> Any:
    """The entry point of the candidate's program, once that has run."""
    module = types.ModuleType("program")
    module.__file__ = raised.PROGRAM
    sys.modules["program"] = module  # dataclasses and friends look their module up by name
    source = job["source"]
    linecache.cache[raised.PROGRAM] = (len(source), None, source.splitlines(True), raised.PROGRAM)
    exec(compile(source, raised.PROGRAM, "exec", dont_inherit=True), module.__dict__)
    entry = module.__dict__.get(job["entrypoint"])
    if entry is None:
        raise NameError(f"the program ran but did not define {job['entrypoint']!r}")
    if not callable(entry):
        raise TypeError(f"{job['entrypoint']!r} is not callable: it is a {type(entry).__name__}")
    return entry


def load_harness() -> Any:
    """The domain's harness, from the file beside this one."""
    spec = importlib.util.spec_from_file_location("harness", Path(__file__).parent / "harness.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["harness"] = module
    spec.loader.exec_module(module)
    return module


def set_limits(limits: dict[str, int | None]) -> None:
    """Sets every rlimit of this process, for good: soft and hard alike, but for CPU. The host leaves out by `None`."""
    # What trusted imports have burnt in this very process is not the candidate's.
    cpu = (limits["cpu_s"] or 0) + round(time.process_time())
    # Soft below hard: SIGXCPU names the cause, and a candidate that ignores it is killed a second later.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    for name, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (getattr(resource, "RLIMIT_MSGQUEUE", None), 0),  # Darwin has neither such queues
        (getattr(resource, "RLIMIT_SIGPENDING", None), 1024),  # nor this limit
    ):
        if name is not None and value is not None:
            resource.setrlimit(name, (value, value))


def set_dumpable(dumpable: bool) -> None:
    """Whether others of this uid may trace this process and read its memory and descriptors; nothing on Darwin."""
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_DUMPABLE, int(dumpable), 0, 0, 0)


def load_filter(program: bytes) -> None:
    """Puts the system-call filter on this process and all it will ever start; it cannot be taken off again."""
    instructions = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many instructions of 8 bytes, and where they are.
    fprog = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions)))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, fprog, 0, 0) != 0:
        sys.exit(f"the system-call filter was refused: {os.strerror(ctypes.get_errno())}")


def close_descriptors(keep: set[int]) -> None:
    """Closes every open descriptor but those to keep, by the kernel's own list of them."""
    for descriptor in [int(name) for name in os.listdir("/dev/fd")]:
        if descriptor not in keep:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def read_frame(channel: socket.socket) -> dict[str, Any]:
    """The header of the next frame on a socket that a trusted side writes to."""
    (size,) = struct.unpack(">Q", read_exactly(channel, wire.LENGTH.size))
    header, _ = wire.decode(read_exactly(channel, size))
    return header


def read_exactly(channel: socket.socket, size: int) -> bytes:
    """`size` bytes; ends the process quietly where the host is gone."""
    pieces = []
    while size:
        piece = channel.recv(min(size, 1 << 20))
        if not piece:
            os._exit(0)
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


if __name__ == "__main__":
    main()
