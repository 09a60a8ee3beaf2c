"""Runs inside the sandbox: calls the candidate once per case, and makes plain data of what it returns.

What crosses the wire is one JSON value and one flat array of floats. Floats travel in the array, in the order in which
they are met, because JSON has no NaN and no infinity and both must reach the host as what they are. In the JSON value:

    None, True, 7, "text"   stand for themselves
    [...]                   a list (or tuple)
    {}                      the next float of the array
    {"floats": n}           a list of the next n floats
    {"dict": {...}}         a dict

The host reads it back in `score.plain`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

#: Deeper nesting is refused; a list that contains itself is infinitely deep.
MAX_DEPTH = 100
#: Whole numbers stay exact on any wire up to this size.
INT_BITS = 63


class BadOutput(Exception):
    """What the candidate returned is not plain data."""


def run(
    entry: Callable[[Any], Any], request: Mapping[str, Any], inputs: str | os.PathLike[str]
) -> tuple[list[Any], list[list[float]]]:
    """Calls `entry(argument)` for every case, one after another, in this process."""
    numbers: list[float] = []
    outputs = []
    for case, argument in enumerate(request["cases"]):
        answer = entry(argument)
        try:
            outputs.append(_packed(answer, numbers, 0))
        except BadOutput as error:
            raise BadOutput(f"case {case}: {error}") from None
        except MemoryError:
            raise
        except Exception as error:  # the answer's own methods may do anything
            raise BadOutput(f"case {case}: the answer could not be read: {_kind(error)}") from error
    return outputs, [numbers]


def _packed(value: Any, numbers: list[float], depth: int) -> Any:
    """The JSON value for one answer; its floats are appended to `numbers`.

    Types are compared exactly: a subclass of list or float may answer differently each time it is asked.
    """
    if depth > MAX_DEPTH:
        raise BadOutput(f"the answer is nested more than {MAX_DEPTH} deep, or contains itself")
    value = _without_numpy(value)
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is float:
        numbers.append(value)
        return {}
    if kind is int:
        if value.bit_length() > INT_BITS:
            raise BadOutput(f"a whole number needs more than {INT_BITS} bits; return it as a float or a string")
        return value
    if kind is str:
        return _text(value)
    if kind is list or kind is tuple:
        if value and all(type(item) is float for item in value):
            numbers.extend(value)
            return {"floats": len(value)}
        return [_packed(item, numbers, depth + 1) for item in value]
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise BadOutput(f"the keys of a dict must be strings, got {_kind(key)}")
        return {"dict": {_text(key): _packed(item, numbers, depth + 1) for key, item in value.items()}}
    raise BadOutput(
        f"the answer must be made of numbers, strings, booleans, None, lists, tuples, dicts and numpy arrays, "
        f"got {_kind(value)}"
    )


def _without_numpy(value: Any) -> Any:
    numpy = sys.modules.get("numpy")  # a candidate that returns a numpy object has imported numpy
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return value
    if value.dtype.kind == "f":
        # The widest floats have no Python twin, and .tolist() would leave them as they are.
        return value.astype(numpy.float64).tolist()
    if value.dtype.kind in "biuUO":
        return value.tolist()
    raise BadOutput(f"the answer must be made of real numbers and strings, got numpy's {value.dtype}")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadOutput("a string holds half of a surrogate pair, which is no character") from None
    return value


def _kind(value: object) -> str:
    name = type(value).__name__[:80]
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
