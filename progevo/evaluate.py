"""evaluate: the only place where gate, sandbox and score meet."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace

from progevo import gate
from progevo.domain import SEARCH, Domain, Stage, try_out
from progevo.errors import BadOutput
from progevo.exclusive import alone
from progevo.gate.entrypoint import entrypoint_of
from progevo.sandbox import Sandbox
from progevo.sandbox.outcome import clean
from progevo.types import Answer, Candidate, Execution, Job, Outcome, Program, Score, Usage

#: How often a run that the host lost is asked for again.
RETRIES = 2


def evaluate(domain: Domain, candidate: Candidate, split: str, sandbox: Sandbox) -> Outcome:
    """What a candidate is worth on a split. Whatever is wrong with it is an outcome with a cause.

    Raises `ConfigError` for a job that can never run (an input that is not there, a limit below the profile's needs).
    """
    return screen(domain, candidate) or confine(domain, candidate, split, sandbox)


def screen(domain: Domain, candidate: Candidate) -> Outcome | None:
    """The outcome of a candidate that is not worth a sandbox, by its text alone; `None` for one that is."""
    if candidate.program is None:
        return Outcome(status="no_program", reason=candidate.reason or "the proposer gave no program")
    verdict = gate.check(candidate.program.source, domain.gate, domain.entrypoint, domain.other_entrypoints)
    return None if verdict.ok else Outcome(status="gate_refused", reason=_refusal(verdict))


def climb(domain: Domain, candidate: Candidate, sandbox: Sandbox) -> Outcome:
    """The outcome of a screened candidate on the search part, if it passes the domain's stages before that."""
    spent: list[Usage] = []
    for stage in domain.stages:
        outcome = confine(domain, candidate, stage.split, sandbox)
        spent.append(outcome.usage)
        if outcome.ok and outcome.score < domain.metric.score(stage.threshold):
            value = domain.metric.value(outcome.score)
            reason = (
                f"{domain.metric.name} {value:.6g} at the stage {stage.split!r}; it takes {stage.threshold:g} to go on"
            )
            outcome = replace(outcome, status="stage_failed", score=-math.inf, cases=(), reason=reason)
        if not outcome.ok:
            return replace(outcome, stage=stage.split, usage=Usage.together(spent))
    outcome = confine(domain, candidate, SEARCH, sandbox)
    if not domain.stages:
        return outcome
    return replace(outcome, stage=SEARCH, usage=Usage.together([*spent, outcome.usage]))


def reach(domain: Domain, candidate: Candidate, outcome: Outcome, sandbox: Sandbox) -> Outcome:
    """The outcome of the seed with its score on every stage, none of which it has to pass."""
    reached = {stage.split: confine(domain, candidate, stage.split, sandbox) for stage in domain.stages if outcome.ok}
    scores = {split: found.score for split, found in reached.items() if found.ok}
    words = [
        f"the seed reaches {value:.6g} at the stage {stage.split!r}: that, not {stage.threshold:g}, is enough"
        for stage in domain.stages
        if (value := lowered(domain, stage, scores)) != stage.threshold
    ]
    return replace(outcome, reason=outcome.reason or "; ".join(words), stage_scores=scores)


def settled(domain: Domain, seed: Outcome) -> Domain:
    """The domain by which the descendants of a seed are judged.

    No threshold there is above what the seed itself reaches, or nothing that grows from it might ever pass.
    """
    stages = (replace(stage, threshold=lowered(domain, stage, seed.stage_scores)) for stage in domain.stages)
    return replace(domain, stages=tuple(stages))


def lowered(domain: Domain, stage: Stage, scores: Mapping[str, float]) -> float:
    """A stage's threshold, or what the seed reaches on it where that is less."""
    score = domain.metric.score(stage.threshold)
    return domain.metric.value(min(score, scores.get(stage.split, score)))


def confine(domain: Domain, candidate: Candidate, split: str, sandbox: Sandbox) -> Outcome:
    """The outcome of a screened candidate: run in the sandbox, once or as often as its evaluator asks for (`Trial`),
    and scored on the host.
    """
    assert candidate.program is not None
    job = job_of(domain, candidate.program, split)
    with alone() if domain.exclusive else nullcontext():
        execution = try_out(domain.evaluator, split, job, lambda run: _run(sandbox, run))
        if execution.status != "ok" or execution.answer is None:
            return _failed(execution)
        answer = replace(execution.answer, source=candidate.program.source)
        return _scored(domain, split, answer, execution)


def job_of(domain: Domain, program: Program, split: str) -> Job:
    """What the sandbox is asked to run."""
    return Job(
        program=program,
        entrypoint=entrypoint_of(program.source, domain.entrypoint, domain.other_entrypoints),
        harness=domain.evaluator.harness,
        inputs=domain.evaluator.inputs(split),
        limits=domain.limits,
        split=split,
    )


def _refusal(verdict: gate.Verdict) -> str:
    """The first findings of a refusal in one line, and how many there are."""
    shown = [str(finding) for finding in verdict.findings[:3]]
    more = len(verdict.findings) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _run(sandbox: Sandbox, job: Job) -> Execution:
    """A run whose loss, if any, is the host's: such a run is asked for again, and never scored."""
    execution = sandbox.run(job)
    for _ in range(RETRIES):
        if execution.status != "sandbox_lost":
            break
        execution = sandbox.run(job)
    return execution


def _scored(domain: Domain, split: str, answer: Answer, execution: Execution) -> Outcome:
    reason = ""
    try:
        score = _plain(domain.evaluator.score(split, answer))
    except BadOutput as error:
        reason = str(error) or "the scorer refused it without a word"
    except Exception as error:  # a scorer that stumbles over an answer has not judged it; the run goes on
        reason = f"invalid: the scorer raised {type(error).__name__}: {error}"
    if reason:
        # It may quote the candidate.
        reason = clean(reason, 500)
        return Outcome(status="bad_output", reason=reason, log_tail=execution.log_tail, usage=execution.usage)
    return Outcome(
        status="ok",
        score=score.score,
        metrics=score.metrics,
        cases=score.cases,
        reason=clean(score.note, 500),
        log_tail=execution.log_tail,
        usage=execution.usage,
        answer_id=_answer_id(answer),
    )


def _answer_id(answer: Answer) -> str:
    """See `Outcome.answer_id`: the answer as it came over the wire, numbers and times bit for bit."""
    digest = hashlib.sha256(json.dumps(answer.value, sort_keys=True).encode("utf-8", "backslashreplace"))
    for numbers in answer.arrays:
        digest.update(b"%d:" % len(numbers) + array("d", numbers).tobytes())
    for timing in answer.timings:
        digest.update(b"%d:" % len(timing.output) + timing.output + array("d", [timing.call_s]).tobytes())
    return digest.hexdigest()


def _plain(score: Score) -> Score:
    """A score in plain, finite floats, whatever kind of number the scorer computes with. Raises `BadOutput`."""
    plain = Score(
        score=float(score.score),
        metrics={str(name): float(value) for name, value in score.metrics.items()},
        cases=tuple(map(float, score.cases)),
        note=score.note,
    )
    if not math.isfinite(plain.score):
        raise BadOutput(f"its score is {plain.score}, which is not a finite number")
    if not all(map(math.isfinite, plain.cases)):
        raise BadOutput("the value of a case is not a finite number")
    return plain


def _failed(execution: Execution) -> Outcome:
    return Outcome(status=execution.status, reason=execution.reason, log_tail=execution.log_tail, usage=execution.usage)
