"""Runs inside the sandbox: asks the candidate for a formula for each problem, from the rows that it may learn from.

A problem for which it raises, or returns no text, or takes too long, has none: one bad problem does not take the others
along. Where no problem has a formula, that is the program's failure, with the first cause. What is returned is text; it
is read, and its values are computed, by the host.

The clock here ends a program's work on one problem. It stands in the candidate's own process, which may stop it; that
all of it together ends in time, the host sees to by itself.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

#: After the first ring the clock goes on ringing, for programs that catch everything.
AGAIN_S = 0.05
#: Longer texts are cut, one character beyond what the host reads.
MAX_CHARACTERS = 10_001


class BadOutput(Exception):
    """What the candidate returned is no text, for any problem."""


class TimeUp(BaseException):
    """The time for one problem is over; no `except Exception` holds it up."""


def run(
    entry: Callable[..., Any], request: Mapping[str, Any], inputs: str | os.PathLike[str]
) -> tuple[list[str | None], list[list[float]]]:
    """Calls `entry(x, y, spec)` for every problem: its formulas, `None` where there is none."""
    signal.signal(signal.SIGPROF, _ring)
    formulas: list[str | None] = []
    failures: list[BaseException] = []
    for number, spec in enumerate(request["problems"]):
        x, y = read(inputs, f"{number}.f64", len(spec["inputs"]))
        formula, failure = None, None
        try:
            try:
                signal.setitimer(signal.ITIMER_PROF, request["cpu_s"], AGAIN_S)
                formula = entry(
                    x, y, {"inputs": [*spec["inputs"]], "output": spec["output"], "about": {**spec["about"]}}
                )
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0.0)
            if type(formula) is not str:
                raise BadOutput(f"the formula must be a text, got {type(formula).__name__[:80]}")
        except (Exception, TimeUp) as error:
            formula, failure = None, error
        formulas.append(None if formula is None else formula[:MAX_CHARACTERS])
        if failure is not None:
            failures.append(failure)
            if len(failures) == 1:
                print(f"problem {number}: {type(failure).__name__}: {str(failure)[:300]}", file=sys.stderr)
    if len(failures) == len(formulas):
        first = failures[0]
        raise TimeoutError("the time was up for every problem") if isinstance(first, TimeUp) else first
    return formulas, []


def read(folder: str | os.PathLike[str], name: str, columns: int) -> tuple[Any, Any]:
    """Inputs of shape (rows, columns) and targets, both of which nobody can write to: their memory is that of bytes."""
    with open(os.path.join(folder, name), "rb") as file:
        table = np.frombuffer(file.read(), dtype="<f8").reshape(columns + 1, -1)
    return table[1:].T, table[0]


def _ring(signum: int, frame: object) -> NoReturn:
    raise TimeUp("the time for one problem is over")
