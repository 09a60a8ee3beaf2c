"""Starting a sandbox: the bwrap command, and the way this user has to start it.

The namespaces, mounts and limits are those described in `docs/sandbox.md`. Root never runs bwrap itself (see `stage`).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from progevo.sandbox.cell import Cell, Lost, readable
from progevo.sandbox.interpreter import Interpreter
from progevo.sandbox.profile import ENVIRONMENT, Profile
from progevo.types import Job

#: Whom a candidate is inside, and whom root becomes outside.
NOBODY = 65534
SCRATCH = "/tmp"
SHARED_MEMORY = "/dev/shm"
ROOM = Path(__file__).parent
#: What of this folder lies beside the harness inside.
INSIDE = (
    "runner.py",
    "raised.py",
    "wire.py",
    "blackbox.py",
    "stopwatch.py",
    "powers.py",
    "image.py",
    "nursery.py",
    "zygote.py",
    "absent.py",
)
#: How long bwrap may take to say that its first process runs.
STATUS_S = 30.0
#: What is said of who is silent for longer than that: in every form of the sandbox it would be.
SILENT = "has said nothing for"

#: --die-with-parent means the thread that started a sandbox: this one lives as long as the process.
STARTER = ThreadPoolExecutor(1, thread_name_prefix="progevo-start")

#: One part of a command: a text, or a host path that root has to show elsewhere first.
Part = str | Path


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """All that decides what a sandbox shows: equal ones may share a zygote."""

    harness: Path
    files: tuple[tuple[str, Path], ...]
    scratch_bytes: int

    @classmethod
    def of(cls, job: Job) -> Surroundings:
        """Those that a job needs."""
        return cls(
            harness=job.harness,
            files=tuple(job.inputs.files.items()),
            scratch_bytes=job.limits.scratch_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """Starts sandboxes of one profile with one bwrap."""

    bwrap: str
    profile: Profile
    interpreter: Interpreter

    def start(self, surroundings: Surroundings, program: str = "runner.py", powers: tuple[str, ...] = ()) -> Cell:
        """A sandbox that runs one of the trusted programs of this folder, with `powers` (capabilities) of its own.

        Raises `Lost` where bwrap hangs.
        """
        control, supervisor = socket.socketpair()
        channel, candidate = socket.socketpair()
        status_read, status_write = os.pipe()
        with supervisor, candidate, open(status_read, "rb", buffering=0) as status:
            inside = (supervisor.fileno(), candidate.fileno())
            parts = command(self, surroundings, program, powers, inside, status_write)
            mark = marked(os.getpid())
            process = STARTER.submit(
                subprocess.Popen,
                started_by_this_user(parts, mark),
                # bwrap's own environment can be read inside.
                env={**ENVIRONMENT, **self.profile.environment},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Its own way to read its status too: were the host the only reader and killed now, bwrap would die of
                # that, and its child wait for it for ever.
                pass_fds=(*inside, status_write, status.fileno()),
                start_new_session=True,
            ).result()
            os.close(status_write)
            assert process.stdout is not None and process.stderr is not None
            streams = (process.stdout, process.stderr)
            cell = functools.partial(Cell, control=control, channel=channel, streams=streams, outermost=process)
            try:
                return cell(init=first_process(status.fileno()))
            except TimeoutError:
                cell(init=None).close()
                raise Lost(f"{self.bwrap} {SILENT} {STATUS_S:g} s") from None

    @property
    def packages(self) -> list[str]:
        """Folders of third-party packages that programs may import from."""
        return [str(path) for path in self.interpreter.packages] if self.profile.packages else []

    def shown(self) -> tuple[Path, ...]:
        """The host's files and folders that are readable inside under their own names."""
        packages = self.interpreter.packages if self.profile.packages else ()
        known = self.interpreter.readable
        inside = [path for path in packages if not any(other in path.parents for other in known)]
        return (*known, *inside, *(Path(path) for path in self.profile.readable))

    def hidden(self) -> tuple[str, ...]:
        """What lies inside what is shown and is not for candidates: packages that they cannot import, and progevo."""
        shown = self.shown()
        folders = dict.fromkeys((*self.interpreter.packages, *self.interpreter.nested))
        hidden = self.interpreter.hidden(self.profile.hidden) if self.profile.packages else []
        hidden += [folder for folder in folders if str(folder) not in self.packages]
        # What is a link to something that is not shown leads nowhere in there.
        places = [Path(os.path.realpath(path)) for path in hidden]
        return tuple(str(path) for path in dict.fromkeys(places) if any(place in path.parents for place in shown))


