"""The cold sandbox under the real kernel: every ending has its own status and cause, for root and for nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from progevo.sandbox import cell
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.profile import load_profile
from progevo.sandbox.watch import Log
from progevo.types import Inputs, Job, Limits, Program

MIB = 1024 * 1024

#: name -> (program, limits, status, a word of the reason)
ENDINGS = {
    "an answer": ("def solve(x): return 7", {}, "ok", ""),
    "an exception": ("def solve(x): raise ValueError('no luck')", {}, "crashed", "ValueError: no luck (line 1)"),
    "a syntax error": ("def solve(x) return", {}, "crashed", "SyntaxError"),
    "no entry point": ("x = 1", {}, "crashed", "did not define 'solve'"),
    "an entry point that is no function": ("solve = 3", {}, "crashed", "not callable"),
    "a loop": ("def solve(x):\n while True: pass", {"wall_s": 0.5}, "timeout", "wall_s"),
    "a loop at import": ("while True: pass\ndef solve(x): return 7", {"wall_s": 0.5}, "timeout", "wall_s"),
    "CPU at import": ("while True: pass\ndef solve(x): return 7", {"cpu_s": 1}, "cpu_limit", "cpu_s"),
    "memory at import": ("KEPT = bytearray(10**10)\ndef solve(x): return 7", {}, "memory_limit", "memory_bytes"),
    "an exception at import": ("ANSWERS = [1][2]\ndef solve(x): return 7", {}, "crashed", "IndexError"),
    "a sleep": ("import time\ndef solve(x): time.sleep(60)", {"wall_s": 0.5}, "timeout", "wall_s"),
    "CPU": ("def solve(x):\n while True: pass", {"cpu_s": 1}, "cpu_limit", "cpu_s"),
    "CPU, with its signal ignored": (
        "import signal\ndef solve(x):\n signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n while True: pass",
        {"cpu_s": 1},
        "cpu_limit",
        "cpu_s",
    ),
    "memory": ("def solve(x): return len(bytearray(10**10))", {}, "memory_limit", "memory_bytes"),
    "memory, bit by bit": (
        "def solve(x):\n kept = []\n while True: kept.append(bytearray(10**7))",
        {"memory_bytes": 300 * MIB},
        "memory_limit",
        "memory_bytes",
    ),
    "a file too long": (
        "def solve(x): open('f', 'wb').write(bytes(2 * 10**6))",
        {"file_bytes": MIB},
        "crashed",
        "file_bytes",
    ),
    "scratch that is full": (
        "def solve(x):\n for i in range(9): open(f'f{i}', 'wb').write(bytes(10**6))",
        {"scratch_bytes": 4 * MIB, "file_bytes": 2 * MIB},
        "crashed",
        "scratch_bytes",
    ),
    "too many files": ("def solve(x): kept = [open('f', 'w') for _ in range(99)]", {}, "crashed", "open_files"),
    "too many processes": (
        "import os, time\ndef solve(x):\n for _ in range(99):\n  if os.fork() == 0: time.sleep(60)",
        {},
        "crashed",
        "processes",
    ),
    "too many threads": (
        "import threading, time\ndef solve(x):\n"
        " for _ in range(99): threading.Thread(target=time.sleep, args=(60,)).start()",
        {},
        "crashed",
        "processes",
    ),
    "threads that have no room": (
        "import threading, time\ndef solve(x):\n"
        " for _ in range(50): threading.Thread(target=time.sleep, args=(60,)).start()",
        {"memory_bytes": 128 * MIB},
        "memory_limit",
        "can't start new thread (line 3) (limit memory_bytes)",
    ),
    "a thread that has no room": (
        "import threading, time\ndef solve(x):\n threading.stack_size(2**30)\n"
        " threading.Thread(target=time.sleep, args=(60,)).start()",
        {"memory_bytes": 500 * MIB},
        "memory_limit",
        "(limit memory_bytes)",
    ),
    "too many threads, who have room now": (
        "import threading, time\ndef solve(x):\n kept = bytes(1900 * 2**20)\n kept = None\n"
        " for _ in range(99): threading.Thread(target=time.sleep, args=(60,)).start()",
        {"memory_bytes": 2000 * MIB, "processes": 16},
        "crashed",
        "(limit processes)",
    ),
    "too many threads, that have ended": (
        "import threading, time\ndef solve(x):\n wait, threads = threading.Event(), []\n try:\n"
        "  for _ in range(50):\n   threads.append(threading.Thread(target=wait.wait))\n   threads[-1].start()\n"
        " finally:\n  wait.set()\n  for thread in threads[:-1]: thread.join()\n"
        "  time.sleep(0.5)",  # joined, a thread still has to give its stack back
        {"processes": 16},
        "crashed",
        "(limit processes)",
    ),
    "threads, either too many or too large, that have ended": (
        "import threading, time\ndef solve(x):\n wait, threads = threading.Event(), []\n try:\n"
        "  for _ in range(50):\n   threads.append(threading.Thread(target=wait.wait))\n   threads[-1].start()\n"
        " finally:\n  wait.set()\n  for thread in threads[:-1]: thread.join()\n"
        "  time.sleep(0.5)",  # joined, a thread still has to give its stack back
        {"memory_bytes": 128 * MIB},
        "crashed",
        "(limit processes or memory_bytes)",
    ),
    "a flood on stdout": (
        "def solve(x):\n while True: print('x' * 10**5)",
        {"output_bytes": 10 * MIB},
        "output_limit",
        "output_bytes",
    ),
    "an answer too long": (
        "def solve(x): return 'x' * (2 * 10**6)",
        {"answer_bytes": MIB},
        "output_limit",
        "answer_bytes",
    ),
    "an answer whose JSON is too long": ("def solve(x): return ['x'] * 10**6", {}, "bad_output", "JSON"),
    "an answer that is no JSON": ("def solve(x): return {1, 2}", {}, "bad_output", "not plain JSON"),
    "an answer that holds itself": (
        "def solve(x):\n y = []\n y.append(y)\n return y",
        {},
        "bad_output",
        "not plain JSON",
    ),
    "an exit": ("import sys\ndef solve(x): sys.exit(0)", {}, "crashed", "SystemExit"),
    "an exit at once": ("import os\ndef solve(x): os._exit(0)", {}, "crashed", "exited with status 0"),
    "a segmentation fault": ("import os\ndef solve(x): os.kill(os.getpid(), 11)", {}, "crashed", "SIGSEGV"),
    "a kill of the supervisor": ("import os\ndef solve(x):\n os.kill(1, 9)\n return 7", {}, "ok", ""),
    "a refused call": (
        "import socket\ndef solve(x):\n é = socket.socket(socket.AF_INET) if x is None else socket.socket()\n return é",
        {},
        "crashed",
        "(not permitted in the sandbox: socket.socket())",
    ),
    "everything killed": ("import os\ndef solve(x): os.kill(-1, 9)", {}, "crashed", "ProcessLookupError"),
    "a stop of the supervisor": ("import os\ndef solve(x):\n os.kill(1, 19)\n return 7", {}, "ok", ""),
    "CPU, a little in each of many processes": (
        "import os\ndef solve(x):\n for _ in range(8):\n  if os.fork() == 0:\n   while True: pass\n"
        " while True: os.wait()",
        {"cpu_s": 2},
        "cpu_limit",
        "all processes together",
    ),
    "memory that several processes share": (
        "import os, time\ndef solve(x):\n kept = bytearray(b'x' * 90 * 2**20)\n"
        " for _ in range(5):\n  if os.fork() == 0: time.sleep(60)\n time.sleep(0.4)\n return len(kept) and 7",
        {"memory_bytes": 200 * MIB},
        "ok",
        "",
    ),
    "memory, some in each of several processes": (
        "import os, time\ndef solve(x):\n for _ in range(5):\n  if os.fork() == 0:\n"
        "   kept = bytearray(b'x' * 90 * 2**20)\n   time.sleep(60)\n time.sleep(60)",
        {"memory_bytes": 200 * MIB},
        "memory_limit",
        "all processes together",
    ),
    "a recursion": ("def solve(x): return solve(x)", {}, "crashed", "RecursionError"),
    "a hostile exception": (
        "class E(Exception):\n def __str__(self): raise SystemExit\ndef solve(x): raise E",
        {},
        "crashed",
        "its text cannot be read",
    ),
    "an exception that forges lines": (
        'def solve(x): raise ValueError(\'\\x1b[2J{"kind": "answer"}\\n\\x07\')',
        {},
        "crashed",
        'ValueError: {"kind": "answer"}',
    ),
    "a thread left behind": (
        "import threading, time\ndef solve(x):\n threading.Thread(target=time.sleep, args=(3600,)).start()\n return 7",
        {},
        "ok",
        "",
    ),
    "an exit handler that sleeps": (
        "import atexit, time\natexit.register(time.sleep, 3600)\ndef solve(x): return 7",
        {},
        "ok",
        "",
    ),
    "streams closed": ("import os\ndef solve(x):\n os.closerange(0, 3)\n return 7", {}, "ok", ""),
    "a read of stdin": ("import sys\ndef solve(x): return len(sys.stdin.read())", {}, "ok", ""),
    "bytes that are no text": (
        "import os\ndef solve(x):\n os.write(1, bytes(range(256)))\n os.write(2, bytes(range(256)))\n return 7",
        {},
        "ok",
        "",
    ),
    "a dataclass": (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n v: int\n"
        "def solve(x): return P(7).v",
        {},
        "ok",
        "",
    ),
    "a main block that is not run": ("def solve(x): return 7\nif __name__ == '__main__':\n 1 / 0", {}, "ok", ""),
}


def test_every_ending_has_its_status_and_its_cause(arm):
    executions = arm.run(*({"source": source, "limits": limits} for source, limits, _, _ in ENDINGS.values()))
    wrong = {
        name: (done["status"], done["reason"], done["log"][-300:])
        for (name, (_, _, status, word)), done in zip(ENDINGS.items(), executions, strict=True)
        if done["status"] != status or word not in done["reason"] or (status == "ok") != (done["reason"] == "")
    }
    assert not wrong, wrong  # `test_versions` loads this file in a way that shows no more


def test_what_a_candidate_used_is_measured_outside_it(arm):
    spin = "import time\ndef solve(x):\n end = time.process_time() + 0.5\n while time.process_time() < end: pass"
    early = """
