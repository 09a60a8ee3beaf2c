"""Names of variables as arguments of a function, whatever a benchmark calls them, and formulas in these names."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from progevo.evaluators.equations.expression import Expression, NotAnExpression, parse

#: What programs call something else.
TAKEN = frozenset({"params", "np", "numpy", "math", "equation", "discover"})


def arguments(symbols: Sequence[str]) -> tuple[str, ...]:
    """One name for each symbol, no two the same: `$\\omega_0$` becomes `omega_0`, `lambda` becomes `lambda_`."""
    found: list[str] = []
    for symbol in symbols:
        name = re.sub(r"\W+", "_", symbol.replace("\\text", "").strip("$ ").replace("\\", ""), flags=re.ASCII)
        name = name.strip("_") or "x"
        if name[0].isdigit():
            name = f"x{name}"
        while keyword.iskeyword(name) or name in TAKEN or name in found:
            name += "_"
        found.append(name)
    return tuple(found)


def truth(text: str, symbols: Sequence[str], names: Sequence[str]) -> Expression | None:
    """The expression of a text in a benchmark's symbols; `None` where it is not one that can be computed."""
    for symbol, name in zip(symbols, names, strict=True):
        if symbol != name:  # no Python name, such as `lambda`
            text = re.sub(rf"(?<!\w){re.escape(symbol)}(?!\w)", name, text)
    try:
        return parse(text, {name: name for name in names})
    except NotAnExpression:
        return None
