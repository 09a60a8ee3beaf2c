"""The Seatbelt backend for macOS: a fresh process under `sandbox-exec` for every candidate.

macOS has no namespaces. What stands in for them:

the view        a profile that denies by default (`sandbox_profiles/seatbelt.sb`)
the processes   one, which the profile lets start no other; the host supervises it, and to kill it is to end everything
the mounts      a private folder for every run, with the runner, copies of the inputs, and scratch
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import itertools
import json
import math
import os
import platform
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import psutil

from progevo.errors import SandboxUnavailable
from progevo.sandbox import Confinement, wire
from progevo.sandbox.answerer import Answerers
from progevo.sandbox.bubblewrap import CLOSED
from progevo.sandbox.cell import REAP_S, Cell
from progevo.sandbox.interpreter import Interpreter, find_interpreter
from progevo.sandbox.outcome import clean, execution
from progevo.sandbox.profile import ENVIRONMENT, Profile
from progevo.sandbox.watch import Ending, frames_of, watch
from progevo.types import Execution, Job, Limits

#: Never looked up on a PATH, which others may have a say in.
SANDBOX_EXEC = "/usr/bin/sandbox-exec"
ROOM = Path(__file__).parent
#: As in the other backend: nothing on the path but the standard library, nothing written beside the sources.
PYTHON_FLAGS = ("-P", "-s", "-S", "-B")
#: What an entry of scratch counts for beside its content, so that empty ones are not free.
ENTRY_BYTES = 4096
#: Run in a throw-away process, by the runner's own hand: which limits this kernel refuses.
ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import runner
limits, refused = json.loads(sys.argv[2]), {}
for name in limits:
    try:
        runner.set_limits({**dict.fromkeys(limits), "cpu_s": limits["cpu_s"], name: limits[name]})
    except (OSError, ValueError) as error:
        refused[name] = str(error)
print(json.dumps(refused))
"""
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Seatbelt:
    """A `Sandbox` by macOS's `sandbox-exec`. Raises `SandboxUnavailable` where there is none."""

    def __init__(self, profile: Profile, *, command: str = SANDBOX_EXEC) -> None:
        if not os.access(command, os.X_OK):
            raise SandboxUnavailable(
                f"candidates run only in a sandbox, and the command of Seatbelt, {command}, is not here;"
                " every macOS has it"
            )
        self._command, self._profile = command, profile
        self._interpreter = find_interpreter()
        self._python = [str(self._interpreter.executable), *PYTHON_FLAGS]
        self._refused = refused_limits(self._python)
        self._running: set[Jailed] = set()
        self._answerers = Answerers()
        self._lock = threading.Lock()
        self._closed = False

    @property
    def confinement(self) -> Confinement:
        reasons = {
            "scratch_bytes": "no file system of a given size; the host looks ten times a second, and ends who has more",
            "processes": "RLIMIT_NPROC counts all that this user runs; one process is allowed, its threads uncounted",
        }
        if "memory_bytes" in self._refused:
            word = self._refused["memory_bytes"]
            reasons["memory_bytes"] = f"RLIMIT_AS: {word}; the host looks at the resident size ten times a second"
        if self._profile.refused_calls:
            reasons["refused_calls"] = "there is no system-call filter"
        return Confinement(
            backend="seatbelt",
            rung="cold",
            version=platform.mac_ver()[0],
            kernel=platform.release(),
            profile=self._profile.name,
            limits_refused={**self._refused, **reasons},
        )

    def run(self, job: Job) -> Execution:
        self._profile.check(job)
        limits = {
            name: None if name in self._refused else value for name, value in dataclasses.asdict(job.limits).items()
        }
        limits["processes"] = None  # it would count what this user runs elsewhere
        try:
            with self._answerers.asked(job) as talk:
                with run_folder(job) as folder, self._cell(folder, job.limits) as cell:
                    ending = watch(cell, job.limits, frames_of(job, limits, talk), talk)
                talk.end()
        except OSError as error:
            return CLOSED if self._closed else Execution(status="sandbox_lost", reason=clean(str(error), 500))
        if self._closed:
            return CLOSED
        settle(ending, cell, job.limits)
        done = execution(ending, job.limits, talk.counts)
        if cell.overrun:
            reason = f"more than {job.limits.scratch_bytes} bytes of scratch (limit scratch_bytes)"
            return dataclasses.replace(done, status="crashed", answer=None, reason=reason)
        return done

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for cell in self._running:
                cell.kill()
        self._answerers.close()

    @contextlib.contextmanager
    def _cell(self, folder: Folder, limits: Limits) -> Iterator[Jailed]:
        """A cell that `close` can end from outside."""
        cell = self._start(folder, limits)
        with self._lock:
            self._running.add(cell)
            if self._closed:
                cell.kill()
        try:
            yield cell
        finally:
            with self._lock:
                self._running.discard(cell)
            cell.close()

    def _start(self, folder: Folder, limits: Limits) -> Jailed:
        control, inside = socket.socketpair()
        scratch = str(folder.scratch)
        try:
            process = subprocess.Popen(
                command(self._command, self._interpreter, self._profile, folder, inside.fileno()),
                env={
                    **ENVIRONMENT,
                    **self._profile.environment,
                    "HOME": scratch,
                    "TMPDIR": scratch,
                    "LOKY_MAX_CPU_COUNT": "1",  # or joblib would start a program to count them
                },
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(inside.fileno(),),
                start_new_session=True,
            )
        except OSError:
            control.close()
            raise
        finally:
            inside.close()
        told = {
            "packages": [str(path) for path in packages(self._interpreter, self._profile)],
            "preload": list(self._profile.preload),
            "seed": 0,
            "filter": "",
            "answer_bytes": limits.answer_bytes,
            "inputs": str(folder.inputs),
            "alone": True,
        }
        with contextlib.suppress(OSError):  # a process that is gone already says so when it is watched
            control.sendall(wire.encode(told))
        return Jailed(control, process, folder.scratch, limits.scratch_bytes)


