"""Schedules: when the next question may be put, and which answer is told next.

Whatever the schedule, a candidate sees the nodes that had been told when its question was put. Only the order of
asking and telling differs. `DEPARTURES` says what that changes for each search; docs/fidelity.md prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from progevo.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When to ask, what to tell.

    Attributes:
        name: the word people type.
        barrier: a new round of questions is put when every answer of the last one has been told.
        in_order: answers are told in the order of asking; otherwise as they come.
        about: one line for people.
    """

    name: str
    barrier: bool
    in_order: bool
    about: str

    def may_ask(self, *, open: int, filling: bool, workers: int) -> bool:
        """Whether one more question fits. `filling`: nothing has been told since the last question was put."""
        return open < workers and (not self.barrier or open == 0 or filling)


SCHEDULES: Mapping[str, Schedule] = {
    schedule.name: schedule
    for schedule in (
        Schedule(name="serial", barrier=True, in_order=True, about="one after another: the published loop"),
        Schedule(
            name="ordered",
            barrier=False,
            in_order=True,
            about="workers are kept busy, and answers are told strictly in the order of asking",
        ),
        Schedule(
            name="sync",
            barrier=True,
            in_order=True,
            about="rounds of as many questions as workers; the next round waits for the last answer",
        ),
        Schedule(
            name="async",
            barrier=False,
            in_order=False,
            about="workers are kept busy, and answers are told as they come",
        ),
    )
}

_SAME = "nothing: one question, one answer"
_REPRODUCES = "depends on seed and number of workers alone"
_DRAWS = "each parent is drawn without the answers in flight; the law of the draw is the same"

#: search -> schedule -> what differs from the published loop. A search without all four entries fails a test.
DEPARTURES: Mapping[str, Mapping[str, str]] = {
    "era": {
        "serial": "nothing: the released code's loop, node by node",
        "ordered": f"up to workers - 1 answers are not known yet; open questions count as visits; {_REPRODUCES}",
        "sync": f"all questions of a round see the same ranks, told apart by their visits; {_REPRODUCES}",
        "async": "as ordered, and quick candidates are told before slow ones: two runs of one seed may differ",
    },
    "openevolve": {
        "serial": "islands take strict turns, one program at a time, where the released loop keeps several in flight",
        "ordered": f"parents are drawn without the answers in flight, merged in the order of asking; {_REPRODUCES}",
        "sync": f"a round is drawn from one state of the islands and merged in the order of asking; {_REPRODUCES}",
        "async": "merged as they come, as in the released loop, but islands are asked in strict turns;"
        " two runs of one seed may differ",
    },
    "best_of_n": {
        "serial": _SAME,
        "ordered": f"nothing: every parent is the seed; {_REPRODUCES}",
        "sync": f"nothing: every parent is the seed; {_REPRODUCES}",
        "async": "only the numbering of nodes: every parent is the seed",
    },
    "random_parent": {
        "serial": _SAME,
        "ordered": f"{_DRAWS}; {_REPRODUCES}",
        "sync": f"{_DRAWS}; {_REPRODUCES}",
        "async": f"{_DRAWS}, but two runs of one seed may differ",
    },
    "greedy": {
        "serial": _SAME,
        "ordered": f"the best of what has been told: up to workers - 1 answers late; {_REPRODUCES}",
        "sync": f"all questions of a round go to one parent; {_REPRODUCES}",
        "async": "the best of what has been told so far; two runs of one seed may differ",
    },
}


def check_workers(schedule: str, was: int, workers: int) -> None:
    """Raises `ConfigError` where a run that goes on cannot have another number of workers."""
    if workers < 1:
        raise ConfigError(f"workers is {workers}; it must be at least 1")
    if workers != was and schedule != "async":
        raise ConfigError(
            f"with the schedule {schedule} a run depends on its number of workers, which is {was}; with {workers} it"
            " would be neither the one nor the other. Only a run with --schedule async can go on with more or fewer"
        )


def schedule_of(name: str | None, workers: int) -> Schedule:
    """The schedule of that name; without one, `serial` for one worker and `ordered` for several.

    Raises `ConfigError` for a name that is none, and for a serial run with several workers.
    """
    name = name or ("serial" if workers == 1 else "ordered")
    if name not in SCHEDULES:
        raise ConfigError(f"there is no schedule {name!r}; the schedules are {', '.join(SCHEDULES)}")
    if name == "serial" and workers != 1:
        raise ConfigError(f"the schedule serial has one worker; it was given {workers}: take sync, ordered or async")
    return SCHEDULES[name]


def table(searches: Mapping[str, object]) -> list[str]:
    """The table in docs/fidelity.md: a row for every search and schedule. Raises `KeyError` for a missing entry."""
    rows = [f"| {search} | `{name}` | {DEPARTURES[search][name]} |" for search in searches for name in SCHEDULES]
    return ["| search | schedule | what changes |", "| --- | --- | --- |", *rows]
