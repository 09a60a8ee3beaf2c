"""The cost of the whole loop: what the journal takes, how many candidates a second, what is spent outside of them."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from progevo.bench.figures import spread
from progevo.domain import Domain
from progevo.errors import BadOutput, SandboxUnavailable
from progevo.events import Asked
from progevo.journal import Journal
from progevo.loop import Silence
from progevo.run import run
from progevo.sandbox import Confinement
from progevo.sandbox.probe import open_sandbox
from progevo.types import (
    Answer,
    Brief,
    Candidate,
    Execution,
    GatePolicy,
    Inputs,
    Job,
    Json,
    Metric,
    Node,
    Program,
    Score,
    Usage,
)

HARNESS = Path(__file__).parents[1] / "sandbox" / "probe_harness.py"
#: Events whose appending is timed.
EVENTS = 300
#: Candidates that go through a real sandbox.
CANDIDATES = 60
#: The first ones of a run, which wait for a sandbox to warm up, are not counted.
WARM_UP = 10
#: Nodes over which a rate is taken.
WINDOW = 1_000


def loop_figures(nodes: int) -> dict[str, Json]:
    """What `progevo bench search` shows of the loop, measured in a temporary folder.

    `journal`: events appended (and flushed to disk) a second. `outside`: milliseconds of wall and CPU time per node
    that are not the candidate's, over the last nodes of a run of `nodes`, with an instant stand-in for the sandbox.
    `loop`: for one and for two workers, candidates a second with recorded replies and the sandbox of this machine on
    the profile stdlib, and the share of time spent outside candidates; `null` where this machine has none.
    """
    with tempfile.TemporaryDirectory(prefix="progevo-bench-") as name:
        folder = Path(name)
        append = _append(folder / "append")
        outside: list[Json] = [_outside(folder / f"outside{workers}", nodes, workers) for workers in (1, 2)]
        try:
            loop: list[Json] | None = [_whole(folder / f"loop{workers}", workers) for workers in (1, 2)]
        except SandboxUnavailable:
            loop = None
    return {"journal": append, "outside": outside, "loop": loop}


@dataclass(frozen=True)
class Recorded:
    """A proposer with a reply for every step, all different."""

    name: str = "recorded"

    def propose(self, brief: Brief, /) -> Candidate:
        return Candidate(program=Program(f"def solve():\n    return {brief.step}.5\n"), origin="recorded")


class Instant:
    """A stand-in for a sandbox, without a process: it reads the answer in the text."""

    confinement = Confinement(
        backend="none", rung="stand-in", version="", kernel="", profile="stdlib", limits_refused={}
    )

    def run(self, job: Job, /) -> Execution:
        found = re.search(r"return (\S+)", job.program.source)
        assert found is not None
        return Execution(status="ok", answer=Answer(value=float(found[1])), usage=Usage(wall_s=0.0))

    def close(self) -> None: ...


class Value:
    """An `Evaluator` that scores a program by the number that it returns, in a shuffled order."""

    harness = HARNESS

    def inputs(self, split: str, /) -> Inputs:
        return Inputs()

    def score(self, split: str, answer: Answer, /) -> Score:
        if not isinstance(answer.value, float):
            raise BadOutput("not a number")
        return Score(score=answer.value * 7919 % 1009)


@dataclass
class Clock(Silence):
    """Wall and CPU time at every node."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    candidates_s: list[float] = field(default_factory=list)

    def told(self, node: Node, best: Node) -> None:
        self.wall_s.append(time.perf_counter())
        self.cpu_s.append(time.process_time())
        self.candidates_s.append(node.outcome.usage.wall_s or 0.0)


def _domain() -> Domain:
    return Domain(
        name="bench",
        entrypoint="solve",
        seed=Program("def solve():\n    return 0.5\n"),
        metric=Metric(name="value", direction="maximize"),
        gate=GatePolicy(imports=frozenset()),
        evaluator=Value(),
        profile="stdlib",
        splits=("search",),
    )


def _append(folder: Path) -> dict[str, Json]:
    journal = Journal(folder)
    costs = []
    for step in range(1, EVENTS + 1):
        began = time.perf_counter()
        journal.append(Asked(step=step, parent=0, inspirations=()))
        costs.append(time.perf_counter() - began)
    journal.close()
    return {"events": EVENTS, "events_per_s": EVENTS / sum(costs), "ms": spread([1000 * cost for cost in costs])}


def _outside(folder: Path, nodes: int, workers: int) -> dict[str, Json]:
    clock = Clock()
    run(
        _domain(),
        proposer=Recorded(),
        iterations=nodes,
        workers=workers,
        out=folder,
        sandbox=Instant(),
        progress=clock,
    )
    last = min(WINDOW, nodes)
    return {
        "nodes": nodes,
        "workers": workers,
        "wall_ms": 1000 * _mean_step(clock.wall_s, last),
        "cpu_ms": 1000 * _mean_step(clock.cpu_s, last),
    }


def _whole(folder: Path, workers: int) -> dict[str, Json]:
    box, clock = open_sandbox("stdlib"), Clock()
    try:
        run(
            _domain(),
            proposer=Recorded(),
            iterations=CANDIDATES,
            workers=workers,
            out=folder,
            sandbox=box,
            progress=clock,
        )
        rung = box.confinement.rung
    finally:
        box.close()
    counted = CANDIDATES - WARM_UP
    each = _mean_step(clock.wall_s, counted)
    inside = sum(clock.candidates_s[-counted:]) / counted / workers
    return {
        "workers": workers,
        "sandbox": rung,
        "candidates": counted,
        "candidates_per_s": 1 / each,
        "outside_share": max(0.0, 1 - inside / each),
    }


def _mean_step(moments: Sequence[float], last: int) -> float:
    return (moments[-1] - moments[-1 - last]) / last