def command(
    launcher: Launcher,
    surroundings: Surroundings,
    program: str,
    powers: tuple[str, ...],
    inside: tuple[int, ...],
    status: int,
) -> list[Part]:
    """The bwrap command; the `Path` parts are host paths, `inside` the descriptors that the program is told of."""
    own = {
        **{f"/progevo/{name}": ROOM / name for name in INSIDE},
        "/progevo/harness.py": surroundings.harness,
        **{f"/inputs/{name}": path for name, path in surroundings.files},
    }
    parts: list[Part] = [Path(launcher.bwrap)]
    parts += ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"]
    parts += ["--disable-userns", "--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox"]
    # bwrap's own first process could be traced by the candidate, and it has no limits; the supervisor cannot be.
    parts += ["--as-pid-1", "--new-session", "--die-with-parent", "--cap-drop", "ALL", "--json-status-fd", str(status)]
    for power in powers:
        parts += ["--cap-add", power]
    parts += ["--proc", "/proc", "--dev", "/dev"]
    # A shared mapping of /dev/zero is memory without an owner. Bound without its device it cannot be opened.
    parts += ["--ro-bind", Path("/dev/null"), "/dev/zero"]
    # Pseudo-terminals are of no use in here, and their folder would stay as one candidate leaves it for the next.
    parts += ["--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"]
    parts += ["--size", str(launcher.profile.shm_bytes), "--perms", "1777", "--tmpfs", SHARED_MEMORY]
    # Before the binds: an environment or checkout that itself lies under /tmp is then shown on top of it.
    parts += ["--size", str(surroundings.scratch_bytes), "--perms", "1777", "--tmpfs", SCRATCH]
    for name, target in launcher.interpreter.links.items():
        parts += ["--symlink", target, name]
    for place, path in {**{str(path): path for path in launcher.shown()}, **own}.items():
        parts += ["--ro-bind", path, place]
    for place in launcher.hidden():
        if os.path.isdir(place):
            # An empty folder would be an empty package. Read-only: its owner is the candidate, who could open it again,
            # and would have a scratch without a size.
            parts += ["--tmpfs", place, "--ro-bind", ROOM / "absent.py", f"{place}/__init__.py"]
            parts += ["--chmod", "0111", place, "--remount-ro", place]
        else:
            parts += ["--ro-bind", Path("/dev/null"), place]
    parts += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SCRATCH]
    # -P, -s, -S: nothing on the path but the standard library; -B: nothing to write beside the sources. Not -I, which
    # would ignore the environment: it is ours, and PYTHONHASHSEED in it makes the order of sets the same in every run.
    python = [str(launcher.interpreter.executable), "-P", "-s", "-S", "-B"]
    return [*parts, "--", *python, f"/progevo/{program}", *map(str, inside)]


@functools.cache
def marked(host: int) -> str:
    """What is in the command line of all that this process starts here, from when somebody watches over that.

    It stands among bwrap's arguments, which a script in its place hands on, and which nothing inside can see.
    """
    mark = f"progevo-{host}-{secrets.token_hex(8)}"
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    command = [os.path.realpath(sys.executable), "-I", "-S", str(ROOM / "sweeper.py"), str(host), mark]
    sweeper = os.posix_spawn(command[0], command, {}, file_actions=nowhere, setsid=True)
    atexit.register(dismiss, host, sweeper)
    return mark


def dismiss(host: int, sweeper: int) -> None:
    """Ends the process that watches, once this one comes to an end of its own."""
    if os.getpid() == host:  # and not a fork of it
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(sweeper, signal.SIGKILL)
            os.waitpid(sweeper, 0)


def started_by_this_user(parts: list[Part], mark: str) -> list[str]:
    """The command as this user has to start it: as it is, or, for root, through `stage`; with the mark in it."""
    bwrap, *options = parts
    parts = [bwrap, "--unsetenv", mark, *options]  # there is no such variable
    if os.geteuid() != 0:
        return list(map(str, parts))
    paths = list(dict.fromkeys(str(part) for part in parts if isinstance(part, Path)))
    argv = [{"path": paths.index(str(part))} if isinstance(part, Path) else part for part in parts]
    plan = json.dumps({"uid": NOBODY, "paths": paths, "argv": argv})
    return [os.path.realpath(sys.executable), "-I", "-S", str(ROOM / "stage.py"), plan]


def first_process(status: int) -> int | None:
    """A descriptor of the sandbox's first process, from bwrap's status line; `None` where it did not get that far.

    The line is `{"child-pid": N}` and more, and comes in pieces. Raises `TimeoutError` where it does not come.
    """
    line, deadline = b"", time.monotonic() + STATUS_S
    while b"\n" not in line:
        if not readable(status, max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        data = os.read(status, 4096)
        if not data:
            return None
        line += data
    with contextlib.suppress(ValueError, ProcessLookupError):
        pid = json.loads(line.split(b"\n")[0]).get("child-pid")
        return os.pidfd_open(pid) if isinstance(pid, int) else None
    return None
