"""The self-test: it holds where the sandbox does, and refuses where one guarantee is gone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from progevo.errors import SandboxUnavailable
from progevo.sandbox import launch, runner
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.profile import load_profile
from progevo.sandbox.prove import prove


@pytest.mark.parametrize("form", ["warm", "pool", "cold"])
def test_the_self_test_holds_here(form):
    with closing(Bubblewrap(load_profile("stdlib"), form)) as box:
        proof = prove(box)
    assert {name for name, held in proof.items() if held is True} == {
        "escape", "write", "read", "network", "orphan", "memory", "wall",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gone", "attack"),
    [
        ('        (resource.RLIMIT_AS, limits["memory_bytes"]),\n', "memory"),
        ("    load_filter(program)\n", "network"),
        ("    load_filter(program)\n", "escape"),
    ],
)
def test_a_guarantee_that_is_gone_is_a_refusal(monkeypatch, tmp_path, gone, attack):
    """Network and memory are held more than once: all of it has to go."""
    import shutil

    shutil.copytree(launch.ROOM, tmp_path / "room")
    inside = tmp_path / "room" / "runner.py"
    assert inside.read_text().count(gone) == 1
    inside.write_text(inside.read_text().replace(gone, ""))
    monkeypatch.setattr(launch, "ROOM", tmp_path / "room")
    switch = "--unshare-net" if attack == "network" else ""
    whole = launch.command
    monkeypatch.setattr(launch, "command", lambda *args: [part for part in whole(*args) if part != switch])
    if attack == "memory":  # the host's watch over all processes would notice it too, and so would the kernel's account
        monkeypatch.setattr("progevo.sandbox.cell.Cell.measure", lambda cell: (0.0, 0))
        monkeypatch.setattr("progevo.sandbox.cgroup.find", lambda: None)
    with closing(Bubblewrap(load_profile("stdlib"), "cold")) as box, pytest.raises(SandboxUnavailable, match=attack):
        prove(box)
    assert runner.INPUTS  # the real one is untouched


@pytest.mark.parametrize("form", ["warm", "cold"])
def test_a_home_that_can_be_read_is_a_refusal(monkeypatch, form):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:  # not below scratch, which would hide it
        Path(home).chmod(0o755)
        monkeypatch.setenv("HOME", home)
        with closing(Bubblewrap(load_profile("stdlib"), form)) as box:
            assert prove(box)["read"] is True
        whole = launch.command

        def command(*arguments):
            parts = whole(*arguments)
            at = parts.index("--ro-bind")
            return [*parts[:at], "--ro-bind", Path(home), home, *parts[at:]]

        monkeypatch.setattr(launch, "command", command)
        with closing(Bubblewrap(load_profile("stdlib"), form)) as box, pytest.raises(SandboxUnavailable, match="read"):
            prove(box)
        assert os.listdir(home) == []


def test_what_an_attack_goes_for_ends_with_its_host():
    """However that ends. Nor does it hold the host's streams: whoever reads them would wait for it."""
    source = (
        "import os\nfrom progevo.sandbox.prove import _bait\nprint(_bait().pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False)
    patience = time.monotonic() + 60
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(int(done.stdout)).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < patience
            time.sleep(0.01)


@pytest.mark.skipif(os.geteuid() != 0, reason="this user is unprivileged already")
@pytest.mark.parametrize("form", ["warm", "cold"])
def test_the_self_test_holds_for_an_ordinary_user(nobody, form):
    """Who may not even look into /root."""
    python, library = nobody
    source = (
        "from progevo.sandbox.bubblewrap import Bubblewrap\n"
        "from progevo.sandbox.profile import load_profile\n"
        "from progevo.sandbox.prove import prove\n"
        f"print(prove(Bubblewrap(load_profile('stdlib'), {form!r})))\n"
    )
    done = subprocess.run(
        [python, "-c", source],
        cwd=library, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(library)},
        user=65534, group=65534, extra_groups=[], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
