"""Small changes to programs that compute with numpy and scipy, for the offline mutator: one thing each.

None holds a method that the program has not. They set a keyword of a library call, take the library's other function
of the same name, or save work that is done again and again. They know calls by what was imported, under whatever
name; where they find nothing to change they say `None`. Whether a solution still holds, the check decides.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from progevo.rewrite import TreeRewrite, put, statements, with_import
from progevo.types import Move

Choices = Mapping[str, Sequence[str]]

FINITE: Choices = {"check_finite": ("False",)}
INPLACE: Choices = {"overwrite_a": ("True",)}
#: By the full name of a function: what its keywords may become.
METHODS: Mapping[str, Choices] = {
    "scipy.integrate.solve_ivp": {"method": ("'DOP853'", "'LSODA'", "'RK23'", "'Radau'", "'BDF'")},
    "scipy.linalg.eigh": {"driver": ("'ev'", "'evd'", "'evr'")},
    "scipy.linalg.lstsq": {"lapack_driver": ("'gelsd'", "'gelsy'", "'gelss'")},
    "scipy.linalg.solve": {"assume_a": ("'sym'", "'pos'", "'gen'")},
    "scipy.linalg.svd": {"lapack_driver": ("'gesdd'", "'gesvd'")},
    "scipy.optimize.least_squares": {"method": ("'trf'", "'lm'", "'dogbox'")},
    "scipy.signal.convolve": {"method": ("'fft'", "'direct'")},
    "scipy.signal.correlate": {"method": ("'fft'", "'direct'")},
    "scipy.sparse.csgraph.shortest_path": {"method": ("'D'", "'BF'", "'J'", "'FW'")},
}
TOLERANCES: Mapping[str, Choices] = {
    "scipy.integrate.solve_ivp": {
        "rtol": ("1e-10", "1e-8", "1e-7", "1e-6", "1e-5"),
        "atol": ("1e-10", "1e-8", "1e-7", "1e-6"),
    },
    "scipy.optimize.least_squares": {"xtol": ("1e-10", "1e-6"), "ftol": ("1e-10", "1e-6")},
}
LINEAR_ALGEBRA = ("cholesky", "eigh", "eigvalsh", "inv", "lstsq", "lu_factor", "qr", "solve", "svd")
CHECKS: Mapping[str, Choices] = {f"scipy.linalg.{name}": FINITE for name in (*LINEAR_ALGEBRA, "cho_factor")}
OVERWRITES: Mapping[str, Choices] = {f"scipy.linalg.{name}": INPLACE for name in LINEAR_ALGEBRA}
#: Functions that both libraries have, with other routines beneath.
TWINS = ("cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "qr", "solve", "svd")
#: Makes the same array again whenever it is called with the same arguments.
MAKERS = frozenset(f"numpy.{name}" for name in ("arange", "eye", "identity", "linspace"))


@dataclass(frozen=True, slots=True)
class Keyword:
    """Sets one keyword of one call of a function of a table."""

    table: Mapping[str, Choices]

    def __call__(self, tree: cst.Module, rng: random.Random) -> cst.Module | None:
        known = [(call, self.table[name]) for call, name in calls(tree) if name in self.table]
        known = [(call, choices) for call, choices in known if not any(arg.star for arg in call.args)]
        if not known:
            return None
        call, choices = rng.choice(known)
        keyword = rng.choice(sorted(choices))
        value = cst.parse_expression(rng.choice(choices[keyword]))
        for index, arg in enumerate(call.args):
            if arg.keyword is not None and arg.keyword.value == keyword:
                args = [*call.args[:index], arg.with_changes(value=value), *call.args[index + 1 :]]
                return put(tree, call, call.with_changes(args=args))
        plain = cst.AssignEqual(whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace(""))
        new = cst.Arg(keyword=cst.Name(keyword), value=value, equal=plain)
        return put(tree, call, call.with_changes(args=[*call.args, new]))


def other_library(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Takes scipy's function for numpy's of the same name, or the other way round."""
    pairs = {f"numpy.linalg.{name}": ("scipy.linalg", name) for name in TWINS}
    pairs |= {f"scipy.linalg.{name}": ("numpy.linalg", name) for name in TWINS}
    known = [(call, pairs[name]) for call, name in calls(tree) if name in pairs]
    known = [(call, pair) for call, pair in known if not any(arg.keyword or arg.star for arg in call.args)]
    if not known:
        return None
    call, (module, name) = rng.choice(known)
    library = module.partition(".")[0]
    local = f"{library}_{name}"
    changed = put(tree, call, call.with_changes(func=cst.Name(local)))
    return with_import(changed, module, f"{name} as {local}")


