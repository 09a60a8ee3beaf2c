"""Gauss's hypergeometric function 2F1 at real a, b, c and z < 1."""

from scipy import special


def hyp2f1(a, b, c, z):
    """The value, as a float."""
    return float(special.hyp2f1(a, b, c, z))
