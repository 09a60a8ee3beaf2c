"""What the ending of a sandbox means for the candidate; everything that came from inside is taken as a claim."""

from __future__ import annotations

import re
import signal
from typing import Any

from progevo.sandbox import wire
from progevo.sandbox.watch import Ending
from progevo.types import Answer, Count, Execution, Limits, Status


def execution(ending: Ending, limits: Limits, counts: tuple[Count, ...] = ()) -> Execution:
    """How a run ended, with its cause; `counts` are those of its black box."""
    log_tail = clean(ending.log.decode("utf-8", "replace"), 16_384)

    def ended(status: Status, reason: str) -> Execution:
        return Execution(status=status, reason=reason, log_tail=log_tail, usage=ending.usage)

    if ending.verdict == "no_start":
        said = clean(log_tail, 500).strip() or ending.fault or "it said nothing"
        return ended("sandbox_lost", f"the sandbox did not start: {said}")
    if ending.verdict == "timeout":
        return ended("timeout", f"no answer within {limits.wall_s:g} s of wall time (limit wall_s)")
    if ending.verdict == "output_limit":
        return ended("output_limit", f"more than {limits.output_bytes} bytes on stdout and stderr (limit output_bytes)")
    if ending.verdict == "cpu_limit":
        return ended("cpu_limit", f"more than {limits.cpu_s} s of CPU time, all processes together (limit cpu_s)")
    if ending.verdict == "memory_limit":
        size = limits.memory_bytes
        return ended("memory_limit", f"more than {size} bytes of memory, all processes together (limit memory_bytes)")
    if ending.verdict == "vanished" or ending.fault:
        # Nothing inside can end the first process of its namespace, nor who forked the candidate.
        return ended("sandbox_lost", "the sandbox was ended from outside, as by a host that is out of memory")
    if ending.flaw:
        return ended("output_limit", f"its answer is too long: {clean(ending.flaw, 200)} (limit answer_bytes)")
    if ending.body is None:
        return ended(*_cause_of_death(ending, limits))
    try:
        header, arrays = wire.decode(ending.body, max_header_bytes=wire.MAX_HEADER_BYTES)
    except wire.WireError as error:
        return ended("bad_output", f"its answer is not a frame: {clean(str(error), 200)}")
    if header.get("kind") == "answer":
        answer = Answer(value=header.get("value"), arrays=tuple(arrays), counts=counts)
        return Execution(status="ok", answer=answer, log_tail=log_tail, usage=ending.usage)
    return ended(*_word_of_failure(header))


def _word_of_failure(header: dict[str, Any]) -> tuple[Status, str]:
    reason = clean(str(header.get("reason", "")), 500) or "no reason given"
    if header.get("kind") == "bad_output":
        return "bad_output", reason
    if header.get("kind") != "raised":
        return "bad_output", "its answer is neither a result nor an error"
    line = header.get("line")
    if type(line) is int and 0 < line < 10**7:
        reason += f" (line {line})"
    if header.get("memory"):
        return "memory_limit", f"{reason} (limit memory_bytes)"
    if header.get("refused"):
        reason += f" (not permitted in the sandbox: {clean(str(header['refused']), 100)})"
    if header.get("limit"):
        reason += f" (limit {clean(str(header['limit']), 40)})"
    return "crashed", reason


def _cause_of_death(ending: Ending, limits: Limits) -> tuple[Status, str]:
    code = ending.end.get("exit")
    if type(code) is not int:
        return "crashed", "it ended before it answered"
    if code >= 0:
        return "crashed", f"it exited with status {code} before it answered"
    cpu_s = ending.usage.cpu_s or 0.0
    if -code == signal.SIGXCPU or (-code == signal.SIGKILL and cpu_s >= limits.cpu_s):
        return "cpu_limit", f"more than {limits.cpu_s} s of CPU time (limit cpu_s)"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return "crashed", f"killed by {name} before it answered"


#: ANSI sequences, then control characters other than line end and tab, bidi and zero-width marks, lone surrogates.
_UNPRINTABLE = re.compile(
    "\x1b\\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")


def clean(text: str, length: int) -> str:
    """Untrusted text fit for a terminal, a file and a prompt: no control characters, no addresses, cut to its end.

    An address of an object differs from run to run, and would make journals of equal runs differ.
    """
    return _ADDRESS.sub("0x...", _UNPRINTABLE.sub("", text))[-length:]