import resource, time
end = time.process_time() + 0.5
while time.process_time() < end: pass
for name in ('time', 'perf_counter', 'monotonic', 'process_time', 'thread_time'):
    setattr(time, name, lambda: 0.0)
    setattr(time, f'{name}_ns', lambda: 0)
resource.getrusage = lambda who: resource.struct_rusage([0.0] * 16)
def solve(x): return time.perf_counter()
"""
    big = "def solve(x): return len(bytearray(b'x' * (100 * 2**20)))"
    slow, first, large = arm.run({"source": spin}, {"source": early}, {"source": big})
    for done in (slow, first):  # in the call, and before it, by whatever the clocks inside say
        assert 0.45 < done["cpu_s"] < 1.5
        assert done["wall_s"] >= 0.45
    assert first["value"] == 0.0
    assert 100 * MIB < large["max_rss_bytes"] < 300 * MIB


def test_a_timeout_still_says_what_was_burnt(arm):
    done = arm.one("def solve(x):\n while True: pass", limits={"wall_s": 1.5})
    assert done["status"] == "timeout"
    assert 0.1 < done["cpu_s"] < 3  # on a machine that others use it gets a part of a core
    assert 1.5 <= done["wall_s"] < 60  # it has no end of its own


def test_the_log_is_the_end_of_both_streams(arm):
    source = "import sys\ndef solve(x):\n print('a' * 10**5)\n print('out')\n print('err', file=sys.stderr)\n return 1"
    log = arm.one(source)["log"]
    assert len(log) <= 16 * 1024
    assert log.endswith("aaa\nout\nerr\n")


def test_nothing_of_a_sandbox_is_alive_when_its_run_returns(arm):
    """Daemons in sessions of their own, double-forked, with every stream closed."""
    mark = f"progevo-orphan-{os.getpid()}-{arm.name}"
    daemon = f"""
