"""A task's options: what its `domain` takes beside `data`, and problems by name for a task that has several.

A task says what it takes by the signature of its function: `domain(*, data=None, problem: str | None = None,
n: int | None = None)` has the options `problem` and `n`. What a person writes is turned into that type.

A task of several problems also defines `problems(which, *, data=None)`, which gives the ids that a word names (one for
a problem, all for a group, the one to run where `which` is `None`), and may define `summarize(results)`.
"""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, TypeAlias

from progevo.errors import ProgevoError, TaskError

Options: TypeAlias = Mapping[str, "str | int | float"]

#: The option that names a problem.
PROBLEM = "problem"
#: What an option may be.
KINDS = (str, int, float)


def typed(task: str, make: Callable[..., Any], given: Options) -> dict[str, str | int | float]:
    """The options that were given, in the types that `domain` (`make`) asks for.

    Raises `TaskError` for an option that the task does not have, and for a value that is not of its type.
    """
    kinds = _kinds(task, make) if given else {}
    found: dict[str, str | int | float] = {}
    for name, value in given.items():
        if name not in kinds:
            has = f"it has {', '.join(kinds)}" if kinds else "it takes none: leave it out"
            raise TaskError(f"the task {task!r} has no option {name!r}; {has}")
        try:
            found[name] = kinds[name](value)
            if kinds[name] is not str and (not math.isfinite(found[name]) or found[name] != float(value)):  # type: ignore[arg-type]
                raise ValueError(value)
        except (ValueError, OverflowError):
            word = {int: "a whole number", float: "a number"}[kinds[name]]
            raise TaskError(f"the option {name} of the task {task!r} is {word}; it was given {value!r}") from None
    return found


def problem_ids(task: str, module: ModuleType, which: str | None, data: Path | None) -> list[str]:
    """The ids of the problems that a word names; none for a task that has no problems.

    Raises `TaskError` for a word that names none, and what the task raises about its data.
    """
    name = getattr(module, "problems", None)
    if not callable(name):
        return []
    try:
        found = list(name(which, data=data))
    except ProgevoError:
        raise
    except Exception as error:
        raise TaskError(f"problems() of the task {task!r} raised {type(error).__name__}: {error}") from error
    if not found or len(set(found)) < len(found) or not all(isinstance(each, str) for each in found):
        raise TaskError(f"problems({which!r}) of the task {task!r} must give at least one id, and each once")
    return found


def _kinds(task: str, make: Callable[..., Any]) -> dict[str, Any]:
    """name -> type, of every option: what takes a keyword alone, of a plain type or none at all."""
    try:
        taken = inspect.signature(make, eval_str=True).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise TaskError(f"the signature of domain() of the task {task!r} cannot be read: {error}") from error
    found = {}
    for each in taken:
        union = isinstance(each.annotation, UnionType) or typing.get_origin(each.annotation) is typing.Union
        kinds = [kind for kind in typing.get_args(each.annotation) if kind is not NoneType] if union else None
        kind = each.annotation if kinds is None else kinds[0] if len(kinds) == 1 else None
        if each.kind is each.KEYWORD_ONLY and each.name != "data" and kind in KINDS:
            found[each.name] = kind
    return found
