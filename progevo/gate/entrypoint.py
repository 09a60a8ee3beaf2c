"""Whether a program defines the entry point that its task calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from progevo.gate.verdict import Finding, short

_NOT_CALLABLE = (
    *(ast.Constant, ast.JoinedStr, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp),
    ast.GeneratorExp,
)


def entrypoint_findings(tree: ast.Module, entrypoint: str, others: Iterable[str] = ()) -> Iterator[Finding]:
    """Nothing if the last binding of the entry point outside functions and classes can be called, or that of another.

    Without an entry point (an imported pair, where only its evaluator knows) any program but an empty one will do.
    """
    if any(not [*entrypoint_findings(tree, other)] for other in others):
        return
    binding = last_binding(tree, entrypoint)
    name = short(entrypoint)
    if not tree.body:
        yield Finding(line=0, rule="entrypoint", message=f"the program is empty; define a function {name}")
    elif not entrypoint:
        return
    elif binding is None:
        words = " or ".join(map(short, (entrypoint, *others)))
        message = f"the program does not define {words}; define it at the top level"
        yield Finding(line=0, rule="entrypoint", message=message)
    elif isinstance(binding, ast.AsyncFunctionDef):
        message = f"{name} is a coroutine function (async def); write a plain def"
        yield Finding(line=binding.lineno, rule="entrypoint", message=message)
    elif isinstance(binding, (ast.Assign, ast.AnnAssign)) and isinstance(binding.value, _NOT_CALLABLE):
        message = f"{name} is bound to a plain value; it must be a function"
        yield Finding(line=binding.lineno, rule="entrypoint", message=message)


def entrypoint_of(source: str, entrypoint: str, others: Iterable[str]) -> str:
    """The first of these names that a program binds, the entry point where none; for texts that have passed."""
    names = (entrypoint, *others)
    tree = ast.parse(source) if len(names) > 1 else ast.Module(body=[], type_ignores=[])
    return next((name for name in names if last_binding(tree, name) is not None), entrypoint)


def last_binding(tree: ast.Module, name: str) -> ast.stmt | None:
    """The last statement outside functions and classes that binds a name."""
    binding: ast.stmt | None = None
    for statement in _top_level(tree.body):
        if _binds(statement, name):
            binding = statement
    return binding


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run in the module's own scope, in source order, also inside if, try, with and loops."""
    waiting = [iter(body)]
    while waiting:
        statement = next(waiting[-1], None)
        if statement is None:
            waiting.pop()
            continue
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            children = [*ast.iter_child_nodes(statement)]
            inner = [grandchild for child in children for grandchild in _clause_body(child)]
            waiting.append(iter(inner))


def _clause_body(node: ast.AST) -> list[ast.stmt]:
    """A statement itself, or the statements of an except or case clause."""
    if isinstance(node, ast.stmt):
        return [node]
    return node.body if isinstance(node, (ast.ExceptHandler, ast.match_case)) else []


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement itself binds a name."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return statement.name == name
        case ast.Import() | ast.ImportFrom():
            return any((alias.asname or alias.name) == name for alias in statement.names)
        case ast.Assign():
            targets = statement.targets
        case ast.AnnAssign(value=ast.expr()):
            targets = [statement.target]
        case _:
            return False
    names = (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    return any(node.id == name and isinstance(node.ctx, ast.Store) for node in names)
