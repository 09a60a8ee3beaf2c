"""The arms of the boundary tests: the same programs, run for this user and, when that is root, for nobody as well."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import psutil
import pytest

HERE = Path(__file__).parent
REPO = HERE.parents[1]
NOBODY = 65534

#: A host that has not come to its end by then hangs.
PATIENCE_S = 300.0

#: What importing progevo needs, and what the tabular profile shows to programs.
PACKAGES = ("msgspec", "psutil", "tomli-w", "numpy", "pandas", "scikit-learn")


class Hosts:
    """Forks a host for each plan from a process that has imported progevo once, as one user."""

    def __init__(self, command: list[str], **user: Any) -> None:
        self._command, self._user = [*command, "serve"], user
        self._open()

    def _open(self) -> None:
        self._server = subprocess.Popen(self._command, stdin=PIPE, stdout=PIPE, text=True, **self._user)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._asked, self._told = self._server.stdin, self._server.stdout

    def run(self, plan: str) -> subprocess.CompletedProcess[str]:
        """How a host with this plan ended, and what it said."""
        self._asked.write(f"{plan}\n")
        self._asked.flush()
        if not select.select([self._told], [], [], PATIENCE_S)[0]:
            self.close()
            self._open()  # whose answer is that of the next plan
            raise TimeoutError(f"this host hangs: {plan}")
        done = json.loads(self._told.readline())
        return subprocess.CompletedProcess(self._command, done["code"], done["out"], done["err"])

    def close(self) -> None:
        for process in psutil.Process(self._server.pid).children(recursive=True):  # of one that hangs
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._server.communicate()


@dataclass(frozen=True)
class Arm:
    """Runs jobs as one kind of user, in a process of that user's."""

    name: str
    form: str
    python: Path
    library: Path
    user: int | None
    hosts: Hosts
    #: Another bwrap than that on the PATH.
    bwrap: Path | None = None

    @property
    def unprivileged(self) -> bool:
        return self.user is not None or os.geteuid() != 0

    def run(
        self,
        *jobs: dict[str, Any],
        profile: str = "stdlib",
        env: dict[str, str] | None = None,
        apart: bool = False,
        **plan: Any,
    ) -> Any:
        """How the jobs ended, in order; `apart`: in a process namespace of their own, with all that starts them."""
        if self.bwrap is not None:
            plan["bwrap"] = str(self.bwrap)
        told = json.dumps({"profile": profile, "form": self.form, "jobs": list(jobs), **plan})
        if env or apart:
            user, command = self.user, host_command(self.python, self.library)
            if apart:
                assert self.unprivileged
                user, command = None, [*self._apart(), *command]
            done = subprocess.run(
                command,
                input=told,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
                **surroundings(self.library, user, **(env or {})),
            )
        else:
            done = self.hosts.run(told)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["uid"] == (os.geteuid() if self.user is None else self.user)
        return found["executions"]

    def _apart(self) -> list[str]:
        """What starts a command in a process namespace of its own, as this arm's user."""
        new = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if self.user is None:
            return [*new, "--user", "--map-current-user", "--"]
        ids = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        return [*new, "--", "setpriv", *ids, "--"]

    def one(self, source: str, *, profile: str = "stdlib", **rest: Any) -> dict[str, Any]:
        """How one program ended."""
        keys = {
            key: rest.pop(key)
            for key in ("limits", "request", "files", "problems", "budget", "in_turn", "watch")
            if key in rest
        }
        return self.run({"source": source, **keys}, profile=profile, **rest)[0]


def host_command(python: Path, library: Path) -> list[str]:
    return [str(python), str(library / "tests" / "sandbox" / "arm.py")]


def surroundings(library: Path, user: int | None, **more: str) -> dict[str, Any]:
    """Where and as whom a host runs, with nothing of this process's environment."""
    return {
        "cwd": library,
        "env": {"PATH": os.environ["PATH"], "PYTHONPATH": str(library), **more},
        "user": user,
        "group": user,
        "extra_groups": [] if user is not None else None,
    }


@pytest.fixture(scope="session", params=["self-cold", "self-warm", "nobody-cold", "nobody-warm"])
def arm(request: pytest.FixtureRequest) -> Iterator[Arm]:
    """This user and an unprivileged one, each in the cold and in the warm form."""
    user, form = request.param.split("-")
    python, library, number = Path(sys.executable), REPO, None
    if user == "nobody":
        if os.geteuid() != 0:
            pytest.skip("this user is unprivileged already: the arm 'self' is the unprivileged one")
        (python, library), number = request.getfixturevalue("nobody"), NOBODY
    hosts = Hosts(host_command(python, library), **surroundings(library, number))
    yield Arm(request.param, form, python, library, number, hosts)
    hosts.close()


@pytest.fixture(scope="session")
def nobody(testrun_uid: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """An interpreter with packages, and a copy of progevo, that everyone can read: one for all of xdist's workers.

    The first who comes makes it, the last who leaves removes it. At the door there is room for one at a time; who is in
    shares a lock with all who are.
    """
    folder = Path(tempfile.gettempdir(), f"progevo-nobody-{testrun_uid}")
    ours = tmp_path_factory.getbasetemp()
    locks = ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours
    with open(locks / "nobody.door", "a") as door, open(locks / "nobody.in", "a") as inside:
        try:
            fcntl.flock(door, fcntl.LOCK_EX)
            if not folder.exists():
                folder.mkdir()
                _make_environment(folder)
            fcntl.flock(inside, fcntl.LOCK_SH)
            fcntl.flock(door, fcntl.LOCK_UN)
            yield folder / "env" / "bin" / "python", folder / "progevo"
        finally:
            fcntl.flock(door, fcntl.LOCK_EX)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(inside, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)


def _make_environment(folder: Path) -> None:
    python, library = folder / "env" / "bin" / "python", folder / "progevo"
    folder.chmod(0o755)
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "umask": 0o022}
    subprocess.run([_world_readable_python(), "-m", "venv", "--without-pip", folder / "env"], **quiet)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "-c", REPO / "constraints.txt"]
    subprocess.run([*pip, *PACKAGES], **quiet)
    shutil.copytree(REPO / "progevo", library / "progevo")
    shutil.copytree(HERE, library / "tests" / "sandbox")
    subprocess.run([python, "-m", "compileall", "-q", library], **quiet)  # nobody could keep what it compiles
    subprocess.run(["chmod", "-R", "go+rX", library], check=True)


def _world_readable_python() -> Path:
    """An interpreter of a version that progevo supports and that nobody can start."""
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        for folder in ("/usr/bin", "/usr/local/bin"):
            path = Path(folder) / name
            check = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
            if path.exists() and not subprocess.run([path, "-c", check], user=NOBODY, group=NOBODY, cwd="/").returncode:
                return path
    pytest.fail("the unprivileged arm needs a Python 3.11 or later under /usr that everyone can start")
