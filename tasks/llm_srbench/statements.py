"""Statements: true equations from which we draw samples ourselves. What is drawn here is no benchmark's data.

Two kinds of lists are read: our own (`statements.json`), which says everything, and the published statements of
LLM-SRBench without their samples, whose inputs and missing constants are then drawn from ranges of our own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from progevo.errors import DataError
from progevo.evaluators.equations import Problem, Samples
from progevo.evaluators.equations.expression import Expression, NotAnExpression, compute, parse
from progevo.tasks.llm_srbench.names import arguments

#: What a folder with a list of statements calls it.
PUBLISHED = "problems.json"
OURS = Path(__file__).with_name("statements.json")

#: Rows that are drawn where a statement says nothing else.
ROWS = {"train": 2000, "test": 500, "ood": 500}
#: What a list may call the parts.
PARTS = {"train": "train", "test": "test", "id_test": "test", "ood_test": "ood"}

#: Of published statements: from where inputs are drawn, and from where beyond that. Ours, since none are published.
RANGES: Mapping[str, Mapping[str, tuple[tuple[float, float], tuple[float, float]]]] = {
    "bio_pop_growth": {"t": ((0, 60), (60, 80)), "P": ((0.5, 80), (0.5, 100))},
    "chem_react": {"t": ((0, 30), (30, 40)), "A": ((0.01, 1.5), (0.01, 2))},
    "matsci": {"epsilon": ((0.001, 0.6), (0.001, 0.6)), "T": ((273, 573), (573, 673))},
    "phys_osc": {"t": ((0, 50), (50, 60)), "x": ((-2, 2), (-2.5, 2.5)), "v": ((-2, 2), (-2.5, 2.5))},
    "lsr_transform": {},
}
#: Of any other input, with nothing beyond, or where the formula is real nowhere in there; and of a constant whose value
#: is not published.
USUAL, WIDE, CONSTANT = (1.0, 5.0), (-5.0, 5.0), (0.1, 1.0)

#: Draws for one row that has a value; where a formula is real for fewer, the ranges do not fit it.
DRAWS = 100


@dataclass(frozen=True, kw_only=True)
class Statements:
    """A `Source` of samples that are drawn by a seeded generator: the same at every call."""

    about: str
    rows: Mapping[str, Mapping[str, Any]]

    @classmethod
    def ours(cls) -> Statements:
        return cls._read(OURS, "statements", "drawn from equations of ours")

    @classmethod
    def of(cls, path: Path) -> Statements:
        """Those of a file with a list under `problems`, as LLM-SRBench's are published, or under `statements`."""
        return cls._read(path, "problems", f"samples of ours for the statements in {path.name}")

    @classmethod
    def _read(cls, path: Path, key: str, about: str) -> Statements:
        try:
            whole = json.loads(path.read_text("utf-8"))
            listed = whole.get(key, whole.get("statements"))
            rows = {str(row["id"]): row for row in listed}
            for row in rows.values():
                if not (row["inputs"] and isinstance(row["expression"], str) and row["output"] and row["group"]):
                    raise ValueError(f"the statement {row['id']} is not whole")
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{path} is no list of statements ({type(error).__name__}: {error}); each has an id, a group, an"
                " output, inputs and an expression"
            ) from None
        return cls(about=about, rows=rows)

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            found.setdefault(_group(row), []).append(name)
        return found

    def load(self, name: str, /) -> Problem:
        row = self.rows[name]
        symbols = tuple(map(str, row["inputs"]))
        inputs = arguments(symbols)
        try:
            truth = parse(str(row["expression"]), {**dict(zip(symbols, inputs, strict=True)), **constants(name, row)})
        except NotAnExpression as error:
            raise DataError(f"the expression of {name} cannot be read: {error}") from None
        within, beyond = ranges(row)
        if set(within) == {USUAL} and not real(name, inputs, truth, within):
            within = beyond = [WIDE] * len(inputs)
        counts = {**ROWS, **{PARTS[part]: int(n) for part, n in row.get("rows", {}).items()}}
        if beyond == within:
            del counts["ood"]
        parts = {
            part: drawn(name, part, inputs, truth, beyond if part == "ood" else within, count)
            for part, count in counts.items()
        }
        about = {str(symbol): str(text) for symbol, text in row.get("about", {}).items()}
        return Problem(
            name=name,
            group=_group(row),
            inputs=inputs,
            output=str(row["output"]),
            about={inputs[symbols.index(symbol)] if symbol in symbols else symbol: about[symbol] for symbol in about},
            truth=truth,
            train=parts["train"],
            test=parts["test"],
            ood=parts.get("ood"),
        )


def _group(row: Mapping[str, Any]) -> str:
    return str(row["group"]).removeprefix("lsr_synth/")


def constants(name: str, row: Mapping[str, Any]) -> dict[str, float]:
    """Values of ours for the constants whose values are not published."""
    draw = generator(name, "constants")
    return {str(each): float(draw.uniform(*CONSTANT)) for each in sorted(row.get("free_constants", ()))}


def ranges(row: Mapping[str, Any]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """From where each input is drawn, in distribution and out of it; the same where nothing is out of it."""
    if "ranges" in row:
        within = row["ranges"]
        beyond = row.get("beyond", within)
        return [tuple(within[name]) for name in row["inputs"]], [tuple(beyond[name]) for name in row["inputs"]]
    known = RANGES.get(_group(row), {})
    both = [known.get(name, (USUAL, USUAL)) for name in row["inputs"]]
    return [pair[0] for pair in both], [pair[1] for pair in both]


def real(name: str, inputs: Sequence[str], truth: Expression, where: Sequence[tuple[float, float]]) -> bool:
    """Whether the formula has a real value at one of a few thousand draws."""
    try:
        return len(drawn(name, "real", inputs, truth, where, 1000)) > 0
    except DataError:
        return False


def drawn(
    name: str,
    part: str,
    inputs: Sequence[str],
    truth: Expression,
    where: Sequence[tuple[float, float]],
    rows: int,
) -> Samples:
    """Rows with inputs uniform in their ranges, those left out where the formula has no real value.

    Raises `DataError` where it has one too seldom.
    """
    draw = generator(name, part)
    low, high = (np.array(ends, dtype=np.float64)[:, None] for ends in zip(*where, strict=True))
    kept, count = [], 0
    for _ in range(DRAWS):
        values = low + (high - low) * draw.random((len(inputs), rows))
        target = compute(truth, dict(zip(inputs, values, strict=True)), rows)
        real = np.isfinite(target)
        kept.append(np.vstack([target[None, real], values[:, real]]))
        count += int(real.sum())
        if count >= rows:
            table = np.hstack(kept)[:, :rows]
            return Samples(inputs=np.ascontiguousarray(table[1:]), target=np.ascontiguousarray(table[0]))
    raise DataError(
        f"{name} has a real value for {count} of {DRAWS * rows} draws: its ranges do not fit its expression"
    )


def generator(name: str, part: str) -> np.random.Generator:
    """A generator of a problem's part."""
    seed = int.from_bytes(hashlib.sha256(f"progevo llm_srbench {name} {part}".encode()).digest()[:16], "big")
    return np.random.Generator(np.random.PCG64(seed))