def made_once(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Makes an array before a loop that the loop makes again each time round."""
    found = [(loop, call) for loop in loops(tree) for call, name in calls(tree, loop.body) if name in MAKERS]
    found = [(loop, call) for loop, call in found if not names_in(call) & bound_in(loop)]
    if not found:
        return None
    loop, call = rng.choice(found)
    free = next(name for number in range(100) if (name := f"made{number or ''}") not in tree.code)
    [before] = statements(f"{free} = {tree.code_for_node(call)}\n")
    body = loop.body.deep_replace(call, cst.Name(free))
    lines = [before.with_changes(leading_lines=loop.leading_lines), loop.with_changes(body=body, leading_lines=[])]
    return put(tree, loop, cst.FlattenSentinel(lines))  # type: ignore[arg-type]


def insort(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    """Puts a new item in its place in a sorted list, where the list was sorted anew."""
    for block in m.findall(tree, m.IndentedBlock()):
        assert isinstance(block, cst.IndentedBlock)
        for at, (first, second) in enumerate(zip(block.body, block.body[1:], strict=False)):
            one, two = (method_call(line) for line in (first, second))
            if one is None or two is None or (one[1], two[1]) != ("append", "sort"):
                continue
            if not one[0].deep_equals(two[0]) or len(one[2].args) != 1 or two[2].args:
                continue
            place, item = (tree.code_for_node(node) for node in (one[0], one[2].args[0].value))
            new = statements(f"insort({place}, {item})\n")
            changed = put(tree, block, block.with_changes(body=[*block.body[:at], *new, *block.body[at + 2 :]]))
            return with_import(changed, "bisect", "insort")
    return None


def method_call(line: cst.BaseStatement) -> tuple[cst.BaseExpression, str, cst.Call] | None:
    """Object, method and call of a line that is one such call and nothing else."""
    if m.matches(line, m.SimpleStatementLine([m.Expr(m.Call(func=m.Attribute(value=m.Name() | m.Attribute())))])):
        call = line.body[0].value  # type: ignore[attr-defined]
        return call.func.value, call.func.attr.value, call
    return None


def calls(tree: cst.Module, within: cst.CSTNode | None = None) -> list[tuple[cst.Call, str]]:
    """Every call of something imported, and its full name."""
    origins = imported(tree)
    found = []
    for call in m.findall(within or tree, m.Call()):
        assert isinstance(call, cst.Call)
        first, *rest = dotted(call.func)
        if first in origins:
            found.append((call, ".".join([origins[first], *rest])))
    return found


def imported(tree: cst.Module) -> dict[str, str]:
    """name here -> full name, of what the top of a program imports."""
    found = {}
    for statement in tree.body:
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        for small in statement.body:
            if isinstance(small, cst.Import | cst.ImportFrom) and not isinstance(small.names, cst.ImportStar):
                module = ".".join(dotted(small.module)) if isinstance(small, cst.ImportFrom) and small.module else ""
                for alias in small.names:
                    name = ".".join(dotted(alias.name))
                    if alias.asname is not None:
                        found[tree.code_for_node(alias.asname.name)] = f"{module}.{name}".lstrip(".")
                    elif module:
                        found[name] = f"{module}.{name}"
                    else:  # `import a.b` binds `a`
                        found[name.partition(".")[0]] = name.partition(".")[0]
    return found


def dotted(node: cst.CSTNode | None) -> list[str]:
    """The parts of a name such as `a.b.c`; one empty part for anything else."""
    if isinstance(node, cst.Attribute):
        return [*dotted(node.value), node.attr.value]
    return [node.value] if isinstance(node, cst.Name) else [""]


def loops(tree: cst.Module) -> list[cst.For]:
    """The loops over something, in functions or out of them."""
    return [loop for loop in m.findall(tree, m.For(body=m.IndentedBlock())) if isinstance(loop, cst.For)]


def names_in(node: cst.CSTNode) -> set[str]:
    """The names in it, but for those behind a dot."""
    behind = [each.attr for each in m.findall(node, m.Attribute()) if isinstance(each, cst.Attribute)]
    names = [each for each in m.findall(node, m.Name()) if isinstance(each, cst.Name)]
    return {each.value for each in names if not any(each is other for other in behind)}


def bound_in(loop: cst.For) -> set[str]:
    """Names that a loop may bind or change, roughly: its variables, what it assigns, what it calls methods of."""
    found = names_in(loop.target)
    for node in m.findall(loop.body, m.AssignTarget() | m.AugAssign() | m.AnnAssign() | m.NamedExpr() | m.For()):
        found |= names_in(node.target)  # type: ignore[attr-defined]
    for node in m.findall(loop.body, m.Expr(m.Call(func=m.Attribute()))):
        found |= names_in(node.value.func)  # type: ignore[attr-defined]
    return found


MOVES: tuple[Move, ...] = tuple(
    Move(name=name, rewrite=TreeRewrite(change), about=about)
    for name, change, about in (
        ("set-method", Keyword(METHODS), "Sets which of its methods a library function uses."),
        ("set-tolerance", Keyword(TOLERANCES), "Sets a tolerance of a library function."),
        (
            "leave-check-out",
            Keyword(CHECKS),
            "Tells a function of scipy's not to look for numbers that are not finite.",
        ),
        ("in-place", Keyword(OVERWRITES), "Lets a function of scipy's overwrite its argument."),
        ("other-library", other_library, "Takes scipy's function for numpy's of that name, or the other way round."),
        ("made-once", made_once, "Makes an array before a loop, not in it."),
        ("insort", insort, "Puts an item in its place in a sorted list instead of sorting it anew."),
    )
)
