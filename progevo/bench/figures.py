"""What is said about a series of measurements."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from progevo.types import Json

T = TypeVar("T")


class Cost(NamedTuple):
    """Seconds that something took."""

    wall_s: float
    cpu_s: float

    def and_then(self, other: Cost) -> Cost:
        """The cost of both."""
        return Cost(self.wall_s + other.wall_s, self.cpu_s + other.cpu_s)


def spread(values: Sequence[float]) -> dict[str, Json]:
    """Median and 95th percentile (nearest rank)."""
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "p95": ordered[math.ceil(0.95 * len(ordered)) - 1]}


def timed(call: Callable[[], T]) -> tuple[T, Cost]:
    """What the call returned, and its cost in this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, Cost(time.perf_counter() - wall, time.process_time() - cpu)


def cost_spread(costs: Sequence[Cost]) -> dict[str, Json]:
    """How many pairs of ask and tell these are, and the spread of their wall and CPU time in milliseconds."""
    return {
        "pairs": len(costs),
        "wall_ms": spread([1000 * cost.wall_s for cost in costs]),
        "cpu_ms": spread([1000 * cost.cpu_s for cost in costs]),
    }
