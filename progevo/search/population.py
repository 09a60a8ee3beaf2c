"""Who lives on which island: placing, one owner a cell, the archive, the population limit, and migration.

After algorithmicsuperintelligence/openevolve, `openevolve/database.py` at commit 411fb59, named beside the lines that
follow it. Nothing here draws at random. Nodes are known by their index alone: the journal keeps every node, so that
whoever is dropped here stays in the lineage.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from progevo.search.grid import Cell, Feature, Grid


class Arrival(NamedTuple):
    """A program about to be placed: what does not depend on the island."""

    node: int
    #: The program's id: two programs are the same if their texts are.
    program: str
    #: Larger is better; negative infinity for a failed one.
    fitness: float
    features: tuple[Feature, ...]


class Member(NamedTuple):
    """A program on an island. A larger member is fitter or, of equals, was placed earlier."""

    fitness: float
    #: The number of its placing, negated.
    seniority: int
    arrival: Arrival
    island: int
    #: Where it lies in the grid, whether or not it owns the cell.
    cell: Cell | None
    owner: bool
    #: Whether it came by migration.
    copy: bool

    @property
    def node(self) -> int:
        return self.arrival.node

    @property
    def program(self) -> str:
        return self.arrival.program


class Ranking:
    """Members from the worst to the best; to add or drop one costs a search by halves."""

    def __init__(self) -> None:
        self._members: list[Member] = []

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, place: int) -> Member:
        return self._members[place]

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    def __reversed__(self) -> Iterator[Member]:
        return reversed(self._members)

    def add(self, member: Member) -> None:
        insort(self._members, member)

    def discard(self, member: Member) -> None:
        place = bisect_left(self._members, member)
        if place < len(self._members) and self._members[place] is member:
            del self._members[place]


class Island:
    """Its members, the owner of each cell, how often each program lives here, and how many children it was told."""

    def __init__(self) -> None:
        self.members = Ranking()
        self.cells: dict[Cell, Member] = {}
        self.programs: Counter[str] = Counter()
        self.generation = 0

    def migrants(self, rate: float) -> list[Member]:
        """The best that did not come by migration, as many as the rate says, at least one (migrate_programs)."""
        count = max(1, int(len(self.members) * rate))
        return list(islice((member for member in reversed(self.members) if not member.copy), count))


class Population:
    """All islands, and the archive of the fittest that they share."""

    def __init__(self, *, grid: Grid, islands: int, size: int, archive_size: int) -> None:
        self.islands = tuple(Island() for _ in range(islands))
        self.archive = Ranking()
        self._grid = grid
        self._size = size
        self._archive_size = archive_size
        self._owners = Ranking()
        self._homeless = Ranking()
        self._placed = 0

    def __len__(self) -> int:
        return len(self._owners) + len(self._homeless)

    def place(self, arrival: Arrival, home: int, *, copy: bool = False) -> Member:
        """Puts a program on an island (database.py, add).

        It takes its cell if that is free or its owner less fit, and that owner then leaves the population; else it
        lives there without one. Then the limit is kept.
        """
        island = self.islands[home]
        cell = self._grid.cell(arrival.features)
        holder = island.cells.get(cell) if cell is not None else None
        owner = cell is not None and (holder is None or arrival.fitness > holder.fitness)
        self._placed += 1
        member = Member(arrival.fitness, -self._placed, arrival, home, cell, owner, copy)
        if owner:
            assert cell is not None
            if holder is not None:
                self._drop(holder)  # its place in the archive, if it had one, is free for its successor
            island.cells[cell] = member
        island.members.add(member)
        island.programs[member.program] += 1
        (self._owners if owner else self._homeless).add(member)
        self._archive(member)
        self._keep_the_limit(member)
        return member

    def migrate(self, rate: float) -> None:
        """Copies each island's best to both neighbours in the ring (database.py, migrate_programs).

        All choose before any arrives. No copy moves on, and none goes where its program lives already.
        """
        count = len(self.islands)
        leaving = [(home, migrant) for home, island in enumerate(self.islands) for migrant in island.migrants(rate)]
        for home, migrant in leaving:
            for target in dict.fromkeys(((home + 1) % count, (home - 1) % count)):
                if migrant.program not in self.islands[target].programs:
                    self.place(migrant.arrival, target, copy=True)

    def _archive(self, member: Member) -> None:
        """Admits a member while there is room, or in place of the worst that it beats (_update_archive).

        One that failed is no elite, even while there is room.
        """
        if member.fitness == -math.inf:
            return
        if len(self.archive) >= self._archive_size:
            worst = self.archive[0]
            if member.fitness <= worst.fitness:
                return
            self.archive.discard(worst)
        self.archive.add(member)

    def _keep_the_limit(self, newest: Member) -> None:
        """Drops the worst, those without a cell first (database.py, _enforce_population_limit).

        The newest and the best of each island, among them the best of all, stay even where the limit is smaller.
        """
        excess = len(self) - self._size
        if excess <= 0:
            return
        kept = [newest, *(island.members[-1] for island in self.islands if len(island.members))]
        worst_first = (member for ranking in (self._homeless, self._owners) for member in ranking)
        for member in list(islice((member for member in worst_first if member not in kept), excess)):
            self._drop(member)

    def _drop(self, member: Member) -> None:
        island = self.islands[member.island]
        island.members.discard(member)
        island.programs[member.program] -= 1
        if not island.programs[member.program]:
            del island.programs[member.program]
        if member.owner:
            assert member.cell is not None
            del island.cells[member.cell]
        (self._owners if member.owner else self._homeless).discard(member)
        self.archive.discard(member)
