"""Runs inside the sandbox: trains and predicts with the candidate, and makes plain floats of what it returns.

The truth is not here, and nothing here is trusted: the host checks and scores whatever comes out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

#: Rows that `warm_up` reads.
WARM_UP_ROWS = 200


class BadOutput(Exception):
    """What the candidate returned is not one flat sequence of real numbers."""


def run(
    entry: Callable[[str, str], Any], request: Mapping[str, Any], inputs: str | os.PathLike[str]
) -> tuple[dict[str, Any], list[list[float]]]:
    """Calls `entry(train_path, test_path)`; returns the number of predictions, and the predictions."""
    answer = entry(os.path.join(inputs, "train.csv"), os.path.join(inputs, "test.csv"))
    predictions = floats(answer)
    return {"predictions": len(predictions)}, [predictions]


def warm_up(inputs: str | os.PathLike[str]) -> None:
    """Once in a zygote, before any candidate: reads some rows and fits a small model to them, as candidates do.

    What the packages import late and keep for later is then there for every child. Nothing else is kept. Never
    raises: where a package or the file is missing, nothing is warmed up.
    """
    try:
        import pandas
        from sklearn.linear_model import LinearRegression

        rows = pandas.read_csv(os.path.join(inputs, "train.csv"), nrows=WARM_UP_ROWS).select_dtypes("number").dropna()
        features, target = rows.iloc[:, :-1], rows.iloc[:, -1]
        LinearRegression().fit(features, target).predict(features)
    except Exception:
        return


def floats(answer: object) -> list[float]:
    """Plain floats from a list, a tuple, a one-dimensional numpy array or a pandas Series of real numbers.

    Anything else is refused, lazy objects and subclasses of list among it. NaN and infinities pass: it is
    the host that refuses them.
    """
    try:
        values = _values(answer)
        return [_float(value, row) for row, value in enumerate(values)]
    except (BadOutput, MemoryError):
        raise
    except Exception as error:  # the answer's own methods may do anything
        raise BadOutput(f"the answer could not be turned into numbers: {_kind(error)}") from error


def _values(answer: object) -> list[Any] | tuple[Any, ...]:
    # A candidate that returns a numpy or pandas object has imported the package; for others it is not loaded.
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if pandas is not None and isinstance(answer, pandas.Series):
        answer = answer.to_numpy()
    if numpy is not None and isinstance(answer, numpy.ndarray):
        if answer.ndim != 1:
            # An (n, 1) array minus n values would be n x n values: never guess what was meant.
            hint = "; flatten it with .ravel()" if 1 in answer.shape else ""
            raise BadOutput(f"predictions must have one dimension, got an array of shape {answer.shape}{hint}")
        if answer.dtype.kind in "mM":  # .tolist() would make bare integers of most times and dates
            raise BadOutput(f"predictions must be real numbers, got an array of {answer.dtype}")
        answer = answer.tolist()
    if type(answer) is list or type(answer) is tuple:
        return answer
    raise BadOutput(
        "predictions must be a list, a tuple, a one-dimensional numpy array or a pandas Series, got " + _kind(answer)
    )


def _float(value: object, row: int) -> float:
    if type(value) is float:
        return value
    numpy = sys.modules.get("numpy")
    # Exact types: a bool is an int to Python, and a subclass may answer differently each time it is asked.
    if type(value) is int or (numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "iuf"):
        try:
            return float(value)
        except OverflowError:
            raise BadOutput(f"prediction {row} is a whole number too large for a float") from None
    raise BadOutput(f"prediction {row} must be a real number, got {_kind(value)}")


def _kind(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__name__[:80]
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
