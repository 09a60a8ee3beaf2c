"""The kernel's own account of a candidate: under a real hierarchy where this user may write to one, else by name."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from progevo.sandbox import cgroup
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.cell import Cell
from progevo.sandbox.profile import load_profile
from progevo.types import MIB, Inputs, Job, Limits, Program

FIND = cgroup.find
FOUND = {version: cgroup.find(versions=(version,)) for version in ("v1", "v2")}
writable = pytest.mark.skipif(not any(FOUND.values()), reason="this user may write to no control group")
VERSIONS = [version for version, found in FOUND.items() if found is not None]

#: Two seconds of CPU in children that nobody waits for, each shorter than the time between two looks of the watch.
SHORT = """
import os, signal, time
def solve(x):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in range(400):
        child = os.fork()
        if child == 0:
            end = time.process_time() + 0.005
            while time.process_time() < end: pass
            os._exit(0)
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass
    return 'free'
"""
#: 500 MiB in five processes, all there at the same time.
HOG = """
import os, time
def solve(x):
    full, tell = os.pipe()
    for _ in range(5):
        if os.fork() == 0:
            kept = b'x' * (100 * 2**20)
            os.write(tell, kept[:1])
            time.sleep(600)
    for _ in range(5):
        os.read(full, 1)
    return 'free'
"""


def job(source: str, **limits: float) -> Job:
    return Job(
        program=Program(source),
        entrypoint="solve",
        harness=Path(__file__).with_name("plain_harness.py"),
        inputs=Inputs(),
        limits=Limits(**{"wall_s": 60.0, **limits}),
    )


@pytest.fixture(params=["warm", "cold"])
def box(request, monkeypatch, version):
    """A sandbox with this version of control groups, or with none."""
    monkeypatch.setattr(cgroup, "find", lambda: FIND(versions=(version,)) if version else None)
    with closing(Bubblewrap(load_profile("stdlib"), request.param)) as made:
        yield made


@writable
@pytest.mark.parametrize("version", [*VERSIONS, None])
def test_cpu_of_children_that_nobody_waits_for_is_counted(box, version):
    assert box.confinement.counted_by == (f"cgroup {version}" if version else "the watch")
    done = box.run(job(SHORT, cpu_s=1))
    if version:
        assert done.status == "cpu_limit"
        assert 1.0 < done.usage.cpu_s < 1.5
    else:  # what the watch has missed: the twin
        assert (done.status, done.answer.value) == ("ok", "free")
    assert box.run(job("def solve(x): return 7", cpu_s=1)).usage.cpu_s < 0.5  # the next one starts at nought


@writable
@pytest.mark.parametrize("version", [*(v for v in VERSIONS if FOUND[v].memory), None])
def test_memory_of_all_processes_together_has_a_limit_of_the_kernel_s(box, version, monkeypatch):
    """Here of the kernel's alone: the watch is blind."""
    monkeypatch.setattr(Cell, "weigh", lambda cell, most_bytes: 0)
    done = box.run(job(HOG, memory_bytes=200 * MIB))
    assert (
        (done.status, done.answer) == ("memory_limit", None)
        if version
        else (done.status, done.answer.value) == ("ok", "free")
    )
    assert box.run(job("def solve(x): return 7")).answer.value == 7


@writable
@pytest.mark.parametrize("version", VERSIONS[:1])
def test_no_group_stays_behind(box, version):
    found = FOUND[version]
    folders = [folder for folder in dict.fromkeys((found.memory, found.cpu)) if folder is not None]
    left = folders[0] / f"{cgroup.NAME}-{dead_process()}-0"
    left.mkdir()
    assert [box.run(job("def solve(x): return 7")).answer.value for _ in range(3)] == [7] * 3
    own = f"{cgroup.NAME}-{os.getpid()}-*"
    assert [len(list(folder.glob(own))) for folder in folders] == [1] * len(folders)  # one serves them all
    box.close()
    assert [list(folder.glob(own)) for folder in folders] == [[]] * len(folders)
    FIND(versions=(version,))
    assert not left.exists()  # as one whose process was killed


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@writable
@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_group_counts_cpu_from_when_it_is_begun_with(version):
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()\n"
    process = subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with FOUND[version].opened(MIB) as account, process:
        account.add_process(process.pid)
        process.stdout.readline()
        assert 0.2 < account.cpu_s() < 1
        account.begin()
        assert account.cpu_s() < 0.1
        process.communicate(b"\n")
    FOUND[version].close()


