"""Small changes to any Python program: numbers, operators, statements, and statements of another program."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import libcst as cst
import libcst.matchers as m

from progevo.rewrite import TreeRewrite, parse, put
from progevo.types import Move

Suite: TypeAlias = cst.Module | cst.IndentedBlock

#: Factors for a number: from a nudge to another order of magnitude, since a number's name does not tell its scale.
FACTORS = (0.1, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0, 10.0)

#: Larger numbers stay as they are: ten times as much may have no text (`inf`, integers of thousands of digits).
MAX_NUMBER = 1e100

#: Operators that may stand in for each other: the same operands, another meaning, still likely to run.
KIN: tuple[tuple[type[cst.CSTNode], ...], ...] = (
    (cst.Add, cst.Subtract),
    (cst.Multiply, cst.Divide),
    (cst.FloorDivide, cst.Divide, cst.Modulo),
    (cst.Power, cst.Multiply),
    (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual),
    (cst.Equal, cst.NotEqual),
    (cst.And, cst.Or),
    (cst.AddAssign, cst.SubtractAssign),
    (cst.MultiplyAssign, cst.DivideAssign),
)


# --- numbers and operators ------------------------------------------------------------------------------------------


def change_number(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    found = m.findall(tree, m.Integer() | m.Float())
    numbers = [number for number in found if abs(number.evaluated_value) < MAX_NUMBER]  # type: ignore[attr-defined]
    if not numbers:
        return None
    old = rng.choice(numbers)
    # An integer handed to a call is mostly a budget (trees, rounds, the end of a range): it may shrink, never grow.
    capped = bool(m.findall(tree, m.Arg(value=m.MatchIfTrue(lambda value: value is old))))
    if isinstance(old, cst.Integer):
        value = repr(another_integer(old.evaluated_value, capped, rng))
    else:
        assert isinstance(old, cst.Float)
        value = repr(another_float(old.evaluated_value, rng))
    return put(tree, old, old.with_changes(value=value))


def another_integer(value: int, capped: bool, rng: random.Random) -> int:
    """A different natural number, near the old one or of another order of magnitude."""
    near = {value - 1, value + 1, value // 2, value * 2, value // 10, value * 10}
    return rng.choice(sorted(n for n in near if n >= 0 and n != value and not (capped and n > value)) or [value])


def another_float(value: float, rng: random.Random) -> float:
    """A number some factor away, in four digits; for zero one of a usual size."""
    if value == 0.0:
        return rng.choice((1.0, 0.1))
    return float(f"{value * rng.choice(FACTORS):.4g}")


def change_operator(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    known = {kind for family in KIN for kind in family}
    found = [node for node in walk(tree) if type(node) in known]
    if not found:
        return None
    old = rng.choice(found)
    kind = rng.choice([kin for family in KIN if type(old) in family for kin in family if kin is not type(old)])
    space = {name: getattr(old, name) for name in ("whitespace_before", "whitespace_after")}
    return put(tree, old, kind(**space))


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all below it, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)


# --- statements -----------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """One statement and where it stands: the `at`-th of a suite."""

    line: cst.CSTNode
    suite: Suite
    at: int


def places(tree: cst.Module) -> list[Place]:
    """All statements, those of nested suites with them, that are neither imports nor docstrings."""
    suites = [node for node in walk(tree) if isinstance(node, cst.Module | cst.IndentedBlock)]
    return [Place(line, suite, at) for suite in suites for at, line in enumerate(suite.body) if not is_fixed(line)]


def is_fixed(line: cst.CSTNode) -> bool:
    """Whether a statement is an import or a docstring: a copy or a gap there changes nothing or only breaks."""
    return m.matches(
        line,
        m.SimpleStatementLine(body=[m.Import() | m.ImportFrom() | m.Expr(m.SimpleString() | m.ConcatenatedString())]),
    )


def is_return(line: cst.CSTNode) -> bool:
    return m.matches(line, m.SimpleStatementLine(body=[m.ZeroOrMore(), m.Return()]))


def with_lines(tree: cst.Module, suite: Suite, body: Sequence[cst.CSTNode]) -> cst.Module:
    """The tree with one suite's statements replaced."""
    if isinstance(suite, cst.Module):
        return tree.with_changes(body=body)
    return put(tree, suite, suite.with_changes(body=body))


