"""The cells of MAP-Elites: what is measured of a program, and which cell that puts it in.

After algorithmicsuperintelligence/openevolve, `openevolve/database.py` at commit 411fb59, named beside the lines that
follow it. Values are raw; each axis is scaled by the least and the largest value seen so far, on all islands together.
A program keeps the cell it got when it was placed: cells do not move when the scale grows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from progevo.errors import ConfigError
from progevo.search.diversity import Diversity
from progevo.types import Node

#: A place on each axis, counted from 0.
Cell: TypeAlias = tuple[int, ...]

#: A raw value; not a number where there is none, `None` where nothing can be compared yet.
Feature: TypeAlias = float | None

#: What is known of every program; any other dimension is a metric that the task reports.
BUILT_IN = ("complexity", "diversity", "score")

#: The bins of a dimension that a table of bins does not name (database.py, __init__: the fallback for dicts).
BINS = 10

#: How far a nearby cell may lie, on each axis (database.py, _sample_inspirations).
REACH = 2


def bins_of(bins: int | Mapping[str, int], dimensions: Sequence[str], archive_size: int) -> tuple[int, ...]:
    """How many bins each dimension has (database.py, __init__).

    A whole number counts for all of them, and is raised where the cells would be fewer than the archive's places.
    """
    if isinstance(bins, Mapping):
        return tuple(bins.get(name, BINS) for name in dimensions)
    return (max(bins, int(archive_size ** (1 / len(dimensions)) + 0.99)),) * len(dimensions)


class Scale:
    """Min-max scaling of values as they come (database.py, _update_feature_stats and _scale_feature_value)."""

    def __init__(self) -> None:
        self._low = math.inf
        self._high = -math.inf

    def learn(self, value: float) -> None:
        self._low, self._high = min(self._low, value), max(self._high, value)

    def share(self, value: float) -> float:
        """Where a learned value lies between the least and the largest, 0 to 1; 0.5 while all are the same."""
        if self._high == self._low:
            return 0.5
        span = self._high - self._low
        if math.isinf(span):  # further apart than a number can say: halves are not
            return (value / 2 - self._low / 2) / (self._high / 2 - self._low / 2)
        return (value - self._low) / span


class Grid:
    """Measures nodes, and finds cells; the cells' owners are kept by each island."""

    def __init__(self, dimensions: Sequence[str], bins: Sequence[int], diversity: Diversity) -> None:
        self._dimensions = tuple(dimensions)
        self._bins = tuple(bins)
        self._scales = tuple(Scale() for _ in dimensions)
        self._diversity = diversity
        self._metrics: frozenset[str] | None = None  # the dimensions that are metrics, settled by the seed

    def measure(self, node: Node) -> tuple[Feature, ...]:
        """The raw value of a node with a program on each axis (database.py, _calculate_feature_coords).

        A metric goes before what is built in under the same name, as a task may measure that better.

        Raises:
            ConfigError: a dimension is neither built in nor a metric of the seed, which is told first.
        """
        if self._metrics is None:
            reported = node.outcome.metrics
            unknown = [name for name in self._dimensions if name not in reported and name not in BUILT_IN]
            if unknown and node.outcome.ok:
                raise ConfigError(
                    f"feature_dimensions names {', '.join(unknown)}, which this task does not report; there are"
                    f" {', '.join(dict.fromkeys((*BUILT_IN, *reported)))}"
                )
            self._metrics = frozenset(name for name in self._dimensions if name in reported or name in unknown)
        return tuple(self._feature(name, node, name in self._metrics) for name in self._dimensions)

    def cell(self, features: Sequence[Feature]) -> Cell | None:
        """The cell of these values, which the scales then know; `None` where one of them is no number.

        What cannot be compared yet lies in the first bin, and no scale learns of it.
        """
        if any(value is not None and not math.isfinite(value) for value in features):
            return None
        return tuple(map(self._bin, self._scales, self._bins, features))

    def nearby(self, cell: Cell, rng: random.Random) -> Cell:
        """A cell at random, at most `REACH` away on each axis."""
        return tuple(
            max(0, min(bins - 1, place + rng.randint(-REACH, REACH)))
            for place, bins in zip(cell, self._bins, strict=True)
        )

    def _feature(self, name: str, node: Node, is_metric: bool) -> Feature:
        if is_metric:
            value = node.outcome.metrics.get(name)
            return math.nan if value is None else float(value)  # the journal writes null for what was no number
        if name == "score":
            return node.score
        assert node.candidate.program is not None
        if name == "diversity":
            return self._diversity.measure(node.candidate.program)
        return float(len(node.candidate.program.source))

    @staticmethod
    def _bin(scale: Scale, bins: int, value: Feature) -> int:
        if value is None:
            return 0
        scale.learn(value)
        return max(0, min(bins - 1, int(scale.share(value) * bins)))