import os, time
def solve(x):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 64)
                open('/proc/self/comm', 'w').write('{mark[-15:]}')
                time.sleep(600)
            os._exit(0)
    time.sleep(0.3)
    return [open(f'/proc/{{p}}/comm').read().strip() for p in os.listdir('/proc') if p.isdigit()]
"""
    for limits in ({}, {"wall_s": 0.2}):
        done = arm.one(daemon, limits=limits)
        assert done["status"] == ("timeout" if limits else "ok")
        if not limits:
            assert done["value"].count(mark[-15:]) == 3
        alive = [process for process in psutil.process_iter(["name"]) if process.info["name"] == mark[-15:]]
        assert not alive


@pytest.fixture(params=["cold", "pool", "warm"])
def box(request):
    with closing(Bubblewrap(load_profile("stdlib"), request.param)) as made:
        yield made


def job(source, **limits):
    return Job(
        program=Program(source),
        entrypoint="solve",
        harness=Path(__file__).with_name("plain_harness.py"),
        inputs=Inputs(),
        limits=Limits(**{"wall_s": 300.0, **limits}),
    )


def test_a_run_that_is_closed_ends_at_once_and_is_lost(box):
    slow = job("import time\ndef solve(x): time.sleep(600)")
    with ThreadPoolExecutor(2) as executor:
        runs = [executor.submit(box.run, slow) for _ in range(2)]
        time.sleep(1)
        box.close()
        assert {run.result(timeout=30).status for run in runs} == {"sandbox_lost"}
    assert box.run(slow).status == "sandbox_lost"


def children():
    """Every process below this one, the oldest first: a zygote goes before its candidates. The sweeper is none."""
    found = sorted(psutil.Process().children(recursive=True), key=lambda process: process.create_time())
    return [process.pid for process in found if not sweeps(process)]


def sweeps(process):
    with suppress(psutil.NoSuchProcess):
        return any(part.endswith("sweeper.py") for part in process.cmdline())
    return False


def test_nothing_is_left_open_or_alive(box):
    before, descriptors = children(), len(os.listdir("/proc/self/fd"))
    for source in ["def solve(x): return 1", "def solve(x): return 1 / 0", "import os\ndef solve(x): os._exit(1)"] * 3:
        box.run(job(source))
    box.run(job("def solve(x):\n while True: pass", wall_s=0.3))
    box.close()
    assert children() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_nothing_of_one_candidate_is_seen_by_the_next(box):
    plant = """
