"""The arms of the boundary tests: the same programs, run for this user and, when that is root, for nobody as well."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
REPO = HERE.parents[1]
NOBODY = 65534

#: What importing progevo needs, and what the tabular profile shows to programs.
PACKAGES = ("msgspec", "psutil", "tomli-w", "numpy", "pandas", "scikit-learn")


@dataclass(frozen=True)
class Arm:
    """Runs jobs as one kind of user, in a process of that user's."""

    name: str
    form: str
    python: Path
    library: Path
    user: int | None
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
        user, command = self.user, [str(self.python), str(self.library / "tests" / "sandbox" / "arm.py")]
        if apart:
            assert self.unprivileged
            user, command = None, [*self._apart(), *command]
        if self.bwrap is not None:
            plan["bwrap"] = str(self.bwrap)
        done = subprocess.run(
            command,
            input=json.dumps({"profile": profile, "form": self.form, "jobs": list(jobs), **plan}),
            capture_output=True,
            text=True,
            cwd=self.library,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(self.library), **(env or {})},
            user=user,
            group=user,
            extra_groups=[] if user is not None else None,
            timeout=300,
            check=False,
        )
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
            key: rest.pop(key) for key in ("limits", "request", "files", "problems", "budget", "in_turn") if key in rest
        }
        return self.run({"source": source, **keys}, profile=profile, **rest)[0]


@pytest.fixture(scope="session", params=["self-cold", "self-warm", "nobody-cold", "nobody-warm"])
def arm(request: pytest.FixtureRequest) -> Arm:
    """This user and an unprivileged one, each in the cold and in the warm form."""
    user, form = request.param.split("-")
    if user == "self":
        return Arm(request.param, form, Path(sys.executable), REPO, None)
    if os.geteuid() != 0:
        pytest.skip("this user is unprivileged already: the arm 'self' is the unprivileged one")
    python, library = request.getfixturevalue("nobody")
    return Arm(request.param, form, python, library, NOBODY)


@pytest.fixture(scope="session")
def nobody() -> Iterator[tuple[Path, Path]]:
    """An interpreter with packages, and a copy of progevo, that everyone can read."""
    folder = Path(tempfile.mkdtemp(prefix="progevo-nobody-"))
    folder.chmod(0o755)
    try:
        python = folder / "env" / "bin" / "python"
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "umask": 0o022}
        subprocess.run([_world_readable_python(), "-m", "venv", "--without-pip", folder / "env"], **quiet)
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "-c", REPO / "constraints.txt"]
        subprocess.run([*pip, *PACKAGES], **quiet)
        library = folder / "progevo"
        shutil.copytree(REPO / "progevo", library / "progevo")
        shutil.copytree(HERE, library / "tests" / "sandbox")
        subprocess.run(["chmod", "-R", "go+rX", library], check=True)
        yield python, library
    finally:
        shutil.rmtree(folder)


def _world_readable_python() -> Path:
    """An interpreter of a version that progevo supports and that nobody can start."""
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        for folder in ("/usr/bin", "/usr/local/bin"):
            path = Path(folder) / name
            check = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
            if path.exists() and not subprocess.run([path, "-c", check], user=NOBODY, group=NOBODY, cwd="/").returncode:
                return path
    pytest.fail("the unprivileged arm needs a Python 3.11 or later under /usr that everyone can start")
