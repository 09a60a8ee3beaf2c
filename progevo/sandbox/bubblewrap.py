"""The Bubblewrap backend, cold form: a fresh sandbox and a fresh interpreter for every candidate.

The namespaces, mounts and limits are those measured in `docs/sandbox.md`. Root never runs bwrap itself (see `stage`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from progevo.errors import ConfigError, SandboxUnavailable
from progevo.sandbox import Confinement, wire
from progevo.sandbox.interpreter import Interpreter, find_interpreter
from progevo.sandbox.profile import ENVIRONMENT, Profile
from progevo.sandbox.syscalls import MACHINES, filter_for
from progevo.sandbox.watch import Ending, Tree, watch
from progevo.types import Answer, Execution, Job, Limits, Status

#: Whom a candidate is inside, and whom root becomes outside.
NOBODY = 65534
SCRATCH = "/tmp"
ROOM = Path(__file__).parent

CLOSED = Execution(status="sandbox_lost", reason="the sandbox was closed from outside")

#: One part of a command: a text, or a host path that root has to show elsewhere first.
Part = str | Path


class Bubblewrap:
    """A `Sandbox` by the `bwrap` command. Raises `SandboxUnavailable` where there is none."""

    def __init__(self, profile: Profile, *, bwrap: str | None = None) -> None:
        found = shutil.which(bwrap or "bwrap")
        if found is None:
            raise SandboxUnavailable(
                "candidates run only in a sandbox, and Bubblewrap (the command bwrap) is not on the PATH;"
                " install it: apt-get install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap"
                " or apk add bubblewrap"
            )
        self._bwrap = os.path.realpath(found)
        program = filter_for(platform.machine())
        if program is None:
            raise SandboxUnavailable(
                f"there is no system-call filter for the machine {platform.machine()!r}; progevo has one for"
                f" {', '.join(sorted(MACHINES))}"
            )
        self._filter = program
        self._profile = profile
        self._interpreter = find_interpreter()
        done = subprocess.run([self._bwrap, "--version"], capture_output=True, text=True, env={}, check=False)
        self._version = done.stdout.strip().removeprefix("bubblewrap ")
        self._running: set[Tree] = set()
        self._lock = threading.Lock()
        self._closed = False

    @property
    def confinement(self) -> Confinement:
        return Confinement(
            backend="bubblewrap",
            rung="cold",
            version=self._version,
            kernel=platform.release(),
            profile=self._profile.name,
            limits_refused={},
        )

    def run(self, job: Job) -> Execution:
        self._check(job)
        if self._closed:
            return CLOSED
        control, inside = socket.socketpair()
        status_read, status_write = os.pipe()
        with control, open(status_read, "rb", buffering=0) as status:
            parts = command(self._bwrap, self._profile, self._interpreter, job, inside.fileno(), status_write)
            process = subprocess.Popen(
                launch(parts),
                # bwrap stays in the sandbox as its first process, and its environment can be read there.
                env={**ENVIRONMENT, **self._profile.environment},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(inside.fileno(), status_write),
                start_new_session=True,
            )
            inside.close()
            os.close(status_write)
            with process.stdout or contextlib.nullcontext(), process.stderr or contextlib.nullcontext():
                tree = Tree(process)
                with self._lock:
                    self._running.add(tree)
                    if self._closed:
                        tree.kill()
                try:
                    ending = watch(tree, control, status, self._settings(job), frame_of(job), job.limits)
                finally:
                    with self._lock:
                        self._running.discard(tree)
        if self._closed:
            return CLOSED
        return execution(ending, job.limits)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for tree in self._running:
                tree.kill()

    def _check(self, job: Job) -> None:
        least = self._profile.least_memory_bytes
        if job.limits.memory_bytes < least:
            raise ConfigError(
                f"memory_bytes is {job.limits.memory_bytes}; the profile {self._profile.name!r} needs at least {least}"
            )
        for name, path in job.inputs.files.items():
            if not path.is_file():
                raise ConfigError(f"the input {name!r} should be the file {path}, which is not there")

    def _settings(self, job: Job) -> bytes:
        """The first frame: all that the supervisor and its child know before a byte of the candidate is read."""
        return wire.encode(
            {
                "limits": dataclasses.asdict(job.limits),
                "packages": [str(path) for path in self._interpreter.packages] if self._profile.packages else [],
                "preload": list(self._profile.preload),
                "seed": 0,
                "filter": self._filter.hex(),
            }
        )


def frame_of(job: Job) -> bytes:
    """The second frame: the candidate and what it is given."""
    return wire.encode(
        {"source": job.program.source, "entrypoint": job.entrypoint, "request": dict(job.inputs.request)}
    )


def command(bwrap: str, profile: Profile, interpreter: Interpreter, job: Job, control: int, status: int) -> list[Part]:
    """The bwrap command for one job; the `Path` parts are host paths."""
    binds: Mapping[str, Path] = {str(path): path for path in _readable(profile, interpreter)}
    own = {
        "/progevo/runner.py": ROOM / "runner.py",
        "/progevo/wire.py": ROOM / "wire.py",
        "/progevo/harness.py": job.harness,
        **{f"/inputs/{name}": path for name, path in job.inputs.files.items()},
    }
    parts: list[Part] = [Path(bwrap)]
    parts += ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"]
    parts += ["--disable-userns", "--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox"]
    # bwrap's own first process could be traced by the candidate, and it has no limits; the supervisor cannot be.
    parts += ["--as-pid-1", "--new-session", "--die-with-parent", "--cap-drop", "ALL", "--json-status-fd", str(status)]
    parts += ["--proc", "/proc", "--dev", "/dev"]
    parts += ["--size", str(profile.shm_bytes), "--perms", "1777", "--tmpfs", "/dev/shm"]
    # Before the binds: an environment or checkout that itself lies under /tmp is then shown on top of it.
    parts += ["--size", str(job.limits.scratch_bytes), "--perms", "1777", "--tmpfs", SCRATCH]
    for name, target in interpreter.links.items():
        parts += ["--symlink", target, name]
    for place, path in {**binds, **own}.items():
        parts += ["--ro-bind", path, place]
    if profile.packages:
        # An installed progevo holds tasks and their generators: not for candidates to read.
        for package in interpreter.packages:
            if (package / "progevo").is_dir():
                parts += ["--perms", "0000", "--tmpfs", str(package / "progevo")]
    parts += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SCRATCH]
    # -P, -s, -S: nothing on the path but the standard library; -B: nothing to write beside the sources. Not -I, which
    # would ignore the environment: it is ours, and PYTHONHASHSEED in it makes the order of sets the same in every run.
    return [*parts, "--", str(interpreter.executable), "-P", "-s", "-S", "-B", "/progevo/runner.py", str(control)]


def _readable(profile: Profile, interpreter: Interpreter) -> tuple[Path, ...]:
    packages = interpreter.packages if profile.packages else ()
    inside = [path for path in packages if not any(other in path.parents for other in interpreter.readable)]
    return (*interpreter.readable, *inside, *(Path(path) for path in profile.readable))


def launch(parts: list[Part]) -> list[str]:
    """The command as this user has to start it: as it is, or, for root, through `stage`."""
    if os.geteuid() != 0:
        return [str(part) for part in parts]
    paths = list(dict.fromkeys(str(part) for part in parts if isinstance(part, Path)))
    argv = [{"path": paths.index(str(part))} if isinstance(part, Path) else part for part in parts]
    plan = json.dumps({"uid": NOBODY, "paths": paths, "argv": argv})
    return [os.path.realpath(sys.executable), "-I", "-S", str(ROOM / "stage.py"), plan]


def execution(ending: Ending, limits: Limits) -> Execution:
    """What an ending means for the candidate; everything that came from inside is taken as a claim."""
    log_tail = clean(ending.log.decode("utf-8", "replace"), 16_384)

    def ended(status: Status, reason: str) -> Execution:
        return Execution(status=status, reason=reason, log_tail=log_tail, usage=ending.usage)

    if ending.verdict == "no_start":
        said = clean(log_tail, 500).strip() or ending.fault or "it said nothing"
        return ended("sandbox_lost", f"the sandbox did not start: {said}")
    if ending.verdict == "timeout":
        return ended("timeout", f"no answer within {limits.wall_s:g} s of wall time (limit wall_s)")
    if ending.verdict == "output_limit":
        return ended("output_limit", f"more than {limits.output_bytes} bytes on stdout and stderr (limit output_bytes)")
    if ending.verdict == "cpu_limit":
        return ended("cpu_limit", f"more than {limits.cpu_s} s of CPU time, all processes together (limit cpu_s)")
    if ending.verdict == "memory_limit":
        size = limits.memory_bytes
        return ended("memory_limit", f"more than {size} bytes of memory, all processes together (limit memory_bytes)")
    if ending.verdict == "vanished" or ending.fault:
        # Nothing inside can end the supervisor: it is the first process of its namespace.
        return ended("sandbox_lost", "the sandbox was ended from outside, as by a host that is out of memory")
    if ending.end.get("fault"):
        return ended(
            "output_limit", f"its answer is too long: {clean(str(ending.end['fault']), 200)} (limit answer_bytes)"
        )
    if ending.body is None:
        return ended(*_cause_of_death(ending, limits))
    try:
        header, arrays = wire.decode(ending.body, max_header_bytes=wire.MAX_HEADER_BYTES)
    except wire.WireError as error:
        return ended("bad_output", f"its answer is not a frame: {clean(str(error), 200)}")
    if header.get("kind") == "answer":
        answer = Answer(value=header.get("value"), arrays=tuple(arrays))
        return Execution(status="ok", answer=answer, log_tail=log_tail, usage=ending.usage)
    return ended(*_word_of_failure(header))


def _word_of_failure(header: dict[str, Any]) -> tuple[Status, str]:
    reason = clean(str(header.get("reason", "")), 500) or "no reason given"
    if header.get("kind") == "bad_output":
        return "bad_output", reason
    if header.get("kind") != "raised":
        return "bad_output", "its answer is neither a result nor an error"
    line = header.get("line")
    if type(line) is int and 0 < line < 10**7:
        reason += f" (line {line})"
    if header.get("memory"):
        return "memory_limit", f"{reason} (limit memory_bytes)"
    if header.get("limit"):
        reason += f" (limit {clean(str(header['limit']), 40)})"
    return "crashed", reason


def _cause_of_death(ending: Ending, limits: Limits) -> tuple[Status, str]:
    code = ending.end.get("exit")
    if type(code) is not int:
        return "crashed", "it ended before it answered"
    if code >= 0:
        return "crashed", f"it exited with status {code} before it answered"
    cpu_s = ending.usage.cpu_s or 0.0
    if -code == signal.SIGXCPU or (-code == signal.SIGKILL and cpu_s >= limits.cpu_s):
        return "cpu_limit", f"more than {limits.cpu_s} s of CPU time (limit cpu_s)"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return "crashed", f"killed by {name} before it answered"


#: ANSI sequences, then control characters other than line end and tab, bidi and zero-width marks, lone surrogates.
_UNPRINTABLE = re.compile(
    "\x1b\\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def clean(text: str, length: int) -> str:
    """Untrusted text fit for a terminal, a file and a prompt: no control characters, cut to its end."""
    return _UNPRINTABLE.sub("", text)[-length:]
