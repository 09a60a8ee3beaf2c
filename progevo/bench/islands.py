"""The cost of the islands' own thinking, ask and tell together, beside OpenEvolve's database where it is installed."""

from __future__ import annotations

import logging
import random
import statistics
from collections.abc import Sequence
from importlib.metadata import version

from progevo.bench.figures import Cost, cost_spread, timed
from progevo.search.islands import IslandConstants, Islands
from progevo.testing import node
from progevo.types import Json


def island_rows(sizes: Sequence[int], pairs: int) -> list[Json]:
    """What one ask and its tell cost after so many programs: one row a size, and above 1,000 a second one.

    The first keeps the default limit of 1,000 living programs; in the second all may live. The programs are some
    fifteen to forty-five functions long, their scores random, the same at every call. Beside each stands OpenEvolve's
    database, given the same programs on the same islands, `null` where the package is not installed; `ratio` is how
    many times the median CPU time it needs.
    """
    usual = IslandConstants().population_size
    limits = [(size, limit) for size in sizes for limit in dict.fromkeys((usual, max(usual, size)))]
    return [_row(size, limit, pairs) for size, limit in limits]


def _row(size: int, limit: int, pairs: int) -> Json:
    rng = random.Random(size)
    told = [(_program(rng), rng.random()) for _ in range(size)]
    search = Islands(IslandConstants(population_size=limit))
    search.tell(node(0, 0, None, told[0][1], source=told[0][0]))
    spent = [_pair(search, index, *told[index]) for index in range(1, size)][-pairs:]
    theirs = _openevolve(told, limit, max(3, min(pairs, 100_000 // size)))
    mine = statistics.median(cost.cpu_s for cost in spent)
    return {
        "search": "islands",
        "nodes": size,
        "population_size": limit,
        "programs": len(search.population),
        **cost_spread(spent),
        "openevolve": {"version": version("openevolve"), **cost_spread(theirs)} if theirs else None,
        "ratio": statistics.median(cost.cpu_s for cost in theirs) / mine if theirs and mine else None,
    }


def _pair(search: Islands, index: int, source: str, score: float) -> Cost:
    ask, asking = timed(search.ask)
    child = node(index, ask.step, ask.parent, score, source=source)
    _, telling = timed(lambda: search.tell(child))
    return asking.and_then(telling)


def _openevolve(told: Sequence[tuple[str, float]], limit: int, pairs: int) -> list[Cost]:
    """The same for OpenEvolve's database, filled first and then asked; nothing where it cannot be imported."""
    try:
        from openevolve.config import DatabaseConfig
        from openevolve.database import Program, ProgramDatabase
    except ImportError:
        return []
    logging.getLogger("openevolve").setLevel(logging.ERROR)
    database = ProgramDatabase(DatabaseConfig(population_size=limit, random_seed=0))
    islands = database.config.num_islands

    def add(index: int) -> None:
        source, score = told[index]
        program = Program(id=str(index), code=source, metrics={"combined_score": score})
        home = max(0, index - 1) % islands
        database.add(program, iteration=index, target_island=home)
        database.increment_island_generation(home)
        if database.should_migrate():
            database.migrate_programs()

    measured = range(max(1, len(told) - pairs), len(told))
    for index in range(measured.start):
        add(index)
    spent = []
    for index in measured:
        _, asking = timed(lambda: database.sample_from_island(max(0, index - 1) % islands, 2))  # noqa: B023 (called at once)
        _, telling = timed(lambda: add(index))  # noqa: B023
        spent.append(asking.and_then(telling))
    return spent


def _program(rng: random.Random) -> str:
    """Functions that a mutator may have written: a text of some one to three kilobytes."""
    return "".join(
        f"def f{number}(x_{rng.randrange(99)}, y):\n    return x * {rng.random():.6f} + y ** {rng.randrange(9)}\n\n\n"
        for number in range(rng.randrange(15, 45))
    )
