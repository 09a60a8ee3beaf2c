"""How limits bite: how far past one a candidate gets, the least memory that packages need, how fast a kill is."""

from __future__ import annotations

import contextlib
import dataclasses
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from progevo.bench.figures import spread
from progevo.bench.forms import Case, Form, frames, open_source, trivial, until_readable
from progevo.sandbox.cell import Cell
from progevo.sandbox.image import NAME, mappings
from progevo.sandbox.outcome import execution
from progevo.sandbox.source import Source
from progevo.sandbox.watch import watch
from progevo.types import MIB, Json

#: The bisection of the least memory limit ends when its two sides are this close.
STEP_BYTES = 4 * MIB
#: Processes that leave their session and their parent, for a kill to find all the same.
DAEMONS = 8

SPIN = "def solve():\n while True: pass\n"
SPIN_IN_FOUR = "import os\ndef solve():\n for _ in range(3):\n  if os.fork() == 0: break\n while True: pass\n"
GROW = "def solve():\n kept = []\n while True: kept.append(b'x' * 2**20)\n"
GROW_IN_FOUR = (
    "import os, time\ndef solve():\n kept = []\n for _ in range(3):\n  if os.fork() == 0: break\n"
    " while True:\n  kept.append(b'x' * 2**20)\n  time.sleep(0.005)\n"
)
FLOOD = "def solve():\n while True: print('x' * 2**16)\n"
DAEMON = (
    f"import os, time\ndef solve():\n for _ in range({DAEMONS}):\n  if os.fork() == 0:\n   os.setsid()\n"
    "   if os.fork() != 0: os._exit(0)\n   time.sleep(600)\n  os.wait()\n time.sleep(600)\n"
)

#: Which limit, whose processes count, the program, and its limits.
BITES: tuple[tuple[str, str, str, dict[str, float]], ...] = (
    ("wall_s", "sandbox", SPIN, {"wall_s": 0.5}),
    ("cpu_s", "process", SPIN, {"cpu_s": 1}),
    ("cpu_s", "sandbox", SPIN_IN_FOUR, {"cpu_s": 1}),
    ("memory_bytes", "process", GROW, {"memory_bytes": 300 * MIB}),
    ("memory_bytes", "sandbox", GROW_IN_FOUR, {"memory_bytes": 300 * MIB}),
    ("output_bytes", "sandbox", FLOOD, {"output_bytes": 4 * MIB}),
)


def bites() -> list[Json]:
    """For each limit: what was asked for, what was reached when the candidate was stopped, and their ratio."""
    return [_bite(*bite) for bite in BITES]


def _bite(name: str, of: str, program: str, limits: dict[str, float]) -> Json:
    case = trivial("stdlib", program, **limits)
    with _slot(case) as source:
        cell = source.take()
        with _largest_memory(cell) as largest:
            started = time.perf_counter()
            ending = watch(cell, case.job.limits, frames(case.job))
            wall_s = time.perf_counter() - started
        cell.close()
    usage = ending.usage
    reached: float | None = {
        "wall_s": usage.wall_s,
        "cpu_s": usage.cpu_s,
        "memory_bytes": max(largest),
        "output_bytes": ending.output_bytes,
    }[name]
    limit = limits[name]
    return {
        "limit": name,
        "of": of,
        "value": limit,
        "status": execution(ending, case.job.limits).status,
        "reached": reached,
        "overshoot": reached / limit if reached is not None else None,
        "wall_ms": 1000 * wall_s,
    }


