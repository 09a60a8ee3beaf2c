"""Small changes to programs that integrate, for the offline mutator: one thing each, none a method by itself.

They read any program that defines `integrate(f, a, b)` and calls SciPy's `quad` by that name; where they find nothing
to change they say `None`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from progevo.rewrite import TreeRewrite, put, statements, with_import
from progevo.types import Move

ENTRY, ARGUMENTS = "integrate", ("f", "a", "b")
QUAD = m.Call(func=m.Name("quad"))

#: What a keyword of `quad` may become.
KEYWORDS: Mapping[str, Sequence[str]] = {
    "limit": ("100", "200", "500", "1000", "2000"),
    "epsabs": ("1e-10", "1e-12", "1e-13", "0.0"),
    "epsrel": ("1e-10", "1e-12", "1e-13"),
}


@dataclass(frozen=True, slots=True)
class Keyword:
    """Sets a keyword of one call of `quad`."""

    name: str

    def __call__(self, tree: cst.Module, rng: random.Random) -> cst.Module | None:
        calls = [call for call in m.findall(tree, QUAD) if isinstance(call, cst.Call)]
        if not calls:
            return None
        call = rng.choice(calls)
        if any(arg.star for arg in call.args):
            return None
        value = cst.parse_expression(rng.choice(KEYWORDS[self.name]))
        for index, arg in enumerate(call.args):
            if arg.keyword is not None and arg.keyword.value == self.name:
                args = [*call.args[:index], arg.with_changes(value=value), *call.args[index + 1 :]]
                return put(tree, call, call.with_changes(args=args))
        plain = cst.AssignEqual(whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace(""))
        new = cst.Arg(keyword=cst.Name(self.name), value=value, equal=plain)
        return put(tree, call, call.with_changes(args=[*call.args, new]))


@dataclass(frozen=True, slots=True)
class Branch:
    """Answers some intervals in a way of their own: `name` calls a function that is added, `text` holds both."""

    name: str
    function: str
    condition: str
    draws: Mapping[str, Sequence[str]]

    def __call__(self, tree: cst.Module, rng: random.Random) -> cst.Module | None:
        entry = entry_of(tree)
        if entry is None or f"def {self.name}(" in tree.code or not m.findall(tree, QUAD):
            return None
        text = self.function
        for word, choices in self.draws.items():
            text = text.replace(word, rng.choice(choices))
        branch = f"if {self.condition}:\n    return {self.name}(f, a, b)\n"
        lines = list(entry.body.body)
        after = int(bool(lines) and m.matches(lines[0], m.SimpleStatementLine([m.Expr(m.SimpleString())])))
        body = entry.body.with_changes(body=[*lines[:after], *statements(branch), *lines[after:]])
        tree = put(tree, entry.body, body)
        added = [each.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2) for each in statements(text)]
        return with_import(tree.with_changes(body=[*tree.body, *added]), "math")


def entry_of(tree: cst.Module) -> cst.FunctionDef | None:
    """The entry point, if it has these arguments and a body of its own lines."""
    for statement in tree.body:
        if isinstance(statement, cst.FunctionDef) and statement.name.value == ENTRY:
            names = tuple(each.name.value for each in statement.params.params)
            return statement if names == ARGUMENTS and isinstance(statement.body, cst.IndentedBlock) else None
    return None


HALVES = Branch(
    "in_halves",
    '''\
def in_halves(f, a, b):
    """The near part, and the rest."""
    middle = a + WIDTH
    return quad(f, a, middle)[0] + quad(f, middle, b)[0]
''',
    "b == math.inf and a > -math.inf",
    {"WIDTH": ("0.5", "1.0", "2.0", "5.0")},
)
BLOCKS = Branch(
    "in_blocks",
    '''\
def in_blocks(f, a, b):
    """One block of the half line after the other, as far as the last one."""
    return sum(quad(f, a + WIDTH * n, a + WIDTH * (n + 1))[0] for n in range(COUNT))
''',
    "b == math.inf and a > -math.inf",
    {"WIDTH": ("1.0", "3.0", "10.0"), "COUNT": ("20", "50", "100")},
)
STRETCHED = Branch(
    "stretched",
    '''\
def stretched(f, a, b):
    """In the logarithm of the distance from the left end, where it may be singular."""
    return quad(lambda t: f(a + math.exp(t)) * math.exp(t), LEAST, math.log(b - a))[0]
''',
    "-math.inf < a and b < math.inf",
    {"LEAST": ("-100.0", "-300.0", "-600.0")},
)

MOVES: tuple[Move, ...] = tuple(
    Move(name=name, rewrite=TreeRewrite(change), about=about)
    for name, change, about in (
        ("set-limit", Keyword("limit"), "Sets how many subintervals one call of quad may make."),
        ("set-epsabs", Keyword("epsabs"), "Sets the absolute error that one call of quad aims at."),
        ("set-epsrel", Keyword("epsrel"), "Sets the relative error that one call of quad aims at."),
        ("in-halves", HALVES, "Splits a half line at a point near its end."),
        ("in-blocks", BLOCKS, "Integrates a half line block by block, up to a last one."),
        ("stretched", STRETCHED, "Integrates over a finite interval in the logarithm of the distance from its start."),
    )
)
