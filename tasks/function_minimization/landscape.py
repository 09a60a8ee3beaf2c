"""The function of OpenEvolve's `examples/function_minimization` (commit 411fb59), moved by an offset.

Stands alone: the answering process loads this file by its path. It never enters a sandbox.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

#: Where the unmoved function is least on the plane, and its value: the example's (-1.704, 0.678, -1.519), refined.
MINIMUM = (-1.7040828390594565, 0.6775078086259533, -1.5186858408485788)


def function(offset: Sequence[float]) -> Callable[[float, float], float]:
    """f(x, y) = sin(x) cos(y) + sin(x y) + (x^2 + y^2) / 20, with its origin at the offset."""
    dx, dy = offset

    def f(x: float, y: float) -> float:
        x, y = x - dx, y - dy
        return math.sin(x) * math.cos(y) + math.sin(x * y) + (x * x + y * y) / 20

    return f
