"""Changes to the model of an S3E1 program: its kind, its parameters, and what is put round it.

Counts of trees, rounds and members stay at 50 or below, as the prompt asks, and no random state is ever drawn: a lucky
one would only fit the rows that the search ranks on.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst

from progevo.rewrite import put, with_import


@dataclass(frozen=True, slots=True)
class Kind:
    """A regressor: where it is imported from, how it is first written, and what may be set on it."""

    module: str
    arguments: str = ""
    parameters: Mapping[str, Sequence[float]] = field(default_factory=dict)
    #: Several of it, each under a random state of its own, can be averaged within the rules and the time.
    light_and_random: bool = False


FOREST: Mapping[str, Sequence[float]] = {
    "min_samples_leaf": (2, 3, 5, 8),
    "max_features": (0.3, 0.5, 0.7),
}
KINDS: Mapping[str, Kind] = {
    "HistGradientBoostingRegressor": Kind(
        "sklearn.ensemble",
        "max_iter=50, random_state=0",
        {
            "learning_rate": (0.05, 0.08, 0.1, 0.13, 0.16, 0.2),
            "max_leaf_nodes": (15, 23, 31, 47, 63),
            "min_samples_leaf": (10, 20, 40, 80),
            "l2_regularization": (0.1, 1.0, 10.0),
            "max_features": (0.3, 0.5, 0.7, 1.0),
        },
        light_and_random=True,
    ),
    "GradientBoostingRegressor": Kind(
        "sklearn.ensemble",
        "n_estimators=50, subsample=0.5, max_features=0.5, random_state=0",
        {
            "learning_rate": (0.1, 0.15, 0.2, 0.3),
            "max_depth": (3, 4, 5),
            "min_samples_leaf": (1, 5, 10, 20),
            "max_features": (0.3, 0.5, 0.7),
        },
    ),
    "RandomForestRegressor": Kind(
        "sklearn.ensemble",
        "n_estimators=50, min_samples_leaf=3, max_features=0.5, max_samples=0.3, random_state=0",
        FOREST,
    ),
    "ExtraTreesRegressor": Kind(
        "sklearn.ensemble", "n_estimators=50, min_samples_leaf=3, max_features=0.5, random_state=0", FOREST
    ),
    "KNeighborsRegressor": Kind(
        "sklearn.neighbors",
        "n_neighbors=10",
        {"n_neighbors": (5, 10, 20, 30)},
    ),
}
LINEAR = frozenset({"LinearRegression", "Ridge", "Lasso", "ElasticNet"})
#: Estimators that put themselves round another one.
WRAPPERS = frozenset({"VotingRegressor", "BaggingRegressor", "StackingRegressor", "TransformedTargetRegressor"})
#: Kinds that feel the scale or the shape of a column; trees do not.
SCALED = LINEAR | {"KNeighborsRegressor", "SVR", "MLPRegressor"}


class Estimator(NamedTuple):
    """A call that builds an estimator, and the names of the calls round it, outermost first."""

    name: str
    call: cst.Call
    around: tuple[str, ...]


class EstimatorReader(cst.CSTVisitor):
    """Collects the estimators of a program in the order of its text."""

    def __init__(self) -> None:
        self.found: list[Estimator] = []
        self.around: list[str] = []

    def visit_Call(self, node: cst.Call) -> None:
        name = callee(node)
        if name.endswith("Regressor") or name in SCALED:
            self.found.append(Estimator(name, node, tuple(self.around)))
        self.around.append(name)

    def leave_Call(self, original_node: cst.Call) -> None:
        self.around.pop()


def callee(call: cst.Call) -> str:
    """The last word of what is called: `"read_csv"` for `pd.read_csv(...)`, empty for anything unnamed."""
    function = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return function.value if isinstance(function, cst.Name) else ""


def estimators(tree: cst.Module) -> list[Estimator]:
    """All estimators that a program builds."""
    reader = EstimatorReader()
    tree.visit(reader)
    return reader.found


def model(tree: cst.Module) -> list[Estimator]:
    """The model: the last estimator that stands in no other, with all those inside it; earlier ones make features."""
    found = estimators(tree)
    starts = [index for index, estimator in enumerate(found) if not WRAPPERS.intersection(estimator.around)]
    return found[starts[-1] :] if starts else []


def written(kind: str) -> str:
    """The call that builds an estimator of a kind, as it comes in first."""
    return f"{kind}({KINDS[kind].arguments})"


def swap_estimator(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    parts = [part for part in model(tree) if part.name not in WRAPPERS]
    if not parts:
        return None
    old = rng.choice(parts)
    seed = seed_of(old.call)
    # What is averaged over seeds stays light and random.
    kinds = [kind for kind in KINDS if kind != old.name and (seed is None or KINDS[kind].light_and_random)]
    if not kinds:
        return None
    kind = rng.choice(kinds)
    new = cst.parse_expression(written(kind))
    assert isinstance(new, cst.Call)
    if seed is not None:
        new = with_argument(new, "random_state", seed)
    return with_import(put(tree, old.call, new), KINDS[kind].module, kind)


def set_parameter(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    return with_drawn(tree, model(tree), rng)


def set_neighbours(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    return with_drawn(tree, [e for e in estimators(tree) if e.name == "KNeighborsRegressor"], rng)


def with_drawn(tree: cst.Module, among: Sequence[Estimator], rng: random.Random) -> cst.Module | None:
    """The tree with one parameter of one of these estimators set to a value drawn for it."""
    # A value given by position may be that of the parameter drawn, and is given once only.
    settable = [
        estimator for estimator in among if estimator.name in KINDS and all(a.keyword for a in estimator.call.args)
    ]
    if not settable:
        return None
    name, call, _ = rng.choice(settable)
    parameter, values = rng.choice(list(KINDS[name].parameters.items()))
    present = argument(call, parameter)
    now = None if present is None else tree.code_for_node(present.value)
    value = rng.choice([text for text in map(repr, values) if text != now])
    return put(tree, call, with_argument(call, parameter, cst.parse_expression(value)))


def argument(call: cst.Call, keyword: str) -> cst.Arg | None:
    """The keyword argument of that name, if a call has it."""
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == keyword), None)


def with_argument(call: cst.Call, keyword: str, value: cst.BaseExpression) -> cst.Call:
    """The call with a keyword argument set: in its place where it stands already, else at the end."""
    present = argument(call, keyword)
    if present is not None:
        return call.with_changes(args=[arg.with_changes(value=value) if arg is present else arg for arg in call.args])
    plain = cst.SimpleWhitespace("")
    equal = cst.AssignEqual(whitespace_before=plain, whitespace_after=plain)
    new = cst.Arg(value, keyword=cst.Name(keyword), equal=equal)
    match call.args:
        case [*head, cst.Arg(comma=cst.Comma(whitespace_after=cst.ParenthesizedWhitespace() as gap) as comma) as last]:
            # One argument a line: so is the new one.
            before = call.whitespace_before_args
            start = before.last_line if isinstance(before, cst.ParenthesizedWhitespace) else gap.last_line
            end = cst.ParenthesizedWhitespace(indent=gap.indent, last_line=gap.last_line)
            comma = comma.with_changes(whitespace_after=gap.with_changes(last_line=start))
            added = [*head, last.with_changes(comma=comma), new.with_changes(comma=cst.Comma(whitespace_after=end))]
            return call.with_changes(args=added)
    return call.with_changes(args=[*call.args, new])


def seed_of(call: cst.Call) -> cst.Name | None:
    """The variable that a call takes its random state from: it is one of several then."""
    state = argument(call, "random_state")
    return state.value if state is not None and isinstance(state.value, cst.Name) else None


def average_seeds(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    parts = [p for p in model(tree) if p.name in KINDS and KINDS[p.name].light_and_random and seed_of(p.call) is None]
    if not parts:
        return None
    part = rng.choice(parts)
    one = tree.code_for_node(with_argument(part.call, "random_state", cst.Name("seed")))
    members = f'[(f"seed {{seed}}", {one}) for seed in range({rng.choice((4, 6, 8))})]'
    return wrapped(tree, part.call, f"VotingRegressor({members})", "sklearn.ensemble", "VotingRegressor")


def average_with_another(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    whole = model(tree)
    if not whole or any(part.name == "VotingRegressor" and written_out(part.call) for part in whole):
        return None
    kinds = [kind for kind in KINDS if kind not in {part.name for part in whole}]
    if not kinds:
        return None
    kind = rng.choice(kinds)
    text = f'VotingRegressor([("first", {tree.code_for_node(whole[0].call)}), ("second", {written(kind)})])'
    tree = wrapped(tree, whole[0].call, text, "sklearn.ensemble", "VotingRegressor")
    return with_import(tree, KINDS[kind].module, kind)


def written_out(call: cst.Call) -> bool:
    """Whether a call averages a written-out list of estimators (and not one estimator over seeds)."""
    return bool(call.args) and isinstance(call.args[0].value, cst.List)


def transform_target(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    whole = model(tree)
    if not whole or any(part.name == "TransformedTargetRegressor" for part in whole):
        return None
    there, back = rng.choice((("np.log", "np.exp"), ("np.sqrt", "np.square")))
    inner = tree.code_for_node(whole[0].call)
    text = f"TransformedTargetRegressor(regressor={inner}, func={there}, inverse_func={back})"
    tree = wrapped(tree, whole[0].call, text, "sklearn.compose", "TransformedTargetRegressor")
    return with_import(tree, "numpy as np")


def prepare_inputs(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    parts = [part for part in model(tree) if part.name in SCALED and "make_pipeline" not in part.around]
    if not parts:
        return None
    part = rng.choice(parts)
    step = rng.choice(("StandardScaler", "QuantileTransformer"))
    text = f"make_pipeline({step}(), {tree.code_for_node(part.call)})"
    tree = wrapped(tree, part.call, text, "sklearn.pipeline", "make_pipeline")
    return with_import(tree, "sklearn.preprocessing", step)


def wrapped(tree: cst.Module, inner: cst.Call, text: str, module: str, name: str) -> cst.Module:
    """The tree with a call replaced by an expression that holds it, and the import which that needs."""
    return with_import(put(tree, inner, cst.parse_expression(text)), module, name)
