"""Small changes to programs that search a plane point by point: each changes one thing and none is a whole optimizer.

They change nothing outside the EVOLVE-BLOCK. They read any program whose loop draws `x` and `y`, calls
`value = objective(x, y)` and keeps `best_x` and `best_y`; where they find nothing to change they say `None`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from progevo.rewrite import Change, TreeRewrite, put, statements
from progevo.types import Move

START, END = "# EVOLVE-BLOCK-START", "# EVOLVE-BLOCK-END"


@dataclass(frozen=True, slots=True)
class InBlock:
    """A change to what stands between the two markers; a text without a pair of them is changed nowhere."""

    change: Change

    def __call__(self, source: str, rng: random.Random, /) -> str | None:
        lines = source.splitlines(keepends=True)
        marks = [n for n, line in enumerate(lines) if line.strip() in (START, END)]
        if len(marks) != 2 or lines[marks[0]].strip() != START:
            return None
        first, last = marks[0] + 1, marks[1]
        block = TreeRewrite(self.change)("".join(lines[first:last]), rng)
        return None if block is None else "".join([*lines[:first], block, *lines[last:]])


@dataclass(frozen=True, slots=True)
class Loop:
    """The loop that draws one point after another."""

    function: cst.FunctionDef
    loop: cst.For
    #: Where the loop stands in the function, and the call of the objective in the loop.
    at: int
    call: int


CALL = m.SimpleStatementLine(
    body=[
        m.Assign(
            targets=[m.AssignTarget(m.Name("value"))],
            value=m.Call(m.Name("objective"), args=[m.Arg(m.Name("x")), m.Arg(m.Name("y"))]),
        )
    ]
)


def find_loop(tree: cst.Module) -> Loop | None:
    """The first loop at the top of a function that calls the objective, where the program has the names that we use."""
    names = {node.value for node in m.findall(tree, m.Name()) if isinstance(node, cst.Name)}
    if not {"x", "y", "low", "high", "rng", "budget", "best_x", "best_y", "best_value"} <= names:
        return None
    for function in tree.body:
        if isinstance(function, cst.FunctionDef) and isinstance(function.body, cst.IndentedBlock):
            for at, statement in enumerate(function.body.body):
                if isinstance(statement, cst.For) and isinstance(statement.body, cst.IndentedBlock):
                    calls = [n for n, inner in enumerate(statement.body.body) if m.matches(inner, CALL)]
                    if calls:
                        return Loop(function, statement, at, calls[0])
    return None


def with_lines(tree: cst.Module, where: Loop, *, ahead: str = "", before: str = "", after: str = "") -> cst.Module:
    """The tree with statements ahead of the loop, and right before and after the call in it."""
    inner = list(where.loop.body.body)
    at = where.call
    inner = [*inner[:at], *statements(before), inner[at], *statements(after), *inner[at + 1 :]]
    loop = where.loop.with_changes(body=where.loop.body.with_changes(body=inner))
    outer = list(where.function.body.body)
    outer[where.at : where.at + 1] = [*statements(ahead), loop]
    return put(tree, where.function.body, where.function.body.with_changes(body=outer))


def counted(tree: cst.Module, where: Loop) -> cst.Module:
    """The tree with a loop variable called `step`, if it had none that is used."""
    if m.matches(where.loop.target, m.Name("_")):
        return put(tree, where.loop.target, cst.Name("step"))
    return tree


def counts(where: Loop) -> bool:
    """Whether the loop goes over a range, from 0 on, under a name that is free or ours."""
    return m.matches(
        where.loop, m.For(target=m.Name("_") | m.Name("step"), iter=m.Call(m.Name("range"), args=[m.Arg()]))
    )


def find_step(tree: cst.Module) -> cst.If | None:
    """The branch that draws a point near another one."""
    near = m.Assign(targets=[m.AssignTarget(m.Tuple())])
    for branch in m.findall(tree, m.If(orelse=None, body=m.IndentedBlock())):
        assert isinstance(branch, cst.If)
        first = branch.body.body[0]
        if m.matches(first, m.SimpleStatementLine(body=[near])) and "near_x" in tree.code_for_node(first):
            return branch
    return None


def in_branch(tree: cst.Module, branch: cst.If, text: str) -> cst.Module:
    """The tree with statements at the end of a branch."""
    return put(tree, branch.body, branch.body.with_changes(body=[*branch.body.body, *statements(text)]))


STEP = """\
if rng.random() < {chance}:
    near_x, near_y = best_x, best_y
    x, y = rng.gauss(near_x, reach), rng.gauss(near_y, reach)
