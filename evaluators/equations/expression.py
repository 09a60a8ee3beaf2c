"""Expression: a formula as a tree of known functions, read from text by a whitelist and computed without running it.

Nothing here executes a text: `ast` parses it, every node is looked at, and what is not in the tables below is refused.
Numbers are doubles, and what is made of numbers alone is computed while the tree is built, so that `9**9**9` is
refused at once as a number that is not finite. Size and depth are bounded, also where a tree shares its branches.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

#: Of a text, in characters; of a tree, counted as if no branch were shared; of the longest way down.
MAX_CHARACTERS, MAX_NODES, MAX_DEPTH = 10_000, 2_000, 150


class NotAnExpression(ValueError):
    """The text is not a formula of the kind that is taken, with the reason."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of other expressions. Made by `call`, which keeps it within bounds."""

    name: str
    of: tuple[Expression, ...]
    size: int
    depth: int


#: A number, the name of a variable, or a function of other expressions.
Expression: TypeAlias = float | str | Call

#: What each name computes, and of how many arguments. The child that asks SymPy knows the same names (`algebra.py`).
FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int]] = {
    "add": (np.add, 2),
    "subtract": (np.subtract, 2),
    "multiply": (np.multiply, 2),
    "divide": (np.divide, 2),
    "power": (np.power, 2),
    "negative": (np.negative, 1),
    "abs": (np.abs, 1),
    "sign": (np.sign, 1),
    "sqrt": (np.sqrt, 1),
    "cbrt": (np.cbrt, 1),
    "exp": (np.exp, 1),
    "expm1": (np.expm1, 1),
    "log": (np.log, 1),
    "log1p": (np.log1p, 1),
    "log2": (np.log2, 1),
    "log10": (np.log10, 1),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tan": (np.tan, 1),
    "arcsin": (np.arcsin, 1),
    "arccos": (np.arccos, 1),
    "arctan": (np.arctan, 1),
    "sinh": (np.sinh, 1),
    "cosh": (np.cosh, 1),
    "tanh": (np.tanh, 1),
    "minimum": (np.minimum, 2),
    "maximum": (np.maximum, 2),
}

#: Other names of the same, as numpy, SymPy or a textbook have them.
ALIASES = {
    "absolute": "abs",
    "fabs": "abs",
    "ln": "log",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "true_divide": "divide",
    "pow": "power",
    "float_power": "power",
    "min": "minimum",
    "max": "maximum",
}

#: A function of one argument that is short for another.
SHORT: Mapping[str, Callable[[Expression], Expression]] = {
    "square": lambda x: call("power", x, 2.0),
    "reciprocal": lambda x: call("divide", 1.0, x),
    "positive": lambda x: x,
    "float": lambda x: x,
}

CONSTANTS = {"pi": math.pi, "e": math.e}

BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}


def call(name: str, *of: Expression) -> Expression:
    """A function of expressions; a number where all of them are numbers.

    Raises `NotAnExpression` for a number that is not finite, and for a tree beyond the bounds.
    """
    function, arity = FUNCTIONS[name]
    if len(of) != arity:
        raise NotAnExpression(f"{name} takes {arity} argument{'s' * (arity > 1)}, got {len(of)}")
    if all(isinstance(each, float) for each in of):
        with np.errstate(all="ignore"):
            value = float(function(*of))
        if not math.isfinite(value):
            raise NotAnExpression(f"{name}({', '.join(f'{each:g}' for each in of)}) is no finite number")
        return value
    calls = [each for each in of if isinstance(each, Call)]
    size = 1 + sum(each.size for each in calls) + len(of) - len(calls)
    depth = 1 + max((each.depth for each in calls), default=0)
    if size > MAX_NODES:
        raise NotAnExpression(f"the formula has more than {MAX_NODES} parts")
    if depth > MAX_DEPTH:
        raise NotAnExpression(f"the formula is nested more than {MAX_DEPTH} deep")
    return Call(name, of, size, depth)


