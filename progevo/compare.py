"""Compare: runs of one task at equal budgets, search by search, over seeds."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from progevo.errors import ConfigError
from progevo.result import FILE, Result, read_result
from progevo.types import Json, Metric

SCHEMA = "progevo.compare/1"
#: A median of fewer seeds than this is marked: it says little.
SEEDS = 3
#: What must agree for two runs to be comparable.
SAME = ("task", "data", "metric", "budget", "stops", "repeats", "acceptance")
#: Ends that a budget did not bring about.
UNFINISHED = ("interrupted", "proposer_failed", "sandbox_lost", "failed", None)

Values = Mapping[int, float | None]


def compare(folders: Sequence[Path]) -> dict[str, Any]:
    """What `progevo compare --json` prints: a row for every search, and paired differences against the first.

    Values are in the task's own metric; differences are above 0 where the search is better than the first.

    Raises:
        ConfigError: budgets, tasks or data differ, a run did not come to its end, or a seed stands twice.
        RunError: a folder holds no result.
    """
    runs = {folder: read_result(folder / FILE if os.path.isdir(folder) else folder) for folder in folders}
    if not runs:
        raise ConfigError("there is nothing to compare: name at least one run")
    if len(runs) < len(folders):
        raise ConfigError(f"a run is named twice among {', '.join(map(str, folders))}; name each once")
    check_comparable(runs)
    groups: dict[str, dict[int, Result]] = defaultdict(dict)
    for folder, run in runs.items():
        name = label(run, list(runs.values()))
        if run["seed"] in groups[name]:
            raise ConfigError(f"{folder}: there is a run of {name} with seed {run['seed']} already; name it once")
        groups[name][run["seed"]] = run
    first = next(iter(runs.values()))
    metric = Metric(**first["metric"])
    reference = next(iter(groups))
    rows: list[Json] = [_row(name, group) for name, group in groups.items()]
    differences: list[Json] = [
        _difference(metric, reference, groups[reference], name, group)
        for name, group in groups.items()
        if name != reference
    ]
    return {
        "schema": SCHEMA,
        "task": first["task"],
        "data": first["data"],
        "metric": first["metric"],
        "budget": first["budget"],
        "rows": rows,
        "reference": reference,
        "differences": differences,
    }


def named(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """The run folders by the name that each has in a comparison. Raises `RunError` as `compare` does."""
    runs = {folder: read_result(folder / FILE if os.path.isdir(folder) else folder) for folder in folders}
    found: dict[str, list[Path]] = {}
    for folder, run in runs.items():
        home = folder if os.path.isdir(folder) else folder.parent
        found.setdefault(label(run, list(runs.values())), []).append(home)
    return found


def check_comparable(runs: Mapping[Path, Result]) -> None:
    """Raises `ConfigError`, with the numbers, where a comparison would not be one of equals."""
    (one, first), *others = runs.items()
    for folder, run in runs.items():
        if run["stop_reason"] in UNFINISHED:
            raise ConfigError(
                f"{folder} did not use up its budget: it was stopped by {run['stop_reason']} after"
                f" {run['spent']['evaluations']} evaluations; finish it (progevo resume), or leave it out"
            )
    for other, run in others:
        for name in SAME:
            if run[name] != first[name]:
                raise ConfigError(
                    f"these runs cannot be compared, their {name} differs:\n  {one}: {_words(first[name])}\n"
                    f"  {other}: {_words(run[name])}"
                )


def label(run: Result, runs: Sequence[Result]) -> str:
    """The search's word, with what else tells its runs apart from others of the same word."""
    alike = [other for other in runs if other["search"]["name"] == run["search"]["name"]]
    parts = [run["search"]["name"]]
    for name, value in run["search"].items():
        if any(other["search"].get(name) != value for other in alike):
            parts.append(f"{name}={value}")
    for name, value in (("proposer", run["proposer"]["name"]), ("schedule", run["schedule"])):
        if any((other["proposer"]["name"] if name == "proposer" else other[name]) != value for other in runs):
            parts.append(f"{value}")
    return " ".join(parts)


def plan_runs(searches: Sequence[str], seeds: int, folder: Path) -> list[tuple[str, int, Path]]:
    """The runs of a comparison: each search with seeds 0, 1, ... in a folder of its own.

    Searches take turns seed by seed, so that a comparison that is cut short is still one of equals.
    """
    if not searches:
        raise ConfigError("no search was named; add --search NAME for each one to compare, such as --search era")
    if len(set(searches)) != len(searches):
        raise ConfigError(f"--search was given {', '.join(searches)}; name each search once")
    if seeds < 1:
        raise ConfigError(f"--seeds is {seeds}; it must be at least 1")
    return [(search, seed, folder / f"{search}_seed{seed}") for seed in range(seeds) for search in searches]


def compare_lines(found: Mapping[str, Any]) -> list[str]:
    """The comparison as a table."""
    metric, reference = found["metric"], found["reference"]
    named = [(row["name"], row) for row in found["rows"]]
    named += [(f"{row['name']} - {reference}", row) for row in found["differences"]]
    lines = [
        f"{found['task']}: {metric['name']} ({metric['direction']}), median (smallest to largest) over seeds",
        f"{'':<32} {'seeds':>6} {'search':>32} {'test':>32}",
    ]
    for name, row in named:
        mark = "" if row["enough"] else "  fewer than three seeds"
        lines.append(f"{name:<32} {row['seeds']:>6} {_spread(row['search'])} {_spread(row['test'])}{mark}")
    if found["differences"]:
        lines.append("differences are seed by seed; above 0, the search is better than the first")
    return lines


def _row(name: str, runs: Mapping[int, Result]) -> dict[str, Json]:
    spent: list[Json] = [run["spent"]["evaluations"] for run in runs.values()]
    return {
        "name": name,
        "seeds": len(runs),
        "enough": len(runs) >= SEEDS,
        "evaluations": spent,
        "search": _summary({seed: run["best"]["search"] for seed, run in runs.items()}),
        "test": _summary({seed: run["best"]["test"] for seed, run in runs.items()}),
    }


def _difference(
    metric: Metric, reference: str, first: Mapping[int, Result], name: str, runs: Mapping[int, Result]
) -> dict[str, Json]:
    seeds = sorted(first.keys() & runs.keys())

    def better(part: str) -> Values:
        found: dict[int, float | None] = {}
        for seed in seeds:
            ours, theirs = runs[seed]["best"][part], first[seed]["best"][part]
            known = ours is not None and theirs is not None
            found[seed] = metric.score(ours) - metric.score(theirs) if known else None
        return found

    return {
        "name": name,
        "reference": reference,
        "seeds": len(seeds),
        "enough": len(seeds) >= SEEDS,
        "search": _summary(better("search")),
        "test": _summary(better("test")),
    }


def _summary(values: Values) -> dict[str, Json]:
    known = [value for value in values.values() if value is not None]
    by_seed: dict[str, Json] = {str(seed): value for seed, value in sorted(values.items())}
    if not known:
        return {"median": None, "least": None, "largest": None, "by_seed": by_seed}
    return {
        "median": statistics.median(known),
        "least": min(known),
        "largest": max(known),
        "by_seed": by_seed,
    }


def _spread(found: Mapping[str, Any]) -> str:
    if found["median"] is None:
        return f"{'unknown':>32}"
    text = f"{found['median']:.5f} ({found['least']:.5f} to {found['largest']:.5f})"
    return f"{text:>32}"


def _words(value: object) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name} {each}" for name, each in value.items() if each is not None) or "none"
