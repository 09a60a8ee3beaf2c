"""Tabular: train on one CSV file, predict the rows of another, and be scored by the RMSE on the host."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from progevo.errors import BadOutput, TaskError
from progevo.types import Answer, Inputs, Score

HARNESS = Path(__file__).resolve().with_name("harness.py")


@dataclass(frozen=True, kw_only=True)
class Tabular:
    """An `Evaluator` for programs of the form `entry(train_path, test_path) -> predictions`.

    Attributes:
        train_csv: the rows to learn from, target included. Every split is given the same.
        feature_csv: for each split the rows to predict, without the target.
        truth: for each split the target of those rows, in their order. It stays on the host.
    """

    train_csv: Path
    feature_csv: Mapping[str, Path]
    truth: Mapping[str, Iterable[float]]

    def __post_init__(self) -> None:
        truth = {split: tuple(map(float, values)) for split, values in self.truth.items()}
        if truth.keys() != self.feature_csv.keys():
            raise TaskError(
                f"feature_csv has the splits {sorted(self.feature_csv)}, truth has {sorted(truth)}: give both the same"
            )
        for split, values in truth.items():
            if not values or not all(map(math.isfinite, values)):
                raise TaskError(f"the truth of split {split!r} must be one or more finite numbers")
        object.__setattr__(self, "truth", truth)

    @property
    def harness(self) -> Path:
        return HARNESS

    def inputs(self, split: str, /) -> Inputs:
        return Inputs(files={"train.csv": self.train_csv, "test.csv": self.feature_csv[split]})

    def score(self, split: str, answer: Answer, /) -> Score:
        """Minus the RMSE, with one squared error per row. Raises `BadOutput`."""
        errors = squared_errors(answer, tuple(self.truth[split]))
        rmse = root_mean(errors)
        return Score(score=-rmse, metrics={"rmse": rmse}, cases=errors)


def squared_errors(answer: Answer, truth: tuple[float, ...]) -> tuple[float, ...]:
    """One squared error per row, all finite.

    Raises:
        BadOutput: not exactly one prediction per row, or one that is not finite or too large to be squared.
    """
    if len(answer.arrays) != 1:
        raise BadOutput(f"got {len(answer.arrays)} lists of predictions, the rule is one")
    (predictions,) = answer.arrays
    if len(predictions) != len(truth):
        raise BadOutput(f"got {len(predictions)} predictions for {len(truth)} rows, the rule is one per row")
    errors = []
    for row, (prediction, target) in enumerate(zip(predictions, truth, strict=True)):
        if not math.isfinite(prediction):
            raise BadOutput(f"prediction {row} is {prediction}, the rule is a finite number")
        difference = prediction - target
        errors.append(difference * difference)  # unlike `** 2` this ends in inf instead of raising
        if not math.isfinite(errors[-1]):
            raise BadOutput(f"prediction {row} is {prediction}, so large that its squared error is infinite")
    return tuple(errors)


def root_mean(errors: tuple[float, ...]) -> float:
    """The square root of the mean, summed without rounding. Raises `BadOutput` where the sum overflows."""
    try:
        return math.sqrt(math.fsum(errors) / len(errors))
    except OverflowError:
        raise BadOutput("the predictions are so large that their RMSE is infinite") from None
