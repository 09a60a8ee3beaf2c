"""Reading: what the page knows of a run, finished, going on or killed; everything follows from its folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from progevo.errors import ConfigError
from progevo.events import Told
from progevo.journal import FILE, read_events
from progevo.rebuild import replayed
from progevo.record import Record, stored
from progevo.result import Result, build_result
from progevo.search import Search
from progevo.search.catalogue import make_search

#: `ended`: its journal says why. `running`: a process holds the journal. `stopped`: none does. `open`: nobody can say.
State = Literal["ended", "running", "stopped", "open"]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A run as its folder tells it."""

    record: Record
    state: State
    #: The search, led through all that was asked and told; `None` where this version of it asks differently.
    search: Search | None
    #: The content of result.json; `None` before the seed has been scored.
    result: Result | None
    #: By node: seconds that the run had been going when it was told.
    elapsed_s: tuple[float, ...]
    #: Every new best: how many nodes had been told by then, and which node it is. The seed is the first.
    bests: tuple[tuple[int, int], ...]


def read(folder: Path) -> Reading:
    """What is known of a run. Raises `RunError` for a folder that holds none, and for a damaged journal."""
    record = Record(folder=folder)
    elapsed: list[float] = []
    bests: list[tuple[int, int]] = []
    for event in read_events(folder):
        if isinstance(event, Told):
            record.apply(event, stored(event, folder))
            elapsed.append(event.measured.elapsed_s)
        else:
            record.apply(event)
        if record.nodes and (not bests or bests[-1][1] != record.best):
            bests.append((len(record.nodes), record.best))
    search = _search(record)
    known = search is not None and bool(record.nodes)
    return Reading(
        record=record,
        state=state_of(folder, ended=record.stop_reason is not None),
        search=search,
        result=build_result(record, search.summary()) if known and search is not None else None,
        elapsed_s=tuple(elapsed),
        bests=tuple(bests),
    )


def state_of(folder: Path, *, ended: bool) -> State:
    """Whether a run goes on. It is looked up, never tried: taking the lock could keep a resume from taking it."""
    try:
        inode = os.stat(folder / FILE).st_ino
        locks = Path("/proc/locks").read_text("ascii", "replace").splitlines()
    except OSError:
        return "ended" if ended else "open"
    # "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF"
    held = any(" FLOCK " in line and f":{inode} " in line for line in locks)
    return "running" if held else "ended" if ended else "stopped"


def _search(record: Record) -> Search | None:
    start = record.start
    if start is None:
        return None
    try:
        search = make_search(start.search, start.constants, start.seed)
        return search if not replayed(search, record) else None
    except (ConfigError, ValueError):
        return None