import builtins, math, os, random, sys
def solve(x):
    open('/tmp/planted', 'w').write('x')
    open('/dev/shm/planted', 'w').write('x')
    os.environ['PLANTED'] = 'x'
    math.planted = builtins.planted = sys.planted = 'x'
    sys.setrecursionlimit(50)
    os.chdir('/')
    os.umask(0)
    random.random()
    return 'planted'
"""
    look = """
import builtins, math, os, random, signal, sys
def solve(x):
    return [
        os.path.exists('/tmp/planted'), os.path.exists('/dev/shm/planted'), 'PLANTED' in os.environ,
        any(hasattr(module, 'planted') for module in (math, builtins, sys)),
        sys.getrecursionlimit(), os.getcwd(), os.umask(0), random.random(),
        [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGTERM)],
        sorted(sys.modules) == sorted(set(sys.modules)), len(os.listdir('/proc/self/fd')),
    ]
"""
    first = box.run(job(look)).answer.value
    assert box.run(job(plant)).answer.value == "planted"
    assert box.run(job(look)).answer.value == first
    assert first[:4] == [False] * 4


def test_threads_locks_and_children_work_as_in_a_process_of_its_own(box):
    """A warm child is forked without the handlers that mend such things after a fork."""
    source = """
import concurrent.futures, logging, os, random, signal, threading
lock = threading.Lock()
def add(total, n):
    with lock:
        total.append(n)
    logging.getLogger('x').warning('a line %s', n)
