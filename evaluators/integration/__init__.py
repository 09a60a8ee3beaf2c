"""Integrals of functions that nobody can look into: correct digits, within so many calls and so much time a problem."""

from progevo.evaluators.integration.score import Integration, Problem

__all__ = ["Integration", "Problem"]