@contextmanager
def _largest_memory(cell: Cell) -> Iterator[list[int]]:
    """The memory that all processes of a cell together had, looked at every few milliseconds, shared pages left out."""
    found, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            found.append(_own_bytes(cell.processes()))
            found[:] = [max(found)]

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def _own_bytes(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            memory = psutil.Process(pid).memory_info()
            total += memory.rss - memory.shared
    return total


def needy(profile: str) -> Case:
    """The least that needs memory at all: with what is free in its heap a trivial program answers under any limit."""
    return trivial(profile, f"def solve():\n    return float(len(bytearray({STEP_BYTES})))\n")


def least_memory(case: Case) -> Json:
    """The least `memory_bytes` with which a case still answers, found by bisection in a warm sandbox."""
    with _slot(case) as source:

        def answers(limit: int) -> bool:
            limits = dataclasses.replace(case.job.limits, memory_bytes=limit)
            cell = source.take()
            ending = watch(cell, limits, frames(dataclasses.replace(case.job, limits=limits)))
            cell.close()
            return execution(ending, limits).status == "ok"

        low, high = 0, case.job.limits.memory_bytes
        if not answers(high):
            return {"profile": case.profile, "candidate": case.name, "memory_bytes": None}
        while high - low > STEP_BYTES:
            middle = (low + high) // 2
            low, high = (low, middle) if answers(middle) else (middle, high)
    return {"profile": case.profile, "candidate": case.name, "memory_bytes": high}


def kill(times: int) -> Json:
    """How long it takes to end a sandbox with daemons in it, and how many of its processes outlive that."""
    return {"daemons": DAEMONS, **{form: _kills(form, times) for form in ("cold", "warm")}}


def _kills(form: Form, times: int) -> Json:
    case = trivial("stdlib", DAEMON)
    costs, left = [], 0
    with _slot(case, form) as source:
        for _ in range(times):
            cell = source.take()
            until_readable(cell.control)
            cell.channel.sendall(frames(case.job))
            deadline = time.monotonic() + 10.0
            # The first process, the candidate, and the daemons, whose parents are gone.
            while len(pids := cell.processes()) != DAEMONS + 2 and time.monotonic() < deadline:
                select.select([], [], [], 0.005)
            started = time.perf_counter()
            cell.end()
            costs.append(time.perf_counter() - started)
            left += sum(_lives(pid) for pid in pids)
            cell.close()
    return {"gone_ms": spread([1000 * cost for cost in costs]), "samples": times, "left": left}


def _lives(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def memory(profile: str) -> Json:
    """What a zygote, a child that waits and a child that works hold: resident, proportional and unshared bytes.

    And the size of the files that the zygote's memory lies in: those hold it also while nobody looks at it.
    """
    case = trivial(profile, SPIN)
    with _slot(case) as source:
        cell = source.take()
        until_readable(cell.control)
        home = getattr(source, "home", None)
        found: dict[str, Json] = {"profile": profile, "zygote": _held([home.pid] if home is not None else [])}
        found["files_bytes"] = _in_files(home.processes()[:2] if home is not None else [])
        found["waiting"] = _held(cell.processes())
        cell.channel.sendall(frames(case.job))
        time.sleep(0.3)
        found["busy"] = _held(cell.processes())
        cell.close()
    with _slot(case, "cold") as source:
        cell = source.take()
        until_readable(cell.control)
        cell.channel.sendall(frames(case.job))
        time.sleep(0.3)
        found["cold_busy"] = _held(cell.processes())
        cell.close()
    return found


def _held(pids: list[int]) -> Json:
    """Sums over processes; `None` where this user may not look."""
    try:
        looked = [psutil.Process(pid).memory_full_info() for pid in pids]
    except psutil.Error:
        return {"rss_bytes": None, "pss_bytes": None, "uss_bytes": None}
    return {f"{kind}_bytes": sum(getattr(each, kind) for each in looked) for kind in ("rss", "pss", "uss")}


def _in_files(pids: list[int]) -> int | None:
    """Bytes in the files that processes have put their memory into; `None` where this user may not look."""
    try:
        parts = [part for pid in pids for part in mappings(pid)]
    except OSError:
        return None
    return sum(part.end - part.start for part in parts if part.name.startswith(f"/memfd:{NAME}"))


@contextmanager
def _slot(case: Case, form: Form = "warm") -> Iterator[Source]:
    source = open_source(case, form)
    try:
        yield source
    finally:
        source.close()