def parse(text: str, names: Mapping[str, Expression]) -> Expression:
    """The expression that a text stands for.

    Args:
        text: in Python's notation. Functions may be called by their bare name, or as those of `np` or `math`.
        names: what each name stands for: itself for a variable, a float for a constant.

    Raises:
        NotAnExpression: it does not parse, is too long or too deep, or holds anything that is no formula.
    """
    if len(text) > MAX_CHARACTERS:
        raise NotAnExpression(f"the text has {len(text)} characters, at most {MAX_CHARACTERS} are read")
    try:
        node = ast.parse(text.strip(), filename="<candidate>", mode="eval").body
    except SyntaxError as error:
        raise NotAnExpression(f"not an expression: {str(error.msg)[:100]}") from None
    except (ValueError, RecursionError, MemoryError, SystemError, OverflowError) as error:
        raise NotAnExpression(f"not an expression: {type(error).__name__}") from None
    try:
        return read(node, lambda leaf: named(leaf, names))
    except RecursionError:
        raise NotAnExpression("the formula is nested too deep") from None


def named(node: ast.expr, names: Mapping[str, Expression]) -> Expression | None:
    """What a leaf stands for by its name alone, if it has one that is known."""
    if isinstance(node, ast.Name):
        return names.get(node.id, CONSTANTS.get(node.id))
    return None


def read(node: ast.expr, leaf: Callable[[ast.expr], Expression | None], depth: int = 0) -> Expression:
    """The expression of a syntax tree. `leaf` says what a node stands for that is a name or an index, else `None`.

    Raises `NotAnExpression`.
    """
    if depth > 2 * MAX_DEPTH:  # before Python's own limit; brackets and signs leave no trace in the tree's depth
        raise NotAnExpression(f"the formula is nested more than {MAX_DEPTH} deep")
    known = leaf(node)
    if known is not None:
        return known
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return number(value)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return read(operand, leaf, depth + 1)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return call("negative", read(operand, leaf, depth + 1))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return call(BINARY[type(op)], read(left, leaf, depth + 1), read(right, leaf, depth + 1))
        case ast.BinOp(op=ast.BitXor()):
            raise NotAnExpression("^ is no power in Python's notation; write **")
        case ast.Call(func=func, args=args, keywords=[]) if not any(isinstance(arg, ast.Starred) for arg in args):
            return applied(function_name(func), [read(arg, leaf, depth + 1) for arg in args])
        case ast.Attribute(value=ast.Name(id="np" | "numpy" | "math"), attr=attr) if attr in CONSTANTS:
            return CONSTANTS[attr]
    raise NotAnExpression(f"{_shown(node)} is no part of a formula")


def _shown(node: ast.expr) -> str:
    try:
        return repr(ast.unparse(node)[:60])
    except RecursionError:
        return f"a nested {type(node).__name__}"


def number(value: int | float) -> float:
    """A number of a text as a double. Raises `NotAnExpression` for one that has none."""
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise NotAnExpression("a number is too large for a double")
    return found


def function_name(func: ast.expr) -> str:
    """`sin` for `sin`, `np.sin` and `math.sin`. Raises `NotAnExpression`."""
    match func:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="np" | "numpy" | "math"), attr=name):
            return ALIASES.get(name, name)
    raise NotAnExpression("only functions of a known name can be called in a formula")


def applied(name: str, of: list[Expression]) -> Expression:
    """A known function of its arguments. Raises `NotAnExpression`."""
    if name in SHORT and len(of) == 1:
        return SHORT[name](of[0])
    if name not in FUNCTIONS:
        raise NotAnExpression(f"the function {name[:40]!r} is not known; there are {', '.join(sorted(FUNCTIONS))}")
    return call(name, *of)


def compute(expression: Expression, values: Mapping[str, Any], rows: int) -> Any:
    """The expression's value in every row, as an array of float64: NaN or infinite where it has none."""
    with np.errstate(all="ignore"):
        return np.array(np.broadcast_to(_computed(expression, values, {}), (rows,)), dtype=np.float64)


def _computed(expression: Expression, values: Mapping[str, Any], done: dict[int, Any]) -> Any:
    if isinstance(expression, float):
        return np.float64(expression)
    if isinstance(expression, str):
        return values[expression]
    if id(expression) not in done:  # a branch that is shared is computed once
        of = [_computed(each, values, done) for each in expression.of]
        done[id(expression)] = FUNCTIONS[expression.name][0](*of)
    return done[id(expression)]


def variables(expression: Expression) -> frozenset[str]:
    """The names of the variables in an expression."""
    if isinstance(expression, str):
        return frozenset({expression})
    if isinstance(expression, float):
        return frozenset()
    return frozenset().union(*map(variables, expression.of))


def plain(expression: Expression) -> Any:
    """The expression as nested lists of texts and numbers, for JSON."""
    if isinstance(expression, Call):
        return [expression.name, *map(plain, expression.of)]
    return expression
