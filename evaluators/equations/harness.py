"""Runs inside the sandbox: fits the parameters of the candidate's equation to the training rows, and predicts others.

The targets of the rows to predict are not here. What leaves is the ten parameters and one prediction a row, whatever
they are: the host computes every number about them.

Two ways to fit. `least_squares` starts Levenberg and Marquardt's method (scipy.optimize.least_squares) from ones and
from seeded draws on some of the rows, and follows the best of them on all rows. `bfgs` is the protocol of the
LLM-SRBench release (`methods/llmsr/searcher.py`): one run of BFGS on the mean squared error, from ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

#: How many parameters there are; an equation need not use them all.
PARAMETERS = 10
#: Where the fit starts: once from ones, else from draws.
STARTS = 30
#: Rows of a first fit, and how many of the starts go on from there with all rows.
SOME_ROWS, FOLLOWED = 400, 2
#: Relative changes below which a fit ends: a first one, and one that goes on from there.
ROUGH, FINE = 1e-5, 1e-15
#: Calls of the equation in one fit, for each parameter and one more.
PATIENCE = 60
#: The error of a row where the equation has no finite value, in standard deviations of the target.
FAR = 1e8
#: A mean squared error below this, in variances of the target, is as good as none.
ENOUGH = 1e-28


class BadOutput(Exception):
    """What the equation returned is not one real number a row."""


def run(
    entry: Callable[..., Any], request: Mapping[str, Any], inputs: str | os.PathLike[str]
) -> tuple[None, list[list[float]]]:
    """The fitted parameters, then the predictions of every part in `request["predict"]`."""
    columns = int(request["columns"])
    fitted = read(inputs, "fit", columns + 1)
    equation = Equation(entry, fitted[1:])
    fit = {"least_squares": fit_by_starts, "bfgs": fit_by_bfgs}[request["fit"]]
    with np.errstate(all="ignore"):
        params = fit(equation, fitted[0], np.random.default_rng(request["seed"]))
        predictions = [Equation(entry, read(inputs, part, columns))(params).tolist() for part in request["predict"]]
    return None, [params.tolist(), *predictions]


def read(folder: str | os.PathLike[str], part: str, columns: int) -> list[Any]:
    """The columns of a file, as arrays that nobody can write to: their memory is that of a bytes object."""
    with open(os.path.join(folder, f"{part}.f64"), "rb") as file:
        raw = file.read()
    size = len(raw) // columns
    return [np.frombuffer(raw[start : start + size], dtype="<f8") for start in range(0, size * columns, size)]


class Equation:
    """The candidate's equation over the rows of some inputs: a function of its parameters."""

    def __init__(self, entry: Callable[..., Any], columns: list[Any]) -> None:
        self.entry, self.columns = entry, columns
        self.rows = len(columns[0])

    def __call__(self, params: Any) -> Any:
        """One float64 a row. Raises `BadOutput` for anything else: a broadcast would make numbers of what is none."""
        found = self.entry(*self.columns, np.array(params, dtype=np.float64))
        if type(found) is not np.ndarray or found.dtype.kind not in "fiu":
            kind = f"an array of {found.dtype}" if isinstance(found, np.ndarray) else type(found).__name__[:80]
            raise BadOutput(f"the equation must return a numpy array of real numbers, got {kind}")
        if found.shape != (self.rows,):
            raise BadOutput(f"the equation must return one value a row, shape ({self.rows},), got shape {found.shape}")
        return found.astype(np.float64)

    def over(self, chosen: Any) -> Equation:
        """The same over some of the rows."""
        return Equation(self.entry, [np.frombuffer(each[chosen].tobytes(), dtype="<f8") for each in self.columns])


def fit_by_bfgs(equation: Equation, target: Any, rng: Any) -> Any:
    """The benchmark's own fit. Raises `BadOutput` where it ends at a loss that is not finite, as it does there."""
    from scipy.optimize import minimize

    result = minimize(lambda params: np.mean((equation(params) - target) ** 2), np.ones(PARAMETERS), method="BFGS")
    if not np.isfinite(result.fun):
        raise BadOutput("BFGS from ones ended at a mean squared error that is not finite")
    return result.x


def fit_by_starts(equation: Equation, target: Any, rng: Any) -> Any:
    """The best of several fits, by the mean squared error over all rows."""
    rows = np.sort(rng.permutation(equation.rows)[:SOME_ROWS])
    some, some_target = equation.over(rows), target[rows]
    used = parameters_of(some, rng)
    starts = [np.ones(PARAMETERS), *(a_start(rng, some.columns) for _ in range(STARTS - 1))]
    if not used:
        return starts[0]
    first = []
    for start in starts:
        first.append(descend(some, some_target, start, used, ROUGH))
        if first[-1][0] < ENOUGH:
            break
    first.sort(key=lambda found: found[0])
    last = [descend(equation, target, params, used, FINE) for _, params in first[:FOLLOWED]]
    return min(last, key=lambda found: found[0])[1]


def a_start(rng: Any, columns: list[Any]) -> Any:
    """Parameters to start from, each of a kind drawn for itself.

    About one; of either sign and from a tenth to ten; a value of an input, as an offset has; or the inverse of an
    input's size, as a rate has.
    """
    table = np.stack(columns)
    which = rng.integers(0, len(table), PARAMETERS)
    cells = table[which, rng.integers(0, table.shape[1], PARAMETERS)]
    sizes = 10.0 ** rng.uniform(-1.0, 1.0, PARAMETERS) * rng.choice((-1.0, 1.0), PARAMETERS)
    rates = rng.normal(size=PARAMETERS) / np.maximum(np.abs(table).mean(axis=1)[which], 1e-100)
    return np.choose(rng.integers(0, 4, PARAMETERS), [rng.normal(size=PARAMETERS), sizes, cells, rates])


def parameters_of(equation: Equation, rng: Any) -> list[int]:
    """Which parameters make a difference anywhere near three points."""
    used: set[int] = set()
    for point in (np.ones(PARAMETERS), a_start(rng, equation.columns), a_start(rng, equation.columns)):
        before = equation(point)
        for each in set(range(PARAMETERS)) - used:
            moved = point.copy()
            moved[each] += 0.1
            if not np.array_equal(before, equation(moved), equal_nan=True):
                used.add(each)
    return sorted(used)


def descend(equation: Equation, target: Any, start: Any, used: list[int], fine: float) -> tuple[float, Any]:
    """Where Levenberg and Marquardt's method ends: the mean squared error, in variances, and the parameters."""
    from scipy.optimize import least_squares

    scale = target.std()

    def residuals(values: Any) -> Any:
        params = start.copy()
        params[used] = values
        found = (equation(params) - target) / scale
        return np.where(np.abs(found) < FAR, found, FAR)  # NaN is not smaller than anything

    # It needs as many rows as parameters; the reflective method needs none.
    method = "lm" if equation.rows >= len(used) else "trf"
    result = least_squares(
        residuals, start[used], method=method, x_scale="jac", xtol=fine, ftol=fine, gtol=fine,
        max_nfev=PATIENCE * (len(used) + 1) if method == "lm" else PATIENCE,
    )  # fmt: skip
    params = start.copy()
    params[used] = result.x
    return float(np.mean(result.fun**2)), params
