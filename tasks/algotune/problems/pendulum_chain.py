"""ODE: a chain of coupled pendulums, and where they are in the end.

A problem is a dict: `angles` and `speeds` (n numbers each, at time 0), `stiffness`, `end`. Each pendulum obeys
angle'' = -sin(angle) + stiffness * (left neighbour's angle + right neighbour's angle - 2 * angle), with a missing
neighbour at angle 0. A solution is an array of 2n numbers, the angles and then the speeds at time `end`, each to
within 1e-5.
"""

import numpy as np
from scipy.integrate import solve_ivp


def generate_problem(n, random_seed):
    """n pendulums that swing widely, none of them over the top at first."""
    rng = np.random.default_rng(random_seed)
    return {
        "angles": rng.uniform(-1.5, 1.5, n),
        "speeds": rng.uniform(-0.5, 0.5, n),
        "stiffness": float(rng.uniform(0.5, 1.0)),
        "end": 20.0,
    }


def solve(problem):
    """An explicit Runge-Kutta method of order 5 with small tolerances."""
    n, stiffness = len(problem["angles"]), problem["stiffness"]

    def change(time, state):
        angles = np.concatenate([[0.0], state[:n], [0.0]])
        pull = angles[:-2] + angles[2:] - 2.0 * angles[1:-1]
        return np.concatenate([state[n:], stiffness * pull - np.sin(state[:n])])

    start = np.concatenate([problem["angles"], problem["speeds"]])
    found = solve_ivp(change, (0.0, problem["end"]), start, method="RK45", rtol=1e-9, atol=1e-9)
    return found.y[:, -1]


def is_solution(problem, solution):
    """Whether it agrees with a method of order 8 with far smaller tolerances."""
    n, stiffness = len(problem["angles"]), problem["stiffness"]
    if not isinstance(solution, np.ndarray) or solution.shape != (2 * n,) or solution.dtype != np.float64:
        return False

    def change(time, state):
        force = -np.sin(state[:n]) - 2.0 * stiffness * state[:n]
        force[1:] += stiffness * state[: n - 1]
        force[:-1] += stiffness * state[1:n]
        return np.concatenate([state[n:], force])

    start = np.concatenate([problem["angles"], problem["speeds"]])
    exact = solve_ivp(change, (0.0, problem["end"]), start, method="DOP853", rtol=1e-12, atol=1e-12)
    return bool(exact.success and np.all(np.abs(solution - exact.y[:, -1]) <= 1e-5))
