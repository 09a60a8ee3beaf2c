"""Small changes that make sense for programs of this task, for the offline mutator. A move changes one thing.

A move gets a program's text and a generator to draw from; it returns the changed text, or None where it does not apply.
Beside these the mutator has moves that know only Python: they change numbers, operators and the order of statements.
"""

from __future__ import annotations

import random
import re

from progevo import Move


def set_window(source: str, rng: random.Random) -> str | None:
    """Draws how many neighbours count."""
    return changed(source, r"WINDOW = \d+", f"WINDOW = {rng.randint(1, 8)}")


def take_median(source: str, rng: random.Random) -> str | None:
    """Takes the middle value of the neighbours in place of their mean."""
    return changed(source, r"sum\(near\) / len\(near\)", "sorted(near)[len(near) // 2]")


def smooth_twice(source: str, rng: random.Random) -> str | None:
    """Takes the mean with both neighbours once more at the end."""
    text = "[sum(smoothed[max(0, n - 1) : n + 2]) / len(smoothed[max(0, n - 1) : n + 2]) for n in range(len(smoothed))]"
    return changed(source, r"return smoothed$", f"return {text}")


def changed(source: str, pattern: str, text: str) -> str | None:
    """The source with the first place that a pattern matches replaced."""
    new = re.sub(pattern, text, source, count=1, flags=re.MULTILINE)
    return None if new == source else new


MOVES = (
    Move(name="set-window", rewrite=set_window, about="Draws how many neighbours count."),
    Move(name="take-median", rewrite=take_median, about="Takes the median of the neighbours in place of their mean."),
    Move(name="smooth-twice", rewrite=smooth_twice, about="Smooths once more at the end."),
)
