"""Integration: correct digits of integrals whose integrands a process outside the sandbox answers and counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from progevo.errors import BadOutput
from progevo.evaluators.digits import SOLVED, digits
from progevo.types import Answer, BlackBox, Count, Inputs, Json, Score

HARNESS = Path(__file__).resolve().with_name("harness.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One integral: what its integrand is made of, from where to where, and its value. Only the ends are told."""

    parameters: Json
    a: float
    b: float
    value: float


@dataclass(frozen=True, kw_only=True)
class Integration:
    """An `Evaluator` for programs of the form `entry(f, a, b) -> float`, scored by their mean correct digits.

    Attributes:
        file: a trusted file that stands alone and defines `function` (see `progevo.types.BlackBox`), of one variable.
        problems: for each split, all of one sandbox.
        calls: of an integrand, for each problem; an element of an array is one. One more, and the problem is worth 0.
        cpu_s: for each problem, of the candidate and the process that answers it together. The candidate's is that of
            one process: a task's limits permit it no second one.
        wall_s: for each problem, by a clock in the candidate's own process.
    """

    file: Path
    problems: Mapping[str, Sequence[Problem]]
    calls: int
    cpu_s: float
    wall_s: float

    @property
    def harness(self) -> Path:
        return HARNESS

    def inputs(self, split: str, /) -> Inputs:
        problems = self.problems[split]
        intervals: list[Json] = [[str(problem.a), str(problem.b)] for problem in problems]  # JSON has no infinity
        return Inputs(
            request={"intervals": intervals, "cpu_s": self.cpu_s, "wall_s": self.wall_s},
            black_box=BlackBox(
                file=self.file,
                problems=tuple(problem.parameters for problem in problems),
                arity=1,
                budget=self.calls,
                in_turn=True,
            ),
        )

    def score(self, split: str, answer: Answer, /) -> Score:
        """The mean digits over the problems, by the values that were handed in.

        Raises `BadOutput` where there is not one value for each of them.
        """
        problems = self.problems[split]
        if len(answer.arrays) != 1 or not len(answer.arrays[0]) == len(answer.counts) == len(problems):
            raise BadOutput(f"the answer does not hold one number for each of the {len(problems)} integrals")
        ended = answer.value if isinstance(answer.value, list) else []
        over = [number in ended or self._over(count) for number, count in enumerate(answer.counts)]
        cases = tuple(
            0.0 if beyond or count.value is None else digits(count.value, Decimal(problem.value))
            for count, problem, beyond in zip(answer.counts, problems, over, strict=True)
        )
        mean = math.fsum(cases) / len(cases)
        metrics = {
            "digits": mean,
            "solved": float(sum(each >= SOLVED for each in cases)),
            "overran": float(sum(over)),
            "calls": sum(count.calls for count in answer.counts) / len(cases),
        }
        return Score(score=mean, metrics=metrics, cases=cases)

    def _over(self, count: Count) -> bool:
        """Whether a problem took more calls than it may, or more time."""
        return count.refused > 0 or count.cpu_s + (count.candidate_cpu_s or 0.0) > self.cpu_s
