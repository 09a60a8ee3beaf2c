"""Under load: hostile candidates take nothing from honest ones, and nothing outlives the process that started it."""

from __future__ import annotations

import collections
import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from progevo.domain import Domain
from progevo.evaluate import evaluate
from progevo.evaluators.calls import Calls, numbers
from progevo.sandbox import launch
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.profile import load_profile
from progevo.types import MIB, Candidate, GatePolicy, Limits, Metric, Program

#: An honest program; each has a number of its own, and so a score of its own.
HONEST = """
import math, random
import numpy
def solve(x):
    rng = numpy.random.default_rng({number})
    kept = numpy.array(x) * rng.normal(size=len(x)) + numpy.random.rand(len(x)) + random.random()
    return [float(value) + math.sin({number}) for value in numpy.cumsum(kept)]
"""
#: A hostile program, how many of it, and how it ends.
HOSTILE = {
    "a loop": ("def solve(x):\n while True: pass", 10, {"cpu_limit"}),
    "an exit": ("import os\ndef solve(x): os._exit(0)", 14, {"crashed"}),
    "a segmentation fault": ("import ctypes\ndef solve(x): ctypes.string_at(0)", 14, {"crashed"}),
    "a fork bomb": (
        "import os\ndef solve(x):\n while True:\n  try: os.fork()\n  except OSError: pass",
        8,
        {"cpu_limit", "memory_limit"},
    ),
    "30 GB": ("def solve(x): return len(bytearray(30 * 10**9))", 11, {"memory_limit"}),
    "daemons": (
        "import os, time\ndef solve(x):\n for _ in range(3):\n  if os.fork() == 0:\n   os.setsid()\n"
        "   if os.fork() == 0:\n    open('/proc/self/comm', 'w').write('pe-load-daemon')\n"
        "    while True: time.sleep(60)\n   os._exit(0)\n return [0.0] * len(x)",
        10,
        {"ok"},
    ),
}
VALUES = [float(number) for number in range(-8, 8)]


def score(split, outputs):
    return -sum(value * value for value in numbers(outputs[0], len(VALUES)))


DOMAIN = Domain(
    name="load",
    entrypoint="solve",
    seed=Program("def solve(x): return x"),
    metric=Metric(name="sum of squares", direction="minimize"),
    gate=GatePolicy(imports=frozenset(), permissive=True),
    # Wall time is short for nobody: what ends the hostile ones is what they use.
    limits=Limits(cpu_s=1, wall_s=60.0, memory_bytes=1024 * MIB),
    evaluator=Calls(cases={"search": [VALUES]}, score=score),
    splits=("search",),
)


def processes(name):
    """The living processes that have taken a name."""
    return [each for each in psutil.process_iter(["name", "status"]) if each.info["name"] == name and not dead(each)]


def dead(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_honest_candidates_score_among_hostile_ones_as_they_do_alone():
    honest = [("honest", HONEST.format(number=number)) for number in range(133)]
    hostile = [(name, source) for name, (source, count, _) in HOSTILE.items() for _ in range(count)]
    mixed = honest + hostile
    assert len(mixed) == 200
    random.Random(1).shuffle(mixed)

    def ended(program):
        return evaluate(DOMAIN, Candidate(program=Program(program[1]), origin="load"), "search", box)

    with closing(Bubblewrap(load_profile("numeric"), "warm")) as box:
        alone = {source: ended((name, source)) for name, source in honest}
    with closing(Bubblewrap(load_profile("numeric"), "warm")) as box, ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(ended, mixed))
    wrong = [
        (name, outcome.status, outcome.reason, outcome.score)
        for (name, source), outcome in zip(mixed, outcomes, strict=True)
        if (name == "honest" and (outcome.status, outcome.score) != ("ok", alone[source].score))
        or (name != "honest" and outcome.status not in HOSTILE[name][2])
    ]
    assert not wrong
    assert len({outcome.score for outcome in alone.values()}) == 133
    assert collections.Counter(name for name, _ in mixed)["honest"] == 133
    assert not processes("pe-load-daemon")


@pytest.mark.parametrize("form", ["warm", "pool"])
def test_what_waits_outlives_the_thread_that_asked_for_it(form):
    """To the kernel a process's parent is a thread: what dies with its parent would die with a worker of a pool."""
    launch.marked(os.getpid())  # what watches over all sandboxes is none
    before = psutil.Process().children()
    with closing(Bubblewrap(load_profile("stdlib"), form)) as box:
        candidate = Candidate(program=Program("def solve(x): return x"), origin="load")
        worker = threading.Thread(target=evaluate, args=(DOMAIN, candidate, "search", box))
        worker.start()
        worker.join()
        time.sleep(0.3)
        assert [each for each in psutil.Process().children() if each not in before and not dead(each)]


#: What may be called bwrap on a PATH: itself, a script that becomes it, one that starts it.
WRAPPED = {"itself": "", "a script": 'exec {bwrap} "$@"', "its parent": '{bwrap} "$@"\nexit $?'}


