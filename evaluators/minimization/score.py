"""Scores points by how low they lie and how near the minimum, as OpenEvolve's function_minimization does (411fb59)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from progevo.errors import BadOutput
from progevo.types import Answer, BlackBox, Inputs, Json, Score

HARNESS = Path(__file__).resolve().with_name("harness.py")

#: The basin multiplier: mean distances below the first number multiply by the second.
BASINS = ((0.5, 1.5), (1.5, 1.2), (3.0, 1.0), (math.inf, 0.7))


class Minimum(NamedTuple):
    """Where a function is least, and its value there."""

    x: float
    y: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial: the parameters of its function, which never enter the sandbox, and the seed that the program gets."""

    parameters: Json
    minimum: Minimum
    seed: int


class Found(NamedTuple):
    """What one valid trial came to."""

    value: float
    distance: float


@dataclass(frozen=True, kw_only=True)
class Minimization:
    """An `Evaluator` for programs of the form `entry(objective, bounds, budget, seed) -> (x, y)`.

    Attributes:
        file: a trusted file that stands alone and defines `function` (see `progevo.types.BlackBox`).
        function: the same, by which the host computes values anew: `function(parameters)(x, y)`.
        trials: for each split, all of one sandbox.
        bounds: least and largest x, and y, of a valid point.
        budget: calls of the objective in each trial.
    """

    file: Path
    function: Callable[[Json], Callable[[float, float], float]]
    trials: Mapping[str, Sequence[Trial]]
    bounds: tuple[float, float]
    budget: int

    @property
    def harness(self) -> Path:
        return HARNESS

    def inputs(self, split: str, /) -> Inputs:
        trials = self.trials[split]
        return Inputs(
            request={
                "bounds": list(self.bounds),
                "budget": self.budget,
                "seeds": [trial.seed for trial in trials],
            },
            black_box=BlackBox(
                file=self.file, problems=tuple(trial.parameters for trial in trials), arity=2, budget=self.budget
            ),
        )

    def score(self, split: str, answer: Answer, /) -> Score:
        """The combined score; its cases are jackknife pseudo-values, since it is not a mean over trials.

        Raises:
            BadOutput: not one point a trial, or no trial has a valid one.
        """
        trials = self.trials[split]
        found = [self._found(trial, x, y) for trial, (x, y) in zip(trials, _points(answer, len(trials)), strict=True)]
        valid = [one for one in found if one is not None]
        if not valid:
            raise BadOutput(f"no trial of {len(trials)} ended with a point inside the bounds; {_first_reason(answer)}")
        metrics = measures(found, trials)
        if answer.counts:
            metrics["calls"] = sum(count.calls for count in answer.counts) / len(trials)
        return Score(score=metrics["combined"], metrics=metrics, cases=pseudo_values(found, trials))

    def _found(self, trial: Trial, x: float, y: float) -> Found | None:
        """What a point is worth by the host's own computation; `None` for one that is not valid."""
        low, high = self.bounds
        if not (low <= x <= high and low <= y <= high):  # neither is NaN
            return None
        value = self.function(trial.parameters)(x, y)
        return Found(value, math.hypot(x - trial.minimum.x, y - trial.minimum.y)) if math.isfinite(value) else None


def measures(found: Sequence[Found | None], trials: Sequence[Trial]) -> dict[str, float]:
    """What the trials came to together; `combined` is the score. All are 0 where every trial failed.

    value = 1 / (1 + |mean value - least value|), distance = 1 / (1 + mean distance), reliability = share of valid
    trials, combined = (0.5 value + 0.3 distance + 0.2 reliability) times the basin multiplier of the mean distance.
    """
    valid = [one for one in found if one is not None]
    if not valid:
        return dict.fromkeys(("value", "distance", "reliability", "combined"), 0.0)
    mean_value = math.fsum(one.value for one in valid) / len(valid)
    mean_distance = math.fsum(one.distance for one in valid) / len(valid)
    value = 1 / (1 + abs(mean_value - trials[0].minimum.value))
    distance = 1 / (1 + mean_distance)
    reliability = len(valid) / len(trials)
    basin = next(factor for below, factor in BASINS if mean_distance < below)
    return {
        "value": value,
        "distance": distance,
        "reliability": reliability,
        "combined": (0.5 * value + 0.3 * distance + 0.2 * reliability) * basin,
        "mean_distance": mean_distance,
    }


def pseudo_values(found: Sequence[Found | None], trials: Sequence[Trial]) -> tuple[float, ...]:
    """The jackknife's pseudo-values, n s - (n - 1) s_without_i, whose paired differences give a gain its error.

    Moved together so that their mean is the score itself: it differs from that by the curvature of the score.
    """
    count = len(found)
    if count < 2:
        return ()
    whole = measures(found, trials)["combined"]
    without = [
        measures([*found[:i], *found[i + 1 :]], [*trials[:i], *trials[i + 1 :]])["combined"] for i in range(count)
    ]
    mean = math.fsum(without) / count
    return tuple(whole + (count - 1) * (mean - part) for part in without)


def _points(answer: Answer, count: int) -> list[tuple[float, float]]:
    if len(answer.arrays) != 1 or len(answer.arrays[0]) != 2 * count:
        raise BadOutput(f"the answer is not one point for each of {count} trials")
    numbers = list(answer.arrays[0])
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _first_reason(answer: Answer) -> str:
    reasons = answer.value if isinstance(answer.value, list) else []
    return next((f"the first: {reason}" for reason in reasons if reason), "the points lie outside")