class Jailed(Cell):
    """The one process of a candidate. The host alone says how it ended, what it cost, and whether scratch is full."""

    def __init__(
        self, control: socket.socket, process: subprocess.Popen[bytes], scratch: Path, scratch_bytes: int
    ) -> None:
        assert process.stdout is not None and process.stderr is not None
        super().__init__(control=control, streams=(process.stdout, process.stderr), init=None, outermost=process)
        self._process, self._scratch, self._scratch_bytes = process, scratch, scratch_bytes
        #: CPU seconds of the trusted imports: what it had used when it was first looked at.
        self._before: float | None = None
        self._used = 0.0
        self.overrun = False
        self.cpu_s: float | None = None
        self.max_rss_bytes: int | None = None

    @property
    def exit_code(self) -> int | None:
        """As `subprocess` has it; `None` while it is alive."""
        return self._process.returncode

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process.returncode is None else None

    def processes(self) -> list[int]:
        return [] if self.pid is None else [self.pid]

    def kill(self) -> None:
        """Kills its process group."""
        # Not once it has been waited for: its number may then be another's.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        if self._process.returncode is not None:
            return
        others = self._others()
        self.kill()
        for other in others:
            with contextlib.suppress(psutil.Error):
                other.kill()
        deadline = time.monotonic() + REAP_S
        while self._process.returncode is None and time.monotonic() < deadline:
            # Not by `Popen.wait`, which does not say what it cost.
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = max(0.0, usage.ru_utime + usage.ru_stime - (self._before or 0.0))
                # Linux counts in KiB.
                self.max_rss_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
            else:
                time.sleep(0.002)
        while any(map(_is_alive, others)) and time.monotonic() < deadline:
            time.sleep(0.002)

    def measure(self) -> tuple[float, int]:
        """CPU seconds since the first call, and bytes of memory now. Ends the process when scratch holds too much."""
        memory = 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._process.pid)
            used, memory = sum(process.cpu_times()[:2]), process.memory_info().rss
            if self._before is None:
                self._before = used
            self._used = used - self._before
        if weight(self._scratch, self._scratch_bytes) > self._scratch_bytes:
            self.overrun = True
            self.kill()
        return self._used, memory

    def _others(self) -> list[psutil.Process]:
        """Whatever is below it or of its session. The profile lets there be none; this does not rely on it."""
        found = []
        with contextlib.suppress(psutil.Error):
            found += psutil.Process(self._process.pid).children(recursive=True)
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                if process.pid != self._process.pid and os.getsid(process.pid) == self._process.pid:
                    found.append(process)
        return found


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def settle(ending: Ending, cell: Jailed, limits: Limits) -> None:
    """Puts what the host has seen in the place of what the process says of itself, which may be the candidate."""
    ending.usage = dataclasses.replace(ending.usage, cpu_s=cell.cpu_s, max_rss_bytes=cell.max_rss_bytes)
    if ending.verdict not in ("ended", "vanished"):
        return
    fault, ending.fault = ending.fault, ""
    if ending.body is not None and len(ending.body) > limits.answer_bytes:
        fault = f"a frame of {len(ending.body)} bytes; at most {limits.answer_bytes} are taken"
    elif fault and "at most" not in fault:  # not too long, but no frame: an answer of nothing
        ending.body, fault = b"", ""
    ending.verdict = "ended"
    ending.end = {"exit": cell.exit_code, "fault": fault}


