"""Minimization: find the least value of a function that can only be called, so often and no more."""

from progevo.evaluators.minimization.score import Minimization, Minimum, Trial

__all__ = ["Minimization", "Minimum", "Trial"]