def solve(x):
    total = []
    threads = [threading.Thread(target=add, args=(total, n)) for n in range(5)]
    for thread in threads: thread.start()
    for thread in threads: thread.join(10)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        squares = list(pool.map(lambda n: n * n, range(5)))
    child = os.fork()
    if child == 0:
        os._exit(3 if threading.active_count() == 1 else 4)
    crashed = os.fork()
    if crashed == 0:
        os.abort()
    ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (child, crashed)]
    return [sorted(total), squares, ends, threading.main_thread().ident == threading.get_ident(),
            threading.active_count(), random.random(), signal.raise_signal(0)]
"""
    done = box.run(job(source))
    assert done.status == "ok", done.reason
    assert done.answer.value[:5] == [list(range(5)), [0, 1, 4, 9, 16], [3, -6], True, 1]
    assert box.run(job(source)).answer.value == done.answer.value
    assert box.run(job("import os\ndef solve(x): os.abort()")).reason.startswith("killed by SIGABRT")
    assert box.run(job("import ctypes\ndef solve(x): ctypes.string_at(0)")).reason.startswith("killed by SIGSEGV")


def test_readable_is_not_always_something_to_read(box):
    """A byte out of band makes a socket readable, and a pipe can be emptied from inside before the host reads it."""
    source = """
import os, socket, stat, time
def is_socket(n):
    try:
        return stat.S_ISSOCK(os.fstat(n).st_mode)
    except OSError:
        return False
def solve(x):
    (number,) = filter(is_socket, range(3, 60))
    socket.socket(fileno=os.dup(number)).send(b'x', socket.MSG_OOB)
    end = time.monotonic() + 60
    try:
        pipe = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        pipe = None
    while time.monotonic() < end:
        if pipe is None:
            time.sleep(0.1)
            continue
        os.write(1, b'x')
        try:
            os.read(pipe, 1)
        except BlockingIOError:
            pass
    return 'late'
"""
    done = box.run(job(source, wall_s=1.0))
    assert (done.status, done.answer) == ("timeout", None)
    assert done.usage.wall_s < 30
    quick = box.run(job(source.replace("time.monotonic() + 60", "0").replace("'late'", "'in time'"), wall_s=60.0))
    assert quick.answer.value == "in time"


def test_an_empty_pipe_holds_nobody_up():
    read, write = os.pipe()
    with open(read, "rb", buffering=0) as out, open(write, "wb", buffering=0) as inside:
        log = Log(SimpleNamespace(streams=(out,)))
        with pytest.raises(BlockingIOError):
            log.take(out.fileno())
        inside.write(b"word")
        assert log.take(out.fileno())
        assert log.rest() == b"word"


def test_nobody_has_a_child_that_is_its_parent_s(box):
    """CLONE_PARENT: for a warm candidate that is the zygote, and what dies there would be nobody's to collect."""
    source = """
import ctypes, os, platform
def solve(x):
    number = {'x86_64': 56, 'aarch64': 220}[platform.machine()]
    made = []
    for _ in range(25):
        pid = ctypes.CDLL(None).syscall(number, 0x8000 | 17, None, None, None, None)
        if pid == 0:
            os._exit(0)
        made.append(pid)
    return made
"""
    assert box.run(job(source)).answer.value == [-1] * 25
    threads = "import threading\ndef solve(x):\n b = threading.Barrier(25)\n" + (
        " all_ = [threading.Thread(target=b.wait) for _ in range(24)]\n for t in all_: t.start()\n b.wait()\n return 1"
    )
    assert box.run(job(threads)).answer.value == 1


def test_memory_is_seen_when_a_first_thread_has_ended_before_the_others(box, monkeypatch):
    """The kernel says of such a process that it has none. Here without a control group, which would notice."""
    source = """
import ctypes, os, platform, threading, time
def hold():
    kept = b'x' * (150 * 2**20)
    time.sleep(20)
def solve(x):
    for _ in range(4):
        if os.fork() == 0:
            threading.Thread(target=hold).start()
            ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)
    time.sleep(20)
    return 'free'
"""
    monkeypatch.setattr("progevo.sandbox.cgroup.find", lambda *_, **__: None)
    with closing(Bubblewrap(load_profile("stdlib"), box.confinement.rung)) as plain:
        done = plain.run(job(source, memory_bytes=400 * MIB, wall_s=15.0))
    assert done.status == "memory_limit", done.reason


