"""Small changes to programs that compute 2F1, for the offline mutator: one textbook step each, none a method by itself.

Some add a formula as a function of its own and a condition under which it is used; others change how a formula already
there computes: by which series, with which bound, with what to fall back on. A formula that a move adds calls
`special.hyp2f1`, so that what it is worth depends on what becomes of that call. They read any program that defines
`hyp2f1` and calls SciPy's as `special.hyp2f1`; where they find nothing to change they say `None`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from progevo.rewrite import TreeRewrite, put, statements, with_import
from progevo.types import Move

ENTRY = "hyp2f1"
ARGUMENTS = ("a", "b", "c", "z")
SCIPY = m.Call(func=m.Attribute(value=m.Name("special"), attr=m.Name("hyp2f1")))

PFAFF = '''\
def pfaff(a, b, c, z):
    """Pfaff's transformation (DLMF 15.8.1)."""
    return (1.0 - z) ** -a * special.hyp2f1(a, c - b, c, z / (z - 1.0))
'''
EULER = '''\
def euler(a, b, c, z):
    """Euler's transformation (DLMF 15.8.1)."""
    return (1.0 - z) ** (c - a - b) * special.hyp2f1(c - a, c - b, c, z)
'''
INVERSE = '''\
def inverse(a, b, c, z):
    """Two values at 1/z (DLMF 15.8.2)."""
    return inverse_term(a, b, c, z) + inverse_term(b, a, c, z)


def inverse_term(a, b, c, z):
    above, below = [c, b - a], [b, c - a]
    sign = special.gammasgn(above).prod() * special.gammasgn(below).prod()
    size = special.gammaln(above).sum() - special.gammaln(below).sum()
    return sign * np.exp(size - a * np.log(-z)) * special.hyp2f1(a, a - c + 1.0, a - b + 1.0, 1.0 / z)
'''
SERIES = '''\
def series(a, b, c, z):
    """The power series (DLMF 15.2.1), inside this radius."""
    if abs(z) > RADIUS:
        return special.hyp2f1(a, b, c, z)
    total = term = 1.0
    for n in range(TERMS):
        term *= (a + n) * (b + n) / ((c + n) * (n + 1.0)) * z
        total += term
    return total