def refused_limits(python: list[str]) -> dict[str, str]:
    """The limits that this kernel refuses, each with its word for it: asked, since systems differ."""
    limits = {**dataclasses.asdict(Limits()), "processes": None}
    done = subprocess.run(
        [*python, "-c", ASK, str(ROOM), json.dumps(limits)], capture_output=True, text=True, env={}, check=False
    )
    if done.returncode != 0:
        raise SandboxUnavailable(f"the interpreter {python[0]} does not start: {clean(done.stderr, 500)}")
    refused: dict[str, str] = json.loads(done.stdout)
    return refused


# ---- the profile


def command(sandbox_exec: str, interpreter: Interpreter, profile: Profile, folder: Folder, control: int) -> list[str]:
    """The whole command; paths stand in it as parameters and arguments, never in the profile's text."""
    text, parameters = rendered(interpreter, profile, folder)
    definitions = [part for key, value in parameters.items() for part in ("-D", f"{key}={value}")]
    python = [str(interpreter.executable), *PYTHON_FLAGS]
    return [sandbox_exec, "-p", text, *definitions, *python, str(folder.own / "runner.py"), str(control)]


def rendered(interpreter: Interpreter, profile: Profile, folder: Folder) -> tuple[str, dict[str, str]]:
    """The profile's text and its parameters, for one run."""
    shown = [canonical(path) for path in readable(interpreter, profile)]
    own = {"OWN": folder.own, "INPUTS": folder.inputs, "SCRATCH": folder.scratch}
    ancestors = {parent for path in (*shown, *own.values()) for parent in path.parents}
    lists = {
        "EXECUTABLE": ("literal", executables(interpreter)),
        "READABLE": ("subpath", shown),
        "HIDDEN": ("subpath", hidden(interpreter)),
        "ANCESTOR": ("literal", sorted(ancestors)),
    }
    parameters = {key: str(path) for key, path in own.items()}
    filters = {}
    for key, (kind, paths) in lists.items():
        assert paths, f"a rule without a filter would hold for everything: {key}"
        parameters |= {f"{key}_{number}": str(path) for number, path in enumerate(paths)}
        filters[key] = "\n  ".join(f'({kind} (param "{key}_{number}"))' for number in range(len(paths)))
    template = (resources.files("progevo.sandbox_profiles") / "seatbelt.sb").read_text("utf-8")
    rules = re.sub(r";.*", "", template)
    return re.sub(rf"\b({'|'.join(filters)})\b", lambda found: filters[found[0]], rules), parameters


def packages(interpreter: Interpreter, profile: Profile) -> tuple[Path, ...]:
    """Folders of third-party packages that programs may import from."""
    return interpreter.packages if profile.packages else ()


def executables(interpreter: Interpreter) -> list[Path]:
    """The interpreter, and what it becomes at once where it is a framework's: the program of an application."""
    application = Path(sys.base_prefix) / "Resources" / "Python.app" / "Contents" / "MacOS" / "Python"
    return [canonical(path) for path in (interpreter.executable, application) if path.exists()]


