"""Small changes to programs that find formulas, for the offline mutator: one kind of term more, or one step more.

They read any program whose `discover` builds a list `terms` of texts and columns in one line, as the seed does; where
there is none they say `None`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from progevo.rewrite import TreeRewrite, put, statements
from progevo.types import Move

ENTRY = "discover"
TERMS = m.SimpleStatementLine([m.Assign(targets=[m.AssignTarget(m.Name("terms"))])])


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of one more kind, right after the list is made."""

    lines: Sequence[str]

    def __call__(self, tree: cst.Module, rng: random.Random) -> cst.Module | None:
        line = rng.choice(self.lines)
        for entry in tree.body:
            if not (isinstance(entry, cst.FunctionDef) and entry.name.value == ENTRY):
                continue
            if not isinstance(entry.body, cst.IndentedBlock) or line in tree.code:
                return None
            body = list(entry.body.body)
            for place, statement in enumerate(body):
                if m.matches(statement, TERMS):
                    new = [*body[: place + 1], *statements(f"{line}\n"), *body[place + 1 :]]
                    return put(tree, entry.body, entry.body.with_changes(body=new))
        return None


def each(text: str, values: str) -> str:
    """The line that adds a term for each input."""
    return f'terms += [(f"{text}", {values}) for name, values in inputs]'


def leave_out(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Has the weights computed again without the terms that add little."""
    for own in tree.body:
        if isinstance(own, cst.FunctionDef) and own.name.value == "weighted" and "kept" not in tree.code_for_node(own):
            match own.body:
                case cst.IndentedBlock(body=[*before, cst.SimpleStatementLine(body=[cst.Return(value=value)])]) if (
                    value
                ):
                    share = rng.choice(("1e-6", "1e-5", "1e-4", "1e-3"))
                    text = f"""\
weights = {tree.code_for_node(value)}
kept = np.abs(weights) * np.abs(table).max(axis=0) > {share} * np.abs(y).max()
weights = np.zeros(len(weights))
weights[kept] = np.linalg.lstsq(table[:, kept], y, rcond=None)[0]
return weights
"""
                    return put(tree, own.body, own.body.with_changes(body=[*before, *statements(text)]))
    return None


MOVES: tuple[Move, ...] = tuple(
    Move(name=name, rewrite=TreeRewrite(change), about=about)
    for name, change, about in (
        ("squares", Terms((each("{name} ** 2", "values**2"),)), "Adds the square of each input to the terms."),
        ("cubes", Terms((each("{name} ** 3", "values**3"),)), "Adds the cube of each input."),
        (
            "products",
            Terms(
                (
                    'terms += [(f"{name} * {other}", values * others) for n, (name, values) in enumerate(inputs)'
                    " for other, others in inputs[:n]]",
                )
            ),
            "Adds the product of any two inputs.",
        ),
        (
            "waves",
            Terms((each("sin({name})", "np.sin(values)"), each("cos({name})", "np.cos(values)"))),
            "Adds the sine, or the cosine, of each input.",
        ),
        (
            "decays",
            Terms((each("exp(-abs({name}))", "np.exp(-np.abs(values))"),)),
            "Adds a falling exponential of each.",
        ),
        (
            "roots",
            Terms(
                (
                    each("sqrt(abs({name}))", "np.sqrt(np.abs(values))"),
                    each("cbrt({name})", "np.cbrt(values)"),
                    each("log1p(abs({name}))", "np.log1p(np.abs(values))"),
                )
            ),
            "Adds the square root, the cubic root or the logarithm of each input.",
        ),
        (
            "inverses",
            Terms((each("1.0 / (1.0 + abs({name}))", "1.0 / (1.0 + np.abs(values))"),)),
            "Adds what falls as the inverse of each input.",
        ),
        (
            "sizes",
            Terms((each("{name} * abs({name})", "values * np.abs(values)"), each("abs({name})", "np.abs(values)"))),
            "Adds the size of each input, or the square with its sign.",
        ),
        (
            "combine",
            Terms(
                (
                    'terms += [(f"{name} * ({text})", values * column)'
                    " for name, values in inputs for text, column in terms[1:]]",
                )
            ),
            "Multiplies every term that follows in the list by each input.",
        ),
        ("leave-out", leave_out, "Computes the weights again without the terms that add little."),
    )
)
