"""Events: what a journal's lines say, as typed values, and how nodes become lines and lines become nodes.

    {"event": "started", "schema": "progevo.journal/1", ...}
    {"event": "asked", "step": 1, "parent": 0, "inspirations": []}
    {"event": "node", "index": 1, "step": 1, "parent": 0, ..., "outcome": {...}, "measured": {...}}
    {"event": "confirmed", "index": 1, "evaluations": 2, "outcome": {...}, "measured": {...}}
    {"event": "tested", "index": 1, "runs": [{"outcome": {...}, "cases": [...]}], "measured": {...}}
    {"event": "resumed", "budget": {...}, "drift": [...]}
    {"event": "ended", "stop_reason": "iterations", "measured": {...}}

Every value that was measured (times, sizes, digests of answers, log files) stands under the one key `measured`, so
that two runs with one seed can be compared by dropping it.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from progevo.budget import Budget
from progevo.sketch import sketch
from progevo.types import (
    Candidate,
    DataSource,
    Draw,
    Limits,
    Metric,
    Node,
    Outcome,
    Program,
    Status,
    Tokens,
    Usage,
)

SCHEMA = "progevo.journal/1"


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="event"):
    """One line of a journal."""


class Measured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What was measured about a run in the sandbox."""

    wall_s: float | None
    cpu_s: float | None
    max_rss_bytes: int | None
    #: Seconds that the run had been going.
    elapsed_s: float = 0.0
    #: See `Outcome.answer_id` and `Outcome.sketch`.
    answer: str | None = None
    sketch: str = ""
    #: The log's path inside the run folder.
    log: str | None = None
    #: Of every draw, in order: seconds, and the file with the raw reply.
    draws: list[tuple[float, str | None]] = []


class Judgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An outcome without what was measured; per-case values stay out, as a journal must not outgrow its readers."""

    status: Status
    score: float | None
    metrics: dict[str, float | None]
    reason: str
    #: Of a task with stages: the last split that it ran on, and of the seed its score on every stage.
    stage: str = ""
    stage_scores: dict[str, float] = {}


class Drawn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A draw without what was measured."""

    model: str
    verdict: Literal["ok", "recovered", "damaged"]
    kind: str = ""
    fault: Literal["model", "channel", "budget", "provider", ""] = ""
    steps: tuple[str, ...] = ()
    tokens: Tokens = Tokens()
    cost_usd: float | None = None


