"""OpenEvolve's own tasks: an initial program and an evaluator, as their users have them, as a `Domain`.

The evaluator loads the candidate itself, so that both share one sandboxed process, and what it says of the candidate
is self-reported. Nothing of either file is ever imported on the host.
"""

from progevo.openevolve.pair import IMPORTED, Pair, read_pair

__all__ = ["IMPORTED", "Pair", "read_pair"]
