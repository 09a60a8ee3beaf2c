"""OpenEvolve's islands: several populations in a ring, a MAP-Elites grid on each, one archive of the fittest.

After algorithmicsuperintelligence/openevolve at commit 411fb59, `openevolve/database.py`, `openevolve/config.py` and
`openevolve/process_parallel.py`, named beside the lines that follow them. This file asks and is told; who lives where
is `population`, what makes a cell is `grid`. docs/fidelity.md lists the departures.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from progevo.errors import ConfigError
from progevo.search.diversity import Diversity
from progevo.search.grid import Grid, bins_of
from progevo.search.population import Arrival, Island, Member, Population
from progevo.search.questions import Questions
from progevo.types import Ask, Json, Node

#: The least weight in the fitness-weighted choice (database.py, _sample_from_island_weighted).
LEAST_WEIGHT = 0.001

#: How many nearby cells are tried for every inspiration that is missing (database.py, _sample_inspirations).
TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandConstants:
    """What people may set about the islands: OpenEvolve's names and defaults (config.py, DatabaseConfig).

    Raises `ConfigError` for a value that the rule beside it forbids.
    """

    #: How many programs live on all islands together, at least 1.
    population_size: int = 1000
    #: How many of the fittest the archive holds, at least 1.
    archive_size: int = 100
    num_islands: int = 5
    #: After so many children of one island the islands exchange their best.
    migration_interval: int = 50
    #: Which share of an island migrates.
    migration_rate: float = 0.1
    #: Which share of the inspirations are the island's best.
    elite_selection_ratio: float = 0.1
    #: How often a parent is anyone of the island, and how often one of the archive; else fitness decides the odds.
    exploration_ratio: float = 0.2
    exploitation_ratio: float = 0.7
    #: The axes of the grid: `complexity` (length of the text), `diversity`, `score`, or any metric of the task.
    feature_dimensions: tuple[str, ...] = ("complexity", "diversity")
    #: Bins of every axis, or a table of them by name.
    feature_bins: int | Mapping[str, int] = 10
    #: How many programs the diversity of others is measured against.
    diversity_reference_size: int = 20
    #: How many other programs an ask names as inspirations (config.py, PromptConfig).
    num_diverse_programs: int = 2

    def __post_init__(self) -> None:
        for name in ("population_size", "archive_size", "num_islands", "migration_interval"):
            _at_least(1, name, getattr(self, name))
        _at_least(1, "diversity_reference_size", self.diversity_reference_size)
        _at_least(0, "num_diverse_programs", self.num_diverse_programs)
        for name in ("migration_rate", "elite_selection_ratio", "exploration_ratio", "exploitation_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be between 0 and 1")
        together = self.exploration_ratio + self.exploitation_ratio
        if together > 1 + 1e-9:
            raise ConfigError(f"exploration_ratio and exploitation_ratio are {together:g} together; 1 is the most")
        names = self.feature_dimensions
        if not names or len(set(names)) < len(names):
            raise ConfigError(f"feature_dimensions must name at least one dimension, each once (got {list(names)})")
        table = self.feature_bins if isinstance(self.feature_bins, Mapping) else {"": self.feature_bins}
        for name, bins in table.items():
            _at_least(1, f"feature_bins {name}".strip(), bins)
            if name and name not in names:
                raise ConfigError(f"feature_bins names {name!r}; the feature_dimensions are {', '.join(names)}")


class Islands:
    """Asks each island in turn for a parent, and places the child there; a `progevo.search.Search`.

    Args:
        constants: what differs from OpenEvolve's defaults.
        seed: what every draw derives from, together with the step of the ask.
    """

    def __init__(self, constants: IslandConstants | None = None, seed: int = 0) -> None:
        self._constants = held = constants if constants is not None else IslandConstants()
        self._seed = seed
        self._grid = Grid(
            held.feature_dimensions,
            bins_of(held.feature_bins, held.feature_dimensions, held.archive_size),
            Diversity(held.diversity_reference_size),
        )
        self.population = Population(
            grid=self._grid,
            islands=held.num_islands,
            size=held.population_size,
            archive_size=held.archive_size,
        )
        self._questions = Questions()
        self._migrated_at = 0  # the largest generation at the last migration

    def ask(self) -> Ask:
        """A parent for the next island's child, with inspirations from that island (sample_from_island).

        Raises:
            ValueError: the seed has not been told yet.
        """
        step = self._questions.ready()
        rng = random.Random(f"progevo {self._seed} {step} ask")
        home = self.island_of(step)
        if not len(self.population.islands[home].members):
            home = 0  # nobody lives there yet: the seed's island, which is never empty, lends a parent
        parent = self._parent(home, rng)
        inspirations = self._inspirations(self.population.islands[home], parent, rng)
        return self._questions.put(parent.node, tuple(member.node for member in inspirations))

    def tell(self, node: Node, /) -> None:
        """Places a program on the island that was asked, and lets the islands exchange their best when it is time.

        A failed program is placed like any other, less fit than all that work; a reply without a program is not.

        Raises:
            ValueError: the index is not the next one, the step is not open, or the parent is not the one asked for.
            ConfigError: a feature dimension is nothing that the seed reports.
        """
        self._questions.answer(node)
        program = node.candidate.program
        if program is None:
            return
        fitness = -math.inf if math.isnan(node.score) else float(node.score)
        home = self.island_of(node.step)
        self.population.place(Arrival(node.index, program.id, fitness, self._grid.measure(node)), home)
        if node.parent is None:
            return
        # process_parallel.py, run_evolution: a generation of an island is one child; database.py, should_migrate.
        self.population.islands[home].generation += 1
        furthest = max(island.generation for island in self.population.islands)
        if furthest - self._migrated_at >= self._constants.migration_interval:
            self._migrated_at = furthest
            self.population.migrate(self._constants.migration_rate)

    def constants(self) -> dict[str, Json]:
        held = {field.name: getattr(self._constants, field.name) for field in dataclasses.fields(self._constants)}
        bins = held["feature_bins"]
        held["feature_bins"] = dict(bins) if isinstance(bins, Mapping) else bins
        held["feature_dimensions"] = list(held["feature_dimensions"])
        return held

    def summary(self) -> dict[str, Json]:
        return {"islands": [self._shape(number) for number in range(self._constants.num_islands)]}

    def island_of(self, step: int) -> int:
        """The island that a step asks, and that its child is placed on: they take turns; the seed's is the first."""
        return max(0, step - 1) % self._constants.num_islands

    def _parent(self, home: int, rng: random.Random) -> Member:
        """Anyone of the island, or one of the archive, or whom fitness favours (sample_from_island)."""
        members, archive = self.population.islands[home].members, self.population.archive
        draw = rng.random()
        if draw < self._constants.exploration_ratio:
            return rng.choice(members)
        if draw < self._constants.exploration_ratio + self._constants.exploitation_ratio and len(archive):
            # _sample_from_archive_for_island: an island without a place in the archive takes any elite.
            return rng.choice([member for member in archive if member.island == home] or archive)
        return rng.choices(members, weights([member.fitness for member in members]))[0]

    def _inspirations(self, island: Island, parent: Member, rng: random.Random) -> list[Member]:
        """The island's best, its elites, owners of cells near the parent's, then anyone (_sample_inspirations).

        None has the parent's program, and no two have the same.
        """
        wanted, members = self._constants.num_diverse_programs, island.members
        chosen: list[Member] = []
        programs = {parent.program}

        def take(member: Member) -> None:
            if len(chosen) < wanted and member.program not in programs:
                chosen.append(member)
                programs.add(member.program)

        # The first of the elites is the island's best.
        for place in range(min(len(members), max(1, int(wanted * self._constants.elite_selection_ratio)))):
            take(members[-1 - place])
        if len(members) <= wanted:
            return chosen
        for _ in range(TRIES * (wanted - len(chosen))):
            near = island.cells.get(self._grid.nearby(parent.cell, rng)) if parent.cell is not None else None
            if near is not None:
                take(near)
        # As many draws as there are places, and one for each member that may not be taken.
        draws = wanted - len(chosen) + sum(island.programs[program] for program in programs)
        for place in rng.sample(range(len(members)), min(len(members), draws)):
            take(members[place])
        return chosen

    def _shape(self, number: int) -> dict[str, Json]:
        island = self.population.islands[number]
        return {
            "island": number,
            "generation": island.generation,
            "programs": len(island.members),
            "copies": sum(member.copy for member in island.members),
            "cells": len(island.cells),
            "archived": sum(member.island == number for member in self.population.archive),
            "best": island.members[-1].node if len(island.members) else None,
        }


def weights(fitnesses: Sequence[float]) -> list[float]:
    """The odds of the fitness-weighted choice: above 0, finite also in sum, and no fitter program has less.

    Without negative fitness among programs that work they are those of _sample_from_island_weighted: the fitness, at
    least 0.001. Else all are counted from the lowest. Large ones are divided by the largest, so that no sum overflows.
    """
    valid = [fitness for fitness in fitnesses if fitness > -math.inf] or [0.0]
    lowest = min(0.0, min(valid))
    unit = max(1.0, -lowest, max(valid))
    shift, least = lowest / unit, LEAST_WEIGHT / unit
    return [weight if (weight := fitness / unit - shift) > least else least for fitness in fitnesses]


def _at_least(least: int, name: str, value: int) -> None:
    if value < least:
        raise ConfigError(f"{name} is {value}; it must be at least {least}")
