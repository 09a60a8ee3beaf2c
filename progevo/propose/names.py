"""Which names a program binds, and which it reads without binding them."""

from __future__ import annotations

import ast
import builtins


def defined(tree: ast.Module) -> set[str]:
    """The names of a module's own functions, classes and plain variables."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom):
            found |= bindings(node)
    return found


def unbound(tree: ast.AST) -> set[str]:
    """The names that a program reads and binds nowhere, built-in ones aside."""
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return read - bindings(tree) - set(dir(builtins))


def bindings(tree: ast.AST) -> set[str]:
    """The names that are bound anywhere below a node."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=alias):
                found.add(alias or name.partition(".")[0])
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                found.add(name)
    return found
