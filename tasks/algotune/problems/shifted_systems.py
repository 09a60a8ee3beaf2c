"""Matrix: solves a symmetric positive definite system for many shifts of its diagonal.

A problem is a dict: `matrix` (n x n), `right` (n numbers), `shifts` (96 numbers, none negative). A solution is an
array of 96 x n: row k solves (matrix + shifts[k] * identity) x = right, with a residual of at most 1e-8 times the
norm of `right`.
"""

import numpy as np
from scipy.linalg import solve as solve_system

SHIFTS = 96


def generate_problem(n, random_seed):
    """A matrix of size n with eigenvalues of at least 1."""
    rng = np.random.default_rng(random_seed)
    factor = rng.standard_normal((n, n))
    matrix = factor @ factor.T / n + np.eye(n)
    return {"matrix": matrix, "right": rng.standard_normal(n), "shifts": rng.uniform(0.0, 10.0, SHIFTS)}


def solve(problem):
    """One dense system for each shift."""
    matrix, right = problem["matrix"], problem["right"]
    rows = []
    for shift in problem["shifts"]:
        rows.append(solve_system(matrix + shift * np.eye(len(right)), right))
    return np.array(rows)


def is_solution(problem, solution):
    """Whether every row solves its own system."""
    matrix, right, shifts = problem["matrix"], problem["right"], problem["shifts"]
    if not isinstance(solution, np.ndarray) or solution.shape != (len(shifts), len(right)):
        return False
    if solution.dtype != np.float64:
        return False
    residual = solution @ matrix + shifts[:, None] * solution - right
    return bool(np.all(np.linalg.norm(residual, axis=1) <= 1e-8 * np.linalg.norm(right)))
