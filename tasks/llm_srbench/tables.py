"""The four data sets of LLM-SR, LLM-SRBench's predecessor (arXiv:2404.18400): a folder of CSV files each.

The last column is the target. They are read from a checkout's `data` folder, or any folder of that layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from progevo.errors import DataError
from progevo.evaluators.equations import Problem, Samples
from progevo.tasks.llm_srbench.names import arguments, truth

FILES = {"train": "train.csv", "test": "test_id.csv", "ood": "test_ood.csv"}

#: The equations that three of the sets were simulated by, in the paper's form; tests hold them to every sample.
TRUTHS = {
    "oscillator1": "0.8*sin(x) - 0.5*v**3 - 0.2*x**3 - 0.5*x*v - x*cos(x)",
    "oscillator2": "0.3*sin(t) - 0.5*v**3 - x*v - 5*x*exp(0.5*x)",
    "bactgrow": "0.5*b*s/(1 + s)*tanh(0.4*(temp - 20))/(1 + 0.005*(temp - 35)**4)"
    "*exp(-abs(pH - 7))*sin(0.1*pi*(pH - 2))**2",
}

ABOUT: Mapping[str, Mapping[str, str]] = {
    "oscillator1": {"a": "acceleration of a damped oscillator", "x": "position", "v": "velocity"},
    "oscillator2": {"a": "acceleration of a driven oscillator", "t": "time", "x": "position", "v": "velocity"},
    "bactgrow": {
        "db": "growth rate of E. coli",
        "b": "population density",
        "s": "substrate concentration",
        "temp": "temperature in degrees Celsius",
        "pH": "acidity",
    },
    "stressstrain": {"stress": "stress in aluminium 6061-T651", "strain": "strain", "temp": "temperature, scaled"},
}


def sets(folder: Path) -> dict[str, Path]:
    """The folders of sets in a folder, by name; the folder itself where it is one."""
    here = [folder, *sorted(each for each in folder.iterdir() if each.is_dir())]
    return {each.resolve().name: each for each in here if all((each / file).is_file() for file in FILES.values())}


@dataclass(frozen=True)
class Tables:
    """A `Source` of CSV files."""

    folders: Mapping[str, Path]
    about: str = "LLM-SR"

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        return {"llm_sr": tuple(self.folders)}

    def load(self, name: str, /) -> Problem:
        tables = {part: table(self.folders[name] / file) for part, file in FILES.items()}
        headers = {names for names, _ in tables.values()}
        if len(headers) > 1:
            raise DataError(f"the files of {self.folders[name]} have different columns")
        *symbols, output = headers.pop()
        names = arguments(symbols)
        parts = {part: Samples(inputs=rows[:-1], target=rows[-1]) for part, (_, rows) in tables.items()}
        return Problem(
            name=name,
            group="llm_sr",
            inputs=names,
            output=output,
            about=ABOUT.get(name, {}),
            truth=truth(TRUTHS[name], symbols, names) if name in TRUTHS else None,
            train=parts["train"],
            test=parts["test"],
            ood=parts["ood"],
        )


def table(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """The names and the columns of a CSV file. Raises `DataError` for anything but numbers under a header."""
    try:
        with open(path, encoding="utf-8") as file:
            header = tuple(name.strip() for name in file.readline().split(","))
            lines = file.readlines()
            if not lines:
                raise ValueError("it holds no row")
            rows = np.loadtxt(lines, delimiter=",", dtype=np.float64, ndmin=2)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a table of numbers: {error}") from None
    if len(header) < 2 or rows.shape[1] != len(header):
        raise DataError(f"{path} has {len(header)} names for {rows.shape[1]} columns")
    return header, np.ascontiguousarray(rows.T)
