"""Small changes to programs of S3E1, for the offline mutator: each changes one thing and none is a finished method.

They read any program that loads its two tables with `read_csv`; where they find nothing to change they say `None`.
Counts of trees, rounds and members stay at 50 or below, as the prompt asks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst
import libcst.matchers as m

from progevo.rewrite import TreeRewrite, statements, with_import
from progevo.types import Move

TARGET = "MedHouseVal"

#: One value that a parameter may take.
Value = int | float | str


# --- estimators -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """A regressor: where it is imported from, how it is first written, and what may be set on it."""

    module: str
    arguments: str = ""
    parameters: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    #: Several of it, each under a random state of its own, can be averaged within the rules and the time.
    light_and_random: bool = False


FOREST: Mapping[str, Sequence[Value]] = {
    "min_samples_leaf": (1, 2, 3, 5, 8),
    "max_features": (0.3, 0.5, 0.7, 1.0),
    "max_depth": (12, 16, 20),
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
        "n_estimators=50, subsample=0.5, random_state=0",
        {
            "learning_rate": (0.1, 0.15, 0.2, 0.3),
            "max_depth": (3, 4, 5, 6),
            "min_samples_leaf": (1, 5, 10, 20),
            "max_features": (0.3, 0.5, 0.7, 1.0),
        },
    ),
    "RandomForestRegressor": Kind(
        "sklearn.ensemble", "n_estimators=50, max_features=0.5, max_samples=0.3, random_state=0", FOREST
    ),
    "ExtraTreesRegressor": Kind(
        "sklearn.ensemble", "n_estimators=50, min_samples_leaf=3, random_state=0", FOREST
    ),
    "DecisionTreeRegressor": Kind(
        "sklearn.tree",
        "min_samples_leaf=20, random_state=0",
        {"min_samples_leaf": (5, 10, 20, 40), "max_features": (0.5, 0.7, 1.0)},
        light_and_random=True,
    ),
    "KNeighborsRegressor": Kind(
        "sklearn.neighbors",
        "n_neighbors=10",
        {"n_neighbors": (2, 3, 5, 8, 12, 20, 30), "weights": ("uniform", "distance")},
    ),
    "Ridge": Kind("sklearn.linear_model", "", {"alpha": (0.1, 1.0, 10.0, 100.0)}),
    "LinearRegression": Kind("sklearn.linear_model"),
}
#: Estimators that put themselves round another one.
WRAPPERS = frozenset({"VotingRegressor", "BaggingRegressor", "StackingRegressor", "TransformedTargetRegressor"})
#: Kinds that feel the scale or the shape of a column; trees do not.
SCALED = frozenset({"KNeighborsRegressor", "Ridge", "LinearRegression"})


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
        if name in KINDS or name in WRAPPERS:
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


def put(tree: cst.Module, old: cst.CSTNode, new: cst.CSTNode) -> cst.Module:
    """The tree with one node replaced by another."""
    changed = tree.deep_replace(old, new)
    assert isinstance(changed, cst.Module)
    return changed


def written(kind: str) -> str:
    """The call that first builds an estimator of a kind."""
    return f"{kind}({KINDS[kind].arguments})"


def swap_estimator(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    parts = [part for part in model(tree) if part.name in KINDS]
    if not parts:
        return None
    old = rng.choice(parts)
    averaged = seed_of(old.call) is not None  # what is averaged over seeds stays light and random
    kind = rng.choice([k for k in KINDS if k != old.name and (KINDS[k].light_and_random or not averaged)])
    new = cst.parse_expression(written(kind))
    assert isinstance(new, cst.Call)
    if (seed := seed_of(old.call)) is not None:
        new = with_argument(new, "random_state", seed)
    return with_import(put(tree, old.call, new), KINDS[kind].module, kind)


def set_parameter(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    found = [e for e in estimators(tree) if e.name in KINDS and KINDS[e.name].parameters]
    if not found:
        return None
    call = rng.choice(found)
    parameter, values = rng.choice(list(KINDS[call.name].parameters.items()))
    present = argument(call.call, parameter)
    now = None if present is None else tree.code_for_node(present.value)
    value = rng.choice([text for text in map(literal, values) if text != now])
    return put(tree, call.call, with_argument(call.call, parameter, cst.parse_expression(value)))


def literal(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def argument(call: cst.Call, keyword: str) -> cst.Arg | None:
    """The keyword argument of that name, if a call has it."""
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == keyword), None)


def with_argument(call: cst.Call, keyword: str, value: cst.BaseExpression) -> cst.Call:
    """The call with a keyword argument set: in its place where it stands already, else at the end."""
    present = argument(call, keyword)
    if present is not None:
        return call.with_changes(
            args=[arg.with_changes(value=value) if arg is present else arg for arg in call.args]
        )
    plain = cst.SimpleWhitespace("")
    equal = cst.AssignEqual(whitespace_before=plain, whitespace_after=plain)
    return call.with_changes(args=[*call.args, cst.Arg(value, keyword=cst.Name(keyword), equal=equal)])


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
    kind = rng.choice([k for k in KINDS if k not in {part.name for part in whole}])
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
    step, arguments = rng.choice(
        (("StandardScaler", ""), ("QuantileTransformer", ""), ("PolynomialFeatures", "include_bias=False"))
    )
    text = f"make_pipeline({step}({arguments}), {tree.code_for_node(part.call)})"
    tree = wrapped(tree, part.call, text, "sklearn.pipeline", "make_pipeline")
    return with_import(tree, "sklearn.preprocessing", step)


def wrapped(tree: cst.Module, inner: cst.Call, text: str, module: str, name: str) -> cst.Module:
    """The tree with a call replaced by an expression that holds it, and the import which that needs."""
    return with_import(put(tree, inner, cst.parse_expression(text)), module, name)


# --- tables and columns ---------------------------------------------------------------------------------------------


class Tables(NamedTuple):
    """Where a program reads its two tables, and what it calls them."""

    function: cst.FunctionDef
    train: str
    test: str
    #: How many statements of the function end with the last read.
    read: int


def tables(tree: cst.Module) -> Tables | None:
    """The first function that reads two tables into names of its own, one after the other."""
    for function in m.findall(tree, m.FunctionDef(body=m.IndentedBlock())):
        assert isinstance(function, cst.FunctionDef)
        names: list[str] = []
        for index, statement in enumerate(function.body.body):
            names += read_names(statement)
            if len(names) == 2 and names[0] != names[1]:
                # A program may read the test table first; its names are all there is to tell by.
                train, test = names if "test" not in names[0].lower() else names[::-1]
                return Tables(function, train, test, index + 1)
    return None


def read_names(statement: cst.CSTNode) -> list[str]:
    """What a statement of the form `name = ...read_csv(...)...` (or two of them as tuples) assigns."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]):
            reads = m.findall(value, m.Call(func=m.Name("read_csv") | m.Attribute(attr=m.Name("read_csv"))))
            parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
            names = [part.value for part in parts if isinstance(part, cst.Name)]
            return names if reads and len(reads) == len(names) else []
    return []


