"""Runs inside the sandbox: calls the candidate once to warm up and once to be timed, by a clock that is not in here.

The problem arrives, is read, is solved, and its solution made into bytes and sent, all while the clock runs: an answer
that does its work only when it is looked at has to do it by then.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

_loaded: list[ModuleType] = []


class BadOutput(Exception):
    """What the candidate returned is not plain data."""


def warm_up(inputs: str | os.PathLike[str]) -> None:
    """Loads once, for all candidates that follow, what makes bytes of values."""
    typed_of(inputs)


def typed_of(inputs: str | os.PathLike[str]) -> ModuleType:
    """The module `typed`, which is given as an input."""
    if not _loaded:
        spec = importlib.util.spec_from_file_location("typed", Path(inputs) / "typed.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _loaded.append(module)
    return _loaded[0]


def run(entry: Any, request: Mapping[str, Any], inputs: str | os.PathLike[str], clock: Any) -> tuple[None, list[Any]]:
    """Calls `entry().solve(problem)`, or `entry(problem)` where it is no class. What counts, the clock has seen."""
    typed = typed_of(inputs)
    solve = entry().solve if isinstance(entry, type) else entry
    clock.ready()
    for _ in range(2):
        problem = typed.unpacked(clock.take(), share=True)
        solution = solve(problem)
        try:
            pieces = typed.packed(solution)
        except typed.NotPlain as error:
            raise BadOutput(f"the solution holds {error}") from None
        clock.give(pieces)
    return None, []
