"""The cost of the boundary: one candidate in each form of the sandbox, and how its limits bite."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from progevo.bench.figures import spread
from progevo.bench.forms import FORMS, Case, Cost, Form, Runner, open_runner, task_seed, trivial
from progevo.bench.limits import bites, kill, least_memory, memory, needy
from progevo.bench.soak import soak
from progevo.errors import ConfigError
from progevo.types import Json

PROFILES = ("stdlib", "numeric", "tabular")
#: Rounds, and by default and with `quick` how many warm candidates go into one, since they are short.
ROUNDS, QUICK_ROUNDS, WARM_A_ROUND = 5, 2, 10
WARM: tuple[Form, ...] = ("warm", "warm_spare")


def bench_sandbox(
    profiles: Sequence[str] = PROFILES,
    *,
    quick: bool = False,
    rounds: int | None = None,
    soak_count: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Json]:
    """What `progevo bench sandbox --json` prints.

    All forms of a case run in turn, round by round, so that `ratio_to_cold` holds on a machine that others use too.
    `say` is told what is being measured.

    Raises:
        ConfigError: no rounds, fewer candidates than none, or a profile that is not there.
        SandboxUnavailable: this host cannot run a form.
    """
    rounds = rounds if rounds is not None else QUICK_ROUNDS if quick else ROUNDS
    if rounds < 1:
        raise ConfigError(f"{rounds} rounds measure nothing: ask for 1 or more")
    if soak_count < 0:
        raise ConfigError(f"a soak of {soak_count} candidates is none: ask for 0 or more")
    if unknown := sorted(set(profiles) - set(PROFILES)):
        raise ConfigError(f"there is nothing to measure for the profile {unknown[0]!r}; choose {', '.join(PROFILES)}")
    cases = [trivial(profile) for profile in profiles]
    if "tabular" in profiles:
        cases.append(task_seed("s3e1"))
    rows: list[Json] = []
    for case in cases:
        say(f"{case.name}, profile {case.profile}: {rounds} rounds of {', '.join(FORMS)}")
        rows += rows_of(case, rounds)
    say("limits, kill and memory")
    found: dict[str, Json] = {
        "schema": "progevo.bench/1",
        "machine": _machine(),
        "rows": rows,
        "limits": bites(),
        "least_memory": [least_memory(case) for case in [*map(needy, profiles), *cases[len(profiles) :]]],
        "kill": kill(3 if quick else 10),
        "memory": [memory(profile) for profile in profiles],
    }
    if soak_count:
        say(f"soak of {soak_count} candidates")
        found["soak"] = soak(soak_count)
    return found


@dataclass(kw_only=True)
class _Series:
    """What one form of a case has cost so far."""

    runner: Runner
    costs: list[Cost] = field(default_factory=list)
    #: Candidates in a row, and the seconds that they took together.
    burst: int = 0
    burst_s: float = 0.0


def rows_of(case: Case, rounds: int, forms: Sequence[Form] = FORMS) -> list[Json]:
    """One row a form, all measured in turn."""
    series: dict[Form, _Series] = {}
    try:
        for form in forms:
            series[form] = _Series(runner=open_runner(case, form))
        for number in range(rounds):
            for form, each in series.items():
                each.costs += [each.runner.measure() for _ in range(WARM_A_ROUND if form in WARM else 1)]
            for form, each in series.items():
                count = WARM_A_ROUND if form in WARM else 2 if number == rounds - 1 else 0
                if count:
                    each.burst_s += each.runner.burst(count)
                    each.burst += count
    finally:
        for each in series.values():
            each.runner.close()
    medians = {form: _medians(each.costs) for form, each in series.items()}
    rows: list[Json] = []
    for form, each in series.items():
        row: dict[str, Json] = {"form": form, "profile": case.profile, "candidate": case.name}
        row["samples"] = len(each.costs)
        row["wall_ms"] = spread([1000 * cost.wall_s for cost in each.costs])
        row["cpu_ms"] = spread([1000 * cost.cpu_s for cost in each.costs])
        row["candidates_per_s"] = each.burst / each.burst_s
        if "cold" in medians:
            (wall, cpu), (cold_wall, cold_cpu) = medians[form], medians["cold"]
            row["ratio_to_cold"] = {"wall": wall / cold_wall, "cpu": cpu / cold_cpu}
        rows.append(row)
    return rows


def _medians(costs: list[Cost]) -> tuple[float, float]:
    return statistics.median(cost.wall_s for cost in costs), statistics.median(cost.cpu_s for cost in costs)


def _machine() -> Json:
    """The conditions that figures of time depend on."""
    return {
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