def texts(tree: cst.Module) -> set[str]:
    """All plain strings of a program: which columns it speaks of."""
    return {str(node.raw_value) for node in m.findall(tree, m.SimpleString()) if isinstance(node, cst.SimpleString)}


def inserted(tree: cst.Module, where: Tables, text: str) -> cst.Module:
    """The tree with a snippet right after its tables have been read."""
    body = where.function.body.body
    new = where.function.body.with_changes(body=[*body[: where.read], *statements(text), *body[where.read :]])
    return put(tree, where.function.body, new)


def drop_id(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    where = tables(tree)
    if where is None or "id" in texts(tree):
        return None
    train, test = where.train, where.test
    return inserted(tree, where, f'{train}, {test} = {train}.drop(columns="id"), {test}.drop(columns="id")\n')


def nearest_value(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    where = tables(tree)
    if where is None or "nearest_value" in texts(tree):
        return None
    train, test = where.train, where.test
    text = f"""\
place, value = ["Latitude", "Longitude"], {train}["{TARGET}"]
nearest = KNeighborsRegressor(n_neighbors=1)
# Out of fold: no training row may see its own value.
{train}["nearest_value"] = cross_val_predict(nearest, {train}[place], value, cv=5)
{test}["nearest_value"] = nearest.fit({train}[place], value).predict({test}[place])
"""
    tree = with_import(inserted(tree, where, text), "sklearn.model_selection", "cross_val_predict")
    return with_import(tree, "sklearn.neighbors", "KNeighborsRegressor")


@dataclass(frozen=True, slots=True)
class NewColumn:
    """Adds one column, drawn from `choices` (its name, and its value where `{frame}` stands for the table)."""

    choices: Mapping[str, str]

    def __call__(self, tree: cst.Module, rng: random.Random) -> cst.Module | None:
        where = tables(tree)
        left = [name for name in self.choices if name not in texts(tree)]
        if where is None or not left:
            return None
        name = rng.choice(left)
        value = self.choices[name]
        changed = with_column(tree, where, name, value)
        return with_import(changed, "numpy as np") if "np." in value else changed


def with_column(tree: cst.Module, where: Tables, name: str, value: str) -> cst.Module:
    """The tree with a column set on both tables: in a loop over the two if there is one, else in a loop of its own."""
    for loop in loops(where):
        assert isinstance(loop.target, cst.Name)
        line = f'{loop.target.value}["{name}"] = {value}\n'.replace("{frame}", loop.target.value)
        return put(tree, loop.body, loop.body.with_changes(body=[*loop.body.body, *statements(line)]))
    head = f"for frame in ({where.train}, {where.test}):\n"
    return inserted(tree, where, head + f'    frame["{name}"] = {value}\n'.replace("{frame}", "frame"))


def loops(where: Tables) -> Iterator[cst.For]:
    """Loops of the form `for frame in (train, test):`."""
    element = [m.Element(m.Name(name)) for name in (where.train, where.test)]
    pattern = m.For(target=m.Name(), iter=m.Tuple(element) | m.List(element), body=m.IndentedBlock())
    for statement in where.function.body.body:
        if isinstance(statement, cst.For) and m.matches(statement, pattern):
            yield statement


def distance(latitude: float, longitude: float) -> str:
    """The distance to a place, in degrees."""
    return f'np.hypot({{frame}}["Latitude"] - {latitude}, {{frame}}["Longitude"] + {-longitude})'


RATIOS = {
    "rooms_per_person": '{frame}["AveRooms"] / {frame}["AveOccup"]',
    "bedroom_share": '{frame}["AveBedrms"] / {frame}["AveRooms"]',
    "households": '{frame}["Population"] / {frame}["AveOccup"]',
    "income_per_person": '{frame}["MedInc"] / {frame}["AveOccup"]',
    "income_per_room": '{frame}["MedInc"] / {frame}["AveRooms"]',
}
CITIES = {
    "to_los_angeles": distance(34.05, -118.24),
    "to_san_francisco": distance(37.77, -122.42),
    "to_san_diego": distance(32.72, -117.16),
    "to_san_jose": distance(37.34, -121.89),
    "to_sacramento": distance(38.58, -121.49),
}
#: Points along the coast, from the border of Oregon to that of Mexico.
COAST = """\
coast = [
    (41.8, -124.2), (40.4, -124.4), (38.9, -123.7), (37.8, -122.5), (36.6, -121.9),
    (35.3, -120.9), (34.4, -119.7), (34.0, -118.5), (33.7, -118.2), (32.7, -117.2),
]
"""
TO_COAST = 'np.min([np.hypot({frame}["Latitude"] - a, {frame}["Longitude"] - b) for a, b in coast], axis=0)'
ROTATIONS = {
    f"north_{angle}": f'{north} * {{frame}}["Latitude"] + {east} * {{frame}}["Longitude"]'
    for angle, north, east in (
        (15, 0.966, 0.259), (30, 0.866, 0.5), (45, 0.707, 0.707), (60, 0.5, 0.866), (135, -0.707, 0.707)
    )
}
LOGS = {
    f"log_{column.lower()}": f'np.log1p({{frame}}["{column}"])'
    for column in ("MedInc", "AveRooms", "AveBedrms", "Population", "AveOccup")
}



def coast_distance(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    where = tables(tree)
    if where is None or "coast_distance" in texts(tree):
        return None
    tree = with_column(tree, where, "coast_distance", TO_COAST)
    where = tables(tree)
    return where and with_import(inserted(tree, where, COAST), "numpy as np")


# --- predictions ----------------------------------------------------------------------------------------------------


def clip(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    where = tables(tree)
    if where is None:
        return None
    match where.function.body.body[-1]:
        case cst.SimpleStatementLine(body=[cst.Return(value=cst.BaseExpression() as value)]):
            if m.matches(value, m.Call(func=m.Attribute(attr=m.Name("clip")))):
                return None
            target = f'{where.train}["{TARGET}"]'
            text = f"np.clip({tree.code_for_node(value)}, {target}.min(), {target}.max())"
            return with_import(put(tree, value, cst.parse_expression(text)), "numpy as np")
    return None


MOVES: tuple[Move, ...] = tuple(
    Move(name=name, rewrite=TreeRewrite(change), about=about)
    for name, change, about in (
        ("swap-estimator", swap_estimator, "Replaces a part of the model by an estimator of another kind."),
        ("set-parameter", set_parameter, "Sets one parameter of one estimator."),
        ("average-seeds", average_seeds, "Averages an estimator over 4, 6 or 8 random states."),
        ("average-with-another", average_with_another, "Averages the model with an estimator of another kind."),
        ("transform-target", transform_target, "Fits the logarithm or the square root of the target."),
        ("prepare-inputs", prepare_inputs, "Scales, ranks or multiplies out the inputs of a model that feels their scale."),
        ("drop-id", drop_id, "Leaves the row's number out of the features."),
        ("ratio-column", NewColumn(RATIOS), "Adds one ratio of rooms, people or income."),
        ("city-column", NewColumn(CITIES), "Adds the distance to one large city."),
        ("coast-column", coast_distance, "Adds the distance to the coast."),
        ("rotated-column", NewColumn(ROTATIONS), "Adds the location along one slanted axis."),
        ("log-column", NewColumn(LOGS), "Adds the logarithm of one column."),
        ("nearest-column", nearest_value, "Adds the value of the nearest training district, out of fold."),
        ("clip", clip, "Keeps the predictions within the range of the training values."),
    )
)