def delete_statement(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    free = [
        place
        for place in places(tree)
        if len(place.suite.body) > 1
        and not isinstance(place.line, cst.FunctionDef | cst.ClassDef)
        and not (is_return(place.line) and place.at == len(place.suite.body) - 1)
    ]
    if not free:
        return None
    _, suite, at = rng.choice(free)
    return with_lines(tree, suite, [*suite.body[:at], *suite.body[at + 1 :]])


def duplicate_statement(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    free = [place for place in places(tree) if may_matter_twice(place.line)]
    if not free:
        return None
    line, suite, at = rng.choice(free)
    copy = line.with_changes(leading_lines=())
    return with_lines(tree, suite, [*suite.body[: at + 1], copy, *suite.body[at + 1 :]])


def may_matter_twice(line: cst.CSTNode) -> bool:
    """Whether running a statement twice can differ from running it once: not so for `x = f(y)`, `return` or `pass`."""
    match line:
        case cst.FunctionDef() | cst.ClassDef():
            return False
        case cst.SimpleStatementLine(body=[cst.Assign(targets=targets, value=value)]):
            return any(node.deep_equals(target.target) for target in targets for node in walk(value))
        case cst.SimpleStatementLine(body=[cst.AugAssign() | cst.Expr()]):
            return True
        case cst.SimpleStatementLine():
            return False
    return True


def names(node: cst.CSTNode) -> set[str]:
    """All names that occur in a node."""
    return {below.value for below in walk(node) if isinstance(below, cst.Name)}


# --- crossover ------------------------------------------------------------------------------------------------------


def cross(source: str, other: str, rng: random.Random) -> str | None:
    """The text with one statement, or one whole function, of a function that the other text has in another form."""
    donor = parse(other)
    return None if donor is None else TreeRewrite(lambda tree, rng: crossed(tree, donor, rng))(source, rng)


def crossed(tree: cst.Module, donor: cst.Module, rng: random.Random) -> cst.Module | None:
    own, others = functions(tree), functions(donor)
    shared = [name for name in own if name in others and not own[name].deep_equals(others[name])]
    if not shared:
        return None
    name = rng.choice(shared)
    # With a single function its whole body would make a copy of the donor, which is known.
    if len(own) > 1 and rng.random() < 0.5:
        whole = own[name].with_changes(params=others[name].params, body=others[name].body)
        return with_imports_of(put(tree, own[name], whole), donor)
    taken = take_statement(tree, own[name], others[name], rng)
    return taken and with_imports_of(taken, donor)


def functions(tree: cst.Module) -> dict[str, cst.FunctionDef]:
    """The functions at the top level."""
    return {node.name.value: node for node in tree.body if isinstance(node, cst.FunctionDef)}


def take_statement(
    tree: cst.Module, own: cst.FunctionDef, other: cst.FunctionDef, rng: random.Random
) -> cst.Module | None:
    """One statement of `other` that `own` lacks: in place of the one that assigns the same, else where it stood."""
    if not isinstance(own.body, cst.IndentedBlock) or not isinstance(other.body, cst.IndentedBlock):
        return None
    mine, theirs = list(own.body.body), list(other.body.body)
    new = [index for index, line in enumerate(theirs) if not is_fixed(line) and position(mine, line) is None]
    if not new:
        return None
    index = rng.choice(new)
    line, head = theirs[index], heading(theirs[index])
    same = [i for i, old in enumerate(mine) if head and heading(old) == head]
    if same:
        mine[same[0]] = line
    else:
        before = [position(mine, earlier) for earlier in theirs[:index]]
        mine.insert(max((i + 1 for i in before if i is not None), default=0), line)
    return put(tree, own.body, own.body.with_changes(body=mine))


def position(lines: Sequence[cst.CSTNode], line: cst.CSTNode) -> int | None:
    """Where a statement stands among others, comments before it aside."""
    bare = line.with_changes(leading_lines=())
    return next((i for i, own in enumerate(lines) if own.with_changes(leading_lines=()).deep_equals(bare)), None)


def heading(line: cst.CSTNode) -> str:
    """What a statement assigns, iterates or returns: two of one heading would stand in each other's way."""
    code = cst.Module([]).code_for_node
    match line:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[target])]):
            return code(target.target)
        case cst.SimpleStatementLine(body=[cst.Return()]):
            return "return"
        case cst.For(target=target, iter=iterated):
            return f"for {code(target)} in {code(iterated)}"
    return ""


def with_imports_of(tree: cst.Module, donor: cst.Module) -> cst.Module:
    """The tree with those imports of the donor's that bind a name which it uses and does not bind."""
    missing = names(tree) - bound(tree)
    lines = [line for line in donor.body if is_import(line) and bound(line) & missing]
    if not lines:
        return tree
    after = max((i + 1 for i, line in enumerate(tree.body) if is_import(line)), default=0)
    return tree.with_changes(body=[*tree.body[:after], *lines, *tree.body[after:]])


def is_import(line: cst.CSTNode) -> bool:
    return m.matches(line, m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()]))


def bound(node: cst.CSTNode) -> set[str]:
    """The names that the imports below a node bind."""
    found: set[str] = set()
    for alias in walk(node):
        if isinstance(alias, cst.ImportAlias):
            found.add(alias.evaluated_alias or alias.evaluated_name.partition(".")[0])
    return found


OPERATORS: tuple[Move, ...] = tuple(
    Move(name=name, rewrite=TreeRewrite(change), about=about)
    for name, change, about in (
        ("change-number", change_number, "Draws another value for one number."),
        ("change-operator", change_operator, "Puts a kindred operator in one place."),
        ("delete-statement", delete_statement, "Leaves one statement out."),
        ("duplicate-statement", duplicate_statement, "Runs one statement twice."),
    )
)
