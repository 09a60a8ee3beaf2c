"""Small changes to programs of S3E1, for the offline mutator: each changes one thing and none is a finished method.

They read any program that loads its two tables with `read_csv`; where they find nothing to change they say `None`.
Those of the model stand in `estimators.py`, those of the tables and of the predictions here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import libcst as cst
import libcst.matchers as m

from progevo.rewrite import TreeRewrite, put, statements, with_import
from progevo.tasks.s3e1.estimators import (
    average_seeds,
    average_with_another,
    prepare_inputs,
    set_neighbours,
    set_parameter,
    swap_estimator,
    transform_target,
)
from progevo.types import Move

TARGET = "MedHouseVal"


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
nearest = KNeighborsRegressor(n_neighbors=2)
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


COLUMNS = {
    "rooms_per_person": '{frame}["AveRooms"] / {frame}["AveOccup"]',
    "bedroom_share": '{frame}["AveBedrms"] / {frame}["AveRooms"]',
    "households": '{frame}["Population"] / {frame}["AveOccup"]',
    "income_per_person": '{frame}["MedInc"] / {frame}["AveOccup"]',
    "income_per_room": '{frame}["MedInc"] / {frame}["AveRooms"]',
    "log_income": 'np.log1p({frame}["MedInc"])',
    "log_rooms": 'np.log1p({frame}["AveRooms"])',
    "log_people": 'np.log1p({frame}["AveOccup"])',
}
PLACES = {
    "to_los_angeles": distance(34.05, -118.24),
    "to_san_francisco": distance(37.77, -122.42),
    "to_san_diego": distance(32.72, -117.16),
    "to_sacramento": distance(38.58, -121.49),
    "north_by_15": '0.966 * {frame}["Latitude"] + 0.259 * {frame}["Longitude"]',
    "north_by_30": '0.866 * {frame}["Latitude"] + 0.5 * {frame}["Longitude"]',
    "north_by_45": '0.707 * {frame}["Latitude"] + 0.707 * {frame}["Longitude"]',
    "north_by_60": '0.5 * {frame}["Latitude"] + 0.866 * {frame}["Longitude"]',
}
#: Points along the coast, from the border of Oregon to that of Mexico.
COAST = """\
coast = [
    (41.8, -124.2), (40.4, -124.4), (38.9, -123.7), (37.8, -122.5), (36.6, -121.9),
    (35.3, -120.9), (34.4, -119.7), (34.0, -118.5), (33.7, -118.2), (32.7, -117.2),
]
"""
TO_COAST = 'np.min([np.hypot({frame}["Latitude"] - a, {frame}["Longitude"] - b) for a, b in coast], axis=0)'


def coast_distance(tree: cst.Module, rng: random.Random) -> cst.Module | None:
    where = tables(tree)
    if where is None or "coast_distance" in texts(tree):
        return None
    tree = with_column(tree, where, "coast_distance", TO_COAST)
    where = tables(tree)
    return where and with_import(inserted(tree, where, COAST), "numpy as np")


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
        ("set-parameter", set_parameter, "Sets one parameter of one estimator in the model."),
        ("set-neighbours", set_neighbours, "Sets how many neighbours an estimator averages, in the model or a column."),
        ("average-seeds", average_seeds, "Averages an estimator over 4, 6 or 8 random states."),
        ("average-with-another", average_with_another, "Averages the model with an estimator of another kind."),
        ("transform-target", transform_target, "Fits the logarithm or the square root of the target."),
        ("prepare-inputs", prepare_inputs, "Scales or ranks the inputs of a model that feels their scale."),
        ("drop-id", drop_id, "Leaves the row's number out of the features."),
        ("ratio-column", NewColumn(COLUMNS), "Adds a ratio of rooms, people or income, or a logarithm."),
        ("place-column", NewColumn(PLACES), "Adds the distance to a large city, or the location along a slanted axis."),
        ("coast-column", coast_distance, "Adds the distance to the coast."),
        ("nearest-column", nearest_value, "Adds the mean value of the two nearest training districts, out of fold."),
        ("clip", clip, "Keeps the predictions within the range of the training values."),
    )
)
