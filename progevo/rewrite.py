"""Rewriting a program by its concrete syntax tree: what the mutator's operators and a domain's moves share.

Everything outside the changed place, comments and layout included, stays as it was to the byte.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

#: Longer texts are not rewritten: reading 100 kB already takes about a second, and no gate lets more pass.
MAX_CHARACTERS = 100_000

#: The file name under which candidates are parsed: the gate keeps Python's warnings about it quiet.
FILE = "<candidate>"

#: What parsing or walking a hostile text may raise; a plain ValueError covers NUL bytes and lone surrogates.
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, SystemError, cst.ParserSyntaxError)

#: Changes one thing in a tree; `None` where it does not apply.
Change: TypeAlias = Callable[[cst.Module, random.Random], cst.Module | None]


def parse(source: str) -> cst.Module | None:
    """The concrete tree of a text, `None` for a text that is no Python program of a sensible size.

    Python's own parser goes first because it refuses deep nesting where libcst's ends the whole process.
    """
    if len(source) > MAX_CHARACTERS:
        return None
    try:
        ast.parse(source, FILE)
        tree = cst.parse_module(source)
        return tree if tree.code == source else None
    except UNREADABLE:
        return None


@dataclass(frozen=True, slots=True)
class TreeRewrite:
    """A change to a tree as a rewrite of texts (`progevo.types.Rewrite`): never raises on a program's account."""

    change: Change

    def __call__(self, source: str, rng: random.Random, /) -> str | None:
        tree = parse(source)
        if tree is None:
            return None
        try:
            changed = self.change(tree, rng)
            code = None if changed is None else changed.code
        except RecursionError:  # a tree that could be read may still be too deep to walk
            return None
        return None if code == source else code


def put(tree: cst.Module, old: cst.CSTNode, new: cst.CSTNode) -> cst.Module:
    """The tree with one of its own nodes replaced."""
    changed = tree.deep_replace(old, new)
    assert isinstance(changed, cst.Module)
    return changed


def statements(text: str) -> list[cst.BaseStatement]:
    """The statements of a snippet, leading comments with them, ready to go into any suite."""
    # A comment at the very top would become the module's header: let it follow a statement instead.
    return list(cst.parse_module(f"pass\n{text}").body[1:])


def with_import(tree: cst.Module, module: str, name: str = "") -> cst.Module:
    """The tree with `from module import name` after its last import; without a name, `import module` ("numpy as np").

    The same tree where it has that import already, alone or in a longer list.
    """
    found = [
        (index, small)
        for index, statement in enumerate(tree.body)
        if isinstance(statement, cst.SimpleStatementLine)
        for small in statement.body
        if isinstance(small, cst.Import | cst.ImportFrom)
    ]
    if any(imports(tree, statement, module, name) for _, statement in found):
        return tree
    after = found[-1][0] + 1 if found else int(tree.get_docstring() is not None)
    line = f"from {module} import {name}\n" if name else f"import {module}\n"
    return tree.with_changes(body=[*tree.body[:after], *statements(line), *tree.body[after:]])


def imports(tree: cst.Module, statement: cst.Import | cst.ImportFrom, module: str, name: str) -> bool:
    """Whether an import statement binds what `with_import(tree, module, name)` would."""
    if isinstance(statement.names, cst.ImportStar):
        return False
    listed = {tree.code_for_node(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for alias in statement.names}
    if isinstance(statement, cst.Import):
        return not name and module in listed
    origin = "" if statement.module is None else tree.code_for_node(statement.module)
    return bool(name) and origin == module and not statement.relative and name in listed
