import numpy as np
from scipy.integrate import solve_ivp


class Solver:
    def solve(self, problem, **kwargs):
        """An explicit Runge-Kutta method of order 5 with small tolerances."""
        n, stiffness = len(problem["angles"]), problem["stiffness"]

        def change(time, state):
            angles = np.concatenate([[0.0], state[:n], [0.0]])
            pull = angles[:-2] + angles[2:] - 2.0 * angles[1:-1]
            return np.concatenate([state[n:], stiffness * pull - np.sin(state[:n])])

        start = np.concatenate([problem["angles"], problem["speeds"]])
        found = solve_ivp(change, (0.0, problem["end"]), start, method="RK45", rtol=1e-9, atol=1e-9)
        return found.y[:, -1]
