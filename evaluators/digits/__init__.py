"""A function of real numbers, point by point: how many correct digits, against values that stay on the host."""

from progevo.evaluators.digits.score import LOST, MOST, SOLVED, Digits, Known, digits

__all__ = ["LOST", "MOST", "SOLVED", "Digits", "Known", "digits"]