@pytest.fixture
def delegated(tmp_path, monkeypatch):
    """A stand-in for a delegated scope of version 2: a folder whose new folders have the files of a group."""
    own = tmp_path / "mounted here" / "user.slice" / "run.scope"
    own.mkdir(parents=True)
    files = {"cgroup.procs": "", "memory.max": "max", "memory.swap.max": "max", "memory.current": "0\n"}
    files |= {"memory.events": "low 0\noom 0\noom_kill 0\n", "cpu.stat": "usage_usec 500000\nuser_usec 1\n"}
    make = Path.mkdir

    def mkdir(path, *rest, **more):
        make(path, *rest, **more)
        for name, text in files.items() if path.parent == own else ():
            (path / name).write_text(text)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    (own / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (own / "cgroup.controllers").write_text("cpu memory pids\n")
    (own / "cgroup.subtree_control").write_text("\n")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("5:cpu,cpuacct:/other\n0::/user.slice/run.scope\n")
    mount = str(tmp_path / "mounted here").replace(" ", r"\040")
    (proc / "mountinfo").write_text(
        f"30 23 0:26 / /elsewhere rw - cgroup cgroup rw,cpu,cpuacct\n31 23 0:27 / {mount} rw,nosuid - cgroup2 none rw\n"
    )
    return proc, own


def test_the_second_version_is_found_limited_and_read(delegated):
    """No control group of version 2 with memory has been seen here; these are its names, by its documentation."""
    proc, own = delegated
    found = cgroup.find(proc, versions=("v2",))
    assert (found.version, found.memory, found.cpu) == ("v2", own, own)
    host = own / f"progevo-{os.getpid()}-host"
    assert (host / "cgroup.procs").read_text() == str(os.getpid())  # who hands memory on holds no process
    assert (own / "cgroup.subtree_control").read_text() == "+memory"
    with found.opened(100 * MIB) as account:
        numbered = own.glob(f"progevo-{os.getpid()}-[0-9]*")  # one was made to try, and could not be removed
        group = max(numbered, key=lambda path: int(path.name.rpartition("-")[2]))
        account.add_process(4711)
        assert (group / "cgroup.procs").read_text() == "4711"
        assert (group / "memory.max").read_text() == str(132 * MIB)
        assert (group / "memory.swap.max").read_text() == "0"
        (group / "cpu.stat").write_text("usage_usec 3000000\nuser_usec 1\n")
        assert account.cpu_s() == 2.5
        assert not account.overdrawn()
        (group / "memory.events").write_text("low 0\noom 0\noom_kill 1\n")
        assert not account.overdrawn()  # the host's own want
        (group / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
        assert account.overdrawn()


@pytest.mark.parametrize("others", ["1\n", ""])
def test_the_second_version_counts_cpu_alone_where_others_are_in_the_group(delegated, others):
    proc, own = delegated
    (own / "cgroup.procs").write_text(f"{others}{os.getpid()}\n" if others else "")
    found = cgroup.find(proc, versions=("v2",))
    assert (found.version, found.memory, found.cpu) == ("v2", None, own)
    assert (own / "cgroup.subtree_control").read_text() == "\n"


def test_where_nothing_may_be_written_nothing_is_found(delegated, monkeypatch):
    proc, _ = delegated
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert cgroup.find(proc) is None
    (proc / "mountinfo").write_text("nonsense\n")
    assert cgroup.find(proc) is None
    assert cgroup.find(proc / "nowhere") is None
