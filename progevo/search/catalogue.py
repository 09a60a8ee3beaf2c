"""The searches that have a name: the word people type, what may be set about each, and how it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from progevo import complaint
from progevo.errors import ConfigError
from progevo.search import Search
from progevo.search.flat_puct import FlatPuct, FlatPuctConstants
from progevo.search.islands import IslandConstants, Islands
from progevo.search.reference import BestOfN, Greedy, NoConstants, RandomParent


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One search: its constants are a frozen dataclass whose fields have defaults; `make` takes one, and a seed."""

    constants: type[Any]
    make: Callable[[Any, int], Search]


SEARCHES: Mapping[str, Entry] = {
    "era": Entry(constants=FlatPuctConstants, make=lambda constants, seed: FlatPuct(constants.c_puct)),
    "openevolve": Entry(constants=IslandConstants, make=Islands),
    "best_of_n": Entry(constants=NoConstants, make=lambda constants, seed: BestOfN()),
    "random_parent": Entry(constants=NoConstants, make=lambda constants, seed: RandomParent(seed)),
    "greedy": Entry(constants=NoConstants, make=lambda constants, seed: Greedy()),
}


def make_search(name: str, constants: Mapping[str, Any], seed: int) -> Search:
    """A fresh search, with constants by name where they differ from its own.

    Raises `ConfigError` for a name that is none, and for a value of the wrong kind or outside its rule.
    """
    if name not in SEARCHES:
        raise ConfigError(f"there is no search {name!r}; the searches are {', '.join(SEARCHES)}")
    entry = SEARCHES[name]
    known = [field.name for field in dataclasses.fields(entry.constants)]
    if unknown := sorted(set(constants) - set(known)):
        raise ConfigError(
            f"the search {name!r} does not take these constants: {', '.join(unknown)};"
            f" it takes {', '.join(known) or 'none'}"
        )
    try:
        return entry.make(msgspec.convert(dict(constants), entry.constants), seed)
    except msgspec.ValidationError as error:
        wrong = complaint.of_value(error, constants, entry.constants)
        raise ConfigError(f"a constant of the search {name!r} is wrong: {wrong}") from None
