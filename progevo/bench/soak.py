"""Many mixed candidates through one zygote: whether anything grows, and whether anything stays."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import os

import psutil

from progevo.bench.forms import frames, open_source, trivial
from progevo.bench.limits import DAEMON, FLOOD, SPIN
from progevo.sandbox.outcome import execution
from progevo.sandbox.source import Zygote
from progevo.sandbox.watch import watch
from progevo.types import MIB, Json, Limits, Program

#: How a candidate should end, its program, and its limits. Most answer, as in a search; the rest fail in every way.
ANSWER = "def solve():\n return sum(range(1000)) * 1.0\n"
MIXED: tuple[tuple[str, str, dict[str, float]], ...] = (
    *[("ok", ANSWER, {})] * 8,
    ("crashed", "def solve(): raise ValueError('no luck')\n", {}),
    ("crashed", "def solve() return\n", {}),
    ("crashed", "import os\ndef solve(): os._exit(3)\n", {}),
    ("crashed", "import os\ndef solve(): os.kill(os.getpid(), 11)\n", {}),
    ("crashed", "def solve(): return [open('f', 'w') for _ in range(999)]\n", {}),
    ("bad_output", "def solve(): return {1, 2}\n", {}),
    ("memory_limit", "def solve(): return len(bytearray(10**10))\n", {}),
    ("output_limit", FLOOD, {"output_bytes": MIB}),
    ("timeout", SPIN, {"wall_s": 0.05}),
    ("timeout", DAEMON, {"wall_s": 0.1}),
    ("ok", "import threading, time\ndef solve():\n threading.Thread(target=time.sleep, args=(600,)).start()\n", {}),
    ("ok", "def solve():\n with open('f', 'wb') as f: f.write(bytes(2**20))\n return 1.0\n", {}),
)
#: Candidates before the first look: by then every path has run, and the zygote has copied what it shares.
FIRST = 2 * len(MIXED)


def soak(count: int, profile: str = "stdlib") -> dict[str, Json]:
    """Runs `count` mixed candidates in one warm sandbox that is never recycled; what there was before and after.

    The first 40 candidates are a warm-up and come on top. `unexpected` lists endings other than the one meant.
    """
    base = trivial(profile)
    source = open_source(base, "warm_spare")
    assert isinstance(source, Zygote)
    source.recycle = FIRST + count + 1
    statuses: collections.Counter[str] = collections.Counter()
    unexpected: list[Json] = []

    def one(number: int) -> None:
        meant, program, limits = MIXED[number % len(MIXED)]
        held = dataclasses.replace(Limits(), **limits)  # type: ignore[arg-type]
        cell = source.take()
        ending = watch(cell, held, frames(dataclasses.replace(base.job, program=Program(program), limits=held)))
        cell.close()
        source.prepare()
        found = execution(ending, held)
        statuses[found.status] += 1
        if found.status != meant:
            unexpected.append({"candidate": number, "meant": meant, "status": found.status, "reason": found.reason})

    try:
        for number in range(FIRST):
            one(number)
        statuses.clear()
        before = _look(source)
        for number in range(count):
            one(number)
        after = _look(source)
        home = source.home.processes() if source.home is not None else []
    finally:
        source.close()
    return {
        "candidates": count,
        "profile": profile,
        "statuses": dict(sorted(statuses.items())),
        "unexpected": unexpected,
        "before": before,
        "after": after,
        "left": sum(psutil.pid_exists(pid) for pid in home),
    }


def _look(source: Zygote) -> dict[str, Json]:
    """Sizes and counts of zygote and host, once nothing runs but the zygote and the child that waits."""
    # The child that waits is used up: its predecessors are then collected, and only it is there.
    source.take().close()
    source.take().close()
    assert source.home is not None
    pid = source.home.pid
    gc.collect()
    found: dict[str, Json] = {
        "zygote_rss_bytes": None,
        "zygote_uss_bytes": None,
        "zygote_descriptors": None,
        "processes": len(source.home.processes()),
        "host_descriptors": len(os.listdir("/proc/self/fd")),
    }
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        memory = process.memory_full_info()
        found |= {"zygote_rss_bytes": memory.rss, "zygote_uss_bytes": memory.uss}
        found["zygote_descriptors"] = process.num_fds()
    return found
