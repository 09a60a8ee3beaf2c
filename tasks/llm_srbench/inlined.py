"""The open copy of LLM-SRBench (pkuHaowei/llm-srbench): parquet files whose rows hold a problem with its samples.

Columns: instance_id, input_vars, output_vars, description, gt_expression, train_input, train_output, test_input,
test_output, ood_input, ood_output; a folder for each split. Its statements are damaged in places (constants of the
chemistry ones, and of the physics ones); what cannot be read as an expression is a problem without a known truth.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from progevo.errors import DataError
from progevo.evaluators.equations import Problem, Samples
from progevo.tasks.llm_srbench.names import arguments, truth

NEEDED = ("instance_id", "input_vars", "output_vars", "gt_expression", "train_input", "train_output", "test_input")

#: A line of a description, such as "Input 1: t - Time".
DESCRIBED = re.compile(r"^\s*(?:Output|Input \d+):\s*(\S+)\s*-\s*(.+?)\s*$", re.MULTILINE)


class Place(NamedTuple):
    """Where a problem lies: a shard of a split holds more than memory likes."""

    group: str
    path: Path
    row_group: int
    row: int


def parquet() -> Any:
    """pyarrow's reader. Raises `DataError` where it is not installed."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            "parquet files are read by pyarrow, which is not installed; pip install 'progevo[parquet]' brings it"
        ) from None
    return pyarrow.parquet


class Inlined:
    """A `Source` of the open copy's files."""

    about = "LLM-SRBench, the open copy pkuHaowei/llm-srbench"

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    @functools.cached_property
    def places(self) -> Mapping[str, Place]:
        found: dict[str, Place] = {}
        for path in self.paths:
            file = _opened(path)
            missing = set(NEEDED) - set(file.schema_arrow.names)
            if missing:
                raise DataError(f"{path} has no column {', '.join(sorted(missing))}: its samples are not inlined")
            group = (path.parent.name if path.parent.name.startswith("lsr_") else path.stem).removeprefix("lsr_synth_")
            for number in range(file.num_row_groups):
                names = file.read_row_group(number, columns=["instance_id"]).column(0).to_pylist()
                found |= {str(name): Place(group, path, number, row) for row, name in enumerate(names)}
        return found

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for name, place in self.places.items():
            found.setdefault(place.group, []).append(name)
        return found

    def load(self, name: str, /) -> Problem:
        place = self.places[name]
        (row,) = _opened(place.path).read_row_group(place.row_group).slice(place.row, 1).to_pylist()
        symbols = [str(each) for each in row["input_vars"]]
        names = arguments(symbols)
        (output,) = row["output_vars"]
        words = dict(DESCRIBED.findall(row.get("description") or ""))
        try:
            parts = {
                part: Samples(
                    inputs=matrix(row[f"{part}_input"], len(symbols)), target=matrix(row[f"{part}_output"], 1)[0]
                )
                for part in ("train", "test", "ood")
                if row.get(f"{part}_input")
            }
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(f"the samples of {name} in {place.path} cannot be read: {error}") from None
        about = {new: words[old] for new, old in zip((output, *names), (output, *symbols), strict=True) if old in words}
        return Problem(
            name=name,
            group=place.group,
            inputs=names,
            output=str(output),
            about=about,
            truth=truth(str(row["gt_expression"]), symbols, names),
            train=parts["train"],
            test=parts["test"],
            ood=parts.get("ood"),
        )


def _opened(path: Path) -> Any:
    reader = parquet()
    try:
        return reader.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a parquet file: {error}") from None


def matrix(rows: Any, columns: int) -> np.ndarray:
    """The columns of a table that is a list of rows, or of single values. Raises `ValueError` for another shape."""
    table = np.asarray(rows, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] != columns:
        raise ValueError(f"a table of shape {table.shape} where {columns} columns are named")
    return np.ascontiguousarray(table.T)
