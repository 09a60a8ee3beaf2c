"""Runs inside the sandbox: calls the candidate once a trial, each with an objective of its own, answered outside.

A trial that raises has failed, and the next one runs. What crosses the wire: for each trial `None` or, in words, why
there is no point; and the points, x and y in turn, NaN where there is none. The host decides what they are worth.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

NOTHING = float("nan")


class BadOutput(Exception):
    """What the candidate returned is not a point."""


def run(
    entry: Callable[..., Any], request: Mapping[str, Any], inputs: str | os.PathLike[str], box: Any
) -> tuple[list[str | None], list[list[float]]]:
    """Calls `entry(objective, bounds, budget, seed)` for every trial, one after another, in this process."""
    reasons: list[str | None] = []
    points: list[float] = []
    for number, seed in enumerate(request["seeds"]):
        reason, point = None, (NOTHING, NOTHING)
        try:
            point = _point(entry(box.problem(number), tuple(request["bounds"]), request["budget"], seed))
        except MemoryError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:200]
        reasons.append(reason)
        points += point
    return reasons, [points]


def _point(answer: Any) -> tuple[float, float]:
    """The two numbers. Types are compared exactly: a subclass may answer differently each time it is asked."""
    if type(answer) not in (tuple, list) or [type(each) in (float, int) for each in answer] != [True, True]:
        raise BadOutput(f"the answer must be two numbers (x, y), got {_kind(answer)}")
    x, y = answer
    return float(x), float(y)


def _kind(value: Any) -> str:
    kind = type(value).__name__[:80]
    return f"{kind} of {[type(each).__name__[:80] for each in value[:3]]}" if type(value) in (tuple, list) else kind
