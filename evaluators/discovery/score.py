"""Discovery: one program that finds a formula for every problem it is given, from samples alone."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from progevo.domain import SEARCH, TEST
from progevo.errors import BadOutput
from progevo.evaluators.equations import Problem, Samples, measures
from progevo.evaluators.equations.expression import Expression, NotAnExpression, compute, parse
from progevo.evaluators.equations.folder import columns, laid_out
from progevo.evaluators.equations.symbolic import Judgement, judge
from progevo.types import Answer, Inputs, Json, Score

HARNESS = Path(__file__).resolve().with_name("harness.py")

#: From so many digits of NMSE on a problem counts as solved, and below so many as lost.
SOLVED, LOST = 6.0, 1.0


class Discovery:
    """An `Evaluator` for programs of the form `entry(x, y, spec) -> text`, scored by the mean digits over problems.

    `x` has shape (rows, inputs), `y` holds the targets, `spec` the names: `inputs`, `output`, and `about`, in words.
    The text is a formula in the names of the inputs, with its constants as numbers (`expression.parse`).

    A problem is worth its digits of NMSE, from 0 to 12: on the rows held back in the search, on the test part in
    distribution in the test. It is worth 0 where there is no formula, or one with a value that is not finite.

    Args:
        problems: for each split; one that learns from its training rows is never told which.
        cpu_s: for each problem.
    """

    def __init__(self, problems: Mapping[str, Sequence[Problem]], *, cpu_s: float) -> None:
        self.problems = {split: tuple(of) for split, of in problems.items()}
        self.cpu_s = cpu_s

    @property
    def harness(self) -> Path:
        return HARNESS

    @functools.cached_property
    def files(self) -> Mapping[str, Mapping[str, Path]]:
        """For each split the rows to learn from, a file a problem."""
        return {
            split: laid_out(
                {f"{number}.f64": columns(problem.parts()[0], target=True) for number, problem in enumerate(of)}
            )
            for split, of in self.problems.items()
        }

    def inputs(self, split: str, /) -> Inputs:
        told: list[Json] = [
            {"inputs": list(problem.inputs), "output": problem.output, "about": dict(problem.about)}
            for problem in self.problems[split]
        ]
        return Inputs(request={"problems": told, "cpu_s": self.cpu_s}, files=self.files[split])

    def score(self, split: str, answer: Answer, /) -> Score:
        """The mean digits. Raises `BadOutput` where there is not one answer for each problem."""
        problems = self.problems[split]
        texts = answer.value
        if not isinstance(texts, list) or len(texts) != len(problems) or answer.arrays:
            raise BadOutput(f"the answer does not hold one formula for each of the {len(problems)} problems")
        formulas: list[Expression | None] = []
        reasons: list[str] = []
        for problem, text in zip(problems, texts, strict=True):
            try:
                if not isinstance(text, str):
                    raise NotAnExpression("there is none")
                formulas.append(parse(text, {name: name for name in problem.inputs}))
            except NotAnExpression as error:
                formulas.append(None)
                reasons.append(f"{problem.name}: {error}")
        if not any(formula is not None for formula in formulas):
            raise BadOutput(f"no formula of {len(problems)} can be read; the first, {reasons[0]}")
        parts = [problem.parts()[1] if split == SEARCH else problem.test for problem in problems]
        predictions = [predicted(*each) for each in zip(problems, formulas, parts, strict=True)]
        values = [
            None if found is None else measures.nmse(found, part.target)
            for found, part in zip(predictions, parts, strict=True)
        ]
        cases = tuple(0.0 if value is None else max(0.0, measures.digits(value)) for value in values)
        mean = math.fsum(cases) / len(cases)
        metrics = {
            "digits": mean,
            "solved": float(sum(case >= SOLVED for case in cases)),
            "failed": float(sum(value is None for value in values)),
        }
        note = f"{len(reasons)} formulas cannot be read; the first, {reasons[0]}" if reasons else ""
        if split == TEST:
            metrics |= _parts("id", predictions, parts)
            beyond = [(problem, formula) for problem, formula in zip(problems, formulas, strict=True) if problem.ood]
            oods = [problem.ood for problem, _ in beyond if problem.ood]
            if beyond:
                metrics |= _parts("ood", [predicted(*each, o) for each, o in zip(beyond, oods, strict=True)], oods)
            judged = [self._judged(*each) for each in zip(problems, formulas, strict=True)]
            metrics |= {
                "symbolic": float(sum(each.same == 1.0 for each in judged)),
                "symbolic_unknown": float(sum(each.same is None for each in judged)),
            }
            why = next((each.why for each in judged if each.same is None), "")
            note = "; ".join(filter(None, (note, why and f"symbolic is unknown for some: {why}")))
        return Score(score=mean, metrics=metrics, cases=cases, note=note)

    def _judged(self, problem: Problem, formula: Expression | None) -> Judgement:
        if problem.truth is None:
            return Judgement(None, f"the true formula of {problem.name} is not known here")
        if formula is None:
            return Judgement(0.0)
        return judge(formula, problem.truth, problem.inputs, problem.test)


def predicted(problem: Problem, formula: Expression | None, samples: Samples) -> Any | None:
    """The formula's value in every row, where there is a formula."""
    if formula is None:
        return None
    return compute(formula, dict(zip(problem.inputs, samples.inputs, strict=True)), len(samples))


def _parts(name: str, predictions: Sequence[Any], parts: Sequence[Samples]) -> dict[str, float]:
    """Figures over the problems of one part: how many are right, the median NMSE, the mean digits."""
    pairs = [(found, part.target) for found, part in zip(predictions, parts, strict=True)]
    values = [None if found is None else measures.nmse(found, target) for found, target in pairs]
    lenient = [None if found is None else measures.lenient_nmse(found, target) for found, target in pairs]
    right = [0.0 if found is None else measures.accuracy(found, target) for found, target in pairs]
    digits = [0.0 if value is None else max(0.0, measures.digits(value)) for value in values]
    return {
        f"digits_{name}": math.fsum(digits) / len(digits),
        f"nmse_{name}": median(math.inf if value is None else value for value in values),
        f"nmse_{name}_lenient": median(math.inf if value is None else value for value in lenient),
        f"acc_0.1_{name}": math.fsum(right) / len(right),
    }
