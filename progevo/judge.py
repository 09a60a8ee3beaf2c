"""Judge: one question's way to an outcome: propose, gate, copies, sandbox, score. Called from several threads."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from progevo.domain import SEARCH, Domain
from progevo.errors import BudgetSpent, ProgevoError, ProposerError
from progevo.evaluate import climb, confine, reach, screen, settled
from progevo.propose import Proposer
from progevo.record import Question, Record
from progevo.sandbox import Sandbox
from progevo.twins import same_program
from progevo.types import Brief, Candidate, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a candidate."""

    candidate: Candidate
    outcome: Outcome
    #: Runs in the sandbox.
    evaluations: int
    #: The node whose outcome it took over, if any.
    twin_of: int | None = None
    #: For a task that knows which cases are right: "1" for a right one, "0" for a wrong one, "~" in between.
    right: str | None = None


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Turns questions into verdicts, and programs into outcomes on a split."""

    domain: Domain
    proposer: Proposer
    sandbox: Sandbox
    record: Record
    seed: int
    repeats: int

    def __call__(self, question: Question) -> Verdict:
        """One candidate and what became of it. Raises `ProposerError` and `BudgetSpent` of the proposer."""
        candidate = self._propose(question)
        twin = self.record.twins.refused(candidate, question.told)
        if twin is None:
            refused = screen(self.domain, candidate)
            if refused is not None:
                return Verdict(candidate=candidate, outcome=refused, evaluations=0)
            twin = self._twin(question, candidate)
        if twin is not None:
            return Verdict(candidate=candidate, outcome=self.record.nodes[twin].outcome, evaluations=0, twin_of=twin)
        return self._scored(candidate)

    def fresh(self, candidate: Candidate) -> Verdict:
        """What becomes of a candidate that is compared with none before it: the seed."""
        refused = screen(self.domain, candidate)
        if refused is not None:
            return Verdict(candidate=candidate, outcome=refused, evaluations=0)
        verdict = self._scored(candidate)
        return replace(verdict, outcome=reach(self.domain, candidate, verdict.outcome, self.sandbox))

    def runs(self, candidate: Candidate, split: str) -> list[Outcome]:
        """The outcomes of running a screened candidate as often as `repeats` says, up to the first that fails."""
        outcomes: list[Outcome] = []
        while len(outcomes) < self.repeats and all(outcome.ok for outcome in outcomes):
            outcomes.append(self._run(candidate, split))
        return outcomes

    def right(self, outcome: Outcome) -> str | None:
        """Which cases were right, where the task knows."""
        if self.domain.right is None or not outcome.cases:
            return None
        return "".join("1" if self.domain.right(value) else self._wrong(value) for value in outcome.cases)

    def _wrong(self, value: float) -> str:
        return "0" if self.domain.wrong is None or self.domain.wrong(value) else "~"

    def settle(self, verdict: Verdict) -> Verdict:
        """The verdict in the light of what has been told since the question was put: of two samples the first counts.

        Two copies in flight at once are both run. The second takes over the outcome of the first, whatever its own.
        """
        if verdict.twin_of is not None or verdict.evaluations == 0:
            return verdict
        twin = self.record.twins.scored(verdict.candidate, len(self.record.nodes))
        if twin is None:
            return verdict
        return replace(verdict, outcome=self.record.nodes[twin].outcome, twin_of=twin, right=None)

    def _scored(self, candidate: Candidate) -> Verdict:
        runs = self.runs(candidate, SEARCH)
        outcome = average(runs)
        return Verdict(candidate=candidate, outcome=outcome, evaluations=len(runs), right=self.right(outcome))

    def _twin(self, question: Question, candidate: Candidate) -> int | None:
        """The node that says what the candidate is worth without a run: its own parent, or one that would repeat."""
        parent = self.record.nodes[question.ask.parent]
        if same_program(candidate, parent) and parent.outcome.status != "sandbox_lost":
            return parent.twin_of if parent.twin_of is not None else parent.index
        return self.record.twins.scored(candidate, question.told)

    def _propose(self, question: Question) -> Candidate:
        ask, history = question.ask, self.record.history(question)
        brief = Brief(
            step=ask.step,
            parent=history[ask.parent],
            history=history,
            rng=random.Random(f"progevo {self.seed} {ask.step} propose"),
            inspirations=tuple(history[index] for index in ask.inspirations),
        )
        try:
            return self.proposer.propose(brief)
        except (ProgevoError, BudgetSpent):
            raise
        except Exception as error:
            raise ProposerError(
                f"the proposer {self.proposer.name!r} raised {type(error).__name__} at step {ask.step}: {error};"
                " what was scored until then is in the run folder"
            ) from error

    def _run(self, candidate: Candidate, split: str) -> Outcome:
        if split == SEARCH and self.record.nodes:
            return climb(settled(self.domain, self.record.nodes[0].outcome), candidate, self.sandbox)
        return confine(self.domain, candidate, split, self.sandbox)


def average(runs: Sequence[Outcome]) -> Outcome:
    """One outcome for several runs of a program: the first failure, else means of scores, metrics and cases."""
    last = runs[-1]
    if len(runs) == 1 or not last.ok:
        return last
    names = set.intersection(*(set(run.metrics) for run in runs))
    lengths = {len(run.cases) for run in runs}
    return replace(
        last,
        score=_mean([run.score for run in runs]),
        metrics={name: _mean([run.metrics[name] for run in runs]) for name in last.metrics if name in names},
        cases=tuple(map(_mean, zip(*(run.cases for run in runs), strict=True))) if len(lengths) == 1 else (),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
