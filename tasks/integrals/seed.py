"""Integrals over finite and infinite intervals, of functions that can only be called."""

from scipy.integrate import quad


def integrate(f, a, b):
    """The integral of f from a to b, as a float."""
    return quad(f, a, b)[0]
