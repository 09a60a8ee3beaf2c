"""The refusal: a host that cannot confine a program runs none, and hears why and what to do."""

from __future__ import annotations

from contextlib import closing

import pytest

from progevo.errors import ConfigError, SandboxUnavailable
from progevo.sandbox.probe import open_sandbox


def stand_in(folder, says):
    """A bwrap that fails with a word, as a real one does."""
    path = folder / "bwrap"
    path.write_text(f'#!/bin/sh\necho "{says}" >&2\nexit 1\n')
    path.chmod(0o755)
    folder.chmod(0o755)
    for parent in folder.parents:
        if parent.name.startswith("pytest"):
            parent.chmod(0o755)


@pytest.mark.parametrize(("form", "rung"), [("auto", "warm"), ("warm", "warm"), ("pool", "pool"), ("cold", "cold")])
def test_a_host_that_can_confine_is_taken(form, rung):
    with closing(open_sandbox("numeric", form)) as box:
        assert box.confinement.backend == "bubblewrap"
        assert box.confinement.rung == rung
        assert box.confinement.version[0].isdigit()


def test_where_a_zygote_cannot_make_children_the_next_form_is_taken(monkeypatch):
    """The ladder: here a kernel that refuses a zygote its children."""
    monkeypatch.setattr("progevo.sandbox.source.POWERS", ())
    with closing(open_sandbox("stdlib")) as box:
        assert box.confinement.rung == "pool"
    with pytest.raises(SandboxUnavailable):
        open_sandbox("stdlib", "warm")


def test_a_name_that_is_not_installed_is_left_out(tmp_path):
    text = 'about = "mine"\npackages = true\nleast_memory_bytes = 1000\nshm_bytes = 1000\n'
    (tmp_path / "own.toml").write_text(f"{text}preload = ['json', 'nothing_of_this_name.at_all']\n")
    with closing(open_sandbox(str(tmp_path / "own.toml"))) as box:
        assert box.confinement.profile == "own"


def test_an_unknown_form_is_refused():
    with pytest.raises(ConfigError, match="auto, warm, pool, cold"):
        open_sandbox("stdlib", "lukewarm")


def test_without_bwrap_the_refusal_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap") as refused:
        open_sandbox("tabular")
    assert refused.value.exit_code == 3


@pytest.mark.parametrize(
    ("says", "cure"),
    [
        ("bwrap: setting up uid map: Permission denied", "bwrap-userns-restrict"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "apparmor_restrict_unprivileged_userns=0"),
        ("bwrap: Unknown option --size", "0.8.0 or later"),
        ("bwrap: No permissions to create new namespace, likely because the kernel", "seccomp=unconfined"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("bwrap: pivot_root: Permission denied", "procMount: Unmasked"),
        ("ModuleNotFoundError: No module named 'encodings'", "umask"),
        ("something nobody has seen", "something nobody has seen"),
    ],
)
def test_a_failing_probe_quotes_the_tool_and_names_the_cure(monkeypatch, tmp_path, says, cure):
    stand_in(tmp_path, says)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxUnavailable) as refused:
        open_sandbox("stdlib")
    assert says in str(refused.value)
    assert cure in str(refused.value)


def test_another_system_is_refused_in_plain_words(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(SandboxUnavailable, match="Seatbelt"):
        open_sandbox("stdlib")