"""


def step_from_best(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    return with_step(tree, rng, (0.3, 0.4, 0.5))


def with_step(tree: cst.Module, rng: random.Random, chances: Sequence[float]) -> cst.Module | None:
    where = find_loop(tree)
    if where is None or "near_x" in tree.code:
        return None
    step = STEP.format(chance=rng.choice(chances))
    return with_lines(tree, where, ahead=f"reach = {rng.choice((0.3, 0.5, 0.7))}\n", before=step)


APART = """\
def apart(points, count={count}, distance={distance}):
    \"\"\"The best of the points, each at a distance from all better ones.\"\"\"
    kept = []
    for value, x, y in sorted(points):
        if len(kept) < count and all((x - a) ** 2 + (y - b) ** 2 >= distance**2 for _, a, b in kept):
            kept.append((value, x, y))
    return kept


"""


def step_from_several(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    if find_step(tree) is None:  # a rare step, or this alone would go most of the way
        tree = with_step(tree, rng, (0.2, 0.3)) or tree
    where, step = find_loop(tree), find_step(tree)
    if where is None or step is None or "apart" in tree.code:
        return None
    text = APART.format(count=3, distance=rng.choice((1.0, 1.5, 2.0)))
    changed = put(tree, step.body.body[0], statements("_, near_x, near_y = rng.choice(kept)\n")[0])
    where = find_loop(changed)
    assert where is not None
    changed = with_lines(
        changed,
        where,
        ahead="kept = [(best_value, best_x, best_y)]\n",
        after="kept = apart([*kept, (value, x, y)])\n",
    )
    return changed.with_changes(body=[*statements(text), *changed.body])


CHANCE = m.Comparison(
    left=m.Call(m.Attribute(m.Name("rng"), m.Name("random"))),
    comparisons=[m.ComparisonTarget(m.LessThan(), m.Float())],
)


def explore_first(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    where, step = find_loop(tree), find_step(tree)
    if where is None or step is None or not counts(where) or not m.matches(step.test, CHANCE):
        return None
    share = rng.choice((0.4, 0.5, 0.6))
    return counted(put(tree, step.test, cst.parse_expression(f"step > {share} * budget")), where)


#: The R2 sequence of Roberts (2018): powers of 1 / g, where g = 1.3247... solves g^3 = g + 1.
SPREAD = {"x": "0.7548776662", "y": "0.5698402910"}


def spread_points(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    where = find_loop(tree)
    if where is None or not counts(where) or SPREAD["x"] in tree.code:
        return None
    for name, ratio in SPREAD.items():
        for line in where.loop.body.body[: where.call]:
            if tree.code_for_node(line).strip() == f"{name} = rng.uniform(low, high)":
                tree = put(tree, line, statements(f"{name} = low + (high - low) * (step * {ratio} % 1)\n")[0])
                break
        else:
            return None
    where = find_loop(tree)
    assert where is not None
    return counted(tree, where)


def one_axis(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    step = find_step(tree)
    if step is None or "(near_x, y)" in tree.code:
        return None
    return in_branch(tree, step, "x, y = rng.choice([(x, near_y), (near_x, y)])\n")


def shrink_reach(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    step = find_step(tree)
    if step is None or m.findall(step, m.AugAssign()):
        return None
    return in_branch(tree, step, f"reach *= {rng.choice((0.97, 0.98, 0.99))}\n")


MOVES: tuple[Move, ...] = tuple(
    Move(name=name, rewrite=InBlock(change), about=about)
    for name, change, about in (
        ("step-from-best", step_from_best, "Draws some of the points around the best one so far."),
        (
            "step-from-several",
            step_from_several,
            "Draws points around one of the best that lie apart, not around the best.",
        ),
        ("explore-first", explore_first, "Steps only once a share of the calls is spent, and then always."),
        ("spread-points", spread_points, "Spreads the points over the plane by a sequence, not by chance."),
        ("one-axis", one_axis, "Steps along one axis at a time."),
        ("shrink-reach", shrink_reach, "Makes the reach of every step a little smaller than the last."),
    )
)
