"""Domain: everything that defines a task, and finding one by name, path or entry point."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from progevo.types import Answer, DataSource, GatePolicy, Inputs, Limits, Metric, Move, Program, Score

#: What the search ranks on, and what is scored once at the end for the seed and for the best.
SEARCH, TEST = "search", "test"


class Evaluator(Protocol):
    """Splits the work of judging: `harness` runs inside with the candidate, everything else on the host.

    `harness` is a Python file that defines `run(entry, request, inputs)`: `entry` is the candidate's entry point,
    `request` the JSON of `Inputs.request`, `inputs` the folder with `Inputs.files`. It returns
    `(value, arrays)`: plain JSON data and a list of flat sequences of floats. It never sees the truth.
    """

    @property
    def harness(self) -> Path:
        """The file that runs inside the sandbox."""
        ...

    def inputs(self, split: str, /) -> Inputs:
        """What the candidate is given for a split: nothing of it is secret."""
        ...

    def score(self, split: str, answer: Answer, /) -> Score:
        """What the answer is worth. Raises `BadOutput` where it is not what the contract asks for."""
        ...


@dataclass(frozen=True, kw_only=True)
class Domain:
    """A task: what to evolve, how it is confined, and how it is scored.

    Attributes:
        name: what people call it, also in results.
        entrypoint: the name that every program must define.
        seed: the program that the search starts from.
        prompt: what a model is told about the task.
        metric: what people see; the search sees scores (larger is better).
        gate: what the gate lets pass.
        limits: what one candidate may use.
        profile: the name or path of a sandbox profile (`progevo.sandbox_profiles`).
        evaluator: makes inputs for the sandbox and scores answers on the host.
        splits: `("search", "test")`, or `("search",)` for a task without a held-out part.
        data: where the cases come from.
        moves: small rewrites that the offline mutator may use beside its own.
    """

    name: str
    entrypoint: str
    seed: Program
    metric: Metric
    gate: GatePolicy
    evaluator: Evaluator
    prompt: str = ""
    limits: Limits = Limits()
    profile: str = "tabular"
    splits: tuple[str, ...] = (SEARCH, TEST)
    data: DataSource = DataSource(source="built-in")
    moves: tuple[Move, ...] = ()
