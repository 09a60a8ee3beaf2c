"""LLM-SRBench as its authors released it (nnheui/llm-srbench): statements in parquet files, samples in one HDF5 file.

    data/<split>-00000-of-00001.parquet       name, symbols, symbol_descs, symbol_properties, expression
    lsr_bench_data.hdf5                       /lsr_transform/<name>/{train,test}
                                              /lsr_synth/<domain>/<name>/{train,test,ood_test}

A table's first column is the output, the others are the symbols with the property V, in their order
(`bench/datamodules.py` of deep-symbolic-mathematics/llm-srbench). Its files are gated; nothing here fetches them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from progevo.errors import DataError
from progevo.evaluators.equations import Problem, Samples
from progevo.tasks.llm_srbench.inlined import parquet
from progevo.tasks.llm_srbench.names import arguments, truth

SAMPLES = "lsr_bench_data.hdf5"

#: split in the parquet files -> group in the HDF5 file.
SPLITS = {
    "lsr_transform": "lsr_transform",
    "lsr_synth_bio_pop_growth": "lsr_synth/bio_pop_growth",
    "lsr_synth_chem_react": "lsr_synth/chem_react",
    "lsr_synth_matsci": "lsr_synth/matsci",
    "lsr_synth_phys_osc": "lsr_synth/phys_osc",
}


class Official:
    """A `Source` of the released files."""

    about = "LLM-SRBench"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @functools.cached_property
    def rows(self) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """id -> split and statement."""
        found = {str(row.get("name")): (split, row) for split, row in self._statements()}
        if not found:
            raise DataError(f"{self.folder} holds {SAMPLES}, and no parquet file of a split ({', '.join(SPLITS)})")
        return found

    def _statements(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for split in SPLITS:
            for path in sorted(self.folder.rglob("*.parquet")):
                if path.name.startswith(f"{split}-") or path.name == f"{split}.parquet" or path.parent.name == split:
                    for row in parquet().read_table(path).to_pylist():
                        yield split, row

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for name, (split, _) in self.rows.items():
            found.setdefault(split.removeprefix("lsr_synth_"), []).append(name)
        return found

    def load(self, name: str, /) -> Problem:
        split, row = self.rows[name]
        try:
            output, *inputs = [
                (symbol, str(words))
                for symbol, words, property_ in zip(
                    row["symbols"], row["symbol_descs"], row["symbol_properties"], strict=True
                )
                if property_ in ("O", "V")
            ]
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(f"the statement of {name} is not whole: {type(error).__name__}: {error}") from None
        symbols = [str(symbol) for symbol, _ in inputs]
        names = arguments(symbols)
        parts = {part: samples(table) for part, table in self._tables(SPLITS[split], name).items()}
        return Problem(
            name=name,
            group=split.removeprefix("lsr_synth_"),
            inputs=names,
            output=str(output[0]),
            about={str(output[0]): output[1], **dict(zip(names, (words for _, words in inputs), strict=True))},
            truth=truth(str(row["expression"]), symbols, names),
            train=parts["train"],
            test=parts["test"],
            ood=parts.get("ood_test"),
        )

    def _tables(self, group: str, name: str) -> dict[str, np.ndarray]:
        try:
            import h5py
        except ImportError:
            raise DataError(
                f"{SAMPLES} is read by h5py, which is not installed; pip install 'progevo[srbench]' brings it"
            ) from None
        path = self.folder / SAMPLES
        try:
            with h5py.File(path, "r") as file:
                found = {part: np.asarray(table, dtype=np.float64) for part, table in file[f"{group}/{name}"].items()}
        except (OSError, KeyError, ValueError, AttributeError) as error:
            raise DataError(f"{path} has no samples that can be read under /{group}/{name}: {error}") from None
        if not {"train", "test"} <= found.keys() or any(table.ndim != 2 for table in found.values()):
            raise DataError(f"{path} has no tables train and test under /{group}/{name}; it has {', '.join(found)}")
        return found


def samples(table: np.ndarray) -> Samples:
    """A table whose first column is the target."""
    columns = np.ascontiguousarray(table.T)
    return Samples(inputs=columns[1:], target=columns[0])
