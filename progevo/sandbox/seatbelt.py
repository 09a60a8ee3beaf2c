"""The Seatbelt backend for macOS: a fresh process under `sandbox-exec` for every candidate.

macOS has no namespaces. What stands in for them:

the view        a profile that denies by default (`sandbox_profiles/seatbelt.sb`)
the processes   one, which the profile lets start no other; the host supervises it, and to kill it is to end everything
the mounts      a private folder for every run, with the runner, copies of the inputs, and scratch
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

from progevo.errors import SandboxUnavailable
from progevo.sandbox import Confinement, wire
from progevo.sandbox.answerer import Answerers
from progevo.sandbox.bubblewrap import CLOSED
from progevo.sandbox.cell import Alive, Cell, InUse, blame
from progevo.sandbox.interpreter import find_interpreter
from progevo.sandbox.outcome import clean, execution
from progevo.sandbox.private_folder import Folder, run_folder, weight
from progevo.sandbox.profile import ENVIRONMENT, Profile
from progevo.sandbox.seatbelt_profile import PYTHON_FLAGS, command, packages
from progevo.sandbox.watch import Ending, frames_of, watch
from progevo.types import Execution, Job, Limits

ROOM = Path(__file__).parent
#: Never looked up on a PATH, which others may have a say in.
SANDBOX_EXEC = "/usr/bin/sandbox-exec"
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
        self._cells = InUse()
        self._answerers = Answerers()

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
                with run_folder(job) as folder, self._cells.hold(self._start(folder, job.limits)) as cell:
                    ending = watch(cell, job.limits, frames_of(job, limits, talk), talk)
                talk.end()
        except Alive as error:
            return Execution(status="sandbox_lost", reason=str(error))
        except OSError as error:
            return CLOSED if self._cells.closed else Execution(status="sandbox_lost", reason=clean(str(error), 500))
        if self._cells.closed:
            return CLOSED
        settle(ending, cell)
        done = execution(ending, job.limits, talk.found)
        if cell.overrun:
            reason = f"more than {job.limits.scratch_bytes} bytes of scratch (limit scratch_bytes)"
            return dataclasses.replace(done, status="crashed", answer=None, reason=reason)
        return done

    def close(self) -> None:
        self._cells.close()
        self._answerers.close()

    def _start(self, folder: Folder, limits: Limits) -> Jailed:
        control, supervisor = socket.socketpair()
        channel, candidate = socket.socketpair()
        inside = (supervisor.fileno(), candidate.fileno())
        scratch = str(folder.scratch)
        try:
            process = subprocess.Popen(
                command(self._command, self._interpreter, self._profile, folder, inside),
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
                pass_fds=inside,
                start_new_session=True,
            )
        except OSError:
            control.close()
            channel.close()
            raise
        finally:
            supervisor.close()
            candidate.close()
        told = {
            "packages": [str(path) for path in packages(self._interpreter, self._profile)],
            "preload": list(self._profile.preload),
            "seed": 0,
            "filter": "",
            "inputs": str(folder.inputs),
            "alone": True,
        }
        with contextlib.suppress(OSError):  # a process that is gone already says so when it is watched
            control.sendall(wire.encode(told))
        return Jailed(control, channel, process, folder.scratch, limits.scratch_bytes)


class Jailed(Cell):
    """The one process of a candidate. The host alone says how it ended, what it cost, and whether scratch is full."""

    def __init__(
        self,
        control: socket.socket,
        channel: socket.socket,
        process: subprocess.Popen[bytes],
        scratch: Path,
        scratch_bytes: int,
    ) -> None:
        assert process.stdout is not None and process.stderr is not None
        streams = (process.stdout, process.stderr)
        super().__init__(control=control, channel=channel, streams=streams, init=None, outermost=process)
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

    def finish(self) -> None:
        self.kill()

    def end(self) -> None:
        if self._process.returncode is not None:
            return
        others = self._others()
        self.kill()
        for other in others:
            with contextlib.suppress(psutil.Error):
                other.kill()
        while self._process.returncode is None and self.patience_s():
            # Not by `Popen.wait`, which does not say what it cost.
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = max(0.0, usage.ru_utime + usage.ru_stime - (self._before or 0.0))
                # Linux counts in KiB.
                self.max_rss_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
            else:
                time.sleep(0.002)
        while any(map(_is_alive, others)) and self.patience_s():
            time.sleep(0.002)
        alive = [other.pid for other in others if _is_alive(other)]
        blame(alive if self._process.returncode is not None else [self._process.pid, *alive])

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


def settle(ending: Ending, cell: Jailed) -> None:
    """Says how it ended and what it cost, as the host has seen it: there is nobody else who could tell."""
    ending.usage = dataclasses.replace(ending.usage, cpu_s=cell.cpu_s, max_rss_bytes=cell.max_rss_bytes)
    if ending.verdict != "vanished":
        return
    ending.verdict, ending.end = "ended", {"exit": cell.exit_code}


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
