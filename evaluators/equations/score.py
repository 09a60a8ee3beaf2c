"""Equations: a program gives a formula with free parameters, fitted inside and scored here, where the targets are."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from progevo.domain import SEARCH, TEST
from progevo.errors import BadOutput, TaskError
from progevo.evaluators.equations import measures
from progevo.evaluators.equations.expression import NotAnExpression, compute
from progevo.evaluators.equations.folder import columns, laid_out
from progevo.evaluators.equations.problem import Problem, Samples
from progevo.evaluators.equations.reading import formula_of
from progevo.evaluators.equations.symbolic import Judgement, judge
from progevo.types import Answer, Inputs, Score

HARNESS = Path(__file__).resolve().with_name("harness.py")

#: How the parameters may be fitted (`harness.py`).
FITS = ("least_squares", "bfgs")
PARAMETERS = 10
#: How closely the formula that was read from a program has to give the program's own predictions.
AGREE = 1e-18


class Equations:
    """An `Evaluator` for programs of the form `entry(x, y, ..., params) -> array`.

    Search and test fit to the same rows, 80 % of the training part. The search predicts the other 20 %; the test
    predicts the two test parts. No target of a row to predict ever enters the sandbox.

    Args:
        problem: the data.
        fit: one of `FITS`.
        entrypoint: the name of the function.

    Raises:
        TaskError: there is no such way to fit.
    """

    def __init__(self, problem: Problem, *, fit: str = "least_squares", entrypoint: str = "equation") -> None:
        if fit not in FITS:
            raise TaskError(f"there is no way to fit called {fit!r}; there are {' and '.join(FITS)}")
        self.problem, self.fit, self.entrypoint = problem, fit, entrypoint
        self.fitted, held = problem.parts()
        self.parts: Mapping[str, Mapping[str, Samples]] = {
            SEARCH: {"held": held},
            TEST: {"id": problem.test, **({"ood": problem.ood} if problem.ood is not None else {})},
        }

    @property
    def harness(self) -> Path:
        return HARNESS

    @functools.cached_property
    def files(self) -> Mapping[str, Path]:
        """The files that candidates read."""
        found = {"fit.f64": columns(self.fitted, target=True)}
        for parts in self.parts.values():
            found |= {f"{name}.f64": columns(samples, target=False) for name, samples in parts.items()}
        return laid_out(found)

    def inputs(self, split: str, /) -> Inputs:
        names = list(self.parts[split])
        return Inputs(
            request={"columns": len(self.problem.inputs), "fit": self.fit, "seed": 0, "predict": [*names]},
            files={f"{name}.f64": self.files[f"{name}.f64"] for name in ("fit", *names)},
        )

    def score(self, split: str, answer: Answer, /) -> Score:
        """Digits of NMSE: on the rows held back, or in distribution, with all that is reported beside them.

        Raises `BadOutput` where there is not one prediction a row, or one that counts is not finite.
        """
        parts = self.parts[split]
        if len(answer.arrays) != 1 + len(parts) or len(answer.arrays[0]) != PARAMETERS:
            raise BadOutput(f"the answer does not hold {PARAMETERS} parameters and {len(parts)} lists of predictions")
        predicted = {name: np.asarray(values) for name, values in zip(parts, answer.arrays[1:], strict=True)}
        for name, samples in parts.items():
            if len(predicted[name]) != len(samples):
                raise BadOutput(
                    f"got {len(predicted[name])} predictions for {len(samples)} rows, the rule is one per row"
                )
        ranked = next(iter(parts))
        found = measures.shares(predicted[ranked], parts[ranked].target)
        if found is None:
            raise BadOutput(refusal(predicted[ranked], parts[ranked].target))
        metrics: dict[str, float] = {}
        for name, samples in parts.items():
            metrics |= measured(predicted[name], samples.target, "" if split == SEARCH else f"_{name}")
        note = ""
        if split == TEST:
            judgement = self._judged(answer, predicted)
            metrics["symbolic"] = unknown(judgement.same)
            note = f"symbolic is unknown: {judgement.why}" if judgement.same is None else ""
        digits = measures.digits(float(found.mean()))
        return Score(score=digits, metrics=metrics, cases=measures.digit_cases(found), note=note)

    def _judged(self, answer: Answer, predicted: Mapping[str, Any]) -> Judgement:
        """Whether the program's formula is the true one; what it is read as must give what the program has answered."""
        problem = self.problem
        if problem.truth is None:
            return Judgement(None, "the true formula of this problem is not known here")
        try:
            ours = formula_of(answer.source, self.entrypoint, problem.inputs, list(answer.arrays[0]))
        except NotAnExpression as error:
            return Judgement(None, f"the program is no plain formula: {error}")
        values = dict(zip(problem.inputs, problem.test.inputs, strict=True))
        apart = measures.nmse(compute(ours, values, len(problem.test)), predicted["id"])
        if apart is None or apart > AGREE:
            return Judgement(None, "the formula that the text shows is not what the program has computed")
        return judge(ours, problem.truth, problem.inputs, problem.test)


def measured(predicted: Any, target: Any, suffix: str) -> dict[str, float]:
    """The benchmark's measures over one part; NaN where one has no meaning."""
    value = measures.nmse(predicted, target)
    found = {
        f"digits{suffix}": unknown(None if value is None else measures.digits(value)),
        f"nmse{suffix}": unknown(value),
        f"nmse{suffix}_lenient": unknown(measures.lenient_nmse(predicted, target)),
        f"acc_0.1{suffix}": measures.accuracy(predicted, target),
        f"within_0.1{suffix}": measures.within(predicted, target),
    }
    zeros = int((target == 0).sum())  # of the data, not of the program: why no formula may reach an Acc of 1
    return {**found, f"zero_targets{suffix}": float(zeros)} if zeros else found


def unknown(value: float | None) -> float:
    """NaN for what is not known: a metric that is `null` in results."""
    return math.nan if value is None else value


def refusal(predicted: Any, target: Any) -> str:
    """Why predictions are no answer, with what the benchmark would have made of them."""
    bad = int((~np.isfinite(predicted)).sum())
    if not bad:
        return "the predictions are so large that their squared error is infinite"
    lenient = measures.lenient_nmse(predicted, target)
    beside = "no rows are left" if lenient is None else f"NMSE is {lenient:.3g}"
    return (
        f"{bad} of {len(predicted)} predictions are not finite numbers, the rule is none"
        f" (without the rows with NaN, as the benchmark's lenient figure has it, {beside})"
    )
