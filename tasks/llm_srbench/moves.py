"""Small changes to equations with free parameters, for the offline mutator: one term or one part of a term each.

They read any program that defines `equation(inputs..., params)` whose last line returns a sum, and know nothing of any
problem. A parameter that a move brings is one that the equation does not use yet; where none is left, or nothing fits,
they say `None`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import libcst as cst
import libcst.matchers as m

from progevo.rewrite import TreeRewrite, put, with_import
from progevo.types import Move

ENTRY = "equation"
#: As many parameters as the harness fits.
PARAMETERS = 10


class Term(NamedTuple):
    """One term of the returned sum, and whether it is subtracted."""

    node: cst.BaseExpression
    minus: bool


@dataclass(frozen=True)
class Equation:
    """The parts of an equation that moves look at."""

    tree: cst.Module
    inputs: tuple[str, ...]
    #: What the last argument is called.
    params: str
    returned: cst.BaseExpression
    #: The parameters that are not used yet, in order.
    free: tuple[int, ...]

    @property
    def terms(self) -> list[Term]:
        """The terms of the sum, from the left."""
        found: list[Term] = []
        node = self.returned
        while (
            isinstance(node, cst.BinaryOperation) and not node.lpar and m.matches(node.operator, m.Add() | m.Subtract())
        ):
            found.append(Term(node.right, isinstance(node.operator, cst.Subtract)))
            node = node.left
        return [Term(node, False), *reversed(found)]

    def parameter(self, number: int = 0) -> str | None:
        """The text of a parameter that is free, if there are so many."""
        return f"{self.params}[{self.free[number]}]" if number < len(self.free) else None

    def text(self, node: cst.CSTNode) -> str:
        return self.tree.code_for_node(node)

    def returning(self, terms: Sequence[tuple[str, bool]]) -> cst.Module:
        """The program with another sum: the texts of its terms, and whether each is subtracted."""
        (first, minus), *rest = terms
        text = f"-({first})" if minus else first
        for term, less in rest:
            text += f" {'-' if less else '+'} {term}"
        new = cst.parse_expression(text, self.tree.config_for_parsing)
        # One line more in the source may not make the sum end early.
        new = new.with_changes(lpar=self.returned.lpar, rpar=self.returned.rpar) if not new.lpar else new
        return with_numpy(put(self.tree, self.returned, new))


def with_numpy(tree: cst.Module) -> cst.Module:
    """The tree with numpy imported, if it uses it."""
    return with_import(tree, "numpy as np") if "np." in tree.code else tree


def equation_of(tree: cst.Module) -> Equation | None:
    """The equation of a program, if it is of the form that moves can change."""
    for statement in tree.body:
        if not (isinstance(statement, cst.FunctionDef) and statement.name.value == ENTRY):
            continue
        names = [each.name.value for each in statement.params.params]
        if len(names) < 2 or statement.params.star_kwarg or isinstance(statement.params.star_arg, cst.Param):
            return None
        if not isinstance(statement.body, cst.IndentedBlock) or not statement.body.body:
            return None
        match statement.body.body[-1]:
            case cst.SimpleStatementLine(body=[cst.Return(value=cst.BaseExpression() as returned)]):
                used = set()
                for found in m.findall(statement, m.Subscript(value=m.Name(names[-1]))):
                    index = m.extract(
                        found, m.Subscript(slice=[m.SubscriptElement(m.Index(m.SaveMatchedNode(m.Integer(), "n")))])
                    )
                    if index is None:
                        return None  # which parameters it uses cannot be told
                    number = index["n"]
                    assert isinstance(number, cst.Integer)
                    used.add(int(number.value, 0))
                free = tuple(number for number in range(PARAMETERS) if number not in used)
                return Equation(tree, tuple(names[:-1]), names[-1], returned, free)
        return None
    return None


#: Changes one equation; `None` where it does not apply.
EquationChange = Callable[[Equation, random.Random], "cst.Module | None"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change to an equation as one to a tree."""

    change: EquationChange

    def __call__(self, tree: cst.Module, rng: random.Random) -> cst.Module | None:
        equation = equation_of(tree)
        return None if equation is None else self.change(equation, rng)


@dataclass(frozen=True, slots=True)
class Added:
    """A term more, by one of the patterns; A and B stand for free parameters, X and Y for inputs."""

    patterns: Sequence[str]

    def __call__(self, equation: Equation, rng: random.Random) -> cst.Module | None:
        words = filled(rng.choice(self.patterns), equation, rng)
        if words is None:
            return None
        kept = [(equation.text(term.node), term.minus) for term in equation.terms]
        return equation.returning([*kept, (words, False)])


