"""Excerpt: of a task's text what its `solve` needs, as a program with a class Solver, for a search to start from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from progevo.errors import TaskError

#: Methods of a task that no solver has any use for.
LEFT_OUT = ("generate_problem", "is_solution")
FRAMEWORK, NAME = "AlgoTuneTasks", "Solver"


def solver(source: str) -> str:
    """The program. What generates problems and what checks solutions is left out, unless the solver uses it too.

    Raises `TaskError` for a text without a class that has a `solve`.
    """
    source = _renamed(source)
    tree = ast.parse(source)
    task = next((node for node in tree.body if isinstance(node, ast.ClassDef) and "solve" in _methods(node)), None)
    if task is None:
        raise TaskError("its file has no class with a method solve")
    kept = _reached(task)
    used = _names(kept)
    top = [node for node in tree.body if _is_future(node)]  # holds for all of the text
    while True:
        more = [node for node in tree.body if node is not task and node not in top and set(_binds(node)) & used]
        if not more:
            break
        top += more
        used |= _names(more)
    imports = [node for node in tree.body if node in top and isinstance(node, ast.Import | ast.ImportFrom)]
    lines = [_import(node, used) for node in imports if not _of_framework(node)]
    parts = ["\n".join(lines)] if lines else []
    parts += [_text(source, node) for node in tree.body if node in top and node not in imports]
    members = [_member(source, node) for node in task.body if node in kept]
    parts.append("class Solver:\n" + "\n\n".join(member for member in members if member))
    if task.name in used:
        parts.append(f"{task.name} = Solver")
    return "\n\n\n".join(parts) + "\n"


def _renamed(source: str) -> str:
    """The text with another name for what it calls Solver itself, such as a class that it imports."""
    places = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.alias) and (node.asname or node.name) == NAME:
            places.append((node.lineno, node.col_offset, f"{node.name} as Its{NAME}", node.end_col_offset))
        elif isinstance(node, ast.Name) and node.id == NAME:
            places.append((node.lineno, node.col_offset, f"Its{NAME}", node.end_col_offset))
    lines = source.encode().split(b"\n")
    for line, start, text, end in sorted(places, reverse=True):
        lines[line - 1] = lines[line - 1][:start] + text.encode() + lines[line - 1][end:]
    return b"\n".join(lines).decode()


def _methods(task: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in task.body if isinstance(node, ast.FunctionDef)}


def _reached(task: ast.ClassDef) -> list[ast.stmt]:
    """What of a class `solve` and `__init__` can reach: methods and values by name, and so on from there."""
    members = {name: node for node in task.body for name in _binds(node)}
    waiting, reached = ["__init__", "solve"], []
    while waiting:
        node = members.pop(waiting.pop(), None)
        if node is None or node in reached:
            continue
        reached.append(node)
        attributes = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        waiting += sorted((attributes | _names([node])) & members.keys())
    return reached


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def _binds(node: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a module or class binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif not isinstance(node, ast.Expr):
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                yield each.id
            elif isinstance(each, ast.Import | ast.ImportFrom):
                yield from _binds(each)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _of_framework(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == FRAMEWORK


def _import(node: ast.stmt, used: set[str]) -> str:
    """An import statement with those of its names that are used; one of a future holds for all."""
    assert isinstance(node, ast.Import | ast.ImportFrom)
    names = [
        alias for alias in node.names if _is_future(node) or (alias.asname or alias.name.partition(".")[0]) in used
    ]
    kind = ast.Import(names=names) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, names, node.level)
    return ast.unparse(kind)


def _text(source: str, node: ast.stmt) -> str:
    """A statement as it stands, decorators and all, to the end of its last line."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def _member(source: str, node: ast.stmt) -> str:
    """A member of the class; `__init__` without the call of the framework's own, empty where nothing is left of it."""
    if not (isinstance(node, ast.FunctionDef) and node.name == "__init__"):
        return _text(source, node)
    body = [each for each in node.body if not _is_super(each) and not isinstance(each, ast.Pass)]
    if ast.get_docstring(node) is not None:
        body = body[1:]
    if not body:
        return ""
    left = ast.FunctionDef(node.name, node.args, body, node.decorator_list, node.returns, lineno=node.lineno)
    return "\n".join(f"    {line}" for line in ast.unparse(left).splitlines())


def _is_super(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("super().__init__(")
