"""What passes between a run and its workers, each as plain data: dicts, lists, texts, numbers and bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from progevo.options import Options
from progevo.sandbox import Confinement, wire
from progevo.sandbox.answerer import counts_of
from progevo.types import Answer, Execution, Json, Limits, Status, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a worker needs to be ready for the programs of a run."""

    #: Of progevo, which is the same at both ends.
    version: str
    #: As `find_domain` takes it. A path is the same on the worker's machine.
    task: str
    #: What the run has found under that name (`progevo.fingerprint.content_id`): an edited task is another one.
    content: str
    #: sha256 of the task's data: what decides.
    sha256: str | None
    #: Where the run has that data, if a person said so; the worker looks into its own data folder first.
    data: str | None
    options: Options
    limits: Limits
    #: The form of the sandbox.
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One program to be run."""

    assignment: Assignment
    #: What the worker has to have, by the names of `progevo.fingerprint`.
    fingerprint: Mapping[str, str]
    split: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What a worker has for an assignment."""

    #: Its machine and process.
    worker: str
    fingerprint: Mapping[str, str]
    confinement: Confinement
    #: What the self-test of its sandbox held.
    proof: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a worker is not ready for an assignment."""

    worker: str
    reason: str
    #: Whether it is the sandbox that it lacks.
    unconfined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program's run ended: an `Execution`, its answer as a frame of the sandbox's own wire."""

    status: Status
    reason: str
    log_tail: str
    usage: Usage
    frame: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a worker says: how a run ended, or what it has, which is not what it should have, or why it has nothing."""

    ended: Ended | None = None
    greeting: Greeting | None = None
    refusal: Refusal | None = None


Value = TypeVar("Value")


def plain(value: Any) -> dict[str, Any]:
    """One of these values, to be sent."""
    made: dict[str, Any] = msgspec.to_builtins(value, builtin_types=(bytes,))
    return made


def value(kind: type[Value], sent: Mapping[str, Any]) -> Value:
    """What `plain` was made of."""
    return msgspec.convert(sent, kind, builtin_types=(bytes,))


def ended(execution: Execution) -> Ended:
    """How a run ended, to be sent. Its answer is as large as the limit `answer_bytes` lets it be."""
    frame, answer = None, execution.answer
    if answer is not None:
        counts: list[Json] = [
            [count.calls, count.refused, count.cpu_s, count.candidate_cpu_s] for count in answer.counts
        ]
        # As an array, since it may be NaN; and it is there where the candidate's CPU is.
        values = [math.nan if count.value is None else count.value for count in answer.counts]
        frame = wire.encode({"value": answer.value, "counts": counts}, (*answer.arrays, values))
    return Ended(
        status=execution.status,
        reason=execution.reason,
        log_tail=execution.log_tail,
        usage=execution.usage,
        frame=frame,
    )


def execution(ended: Ended) -> Execution:
    """How a run ended, as it came back."""
    answer = None
    if ended.frame is not None:
        header, (*arrays, values) = wire.decode(ended.frame[wire.LENGTH.size :])
        counts = counts_of(header["counts"], values)
        answer = Answer(value=header["value"], arrays=tuple(arrays), counts=counts)
    return Execution(
        status=ended.status, answer=answer, reason=ended.reason, log_tail=ended.log_tail, usage=ended.usage
    )
