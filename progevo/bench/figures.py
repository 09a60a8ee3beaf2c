"""What is said about a series of measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from progevo.types import Json


def spread(values: Sequence[float]) -> dict[str, Json]:
    """Median and 95th percentile (nearest rank)."""
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "p95": ordered[math.ceil(0.95 * len(ordered)) - 1]}
