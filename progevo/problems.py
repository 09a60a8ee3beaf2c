"""Problems: a run of its own for each problem of a task, and one summary over them all."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from progevo.errors import ConfigError, TaskError
from progevo.files import write_file
from progevo.result import Result
from progevo.types import Json

SCHEMA = "progevo.problems/1"
FILE = "summary.json"

#: What a task makes of the results of all its problems: a few named figures.
Summarize = Callable[[Mapping[str, Result]], Mapping[str, float | int | None]]


def folders(ids: Sequence[str], out: Path) -> dict[str, Path]:
    """id -> the folder of its run. Raises `ConfigError` where two ids make the same name."""
    found: dict[str, Path] = {}
    for each in ids:
        # A name of dots alone is a way out of the folder.
        folder = out / re.sub(r"^\.+$", "_", re.sub(r"[^\w.-]+", "_", each))
        same = next((other for other, taken in found.items() if taken == folder), None)
        if same is not None:
            raise ConfigError(
                f"the problems {same!r} and {each!r} would share the folder {folder}; run them one by one"
            )
        found[each] = folder
    return found


def run_each(start: Callable[[str, Path], Result], ids: Sequence[str], out: Path) -> dict[str, Result | str]:
    """For each problem its result, or why it could not be run; one run after another.

    `start` runs one problem, or goes on with what its folder holds. A problem that cannot be run ends nothing else;
    whatever else ends a run, a proposer or a sandbox that fails, ends the whole.
    """
    found: dict[str, Result | str] = {}
    for each, folder in folders(ids, out).items():
        try:
            found[each] = start(each, folder)
        except TaskError as error:
            found[each] = str(error)
    return found


def summary(task: str, found: Mapping[str, Result | str], summarize: Summarize | None) -> dict[str, Any]:
    """What `summary.json` holds: a row for every problem, and the task's own figures over those that were run.

    Raises `TaskError` where the task's `summarize` fails.
    """
    results = {name: result for name, result in found.items() if not isinstance(result, str)}
    figures: dict[str, Json] = {}
    if summarize is not None and results:
        try:
            figures = {str(name): value for name, value in summarize(results).items()}
        except Exception as error:
            raise TaskError(f"summarize() of the task {task!r} raised {type(error).__name__}: {error}") from error
    rows: list[Json] = [_row(name, result) for name, result in found.items()]
    own = {"schema": SCHEMA, "task": task, "problems": len(found), "run": len(results), "rows": rows}
    for name, value in figures.items():
        number = type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
        if name in own or (value is not None and not number):
            raise TaskError(
                f"summarize() of the task {task!r} gave {name!r}: {value!r}; a figure is a finite number or None, under"
                f" another name than {', '.join(own)}"
            )
    return {**own, **figures}


def write(out: Path, found: Mapping[str, Any]) -> None:
    """Writes `summary.json`. Raises `RunError` where it cannot be written."""
    write_file(out / FILE, (json.dumps(found, allow_nan=False, indent=2) + "\n").encode())


def summary_lines(found: Mapping[str, Any]) -> list[str]:
    """The summary as a table."""
    known = [row for row in found["rows"] if row["error"] is None]
    metric = f"{known[0]['metric']['name']} ({known[0]['metric']['direction']}), seed -> best, " if known else ""
    lines = [
        f"{found['task']}: {metric}{found['run']} of {found['problems']} problems run",
        f"{'':<32} {'search':>24} {'test':>24}",
    ]
    for row in found["rows"]:
        if row["error"] is not None:
            lines.append(f"{row['problem']:<32} not run: {row['error']}")
            continue
        mark = "  resolved" if row["resolved"] else ""
        lines.append(f"{row['problem']:<32} {_pair(row['search']):>24} {_pair(row['test']):>24}{mark}")
    beside = ("schema", "task", "problems", "run", "rows")
    figures = {name: value for name, value in found.items() if name not in beside}
    return lines + [f"{name:<32} {_number(value)}" for name, value in figures.items()]


def _row(name: str, result: Result | str) -> dict[str, Json]:
    if isinstance(result, str):
        return {"problem": name, "error": result}
    seed, best = result["seed_program"], result["best"]
    return {
        "problem": name,
        "error": None,
        "metric": result["metric"],
        "search": {"seed": seed["search"], "best": best["search"]},
        "test": {"seed": seed["test"], "best": best["test"]},
        "gain": result["gain"]["test"],
        "resolved": result["gain"]["resolved"],
        "evaluations": result["spent"]["evaluations"],
        "stop_reason": result["stop_reason"],
    }


def _pair(values: Mapping[str, float | None]) -> str:
    return f"{_number(values['seed'])} -> {_number(values['best'])}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