@pytest.mark.parametrize(("more", "status"), [(0, "ok"), (40, "memory_limit")])
def test_a_candidate_stands_still_while_its_memory_is_weighed(box, monkeypatch, more, status):
    """That takes the kernel tens of milliseconds on a busy machine, in which it had grown by half its limit."""
    source = f"""
import os, time
def solve(x):
    kept = bytearray(b'x' * 70 * 2**20)
    for _ in range(4):
        if os.fork() == 0:
            more = b'x' * {more} * 2**20
            while True: time.sleep(0.001)
    time.sleep(1)
    return len(kept)
"""
    seen, weigh, stop, begin = [], cell._fair_bytes, cell.Cell._stop, cell.Cell.weigh
    stopped: list[object] = []

    def states(pids):
        """Of those that live: it may end of its own while it is stopped, and takes the others with it."""
        words = []
        for pid in pids:
            with suppress(psutil.NoSuchProcess):
                words.append(psutil.Process(pid).status())
        return [word for word in words if word not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}]

    def beginning(mine, most_bytes):
        stopped.clear()
        return begin(mine, most_bytes)

    def stopping(mine):
        stopped.append(mine)
        return stop(mine)

    def watched(pid):
        if not stopped:
            time.sleep(0.05)  # a busy machine: it may have grown by 200 MiB meanwhile
            return weigh(pid)
        (mine,) = box._cells._cells
        candidates = mine.processes()[1:]
        patience = time.monotonic() + 2
        while set(states(candidates)) - {psutil.STATUS_STOPPED} and time.monotonic() < patience:
            time.sleep(0.001)
        seen.append(states(candidates))
        return weigh(pid)

    monkeypatch.setattr(cell, "_fair_bytes", watched)
    monkeypatch.setattr(cell.Cell, "_stop", stopping)
    monkeypatch.setattr(cell.Cell, "weigh", beginning)
    done = box.run(job(source, memory_bytes=200 * MIB))
    assert done.status == status, done.reason
    assert max(map(len, seen)) > 1  # of the five, as many as there were
    assert {word for words in seen for word in words} == {psutil.STATUS_STOPPED}


def test_to_weigh_many_processes_takes_few_descriptors_and_all_of_them_go_on(box, monkeypatch):
    """One for each of them, at once, is a quarter of what a host may have."""
    source = """
import os, signal
def solve(x):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
    kept, (read, write) = b'x' * 10 * 2**20, os.pipe()
    for _ in range(100):
        if os.fork() == 0:
            os.close(write)
            os._exit(len(os.read(read, 1)))
    while signal.sigtimedwait({signal.SIGCONT}, 0): pass
    signal.sigwait({signal.SIGCONT})  # stopped, all of them, and then not any more
    os.close(write)
    return [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(100)].count(0)
"""
    taken, weigh, before = [], cell._fair_bytes, len(os.listdir("/proc/self/fd"))

    def watched(pid):
        taken.append(len(os.listdir("/proc/self/fd")) - before)
        return weigh(pid)

    monkeypatch.setattr(cell, "_fair_bytes", watched)
    monkeypatch.setattr(cell, "FILLING_BYTES_S", 1 << 60)  # so that it always has to stand still
    done = box.run(job(source, memory_bytes=600 * MIB, processes=128, cpu_s=60))
    assert (done.status, done.answer and done.answer.value) == ("ok", 100), done.reason
    assert len(taken) > 100
    assert max(taken) < 50


def test_to_be_weighed_makes_nobody_go_on_who_had_stopped(box, monkeypatch):
    source = """
import os, signal, time
def solve(x):
    kept, (read, write) = b'x' * 10 * 2**20, os.pipe()
    os.set_blocking(read, False)
    for _ in range(4):
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            os.write(write, b'on')
            os._exit(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
    for _ in range(4):
        os.waitpid(-1, os.WUNTRACED)
    while signal.sigtimedwait({signal.SIGCONT}, 0): pass
    for _ in range(2):
        signal.sigwait({signal.SIGCONT})  # weighed, and let go on
    time.sleep(0.3)
    try:
        return os.read(read, 100).decode()
    except BlockingIOError:
        return 'they stand still'
"""
    monkeypatch.setattr(cell, "FILLING_BYTES_S", 1 << 60)  # so that it always has to stand still
    monkeypatch.setattr(cell.Cell, "measure", lambda cell: (0.0, 1 << 60))
    done = box.run(job(source, memory_bytes=600 * MIB, processes=128, cpu_s=60))
    assert (done.status, done.answer and done.answer.value) == ("ok", "they stand still"), done.reason


