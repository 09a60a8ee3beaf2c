"""One program for many problems of equation discovery: it finds the formulas, the host computes what they are worth."""

from progevo.evaluators.discovery.score import LOST, SOLVED, Discovery

__all__ = ["LOST", "SOLVED", "Discovery"]