'''
RADII = ("0.5", "0.7", "0.9")
TERMS = ("100", "200", "400")


@dataclass(frozen=True, slots=True)
class Formula:
    """Adds a formula as a function, and uses it where one of the conditions holds."""

    name: str
    text: str
    conditions: Sequence[str]

    def __call__(self, tree: cst.Module, rng: random.Random) -> cst.Module | None:
        entry = function(tree, ENTRY)
        if entry is None or arguments(entry) != ARGUMENTS or not m.findall(tree, SCIPY):
            return None
        branch = f"if {rng.choice(self.conditions)}:\n    return float({self.name}(a, b, c, z))\n"
        if function(tree, self.name) is None:
            tree = with_function(tree, self.text)
        elif f"{self.name}(a, b, c, z)" in tree.code_for_node(entry):
            return None
        entry = function(tree, ENTRY)
        assert entry is not None
        tree = put(tree, entry.body, with_statements(entry.body, branch, late=rng.random() < 0.5))
        return with_import(tree, "numpy as np") if "np." in self.text else tree


def own_series(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Has one call of SciPy's function, outside the series itself, answered by the power series."""
    own = function(tree, "series")
    inside = set() if own is None else {id(call) for call in m.findall(own, SCIPY)}
    calls = [call for call in m.findall(tree, SCIPY) if id(call) not in inside]
    if not calls or function(tree, ENTRY) is None:
        return None
    call = rng.choice(calls)
    assert isinstance(call, cst.Call)
    tree = put(tree, call, call.with_changes(func=cst.Name("series")))
    text = SERIES.replace("RADIUS", rng.choice(RADII)).replace("TERMS", rng.choice(TERMS))
    return with_function(tree, text) if own is None else tree


def watch_cancellation(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Has the series hand over to SciPy where its terms outgrow its sum."""
    own = function(tree, "series")
    if own is None or "largest" in tree.code_for_node(own):
        return None
    match own.body.body:
        case [*before, cst.For(body=cst.IndentedBlock() as body) as loop, cst.SimpleStatementLine() as last]:
            watched = loop.with_changes(
                body=body.with_changes(body=[*body.body, *statements("largest = max(largest, abs(term))\n")])
            )
            bound = rng.choice(("1e4", "1e6", "1e8"))
            handed = f"if largest > {bound} * abs(total):\n    return special.hyp2f1(a, b, c, z)\n"
            new = [*before, *statements("largest = 1.0\n"), watched, *statements(handed), last]
            return put(tree, own.body, own.body.with_changes(body=new))
    return None


def watch_terms(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Has the formula in 1/z hand over to SciPy where its two terms cancel."""
    own = function(tree, "inverse")
    plain = m.SimpleStatementLine([m.Return(m.BinaryOperation(operator=m.Add()))])
    if own is None or len(own.body.body) != 2 or not m.matches(own.body.body[1], plain):
        return None
    text = f"""\
first, second = inverse_term(a, b, c, z), inverse_term(b, a, c, z)
if max(abs(first), abs(second)) > {rng.choice(("1e4", "1e6", "1e8"))} * abs(first + second):
    return special.hyp2f1(a, b, c, z)
return first + second
"""
    return put(tree, own.body, own.body.with_changes(body=[own.body.body[0], *statements(text)]))


def stop_early(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Ends the series once its terms no longer count, so that it may have more of them."""
    own = function(tree, "series")
    if own is None or m.findall(own, m.Break()):
        return None
    for loop in m.findall(own, m.For(body=m.IndentedBlock())):
        assert isinstance(loop, cst.For)
        # Not among the first: a term can be small because n is close to -a, and the next ones large again.
        text = f"if n > {rng.choice(('40', '80'))} and abs(term) < 1e-17 * abs(total):\n    break\n"
        return put(tree, loop.body, loop.body.with_changes(body=[*loop.body.body, *statements(text)]))
    return None


def sum_exactly(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Adds the terms of the series without rounding in between."""
    own = function(tree, "series")
    if own is None or "fsum" in tree.code_for_node(own):
        return None
    match own.body.body:
        case [*before, cst.For(body=cst.IndentedBlock() as body) as loop, cst.SimpleStatementLine() as last] if (
            m.matches(last, m.SimpleStatementLine([m.Return(m.Name("total"))]))
        ):
            kept = loop.with_changes(body=body.with_changes(body=[*body.body, *statements("terms.append(term)\n")]))
            new = [*before, *statements("terms = [1.0]\n"), kept, *statements("return math.fsum(terms)\n")]
            return with_import(put(tree, own.body, own.body.with_changes(body=new)), "math")
    return None


def order_parameters(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Swaps a and b, in which 2F1 is symmetric, so that one of them is always the larger."""
    own = [found for name in (ENTRY, "pfaff", "series") if (found := function(tree, name)) is not None]
    able = [each for each in own if arguments(each) == ARGUMENTS and "a, b = b, a" not in tree.code_for_node(each)]
    if not able:
        return None
    sign = rng.choice("<>")
    chosen = rng.choice(able)
    return put(tree, chosen.body, with_statements(chosen.body, f"if abs(a) {sign} abs(b):\n    a, b = b, a\n"))


def set_number(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Moves one bound: of a condition on z, of the radius or the number of terms, of a cancellation."""
    places = [
        (number, choices)
        for kind, choices in BOUNDS
        for found in m.findall(tree, kind)
        for number in m.findall(found, m.Float() | m.Integer())
    ]
    if not places:
        return None
    number, choices = rng.choice(places)
    left = [text for text in choices if text != tree.code_for_node(number)]
    return put(tree, number, cst.parse_expression(rng.choice(left)))


#: Where a bound stands, and what it may become.
BOUNDS: tuple[tuple[m.BaseMatcherNode, tuple[str, ...]], ...] = (
    (m.Comparison(m.Name("z"), [m.ComparisonTarget(m.LessThan())]), ("0.0", "-0.5", "-1.0", "-1.2", "-2.0", "-4.0")),
    (m.Comparison(m.Name("z"), [m.ComparisonTarget(m.GreaterThan())]), ("0.3", "0.5", "0.7", "0.9")),
    (m.Comparison(m.Call(m.Name("abs"), [m.Arg(m.Name("z"))])), ("0.5", "0.7", "0.8", "0.9", "0.95")),
    (m.Call(m.Name("range")), ("100", "200", "400", "800", "1600")),
    (
        m.BinaryOperation(m.Float(), m.Multiply(), m.Call(m.Name("abs"), [m.Arg(m.Name("total"))])),
        ("1e3", "1e4", "1e5", "1e6", "1e7", "1e8"),
    ),
)


def function(tree: cst.Module, name: str) -> cst.FunctionDef | None:
    """The top-level function of a name, if it has a body of its own lines."""
    for statement in tree.body:
        if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
            return statement if isinstance(statement.body, cst.IndentedBlock) else None
    return None


def arguments(found: cst.FunctionDef) -> tuple[str, ...]:
    """The names of a function's arguments, as far as they are plain ones."""
    return tuple(each.name.value for each in found.params.params)


def with_function(tree: cst.Module, text: str) -> cst.Module:
    """The tree with functions before its entry point, which it has."""
    entry = function(tree, ENTRY)
    assert entry is not None
    place = next(n for n, each in enumerate(tree.body) if each is entry)
    blank = [cst.EmptyLine(indent=False)] * 2
    new = [each.with_changes(leading_lines=blank) for each in statements(text)]
    own = entry.leading_lines
    follows = entry.with_changes(leading_lines=[*blank[sum(line.comment is None for line in own[:2]) :], *own])
    return tree.with_changes(body=[*tree.body[:place], *new, follows, *tree.body[place + 1 :]])


def with_statements(body: cst.BaseSuite, text: str, *, late: bool = False) -> cst.BaseSuite:
    """A function's body with a snippet right after its docstring, or right before its last statement."""
    lines = list(body.body)
    docstring = m.SimpleStatementLine([m.Expr(m.SimpleString() | m.ConcatenatedString())])
    after = len(lines) - 1 if late else int(bool(lines) and m.matches(lines[0], docstring))
    return body.with_changes(body=[*lines[:after], *statements(text), *lines[after:]])


MOVES: tuple[Move, ...] = tuple(
    Move(name=name, rewrite=TreeRewrite(change), about=about)
    for name, change, about in (
        (
            "pfaff",
            Formula("pfaff", PFAFF, ("z < 0.0", "z < -0.5", "z < -1.0")),
            "Uses Pfaff's transformation to z / (z - 1) where z is negative.",
        ),
        ("euler", Formula("euler", EULER, ("z > 0.5", "z > 0.9", "c < a + b")), "Uses Euler's transformation."),
        (
            "inverse",
            Formula("inverse", INVERSE, ("z < -1.2", "z < -2.0", "z < -4.0")),
            "Uses the connection formula to 1/z where z is far from 0; its two values are SciPy's.",
        ),
        ("own-series", own_series, "Has one call of SciPy's function answered by the power series, inside a radius."),
        ("watch-cancellation", watch_cancellation, "Has the series hand over to SciPy where it cancels."),
        ("watch-terms", watch_terms, "Has the formula in 1/z hand over to SciPy where its two terms cancel."),
        ("stop-early", stop_early, "Ends the series once its terms no longer count."),
        ("sum-exactly", sum_exactly, "Adds the terms of the series without rounding in between."),
        ("order-parameters", order_parameters, "Swaps a and b so that one of them is always the larger."),
        ("set-number", set_number, "Moves one bound that is already there."),
    )
)
