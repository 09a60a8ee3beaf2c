"""The refusal: a host that cannot confine a program runs none, and hears why and what to do."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing

import psutil
import pytest

from progevo.errors import ConfigError, SandboxUnavailable
from progevo.sandbox import image, launch
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.launch import Launcher
from progevo.sandbox.probe import open_sandbox, probe_job
from progevo.sandbox.profile import load_profile

NO_IMPORT = "shut, which the profile names, cannot be imported:"


def stand_in(folder, does):
    """A bwrap that does something else."""
    path = folder / "bwrap"
    path.write_text(f"#!/bin/bash\n{does}\n")
    path.chmod(0o755)
    opened_to_others(folder)


def opened_to_others(folder):
    """Root becomes nobody before it looks there."""
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


@pytest.mark.skipif(not image.KNOWN, reason="this C library has no contexts")
def test_where_a_zygote_s_memory_is_not_as_it_should_be_the_next_form_is_taken(monkeypatch, tmp_path):
    shutil.copytree(launch.ROOM, tmp_path / "room")
    inside, wanted = tmp_path / "room" / "image.py", "    return wanted == "
    assert inside.read_text().count(wanted) == 1
    inside.write_text(inside.read_text().replace(wanted, "    return wanted != "))
    monkeypatch.setattr(launch, "ROOM", tmp_path / "room")
    with closing(open_sandbox("stdlib")) as box:
        assert box.confinement.rung == "pool"
    with pytest.raises(SandboxUnavailable, match="the memory of this process could not be exchanged"):
        open_sandbox("stdlib", "warm")


def test_a_name_that_is_not_installed_is_left_out(tmp_path):
    text = 'about = "mine"\npackages = true\nleast_memory_bytes = 1000\nshm_bytes = 1000\n'
    (tmp_path / "own.toml").write_text(f"{text}preload = ['json', 'nothing_of_this_name.at_all']\n")
    with closing(open_sandbox(str(tmp_path / "own.toml"))) as box:
        assert box.confinement.profile == "own"


def test_a_package_that_prints_a_lot_holds_nobody_up(tmp_path, monkeypatch):
    """More than a pipe holds, while the zygote imports. Nor is it any candidate's log."""
    package = tmp_path / "site-packages" / "chatty.py"
    package.parent.mkdir()
    package.write_text("import os\nos.write(2, b'x' * 200_000)\nprint('once')\n")
    text = 'about = "mine"\npackages = true\nleast_memory_bytes = 1000\nshm_bytes = 1000\n'
    (tmp_path / "own.toml").write_text(f"{text}preload = ['chatty']\n")
    opened_to_others(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(package.parent)])
    with closing(open_sandbox(str(tmp_path / "own.toml"), "warm")) as box:
        for _ in range(3):
            done = box.run(probe_job(load_profile("stdlib")))
            assert (done.status, done.log_tail) == ("ok", "")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A profile that preloads a package of this environment, `shut`, and makes a folder, `shown`, readable."""
    package, shown = tmp_path / "site-packages" / "shut", tmp_path / "shown"
    for folder in (package, shown):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text("import shut.part\n")
    (package / "part.py").write_text("")
    text = 'about = "mine"\npackages = true\nleast_memory_bytes = 1000\nshm_bytes = 1000\n'
    (tmp_path / "own.toml").write_text(f"{text}preload = ['json', 'shut']\nreadable = ['{shown}']\n")
    opened_to_others(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(package.parent)])
    yield tmp_path
    for closed in (package, shown):
        closed.chmod(0o755)  # its owner, too, has to remove it


@pytest.mark.parametrize(
    ("closed", "said"),
    [
        ("site-packages/shut", "PermissionError: cannot be read: {place}"),
        ("site-packages/shut/__init__.py", f"{NO_IMPORT} PermissionError: {{error}}"),
        ("site-packages/shut/part.py", f"{NO_IMPORT} PermissionError: {{error}}"),
        ("shown", "PermissionError: cannot be read: {place}"),
        (None, ""),
    ],
)
@pytest.mark.parametrize("form", ["warm", "pool", "cold"])
def test_what_a_profile_names_and_nobody_can_read_is_a_refusal_in_words(own, form, closed, said):
    if closed is None:
        open_sandbox(str(own / "own.toml"), form).close()
        return
    (own / closed).chmod(0)
    with pytest.raises(SandboxUnavailable) as refused:
        open_sandbox(str(own / "own.toml"), form)
    words = str(refused.value)
    assert said.format(place=own / closed, error=f"[Errno 13] Permission denied: '{own / closed}'") in words
    assert "chmod -R o+rX" in words
    assert "Traceback" not in words
    assert "<frozen" not in words


def test_a_package_that_does_not_import_is_named(own):
    (own / "site-packages" / "shut" / "part.py").write_text("1 / 0\n")
    with pytest.raises(SandboxUnavailable) as refused:
        open_sandbox(str(own / "own.toml"))
    assert f"{NO_IMPORT} ZeroDivisionError: division by zero" in str(refused.value)


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
    stand_in(tmp_path, f'echo "{says}" >&2\nexit 1')  # as a real one says it
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxUnavailable) as refused:
        open_sandbox("stdlib")
    assert says in str(refused.value)
    assert cure in str(refused.value)


@pytest.fixture
def started(monkeypatch):
    """What has been started by bwrap, in order."""
    programs, start = [], Launcher.start

    def counted(launcher, surroundings, program="runner.py", powers=()):
        programs.append(program)
        return start(launcher, surroundings, program, powers)

    monkeypatch.setattr(Launcher, "start", counted)
    return programs


def test_a_bwrap_that_hangs_is_waited_for_once(monkeypatch, tmp_path, started):
    """Whatever it is asked: its version, too. Each form had waited for it twice, for minutes, without a word."""
    stand_in(tmp_path, "exec sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("progevo.sandbox.launch.STATUS_S", 0.5)
    with pytest.raises(SandboxUnavailable) as refused:
        open_sandbox("stdlib")
    assert f"{tmp_path}/bwrap has said nothing for 0.5 s\nit hangs" in str(refused.value)
    assert refused.value.exit_code == 3
    assert started == ["zygote.py"]
    left = [process.name() for process in psutil.Process().children(recursive=True)]
    assert "sleep" not in left


@pytest.mark.parametrize("form", ["pool", "cold"])
def test_a_bwrap_that_hangs_makes_a_run_lost(monkeypatch, tmp_path, started, form):
    stand_in(tmp_path, "exec sleep 600")
    monkeypatch.setattr("progevo.sandbox.launch.STATUS_S", 0.5)
    profile = load_profile("stdlib")
    with closing(Bubblewrap(profile, form, bwrap=str(tmp_path / "bwrap"))) as box:
        done = box.run(probe_job(profile))
    assert (done.status, done.reason) == ("sandbox_lost", f"{tmp_path}/bwrap has said nothing for 0.5 s")
    assert started == ["runner.py"]


def test_a_sandbox_that_hangs_is_waited_for_once(monkeypatch, tmp_path, started):
    """Here one whose first process is there, and does nothing."""
    status = 'while [ "$1" != --json-status-fd ]; do shift; done; echo "{\\"child-pid\\": $$}" >&$2'
    stand_in(tmp_path, f"{status}\nexec sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("progevo.sandbox.source.STARTUP_S", 0.5)
    with pytest.raises(SandboxUnavailable, match=r"the zygote did not start: it has said nothing for 0.5 s\nit hangs"):
        open_sandbox("stdlib")
    assert started == ["zygote.py"]


def test_a_bwrap_that_hangs_when_it_is_asked_for_its_version_has_none(monkeypatch, tmp_path):
    stand_in(tmp_path, f'case "$*" in *--version*) exec sleep 600;; esac; exec {shutil.which("bwrap")} "$@"')
    monkeypatch.setattr("progevo.sandbox.bubblewrap.STATUS_S", 0.5)
    with closing(Bubblewrap(load_profile("stdlib"), "cold", bwrap=str(tmp_path / "bwrap"))) as box:
        assert box.run(probe_job(load_profile("stdlib"))).status == "ok"
        assert box.confinement.version == ""


def test_another_system_is_refused_in_plain_words(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(SandboxUnavailable, match="Seatbelt"):
        open_sandbox("stdlib")
