"""Shape: how the search sees the nodes: visits and PUCT of a tree, or cells and copies of islands."""

from __future__ import annotations

import math
from collections.abc import Sequence

from progevo.search import Search
from progevo.search.flat_puct import FlatPuct
from progevo.search.grid import bins_of
from progevo.search.islands import Islands
from progevo.types import Json, Node


def shape_of(search: Search | None, nodes: Sequence[Node]) -> dict[str, Json]:
    """`{"visits": [...], "puct": [...]}` by node, or `{"islands": {...}}`; empty for searches without either."""
    if isinstance(search, FlatPuct):
        visits = [search.visits(node.index) for node in nodes]
        scale = search.constants()["c_puct"]
        assert isinstance(scale, float)
        return {"visits": list(visits), "puct": list(pucts([node.score for node in nodes], visits, scale))}
    if isinstance(search, Islands):
        return {"islands": _islands(search, nodes)}
    return {}


def pucts(scores: Sequence[float], visits: Sequence[int], c_puct: float) -> list[float]:
    """What each node would be chosen by now: its rank score and its bonus (ERA futs.py, compute_pucts).

    `rank / (N - 1) + c_puct * (1 / N) * sqrt(all visits) / (1 + visits)`, ranks worst first, equals by index.
    """
    count = len(scores)
    order = sorted(range(count), key=lambda index: (-math.inf if math.isnan(scores[index]) else scores[index], index))
    ranks = [0.0] * count
    for rank, index in enumerate(order):
        ranks[index] = rank / (count - 1) if count > 1 else 0.5
    weight = c_puct * (1 / max(1, count)) * math.sqrt(sum(visits))
    return [round(rank + weight / (1 + seen), 6) for rank, seen in zip(ranks, visits, strict=True)]


def _islands(search: Islands, nodes: Sequence[Node]) -> dict[str, Json]:
    """The grids: axes, bins, and each island's owners of cells; who came by migration, and from where."""
    held = search.constants()
    dimensions, table, archive = held["feature_dimensions"], held["feature_bins"], held["archive_size"]
    assert isinstance(dimensions, list) and isinstance(table, int | dict) and isinstance(archive, int)
    names = [str(name) for name in dimensions]
    per_axis = table if isinstance(table, int) else {name: int(str(count)) for name, count in table.items()}
    bins = bins_of(per_axis, names, archive)
    homes = [search.island_of(node.step) for node in nodes]
    grids: list[Json] = []
    for island in search.population.islands:
        members: list[Json] = [
            [member.node, list(member.cell) if member.cell is not None else None, member.owner, member.copy]
            for member in island.members
        ]
        grids.append({"generation": island.generation, "members": members})
    return {"dimensions": list(names), "bins": list(bins), "homes": list(homes), "grids": grids}
