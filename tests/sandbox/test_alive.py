"""Nothing of a sandbox is alive when its run returns, or the run is lost and says what is."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.cell import Cell
from progevo.sandbox.profile import load_profile
from progevo.sandbox.source import Zygote
from progevo.types import Inputs, Job, Limits, Program

SLEEP = "import time\ndef solve(x): time.sleep(600)"


def job(source, wall_s=60.0):
    return Job(
        program=Program(source),
        entrypoint="solve",
        harness=Path(__file__).with_name("plain_harness.py"),
        inputs=Inputs(),
        limits=Limits(wall_s=wall_s),
    )


def named(reason):
    """The processes that a reason names."""
    assert re.match(r"the sandbox was killed, and after 0\.5 s not all of it was gone: \d+ \([a-z-]+\)", reason)
    return [int(number) for number in re.findall(r"(\d+) \(", reason)]


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr("progevo.sandbox.cell.REAP_S", 0.5)


def test_namespaces_that_do_not_end_are_a_lost_sandbox_and_cost_the_zygote_its_life():
    """A candidate's namespaces end once who forked it has collected it: here that one has been stopped."""
    with closing(Bubblewrap(load_profile("stdlib"), "warm")) as box:
        assert box.run(job("def solve(x): return 7")).answer.value == 7
        ((_, source),) = box._idle
        assert isinstance(source, Zygote)
        assert source.home is not None
        zygote = source.home.pid
        patience = time.monotonic() + 10  # the child that waits comes beside the nursery
        while len(psutil.Process(zygote).children()) < 2 and time.monotonic() < patience:
            time.sleep(0.02)
        family = [zygote, *(each.pid for each in psutil.Process(zygote).children(recursive=True))]
        os.kill(zygote, signal.SIGSTOP)
        lost = box.run(job(SLEEP, wall_s=0.3))
        assert lost.status == "sandbox_lost"
        assert named(lost.reason)
        assert all(map(gone, [*family, *named(lost.reason)]))
        assert box.run(job("def solve(x): return 8")).answer.value == 8
        ((_, other),) = box._idle
        assert other is not source


@pytest.mark.parametrize("form", ["cold", "pool"])
def test_a_sandbox_that_cannot_be_killed_is_lost(monkeypatch, form):
    """As where the kernel waits for a disk: to kill it, here, does nothing."""
    with closing(Bubblewrap(load_profile("stdlib"), form)) as box:
        with monkeypatch.context() as deaf:
            deaf.setattr(Cell, "kill", lambda cell: None)
            lost = box.run(job(SLEEP, wall_s=0.3))
        assert lost.status == "sandbox_lost"
        pid = named(lost.reason)[0]
        assert box.run(job("def solve(x): return 8")).answer.value == 8
    patience = time.monotonic() + 10  # bwrap has been killed, and what it has started dies of that
    while not gone(pid) and time.monotonic() < patience:
        time.sleep(0.02)
    assert gone(pid)


@pytest.mark.parametrize("form", ["warm", "pool"])
def test_what_waits_and_does_not_end_is_named_when_the_sandbox_is_closed(monkeypatch, form):
    box = Bubblewrap(load_profile("stdlib"), form)
    assert box.run(job("def solve(x): return 7")).status == "ok"
    with monkeypatch.context() as deaf:
        deaf.setattr(Cell, "kill", lambda cell: None)
        with pytest.warns(RuntimeWarning, match=r"not all of it was gone: \d+ \("):
            box.close()
