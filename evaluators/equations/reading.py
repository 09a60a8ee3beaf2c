"""Reading: the formula that an equation program computes, with its fitted parameters in place.

A function of plain lines is followed as a reader would: names are bound to formulas, and what it returns is one. What
goes beyond that (a loop, a condition, a call of a helper) has no formula here, and the reason says so.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from progevo.evaluators.equations.expression import (
    BINARY,
    CONSTANTS,
    Expression,
    NotAnExpression,
    applied,
    function_name,
    named,
    number,
    read,
)

#: What numpy and math may be called in a program.
_MODULES = ("numpy", "math")


def formula_of(source: str, entrypoint: str, inputs: Sequence[str], params: Sequence[float]) -> Expression:
    """The formula of a program's equation in the names of `inputs`, whatever the program calls them.

    Args:
        source: the program's text, which the gate has passed.
        entrypoint: the name of the function.
        inputs: the names of the inputs, in the order of its arguments.
        params: what its last argument holds.

    Raises `NotAnExpression` where it computes by anything but plain lines of formulas.
    """
    tree = ast.parse(source, filename="<candidate>")
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == entrypoint]
    if len(functions) != 1 or functions[0].decorator_list:
        raise NotAnExpression(f"{entrypoint} is not defined once, as a plain function")
    arguments = functions[0].args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or len(names) != len(inputs) + 1:
        raise NotAnExpression(f"{entrypoint} does not take {len(inputs)} inputs and the parameters, one by one")
    reader = _Reader(parameters=names[-1], values=[number(each) for each in params])
    for statement in tree.body:
        reader.take_module_line(statement)
    reader.known |= dict(zip(names, inputs, strict=False))
    for statement in functions[0].body:
        found = reader.take(statement)
        if found is not None:
            return found
    raise NotAnExpression(f"{entrypoint} returns nothing")


class _Reader:
    """What is known of a function's names after some of its lines."""

    def __init__(self, *, parameters: str, values: Sequence[float]) -> None:
        self.parameters, self.values = parameters, values
        self.known: dict[str, Expression] = {}
        #: What each imported function is called in numpy.
        self.imported: dict[str, str] = {}
        self.modules = {"np", *_MODULES}

    def take_module_line(self, statement: ast.stmt) -> None:
        """Learns constants and imports; any other line of the module is none of the function's."""
        match statement:
            case ast.Import(names=aliases):
                self.modules |= {alias.asname for alias in aliases if alias.asname and alias.name in _MODULES}
            case ast.ImportFrom(module="numpy" | "math", names=aliases):
                self.imported |= {alias.asname or alias.name: alias.name for alias in aliases}
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                try:
                    self.known[name] = self.read(value)
                except NotAnExpression:
                    self.known.pop(name, None)  # to be missed where it is used

    def take(self, statement: ast.stmt) -> Expression | None:
        """Follows a line; the formula that it returns, if it does. Raises `NotAnExpression`."""
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Return(value=ast.expr() as value):
                return self.read(value)
            case ast.Assign(targets=[target], value=value):
                self.bind(target, value)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                self.bind(target, value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if type(op) in BINARY:
                if name not in self.known:
                    raise NotAnExpression(f"{name!r} has no formula before it is changed")
                self.known[name] = applied(BINARY[type(op)], [self.known[name], self.read(value)])
            case _:
                kind = type(statement).__name__
                raise NotAnExpression(f"line {statement.lineno} is no formula ({kind})")
        return None

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        """`a = formula`, `a, b = formula, formula` and `a, b = params[:2]`."""
        match target:
            case ast.Name(id=name):
                self.known[name] = self.read(value)
                return
            case ast.Tuple(elts=targets) if all(isinstance(each, ast.Name) for each in targets):
                names = [each.id for each in targets if isinstance(each, ast.Name)]
                values = self.several(value)
                if len(names) == len(values):
                    self.known |= dict(zip(names, values, strict=True))
                    return
        raise NotAnExpression(f"line {target.lineno} binds in a way that is not followed")

    def several(self, value: ast.expr) -> list[Expression]:
        match value:
            case ast.Tuple(elts=elements):
                return [self.read(each) for each in elements]
            case ast.Name(id=self.parameters):
                return list(self.values)
            case ast.Subscript(value=ast.Name(id=self.parameters), slice=ast.Slice(lower=low, upper=high, step=None)):
                return list(self.values[slice(_index(low), _index(high))])
        raise NotAnExpression("several names are bound to what is not followed")

    def read(self, node: ast.expr) -> Expression:
        return read(node, self.leaf)

    def leaf(self, node: ast.expr) -> Expression | None:
        match node:
            case ast.Subscript(value=ast.Name(id=self.parameters), slice=ast.expr() as at):
                index = _index(at)
                if index is not None and -len(self.values) <= index < len(self.values):
                    return self.values[index]
            case ast.Name(id=name) if name == self.parameters:
                raise NotAnExpression("the parameters are used as a whole")
            case ast.Name(id=name) if name not in self.known and self.imported.get(name) in CONSTANTS:
                return CONSTANTS[self.imported[name]]
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in self.imported:
                return applied(function_name(ast.Name(id=self.imported[name])), [self.read(arg) for arg in args])
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name), args=args, keywords=[]):
                if module in self.modules:
                    return applied(function_name(ast.Name(id=name)), [self.read(arg) for arg in args])
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in self.modules and name in CONSTANTS:
                return CONSTANTS[name]
        return named(node, self.known)


def _index(node: ast.expr | None) -> int | None:
    """A whole number that stands in the text, with or without a sign; `None` for anything else."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    return None
