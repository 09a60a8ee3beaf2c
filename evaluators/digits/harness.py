"""Runs inside the sandbox: calls the candidate at every point, and makes a float of whatever number it returns.

A point where it raises, or returns anything but one real number, becomes NaN: one bad point does not take the others
along. Where no point gives a number, that is the program's failure, with the first cause.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any


class BadOutput(Exception):
    """What the candidate returned is no real number, anywhere."""


def run(
    entry: Callable[..., Any], request: Mapping[str, Any], inputs: str | os.PathLike[str]
) -> tuple[int, list[list[float]]]:
    """Calls `entry(*point)` for every point; how many gave no number, and one float a point."""
    values = []
    failures: list[Exception] = []
    for point in request["points"]:
        try:
            values.append(_number(entry(*point)))
        except MemoryError:
            raise  # a limit is no matter of one point
        except Exception as error:  # the answer's own methods may do anything, too
            values.append(math.nan)
            failures.append(error)
            if len(failures) == 1:
                print(f"at {tuple(point)}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
    if failures and len(failures) == len(values):
        raise failures[0]
    return len(failures), [values]


def _number(value: Any) -> float:
    """The value as a float. Types are compared exactly: a subclass may answer differently each time it is asked."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        if value.dtype.kind not in "fiu" or value.shape != ():
            raise BadOutput(f"the answer must be one real number, got numpy's {value.dtype} of shape {value.shape}")
        return float(value)
    if type(value) is not float and type(value) is not int:
        raise BadOutput(f"the answer must be one real number, got {type(value).__name__[:80]}")
    return float(value)