def filled(pattern: str, equation: Equation, rng: random.Random) -> str | None:
    """A pattern with inputs and free parameters in its places; `None` where there are too few of them."""
    first = rng.choice(equation.inputs)
    inputs = [first, rng.choice([name for name in equation.inputs if name != first] or [first])]
    words = {"A": equation.parameter(0), "B": equation.parameter(1), "X": inputs[0], "Y": inputs[1]}
    found = []
    for part in pattern.replace("{", "\0{").replace("}", "}\0").split("\0"):
        if not part.startswith("{"):
            found.append(part)
        elif (word := words[part[1:-1]]) is not None:
            found.append(word)
        else:
            return None
    return "".join(found)


@dataclass(frozen=True, slots=True)
class Changed:
    """One term changed, by one of the patterns; T stands for it."""

    patterns: Sequence[str]

    def __call__(self, equation: Equation, rng: random.Random) -> cst.Module | None:
        words = filled(rng.choice(self.patterns), equation, rng)
        if words is None:
            return None
        terms = equation.terms
        chosen = rng.randrange(len(terms))
        new = [(equation.text(term.node), term.minus) for term in terms]
        text, minus = new[chosen]
        product = m.matches(terms[chosen].node, m.BinaryOperation(operator=m.Multiply() | m.Divide() | m.Power()))
        atom = product or not isinstance(terms[chosen].node, cst.BinaryOperation)
        new[chosen] = (words.replace("T", text if atom else f"({text})"), minus)
        return equation.returning(new)


@dataclass(frozen=True, slots=True)
class Bent:
    """One place of an input taken through a function, by one of the patterns; X stands for it."""

    patterns: Sequence[str]

    def __call__(self, equation: Equation, rng: random.Random) -> cst.Module | None:
        names = m.OneOf(*(m.Name(name) for name in equation.inputs))
        places = [each for each in m.findall(equation.returned, names) if isinstance(each, cst.Name)]
        free = equation.parameter()
        pattern = rng.choice(self.patterns)
        if not places or (free is None and "{A}" in pattern):
            return None
        place = rng.choice(places)
        text = pattern.replace("{X}", place.value).replace("{A}", free or "")
        new = (
            equation.returned.deep_replace(place, cst.parse_expression(text))
            if equation.returned is not place
            else None
        )
        if new is None:
            return None
        return with_numpy(put(equation.tree, equation.returned, new))


def dropped(equation: Equation, rng: random.Random) -> cst.Module | None:
    """One term less."""
    terms = [(equation.text(term.node), term.minus) for term in equation.terms]
    if len(terms) < 2:
        return None
    del terms[rng.randrange(len(terms))]
    return equation.returning(terms)


MOVES: tuple[Move, ...] = tuple(
    Move(name=name, rewrite=TreeRewrite(Change(change)), about=about)
    for name, change, about in (
        ("add-powers", Added(("{A} * {X} ** 2 + {B} * {X} ** 3",)), "Adds the square and the cube of an input."),
        (
            "add-product",
            Added(("{A} * {X} * {Y}",)),
            "Adds a product of two inputs, different ones where there are two.",
        ),
        ("add-drag", Added(("{A} * {X} * np.abs({X})",)), "Adds the square of an input with its sign."),
        (
            "add-wave",
            Added(("{A} * np.sin({B} * {X})", "{A} * np.cos({B} * {X})")),
            "Adds a wave in an input, of a frequency that is fitted.",
        ),
        ("add-decay", Added(("{A} * np.exp(-{B} * {X})",)), "Adds an exponential of an input."),
        (
            "add-root",
            Added(("{A} * np.sqrt(np.abs({X}))", "{A} * np.log1p(np.abs({X}))")),
            "Adds the root or the logarithm of an input's size.",
        ),
        ("times-input", Changed(("T * {X}",)), "Multiplies one term by an input."),
        ("saturate", Changed(("T / (1.0 + {A} * np.abs({X}))",)), "Lets one term level off as an input grows."),
        (
            "bend-input",
            Bent(("np.sin({A} * {X})", "np.tanh({A} * {X})", "np.abs({X}) ** {A}", "({X} - {A})")),
            "Takes an input, in one place, through a function with a parameter.",
        ),
        ("drop-term", dropped, "Leaves one term out."),
    )
)
