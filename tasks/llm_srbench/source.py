"""Source: where problems come from: files of four layouts, or statements of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from progevo.errors import DataError
from progevo.evaluators.equations import Problem
from progevo.tasks.llm_srbench import inlined, official, statements, tables


class Source(Protocol):
    """Problems by group, and one at a time with its samples."""

    @property
    def about(self) -> str:
        """What a result calls the data."""
        ...

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The ids of the problems of each group."""
        ...

    def load(self, name: str, /) -> Problem:
        """A problem by its id, which `groups` has. Raises `DataError`."""
        ...


def open_source(data: Path | None) -> Source:
    """The problems of a file or a folder; without one, those of our own.

    Raises `DataError` for a layout that is not known, and for one whose reader is not installed.
    """
    if data is None:
        return statements.Statements.ours()
    if data.is_file() and data.suffix == ".json":
        return statements.Statements.of(data)
    if not data.is_dir():
        raise DataError(f"{data} is neither a folder nor a .json file of statements")
    if (data / statements.PUBLISHED).is_file():
        return statements.Statements.of(data / statements.PUBLISHED)
    if (data / official.SAMPLES).is_file():
        return official.Official(data)
    if folders := tables.sets(data):
        return tables.Tables(folders)
    if files := sorted(data.rglob("*.parquet")):
        return inlined.Inlined(files)
    raise DataError(
        f"{data} holds no problems that are known here: {official.SAMPLES} with the parquet files beside it, parquet"
        " files with the samples inlined, or a folder for each of LLM-SR's sets with train.csv, test_id.csv and"
        " test_ood.csv"
    )