@pytest.fixture
def bwrap(request):
    """A bwrap that everyone can start; not below /tmp, over which root's way into a sandbox mounts a folder."""
    found = shutil.which("bwrap")
    assert found is not None
    with tempfile.TemporaryDirectory(prefix="progevo-bwrap-", dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        path = Path(name, "bwrap")
        path.write_text(f"#!/bin/sh\n{WRAPPED[request.param].format(bwrap=found)}\n")
        path.chmod(0o755)
        yield path if WRAPPED[request.param] else Path(found)


#: A host that runs two candidates, each with daemons, and never comes to an end of its own.
HOST = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.profile import load_profile
from progevo.types import Inputs, Job, Limits, Program
form, harness, bwrap, name = sys.argv[1:]
source = f'''
import os, time
def solve(x):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 64)
                open('/proc/self/comm', 'w').write('{name}')
                time.sleep(600)
            os._exit(0)
    time.sleep(600)
'''
job = Job(program=Program(source), entrypoint="solve", harness=Path(harness), inputs=Inputs(), limits=Limits())
box = Bubblewrap(load_profile("stdlib"), form, bwrap=bwrap)
with ThreadPoolExecutor(2) as pool:
    list(pool.map(box.run, [job, job]))
"""


@pytest.mark.parametrize("bwrap", ["itself", "its parent"], indirect=True)
def test_a_killed_host_takes_its_sandboxes_along(arm, bwrap):
    name = f"pe-k{os.getpid() % 10**7}-{arm.form[0]}{arm.name[0]}"
    harness = arm.library / "tests" / "sandbox" / "plain_harness.py"
    host = subprocess.Popen(
        [arm.python, "-c", HOST, arm.form, harness, bwrap, name],
        cwd=arm.library,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(arm.library)},
        user=arm.user,
        group=arm.user,
        extra_groups=[] if arm.user is not None else None,
    )
    try:
        patience = time.monotonic() + 60
        while len(processes(name)) < 6:
            assert host.poll() is None
            assert time.monotonic() < patience
            time.sleep(0.05)
        family = psutil.Process(host.pid).children(recursive=True)  # bwrap, supervisors, zygotes, candidates, daemons
        assert len(family) >= 2 * 4
    finally:
        os.kill(host.pid, signal.SIGKILL)
        killed = time.monotonic()
        host.wait()
    left = family
    while left and time.monotonic() < killed + 1:
        time.sleep(0.02)
        left = [each for each in left if not dead(each)]
    told = []
    for each in left:
        with contextlib.suppress(psutil.Error):
            told.append((each.pid, each.name(), each.cmdline()[:3]))
    assert not told
    assert not processes(name)


#: A host that starts one sandbox, and says so right before. Killed at a moment of its own choosing, if it has one: when
#: bwrap has just said that its child is there, which waits for bwrap.
STARTING = """
import os, signal, sys
from pathlib import Path
from progevo.sandbox import launch
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.profile import ENVIRONMENT, load_profile
from progevo.types import Inputs, Job, Limits, Program
form, harness, bwrap, name, moment = sys.argv[1:]
ENVIRONMENT["MARK"] = name
box = Bubblewrap(load_profile("stdlib"), form, bwrap=bwrap)
source = "import time\\ndef solve(x): time.sleep(600)"
job = Job(program=Program(source), entrypoint="solve", harness=Path(harness), inputs=Inputs(), limits=Limits())
if moment == "status":
    launch.first_process = lambda status: launch.readable(status, 60) and os.kill(os.getpid(), signal.SIGKILL)
print(flush=True)
box.run(job)
"""


@pytest.mark.parametrize(
    ("bwrap", "moment"),
    [("itself", "status"), ("itself", "any"), ("a script", "status"), ("its parent", "any")],
    indirect=["bwrap"],
)
def test_a_host_killed_while_it_starts_a_sandbox_leaves_none(arm, bwrap, moment):
    """bwrap's child has waited for ever then: of 60 hosts that were killed within 20 ms, 18 left one."""
    rng, names = random.Random(7), [f"killed-{time.monotonic_ns()}-{number}" for number in range(8)]
    command = [arm.python, "-c", STARTING, arm.form, arm.library / "tests" / "sandbox" / "plain_harness.py", bwrap]
    hosts = [
        subprocess.Popen(
            [*command, name, moment],
            stdout=subprocess.PIPE,
            cwd=arm.library,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(arm.library)},
            user=arm.user,
            group=arm.user,
            extra_groups=[] if arm.user is not None else None,
        )
        for name in names
    ]
    for host in hosts:
        host.stdout.readline()
    for host in hosts:
        if moment == "any":
            time.sleep(rng.uniform(0, 0.02))
            host.kill()
        assert host.wait(60) == -signal.SIGKILL
        host.stdout.close()
    time.sleep(1)
    left = {process: mark for process, mark in surrounded().items() if mark in names}
    assert not left


def surrounded():
    """The environment of every process that lives, by its number and name."""
    found = {}
    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error, OSError):
            found[process.pid, process.info["name"]] = process.environ().get("MARK", "")
    return found


@pytest.fixture(autouse=True)
def _no_daemons_before():
    assert not processes("pe-load-daemon")
