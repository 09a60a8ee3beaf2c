"""Runs inside the sandbox: calls the candidate once an integral, each with a function that is answered outside.

An integral for which it raises, or returns anything but one real number, or takes too long, becomes NaN: one bad
integral does not take the others along. Where none gives a number, that is the program's failure, with the first cause.

The two clocks here end a program's work on one integral, politely: they stand in the candidate's own process, which may
stop them. Every value is handed in before the next integral is touched. How often an integrand was called, and what the
integral cost on both sides until its value was handed in, is counted outside. No time is part of the answer, for the
same program is to give the same answer.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

#: After the first ring a clock goes on ringing, for programs that catch everything.
AGAIN_S = 0.05


class BadOutput(Exception):
    """What the candidate returned is no real number, for any integral."""


class TimeUp(BaseException):
    """The time for one integral is over; no `except Exception` holds it up."""


def run(
    entry: Callable[..., Any], request: Mapping[str, Any], inputs: str | os.PathLike[str], box: Any
) -> tuple[list[int], list[list[float]]]:
    """Calls `entry(f, a, b)` for every integral: those that a clock has ended, and a value for each."""

    def ring(signum: int, frame: object) -> None:
        box.interrupt(TimeUp("the time for one integral is over"))

    signal.signal(signal.SIGPROF, ring)
    signal.signal(signal.SIGALRM, ring)
    values, ended = [], []
    failures: list[BaseException] = []
    for number, (a, b) in enumerate(request["intervals"]):
        value, failure = math.nan, None
        try:
            try:
                signal.setitimer(signal.ITIMER_PROF, request["cpu_s"], AGAIN_S)
                signal.setitimer(signal.ITIMER_REAL, request["wall_s"], AGAIN_S)
                value = _number(entry(box.problem(number), float(a), float(b)))
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0.0)
                signal.setitimer(signal.ITIMER_REAL, 0.0)
        except (Exception, TimeUp) as error:  # a list that is too large for the memory costs its integral alone
            value, failure = math.nan, error
        box.hand_in(number, value)
        values.append(value)
        if isinstance(failure, TimeUp):
            ended.append(number)
        if failure is not None:
            failures.append(failure)
            if len(failures) == 1:
                print(f"integral {number}: {type(failure).__name__}: {str(failure)[:300]}", file=sys.stderr)
    if len(failures) == len(values):
        first = failures[0]
        raise TimeoutError("the time was up for every integral") if isinstance(first, TimeUp) else first
    return ended, [values]


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
