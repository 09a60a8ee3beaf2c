"""A process of its own that asks SymPy whether two formulas are the same, up to small differences of their numbers.

Standard input holds JSON: `{"path": [...], "memory_bytes": n, "ours": formula, "truth": formula, "points": [{name:
value}]}`, with formulas as nested lists (`expression.plain`). Standard output gets `{"same": true | null,
"why": text}`. The objects are built node by node from the table below, and no text is ever evaluated.

Two formulas count as the same when one of a few normal forms of both has the same tree, terms and factors in any order,
numbers within `CLOSE` of one another, after terms that are nowhere larger than `SMALL` of the largest have been left
out. `null`: no form agrees, which shows nothing.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator
from typing import Any

#: Relative difference of two numbers that are still the same one, fitted.
CLOSE = 1e-3
#: Relative difference of a fitted number from the whole one that it stands for.
WHOLE = 1e-5
#: The share of the largest value that a term has to reach somewhere to count.
SMALL = 1e-6


def main() -> None:
    told = json.load(sys.stdin)
    if sys.platform == "linux":  # Darwin does not hold a process to a limit of this kind
        resource.setrlimit(resource.RLIMIT_AS, (told["memory_bytes"], told["memory_bytes"]))
    sys.path[:] = told["path"]
    try:
        import sympy
    except ImportError:
        print(json.dumps({"same": None, "why": "SymPy is not installed (the extra srbench)"}))
        return
    algebra = Algebra(sympy, told["points"])
    same = algebra.same(algebra.built(told["ours"]), algebra.built(told["truth"]))
    print(
        json.dumps({"same": True if same else None, "why": "" if same else "no normal form shows them to be the same"})
    )


class Algebra:
    """Formulas as SymPy has them. All variables are real."""

    def __init__(self, sympy: Any, points: list[dict[str, float]]) -> None:
        self.sympy = sympy
        self.points = points
        self.makers: dict[str, Callable[..., Any]] = {
            "add": lambda a, b: a + b,
            "subtract": lambda a, b: a - b,
            "multiply": lambda a, b: a * b,
            "divide": lambda a, b: a / b,
            "power": lambda a, b: a**b,
            "negative": lambda a: -a,
            "abs": sympy.Abs,
            "sign": sympy.sign,
            "sqrt": sympy.sqrt,
            "cbrt": sympy.cbrt,
            "exp": sympy.exp,
            "expm1": lambda a: sympy.exp(a) - 1,
            "log": sympy.log,
            "log1p": lambda a: sympy.log(1 + a),
            "log2": lambda a: sympy.log(a) / sympy.log(2),
            "log10": lambda a: sympy.log(a) / sympy.log(10),
            "sin": sympy.sin,
            "cos": sympy.cos,
            "tan": sympy.tan,
            "arcsin": sympy.asin,
            "arccos": sympy.acos,
            "arctan": sympy.atan,
            "sinh": sympy.sinh,
            "cosh": sympy.cosh,
            "tanh": sympy.tanh,
            "minimum": sympy.Min,
            "maximum": sympy.Max,
        }

    def built(self, formula: Any) -> Any:
        """The object of a formula. What is close to a small whole number becomes it: of these algebra knows most."""
        if isinstance(formula, str):
            return self.sympy.Symbol(formula, real=True)
        if isinstance(formula, (int, float)):
            whole = round(formula)
            exact = formula == whole or (0 < abs(whole) < 100 and abs(formula - whole) < WHOLE * abs(whole))
            return self.sympy.Integer(whole) if exact else self.sympy.Float(formula)
        name, *of = formula
        return self.makers[name](*map(self.built, of))

    def same(self, ours: Any, truth: Any) -> bool:
        """Whether one normal form of both agrees."""
        return any(
            len(left) == len(right) and all(map(self.alike, left, right))
            for left, right in zip(self.forms(ours), self.forms(truth), strict=False)
        )

    def forms(self, formula: Any) -> Iterator[tuple[Any, ...]]:
        """Normal forms, cheap ones first; a quotient in two parts."""
        sympy = self.sympy
        yield (self.pruned(formula),)
        opened = self.pruned(sympy.expand(sympy.expand_log(formula, force=True)))
        yield (opened,)
        yield tuple(map(self.pruned, self.quotient(opened)))
        yield (self.pruned(sympy.expand(opened, trig=True)),)
        yield (self.pruned(sympy.simplify(opened)),)

    def quotient(self, formula: Any) -> tuple[Any, Any]:
        """Numerator and denominator, expanded, such that the number before one term of the latter is 1.

        That term is chosen by what it looks like without its numbers, so that two forms of one formula agree on it.
        """
        sympy = self.sympy
        above, below = map(sympy.expand, sympy.fraction(sympy.together(formula)))
        parts = [term.as_coeff_Mul() for term in sympy.Add.make_args(below)]
        number, _ = min(parts, key=lambda part: str(part[1].xreplace(dict.fromkeys(part[1].atoms(sympy.Float), 1))))
        return sympy.expand(above / number), sympy.expand(below / number)

    def pruned(self, formula: Any) -> Any:
        """A sum without the terms that add nothing to it at any of the points."""
        if not formula.is_Add:
            return formula
        sizes = {term: self.size(term) for term in formula.args}
        largest = max(sizes.values())
        return self.sympy.Add(*(term for term, size in sizes.items() if not size < SMALL * largest))

    def size(self, term: Any) -> float:
        """The largest absolute value of a term at the points; infinite where it cannot be computed."""
        found = 0.0
        for point in self.points:
            values = {self.sympy.Symbol(name, real=True): value for name, value in point.items()}
            try:
                found = max(found, abs(complex(term.subs(values))))
            except (TypeError, ValueError, OverflowError):
                return float("inf")
        return found

    def alike(self, a: Any, b: Any) -> bool:
        """Whether two trees are the same, numbers being close; of sums and products in any order."""
        if a == b:
            return True
        if a.is_number and b.is_number:
            x, y = complex(a), complex(b)
            return abs(x - y) <= CLOSE * max(abs(x), abs(y))
        if a.func != b.func:
            return False
        if not (a.is_Add or a.is_Mul):
            return len(a.args) == len(b.args) and bool(a.args) and all(map(self.alike, a.args, b.args))
        (number, left), (other, right) = self.parted(a), self.parted(b)
        return self.alike(number, other) and len(left) == len(right) and self.matched(left, right)

    def parted(self, formula: Any) -> tuple[Any, list[Any]]:
        """The number in a sum or a product, and the rest of its arguments."""
        numbers = [each for each in formula.args if each.is_number]
        return formula.func(*numbers), [each for each in formula.args if not each.is_number]

    def matched(self, left: list[Any], right: list[Any]) -> bool:
        """Whether every argument on the left has one of its own on the right."""
        if not left:
            return True
        first, *rest = left
        return any(
            self.alike(first, other) and self.matched(rest, [*right[:at], *right[at + 1 :]])
            for at, other in enumerate(right)
        )


if __name__ == "__main__":
    main()