def test_a_signal_is_for_a_process_and_not_for_whoever_has_its_number_now():
    with subprocess.Popen(["sleep", "600"]) as process:
        known = cell._known(process.pid)
        cell.Known(process.pid, known.start + b"0").send(signal.SIGKILL)
        assert cell.Known(process.pid, known.start + b"0").stands_still  # that one is gone
        assert not known.stands_still
        assert process.poll() is None
        known.send(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    known.send(signal.SIGKILL)
    assert known.stands_still
    assert cell._known(process.pid) is None


def test_a_warm_child_finds_modules_where_a_cold_one_does():
    look = job("import sys\ndef solve(x): return sys.path")
    paths = []
    for form in ("warm", "cold"):
        with closing(Bubblewrap(load_profile("numeric"), form)) as made:
            paths.append(made.run(look).answer.value)
    assert paths[0] == paths[1]
    assert not [place for place in paths[0] if place.startswith("/progevo")]


def test_sendmsg_sends_bytes_and_nothing_else(box):
    """From Python 3.12 on asyncio writes with it; the filter refuses the call."""
    work = """
import asyncio, socket
async def talk():
    ours, theirs = socket.socketpair()
    reader, other = await asyncio.open_connection(sock=theirs)
    _, writer = await asyncio.open_connection(sock=ours)
    read = asyncio.ensure_future(reader.read())
    for _ in range(50):
        writer.writelines([b'x' * 50_000] * 2)
    await writer.drain()
    writer.close()
    found = len(await read)
    other.close()
    return found
def solve(x):
    one, other = socket.socketpair()
    found = [one.sendmsg([b'ab', memoryview(b'c')]), other.recv(9).decode(), asyncio.run(talk())]
    socket.send_fds(one, [b'x'], [0])
    return found
"""
    done = box.run(job(work.replace("    socket.send_fds(one, [b'x'], [0])\n", "")))
    assert done.answer is not None, done
    assert done.answer.value == [3, "abc", 5_000_000]
    assert "Operation not permitted (line 18)" in box.run(job(work)).reason


def test_an_error_without_a_number_is_still_an_error(box):
    odd = "class Odd(OSError):\n errno = property(lambda self: 1 / 0)\ndef solve(x): raise"
    assert box.run(job(f"{odd} OSError([1], 'odd')")).reason.endswith("(line 3)")
    assert box.run(job(f"{odd} Odd(2, 'odd')")).reason.endswith("(line 3)")


@pytest.mark.parametrize("form", ["warm", "cold"])
def test_interpreters_that_a_program_starts_find_the_packages_too(form):
    work = """
import math, subprocess, sys
def solve(x):
    from joblib import Parallel, delayed
    found = subprocess.run([sys.executable, '-c', 'import numpy; print(numpy.e)'], capture_output=True, text=True)
    return [found.stdout, found.stderr, Parallel(n_jobs=2)(delayed(math.sqrt)(i * i) for i in range(4))]
"""
    with closing(Bubblewrap(load_profile("tabular"), form)) as made:
        done = made.run(job(work, cpu_s=60))
    assert done.answer is not None, done
    assert done.answer.value == ["2.718281828459045\n", "", [0.0, 1.0, 2.0, 3.0]]


def test_a_call_that_would_wait_is_put_down_to_no_limit(box):
    read = "import os\ndef solve(x):\n read, write = os.pipe()\n os.set_blocking(read, False)\n return os.read(read, 1)"
    reason = box.run(job(read)).reason
    assert reason == "BlockingIOError: [Errno 11] Resource temporarily unavailable (line 5)"


def test_where_memory_runs_out_candidates_go_first(box):
    look = "def solve(x): return open('/proc/self/oom_score_adj').read().strip()"
    assert box.run(job(look)).answer.value == "1000"


def test_a_frame_in_pieces_two_frames_and_a_child_that_answers_count_as_they_come(box):
    """The candidate has the socket to the host. What it sends there itself is its answer, for what that is worth."""
    send = """
import json, os, stat, struct, time
def frame(value):
    head = json.dumps({'kind': 'answer', 'value': value, 'arrays': []}).encode()
    body = struct.pack('>I', len(head)) + head
    return struct.pack('>Q', len(body)) + body
def is_socket(n):
    try:
        return stat.S_ISSOCK(os.fstat(n).st_mode)
    except OSError:
        return False
channel = list(filter(is_socket, range(3, 60)))
"""
    pieces = "def solve(x):\n for byte in frame(5): os.write(channel[0], bytes([byte]))\n time.sleep(60)"
    assert box.run(job(send + pieces)).answer.value == 5
    twice = "def solve(x):\n os.write(channel[0], frame(1) + frame(2))\n return 3"
    assert box.run(job(send + twice)).answer.value == 1
    part = "def solve(x):\n os.write(channel[0], frame(1)[:9])\n os._exit(0)"
    assert box.run(job(send + part)).status == "crashed"
    ended = "def solve(x):\n os.write(channel[0], struct.pack('>Q', 2**40))\n time.sleep(60)"
    assert box.run(job(send + ended)).status == "output_limit"
    shut = "def solve(x):\n os.close(channel[0])\n return 1"
    assert box.run(job(send + shut)).status == "crashed"
    child = "def solve(x):\n if os.fork() == 0:\n  os.write(channel[0], frame(9))\n time.sleep(60)"
    assert box.run(job(send + child)).answer.value == 9


def test_a_zygote_that_dies_takes_no_candidate_along():
    with closing(Bubblewrap(load_profile("stdlib"), "warm")) as box:
        good = job("def solve(x): return 7")
        assert box.run(good).status == "ok"
        for _ in range(2):
            for pid in children():  # while nobody runs: the next candidate gets another zygote
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)
            assert box.run(good).answer.value == 7
        with ThreadPoolExecutor(1) as executor:  # while one runs: it is lost, never scored
            running = executor.submit(box.run, job("import time\ndef solve(x): time.sleep(60)"))
            time.sleep(1)
            for pid in children():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert running.result(timeout=30).status == "sandbox_lost"
        assert box.run(good).answer.value == 7


