"""Equations with free parameters: fitted to samples inside the sandbox, scored by NMSE on the host."""

from progevo.evaluators.equations.problem import Problem, Samples
from progevo.evaluators.equations.score import FITS, Equations

__all__ = ["FITS", "Equations", "Problem", "Samples"]
