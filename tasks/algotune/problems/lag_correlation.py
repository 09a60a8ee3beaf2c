"""Signal: the cross-correlation of two signals at every lag.

A problem is a dict: `left` and `right`, n numbers each. A solution is an array of 2n - 1 numbers: entry k is the sum
over i of left[i + k - (n - 1)] * right[i], where both are there; each to within 1e-9 times the product of the two
norms.
"""

import numpy as np
from scipy.signal import correlate


def generate_problem(n, random_seed):
    """Two signals of n samples, one of them a delayed and noisy copy of the other."""
    rng = np.random.default_rng(random_seed)
    left = np.cumsum(rng.standard_normal(n)) / np.sqrt(n)
    right = np.roll(left, int(rng.integers(1, n))) + rng.standard_normal(n)
    return {"left": left, "right": right}


def solve(problem):
    """Sum by sum."""
    return correlate(problem["left"], problem["right"], mode="full", method="direct")


def is_solution(problem, solution):
    """Whether it agrees with sums that are taken lag by lag."""
    left, right = problem["left"], problem["right"]
    if not isinstance(solution, np.ndarray) or solution.shape != (2 * len(left) - 1,) or solution.dtype != np.float64:
        return False
    expected = np.convolve(left, right[::-1])
    close = 1e-9 * np.linalg.norm(left) * np.linalg.norm(right)
    return bool(np.all(np.abs(solution - expected) <= close))