def readable(interpreter: Interpreter, profile: Profile) -> list[Path]:
    """What of this host may be read, beside the system's own libraries."""
    shown = [*interpreter.readable, *packages(interpreter, profile), *(Path(path) for path in profile.readable)]
    if sysconfig.get_config_var("PYTHONFRAMEWORK"):  # its library and its application lie beside its `lib`
        shown.append(Path(sys.base_prefix))
    for parent in interpreter.executable.parents:
        if parent.name == "Cellar":  # Homebrew: libraries that its Python is linked to, by way of links in `opt`
            shown += [parent, parent.parent / "opt", parent.parent / "lib"]
    return [path for path in dict.fromkeys(shown) if path.exists()]


def hidden(interpreter: Interpreter) -> list[Path]:
    """progevo holds tasks and their generators: not for candidates to read, wherever it is installed."""
    installed = [path / "progevo" for path in interpreter.packages]
    return list(dict.fromkeys(canonical(path) for path in (ROOM.parent, *installed) if path.is_dir()))


def canonical(path: Path) -> Path:
    """The path as the kernel spells it, which is what Seatbelt compares: no links, and the case that is on the disk."""
    real = os.path.realpath(path)
    get_path = getattr(fcntl, "F_GETPATH", None)
    if get_path is not None:  # macOS alone has it, and needs it: there one file answers to many spellings
        descriptor = os.open(real, os.O_RDONLY)
        try:
            real = os.fsdecode(bytes(fcntl.fcntl(descriptor, get_path, bytes(1024))).rstrip(b"\0"))
        finally:
            os.close(descriptor)
    return Path(real)


# ---- the folder of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What a run has of its own on the host's disk."""

    #: The runner, the wire and the harness.
    own: Path
    inputs: Path
    scratch: Path


@contextlib.contextmanager
def run_folder(job: Job) -> Iterator[Folder]:
    """A private folder for one run; nothing of it is left afterwards."""
    top = canonical(Path(tempfile.mkdtemp(prefix="progevo-")))
    folder = Folder(own=top / "progevo", inputs=top / "inputs", scratch=top / "scratch")
    try:
        for path in (folder.own, folder.inputs, folder.scratch):
            path.mkdir(0o700)
        # Copies: a link would be the host's own file, under a name that others may come to write to.
        for name in ("runner.py", "wire.py", "blackbox.py"):
            shutil.copyfile(ROOM / name, folder.own / name)
        shutil.copyfile(job.harness, folder.own / "harness.py")
        for name, path in job.inputs.files.items():
            shutil.copyfile(path, folder.inputs / name)
        yield folder
    finally:
        remove(top)


def weight(folder: Path, enough: int) -> float:
    """Bytes on the disk below a folder, as far as `enough` is passed; infinite where somebody has locked a part."""
    total, waiting = 0, [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512 + ENTRY_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                    if total > enough:
                        return total
        except FileNotFoundError:
            continue
        except OSError:
            return math.inf
    return total


def remove(folder: Path) -> None:
    """Removes a folder, whatever a candidate has made of it: any depth, any rights, and no link is followed.

    Every folder that is met is first moved to the top, so that no path grows long and nothing recurses.
    """
    numbers = itertools.count()
    with contextlib.suppress(OSError):
        top = os.open(folder, DIRECTORY)
        try:
            while sum(_removed(name, top, numbers) for name in os.listdir(top)):
                pass
        finally:
            os.close(top)
        os.rmdir(folder)


def _removed(name: str, top: int, numbers: Iterator[int]) -> bool:
    """Removes one entry of the folder `top`, with the folders in it moved up beside it; whether it could."""
    try:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
            os.unlink(name, dir_fd=top)
            return True
        os.chmod(name, 0o700, dir_fd=top)
        inside = os.open(name, DIRECTORY, dir_fd=top)
        try:
            for entry in os.listdir(inside):
                if stat.S_ISDIR(os.lstat(entry, dir_fd=inside).st_mode):
                    os.chmod(entry, 0o700, dir_fd=inside)  # a folder that is moved has to be writable itself
                    os.rename(entry, f"moved-{next(numbers)}", src_dir_fd=inside, dst_dir_fd=top)
                else:
                    os.unlink(entry, dir_fd=inside)
        finally:
            os.close(inside)
        os.rmdir(name, dir_fd=top)
    except OSError:
        return False
    return True
