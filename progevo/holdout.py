"""The held-out part: sealed until the search is over, then opened once for the seed and the best.

What nobody may see before the end is in no file, argument or memory of a candidate or a proposer: the loop and the
proposer hold a task whose test part raises when asked for. The proposer's holds no cases at all.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from progevo.domain import SEARCH, TEST, Domain, Evaluator, Run, try_out
from progevo.errors import TaskError
from progevo.types import Answer, Execution, Inputs, Job, Score

#: So many standard errors a gain needs to be told from noise (`progevo.statistics`).
NEEDED_SE = 2.0


class StillSealed(RuntimeError):
    """Something asked for the test part while the search was going on: a mistake in the code that did."""


class Seal:
    """An `Evaluator` that gives out the search part, and everything else only once it has been opened."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.unsealed = evaluator
        self._open = False

    def open(self) -> None:
        """The search is over."""
        self._open = True

    @property
    def harness(self) -> Path:
        return self.unsealed.harness

    def inputs(self, split: str, /) -> Inputs:
        """Raises `StillSealed` for the test part before the end."""
        self._check(split)
        return self.unsealed.inputs(split)

    def score(self, split: str, answer: Answer, /) -> Score:
        """Raises `StillSealed` for the test part before the end."""
        self._check(split)
        return self.unsealed.score(split, answer)

    def trial(self, split: str, job: Job, run: Run, /) -> Execution:
        """Raises `StillSealed` for the test part before the end."""
        self._check(split)
        return try_out(self.unsealed, split, job, run)

    def _check(self, split: str) -> None:
        if split == TEST and not self._open:
            raise StillSealed("the test part is sealed until the search is over; nothing may look at it before")


class Blind:
    """What a proposer's task has in place of an `Evaluator`: it holds no case of any part."""

    def __init__(self, harness: Path) -> None:
        self._harness = harness

    @property
    def harness(self) -> Path:
        return self._harness

    def inputs(self, split: str, /) -> Inputs:
        """Raises `StillSealed`."""
        raise StillSealed(f"a proposer is shown programs and their scores, not the cases of the {split} part")

    def score(self, split: str, answer: Answer, /) -> Score:
        """Raises `StillSealed`."""
        raise StillSealed("a proposer does not score: every candidate is run, and scored by the host")


def blind(domain: Domain) -> Domain:
    """The task as a proposer may know it."""
    return replace(domain, evaluator=Blind(domain.evaluator.harness))


def seal(domain: Domain) -> tuple[Domain, Seal]:
    """The task with its test part sealed, and the seal."""
    made = Seal(domain.evaluator)
    return replace(domain, evaluator=made), made


def check_parts(domain: Domain) -> None:
    """Raises `TaskError` where the task itself says that a case stands in both parts."""
    if TEST not in domain.splits or not {SEARCH, TEST} <= domain.case_ids.keys():
        return
    search, test = (domain.case_ids[split] for split in (SEARCH, TEST))
    both = sorted(map(str, set(search) & set(test)))
    if both:
        raise TaskError(
            f"{len(both)} of the {len(test)} test cases of the task {domain.name!r} are search cases too"
            f" ({', '.join(both[:3])}{', ...' if len(both) > 3 else ''}): a search would learn them by heart;"
            " take them out of one of the two parts"
        )


def planning_line(domain: Domain, repeats: int) -> str | None:
    """What the test part can be expected to resolve, and a warning where that is not enough; `None` if unknown."""
    if TEST not in domain.splits:
        return "this task has no test part: nothing will tell the gain on search from luck"
    if domain.noisy and repeats == 1:
        return "one program scores differently from run to run here: without --repeats 2 or more no gain is resolved"
    if domain.usual is None:
        return None
    needed = NEEDED_SE * domain.usual.test_se
    line = (
        f"resolves gains above about {needed:.2g} {domain.metric.name}; this task usually gains {domain.usual.gain:.2g}"
    )
    return f"{line}: too little to be told from noise" if domain.usual.gain <= needed else line
