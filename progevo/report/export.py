"""Export: every node of a run as a row, for whatever people count with."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from progevo import complaint
from progevo.errors import ConfigError, RunError
from progevo.files import write_file
from progevo.report.reading import Reading, read
from progevo.twins import no_op
from progevo.types import Draw, Json, Node
from progevo.visible import visible

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("jsonl", "csv", "parquet")


def rows(reading: Reading) -> list[dict[str, Json]]:
    """One row a node: values in the task's metric, `None` for what is not known, metrics under one key.

    Raises `RunError` where nothing was run.
    """
    if reading.record.start is None:
        raise RunError(f"{reading.record.folder} holds a journal without a start: nothing was run there")
    return [_row(reading, node) for node in reading.record.nodes]


def to_dataframe(folder: str | Path) -> pd.DataFrame:
    """The nodes of a run as a table, indexed by node; metrics as columns `metric NAME`. Raises `RunError`."""
    import pandas as pd  # half a second to import: only for whoever asks for it

    flat = [_flat(row) for row in rows(read(Path(folder)))]
    return pd.DataFrame(flat, columns=_columns(flat)).set_index("node")


def export(folder: Path, form: str, out: Path | None) -> str:
    """The nodes as text, JSON lines or CSV; written to `out` where it is given, as Parquet must be.

    Raises `ConfigError` for a format that is none, and where Parquet cannot be written; `RunError` as `read` does.
    """
    if form not in FORMATS:
        raise ConfigError(f"there is no format {form!r}; there are {', '.join(FORMATS)}")
    if form == "parquet":
        _parquet(folder, out)
        return ""
    found = rows(read(folder))
    if form == "jsonl":
        text = "".join(f"{json.dumps(row, allow_nan=False)}\n" for row in found)
    else:
        flat = [_flat(row) for row in found]
        made = io.StringIO()
        writer = csv.DictWriter(made, _columns(flat), lineterminator="\n")
        writer.writerow({name: _cell(name) for name in writer.fieldnames})
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in flat)
        text = made.getvalue()
    if out is not None:
        write_file(out, text.encode("utf-8"))
    return text


def _row(reading: Reading, node: Node) -> dict[str, Json]:
    record, outcome, program = reading.record, node.outcome, node.candidate.program
    assert record.start is not None
    value, draws = record.start.metric.value, node.candidate.draws
    tested = record.tested.get(node.index, ())
    whole = bool(tested) and all(run.ok for run in tested)
    return {
        "node": node.index,
        "step": node.step,
        "parent": node.parent,
        "status": outcome.status,
        "search": value(outcome.score) if outcome.ok else None,
        "test": value(math.fsum(run.score for run in tested) / len(tested)) if whole else None,
        "origin": node.candidate.origin,
        "reason": outcome.reason,
        "remark": node.candidate.reason,
        "program": program.id if program is not None else None,
        "twin_of": node.twin_of,
        "no_op": node.twin_of is not None and no_op(node, record.nodes),
        "same_answer_as": node.same_answer_as,
        "wall_s": outcome.usage.wall_s,
        "cpu_s": outcome.usage.cpu_s,
        "max_rss_bytes": outcome.usage.max_rss_bytes,
        "elapsed_s": reading.elapsed_s[node.index],
        "draws": len(draws),
        "damaged": sum(draw.verdict == "damaged" for draw in draws),
        "tokens": _sum([_tokens(draw) for draw in draws]),
        "cost_usd": _sum([draw.cost_usd for draw in draws]),
        "metrics": {name: found if math.isfinite(found) else None for name, found in outcome.metrics.items()},
    }


def _tokens(draw: Draw) -> int | None:
    counted = (draw.tokens.prompt, draw.tokens.completion)
    return None if None in counted else sum(count for count in counted if count is not None)


def _sum(values: list[int | None] | list[float | None]) -> float | None:
    """Unknown where any part of it is."""
    return None if None in values else sum(value for value in values if value is not None)


def _flat(row: Mapping[str, Json]) -> dict[str, Json]:
    metrics = row["metrics"]
    assert isinstance(metrics, dict)
    plain = {name: value for name, value in row.items() if name != "metrics"}
    return plain | {f"metric {name}": value for name, value in metrics.items()}


def _columns(flat: list[dict[str, Json]]) -> list[str]:
    return list(dict.fromkeys(name for row in flat for name in row))


def _cell(value: Json) -> Json:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it: it may be a candidate's."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


def _parquet(folder: Path, out: Path | None) -> None:
    if out is None:
        raise ConfigError("parquet is no text; name a file for it (-o nodes.parquet)")
    try:
        import pyarrow  # noqa: F401  (pandas writes with it)
    except ImportError:
        raise ConfigError("parquet needs pyarrow; pip install 'progevo[parquet]'") from None
    try:
        to_dataframe(folder).to_parquet(out)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {complaint.of_writing(out, error)}") from None
