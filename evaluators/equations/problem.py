"""A problem of equation discovery: named inputs, samples in parts, and the true expression where one is known."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from progevo.errors import DataError
from progevo.evaluators.equations import measures
from progevo.evaluators.equations.expression import Expression

#: The part of the training rows that programs are fitted to; the rest ranks them.
FITTED = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Rows: `inputs` of shape (columns, rows), `target` of shape (rows,), float64 and finite."""

    inputs: Any
    target: Any

    def __len__(self) -> int:
        return len(self.target)

    def ids(self) -> list[bytes]:
        """What tells one row's inputs from another's."""
        return [row.tobytes() for row in np.ascontiguousarray(self.inputs.T)]

    def rows(self, chosen: Any) -> Samples:
        """Some of the rows, in this order."""
        return Samples(inputs=self.inputs[:, chosen], target=self.target[chosen])


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem. Raises `DataError` for samples that are not finite, or that leave nothing to explain.

    Attributes:
        name: its id, unique within a group.
        group: what it belongs to.
        inputs: the names of the inputs, fit for arguments of a function, in the order of the columns.
        output: the name of the output.
        about: what a name means, in words, where that is known.
        train, test, ood: the samples; of those out of distribution there may be none.
        truth: the expression that the samples follow, in the names of `inputs`; `None` if unknown.
    """

    name: str
    group: str
    inputs: tuple[str, ...]
    output: str
    train: Samples
    test: Samples
    ood: Samples | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    truth: Expression | None = None

    def __post_init__(self) -> None:
        for part, samples in (("train", self.train), ("test", self.test), ("ood", self.ood)):
            if samples is None:
                continue
            if samples.inputs.shape != (len(self.inputs), len(samples.target)):
                raise DataError(
                    f"the {part} samples of {self.name} have {samples.inputs.shape[0]} columns of"
                    f" {samples.inputs.shape[1]} rows for {len(self.inputs)} inputs and {len(samples.target)} targets"
                )
            if not (np.isfinite(samples.inputs).all() and np.isfinite(samples.target).all()):
                raise DataError(f"the {part} samples of {self.name} hold numbers that are not finite")
            if part != "ood" and (len(samples) < 2 or measures.constant(samples.target)):
                raise DataError(
                    f"the {part} targets of {self.name} are all the same, so NMSE has no meaning and nothing is to be"
                    " found; take this problem out"
                )

    @property
    def sha256(self) -> str:
        """Of all samples, in hex."""
        found = hashlib.sha256()
        for samples in (self.train, self.test, self.ood):
            if samples is not None:
                found.update(np.ascontiguousarray(samples.target, dtype="<f8").tobytes())
                found.update(np.ascontiguousarray(samples.inputs, dtype="<f8").tobytes())
        return found.hexdigest()

    def parts(self) -> tuple[Samples, Samples]:
        """The training rows that programs are fitted to, and those that rank them; the same at every call.

        A row whose inputs stand in the test part too (of 100,000 float32 draws some do) does not rank.
        Raises `DataError` where the targets of the second part are all the same.
        """
        order = list(range(len(self.train)))
        random.Random(f"progevo equations {self.group} {self.name}").shuffle(order)
        cut = round(FITTED * len(order))
        tested = set(self.test.ids())
        known = self.train.ids()
        ranking = [row for row in sorted(order[cut:]) if known[row] not in tested]
        fitted, held = self.train.rows(sorted(order[:cut])), self.train.rows(ranking)
        if len(held) < 2 or measures.constant(held.target):
            raise DataError(
                f"{self.name} has {len(self.train)} training rows, and the {len(held)} that are held back cannot rank"
                " a program: they need at least two different targets"
            )
        return fitted, held