@pytest.mark.parametrize("form", ["cold", "pool"])
def test_where_the_kernel_grants_no_powers_the_result_says_what_is_not_held(monkeypatch, form):
    """As under an AppArmor profile that lets bwrap have namespaces, but what it starts no powers in them."""
    source = job("import os\ndef solve(x):\n open('/tmp/f', 'w').close()\n return os.statvfs('/tmp').f_files")
    with closing(Bubblewrap(load_profile("stdlib"), form)) as box:
        assert box.run(source).answer.value == 65_536
        assert box.confinement.limits_refused == {}
    monkeypatch.setattr("progevo.sandbox.source.MOUNTING", ())
    with closing(Bubblewrap(load_profile("stdlib"), form)) as box:
        assert box.run(source).answer.value > 65_536
        ((name, reason),) = box.confinement.limits_refused.items()
        assert (name, "Operation not permitted" in reason) == ("scratch_files", True)


def test_zygotes_are_replaced_after_a_while(monkeypatch):
    monkeypatch.setattr("progevo.sandbox.source.RECYCLE_CANDIDATES", 3)
    look = job("import os\ndef solve(x): return open('/proc/self/maps').read().splitlines()[0]")
    with closing(Bubblewrap(load_profile("stdlib"), "warm")) as box:
        places = [box.run(look).answer.value for _ in range(9)]
    assert 2 <= len(set(places)) <= 4


def test_a_memory_limit_that_the_profile_cannot_live_with_is_a_configuration_error(arm):
    with pytest.raises(AssertionError, match=r"ConfigError.*memory_bytes is 1048576; the profile 'stdlib' needs"):
        arm.one("def solve(x): return 1", limits={"memory_bytes": MIB})