class Confined(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What confines the candidates of this run (`progevo.sandbox.Confinement`)."""

    backend: str
    rung: str
    version: str
    kernel: str
    profile: str
    limits_refused: dict[str, Any]
    counted_by: str = "the watch"


class StartMeasured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    started: str
    #: What the self-test of the sandbox held.
    proof: dict[str, Any] | None


class Started(Line, frozen=True, tag="started"):
    """The first line: everything that a resume and a result need and that does not follow from the other lines."""

    schema: str
    task: str
    metric: Metric
    data: DataSource
    limits: Limits
    splits: tuple[str, ...]
    trust: str
    search: str
    constants: dict[str, Any]
    proposer: str
    seed: int
    schedule: str
    workers: int
    repeats: int
    #: Whether a node is run again before it may be called best.
    confirm: bool
    acceptance: str
    top: int
    budget: Budget
    sandbox: Confined
    versions: dict[str, str]
    #: name -> value of everything that changes what a score means (`progevo.fingerprint`).
    fingerprint: dict[str, str]
    #: What a person had decided, as the command line needs it to open the run again.
    settings: dict[str, Any]
    measured: StartMeasured


class Asked(Line, frozen=True, tag="asked"):
    step: int
    parent: int
    inspirations: tuple[int, ...]


class Told(Line, frozen=True, tag="node", omit_defaults=True):
    """A node, its program by the sha256 of its text (`programs/<sha256>.py`) and of its normalised tree (`twin`)."""

    index: int
    step: int
    parent: int | None
    program: str | None
    twin: str | None
    origin: str
    remark: str
    twin_of: int | None
    evaluations: int
    outcome: Judgement
    measured: Measured
    draws: tuple[Drawn, ...] = ()
    #: For a task that knows which cases are right: "1" for a right one, "0" for a wrong one, "~" in between.
    right: str | None = None


class Confirmed(Line, frozen=True, tag="confirmed"):
    """What a node was worth when it was run again before it could be called best."""

    index: int
    evaluations: int
    outcome: Judgement
    measured: Measured


class HeldOutRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    outcome: Judgement
    cases: tuple[float, ...]
    right: str | None


class HeldOut(Line, frozen=True, tag="tested"):
    """What a node is worth on the held-out part: one run, or as many as `repeats` says."""

    index: int
    runs: tuple[HeldOutRun, ...]
    measured: Measured


class Drift(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that changes what a score means and is no longer what it was."""

    name: str
    was: str | None
    now: str | None


class Resumed(Line, frozen=True, tag="resumed", omit_defaults=True):
    """Written where a resume changed something: the budget, the workers, or what was allowed to have changed."""

    budget: Budget
    drift: tuple[Drift, ...]
    #: `None` where they are as many as before.
    workers: int | None = None


class EndMeasured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ended: str
    elapsed_s: float


class Ended(Line, frozen=True, tag="ended"):
    stop_reason: str
    measured: EndMeasured


Event = Started | Asked | Told | Confirmed | HeldOut | Resumed | Ended


def plain(node: Node) -> Node:
    """The node as a journal gives it back: printable text, no per-case values, NaN for a metric that is not finite.

    The loop tells this one, so that nothing that sees a node can know whether the run was resumed since.
    """
    candidate = node.candidate
    return dataclasses.replace(
        node,
        candidate=dataclasses.replace(
            candidate, origin=printable(candidate.origin), reason=printable(candidate.reason)
        ),
        outcome=plain_outcome(node.outcome),
    )


def plain_outcome(outcome: Outcome) -> Outcome:
    """See `plain`."""
    metrics = {printable(name): value if math.isfinite(value) else math.nan for name, value in outcome.metrics.items()}
    return dataclasses.replace(
        outcome,
        metrics=metrics,
        reason=printable(outcome.reason),
        cases=(),
        sketch=outcome.sketch or sketch(outcome.cases),
    )


def printable(text: str) -> str:
    """Text that UTF-8 can hold: half a surrogate pair becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def told(node: Node, *, evaluations: int, elapsed_s: float, log: str | None, right: str | None) -> Told:
    """The line of a plain node."""
    candidate, program = node.candidate, node.candidate.program
    refused = node.outcome.status == "gate_refused"  # there are texts whose mere parsing takes gigabytes
    return Told(
        index=node.index,
        step=node.step,
        parent=node.parent,
        program=program.id if program is not None else None,
        twin=program.twin if program is not None and not refused else None,
        origin=candidate.origin,
        remark=candidate.reason,
        twin_of=node.twin_of,
        evaluations=evaluations,
        outcome=judgement(node.outcome),
        right=right,
        draws=tuple(
            Drawn(
                model=draw.model,
                verdict=draw.verdict,
                kind=draw.kind,
                fault=draw.fault,
                steps=draw.steps,
                tokens=draw.tokens,
                cost_usd=draw.cost_usd,
            )
            for draw in candidate.draws
        ),
        measured=measured(
            node.outcome,
            elapsed_s=elapsed_s,
            log=log,
            draws=[(draw.seconds, draw.file) for draw in candidate.draws],
        ),
    )


def judgement(outcome: Outcome) -> Judgement:
    """An outcome without what was measured."""
    return Judgement(
        status=outcome.status,
        score=outcome.score if outcome.ok else None,
        metrics={name: value if math.isfinite(value) else None for name, value in outcome.metrics.items()},
        reason=outcome.reason,
        stage=outcome.stage,
        stage_scores=dict(outcome.stage_scores),
    )


def measured(
    outcome: Outcome,
    *,
    elapsed_s: float,
    log: str | None = None,
    draws: Sequence[tuple[float, str | None]] = (),
) -> Measured:
    """What was measured about an outcome."""
    usage = outcome.usage
    return Measured(
        wall_s=usage.wall_s,
        cpu_s=usage.cpu_s,
        max_rss_bytes=usage.max_rss_bytes,
        elapsed_s=round(elapsed_s, 3),
        answer=outcome.answer_id,
        sketch=outcome.sketch,
        log=log,
        draws=list(draws),
    )


def node_of(line: Told, program: Program | None, log_tail: str = "") -> Node:
    """The node that a line tells of."""
    return Node(
        index=line.index,
        step=line.step,
        parent=line.parent,
        candidate=Candidate(
            program=program,
            origin=sys.intern(line.origin),  # a few words for a hundred thousand nodes
            reason=line.remark,
            draws=tuple(
                Draw(
                    model=draw.model,
                    verdict=draw.verdict,
                    kind=draw.kind,
                    fault=draw.fault,
                    steps=draw.steps,
                    tokens=draw.tokens,
                    cost_usd=draw.cost_usd,
                    seconds=seconds,
                    file=file,
                )
                for draw, (seconds, file) in zip(line.draws, line.measured.draws, strict=True)
            ),
        ),
        outcome=outcome_of(line.outcome, line.measured, log_tail),
        twin_of=line.twin_of,
    )


def outcome_of(found: Judgement, by: Measured, log_tail: str = "", cases: tuple[float, ...] = ()) -> Outcome:
    """The outcome that a judgement and its measurements tell of."""
    return Outcome(
        status=found.status,
        score=-math.inf if found.score is None else found.score,
        metrics={name: math.nan if value is None else value for name, value in found.metrics.items()},
        stage=found.stage,
        stage_scores=found.stage_scores,
        cases=cases,
        reason=found.reason,
        log_tail=log_tail,
        usage=Usage(wall_s=by.wall_s, cpu_s=by.cpu_s, max_rss_bytes=by.max_rss_bytes),
        answer_id=by.answer,
        sketch=by.sketch,
    )
