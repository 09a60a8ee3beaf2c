"""A short self-test of the sandbox against the real kernel: attacks that must fail, seen from the host.

Not a replacement for the tests of the boundary, which take away one guarantee at a time: a check that on this host,
now, these attacks get nowhere.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from progevo.errors import SandboxUnavailable
from progevo.sandbox import Sandbox
from progevo.sandbox.profile import Profile
from progevo.types import MIB, Execution, Inputs, Job, Json, Limits, Program

WALL_S = 0.5
MEMORY_BYTES = 1024 * MIB

ESCAPE = """
import ctypes, os, signal
def attack():
    ways = {{
        'unshare': lambda: [flags for flags in (0x10000000, 0x20000) if not ctypes.CDLL(None).unshare(flags)][0],
        'chroot': lambda: os.chroot('.'),
        'memfd': lambda: os.memfd_create('uncounted'),  # the filter's alone
    }}
    if {bait} not in (1, os.getppid(), os.getpid()):  # the number means nothing here, and may be one of ours
        ways['root'] = lambda: os.listdir('/proc/{bait}/root')
        ways['memory'] = lambda: open('/proc/{bait}/mem', 'rb').close()
        ways['kill'] = lambda: os.kill({bait}, signal.SIGKILL)
    reached = []
    for name, leave in ways.items():
        try:
            leave()
            reached.append(name)
        except (OSError, AttributeError, IndexError):
            pass
    return reached
"""
WRITE = """
import os
def attack():
    for folder in ('/', '/etc', '/usr/lib', '/usr', '/dev', '/home', '/root', '/var/tmp', {folder!r}):
        try:
            with open(os.path.join(folder, {token!r}), 'w') as file:
                file.write('x')
        except OSError:
            pass
"""
READ = """
def attack():
    found = ''
    for path in {paths!r}:
        try:
            found += open(path).read()
        except OSError:
            pass
    return found
"""
CONNECT = """
import socket
def attack():
    try:
        socket.create_connection(('127.0.0.1', {port}), 1)
    except OSError:
        pass
"""
ORPHAN = """
import os, time
def attack():
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open('/proc/self/comm', 'w').write({token!r})
                os.closerange(0, 64)
                time.sleep(120)
            os._exit(0)
        time.sleep(0.1)
    except OSError:
        pass
"""
MEMORY = "import time\ndef attack():\n    kept = b'x' * {size}\n    time.sleep(2)\n    return len(kept)\n"
WALL = "def attack():\n    while True:\n        pass\n"


def stopped(proof: Mapping[str, Json]) -> str:
    """A proof in words: the attacks that did not get anywhere; one that did would have been a refusal."""
    return "stopped: " + ", ".join(name for name, value in proof.items() if value is True)


def prove(sandbox: Sandbox, profile: Profile | None = None) -> dict[str, Json]:
    """What was tried and held, as written into the run's result: `{"write": true, ..., "seconds": 0.7}`.

    The attacks ask for no more than `profile` allows.

    Raises `SandboxUnavailable` if anything did not hold, or could not be tried.
    """
    began = time.monotonic()
    held: dict[str, Json] = dict(_attacks(sandbox, _limits(profile)))
    failed = [name for name, passed in held.items() if not passed]
    if failed:
        raise SandboxUnavailable(
            f"the sandbox does not hold here: the self-test failed on {', '.join(failed)}; nothing has been run"
            " (progevo doctor --prove shows the self-test)"
        )
    return {**held, "seconds": round(time.monotonic() - began, 3)}


def _attacks(sandbox: Sandbox, limits: Limits) -> Iterator[tuple[str, bool]]:
    """Each attack by name, and whether it was stopped. The host's own evidence decides, not what the attack says."""
    with _bait() as bait:
        try:
            done = _run(sandbox, ESCAPE.format(bait=bait.pid), limits)
            yield "escape", _value(done) == [] and bait.poll() is None
        finally:
            bait.kill()
    token = f"pe{secrets.token_hex(6)}"  # 14 characters: a process name holds 15
    with tempfile.TemporaryDirectory(prefix="progevo-prove-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        done = _run(sandbox, WRITE.format(folder=name, token=token), limits)
        places = (Path(place) / token for place in ("/etc", "/usr/lib", "/usr", "/home", "/root", "/var/tmp", name))
        yield "write", done.status == "ok" and not any(os.path.exists(place) for place in places)
        secret = folder / "secret"
        secret.write_text(token)
        secret.chmod(0o644)
        with _secret_at_home(token) as home:
            done = _run(sandbox, READ.format(paths=[str(secret), *home]), limits)
        yield "read", _value(done) == ""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        done = _run(sandbox, CONNECT.format(port=server.getsockname()[1]), limits)
        reached = True
        try:
            server.accept()[0].close()
        except TimeoutError:
            reached = False
        yield "network", done.status == "ok" and not reached
    done = _run(sandbox, ORPHAN.format(token=token), limits)
    yield "orphan", done.status == "ok" and not _alive(token)
    done = _run(sandbox, MEMORY.format(size=2 * limits.memory_bytes), limits)
    yield "memory", done.status == "memory_limit"
    began = time.monotonic()
    done = _run(sandbox, WALL, replace(limits, wall_s=min(WALL_S, limits.wall_s)))
    # The host may be busy: what counts is that the clock is held at all, and by whom.
    yield "wall", done.status == "timeout" and time.monotonic() - began < 60 * WALL_S


def _bait() -> subprocess.Popen[bytes]:
    """A process of this user's that does nothing, for an attack to reach. However this one ends, it does too."""
    nowhere = subprocess.DEVNULL
    wait = [sys.executable, "-ISc", "import sys; sys.stdin.read()"]
    return subprocess.Popen(wait, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere)


@contextlib.contextmanager
def _secret_at_home(token: str) -> Iterator[list[str]]:
    """The path of a file in this user's home that everyone may read; none where nothing can be written there."""
    try:
        file = tempfile.NamedTemporaryFile("w", prefix=".progevo-prove-", dir=Path.home())  # noqa: SIM115 - just below
    except (OSError, RuntimeError):  # no home, or a home for looks
        yield []
        return
    with file:
        os.fchmod(file.fileno(), 0o644)
        file.write(token)
        file.flush()
        yield [file.name]


def _limits(profile: Profile | None) -> Limits:
    limits = Limits(wall_s=20.0, cpu_s=20, memory_bytes=MEMORY_BYTES)
    return limits if profile is None else profile.within(limits)


def _run(sandbox: Sandbox, source: str, limits: Limits) -> Execution:
    return sandbox.run(
        Job(
            program=Program(source),
            entrypoint="attack",
            harness=Path(__file__).parent / "probe_harness.py",
            inputs=Inputs(),
            limits=limits,
        )
    )


def _value(done: Execution) -> Any:
    return done.answer.value if done.answer is not None else None


def _alive(name: str) -> bool:
    """Whether a process of this name runs anywhere on the host."""
    return any(process.info["name"] == name for process in psutil.process_iter(["name"]))
