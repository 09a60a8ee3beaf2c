"""A user's initial program and evaluator as a `Domain`, and what their configuration sets.

Behaviour after algorithmicsuperintelligence/openevolve at commit 411fb59, `openevolve/evaluator.py` and `config.py`;
where ours departs, `docs/fidelity.md` says so.
"""

from __future__ import annotations

import ast
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from progevo import complaint
from progevo.domain import SEARCH, Domain, Stage
from progevo.errors import BadOutput, ConfigError, TaskError
from progevo.openevolve.keys import read_keys
from progevo.types import MIB, Answer, DataSource, GatePolicy, Inputs, Limits, Metric, Program, Score

HARNESS = Path(__file__).resolve().with_name("harness.py")

#: Files beside the evaluator that it may need; the sandbox shows them. No settings, no keys, nothing hidden.
BESIDE = {".py", ".json", ".csv", ".tsv", ".txt", ".npy", ".npz"}
#: What OpenEvolve has where a configuration says nothing (config.py, EvaluatorConfig).
TIMEOUT_S, THRESHOLDS = 300, (0.5, 0.75, 0.9)
STAGES = ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")

#: The gate's policy for imported pairs. It knows nothing of the task, so it lets pass what numeric programs use; what
#: the sandbox holds in any case, it refuses early and in words.
IMPORTED = GatePolicy(
    name="imported",
    imports=frozenset(
        "__future__ abc array bisect cmath collections concurrent contextlib copy dataclasses datetime decimal enum "
        "fractions functools hashlib heapq itertools json logging math matplotlib numbers numpy operator pandas queue "
        "random re scipy sklearn statistics string struct sympy textwrap threading time traceback typing uuid warnings "
        "zlib networkx numba".split()
    ),
    allowed_names=frozenset({"getattr", "hasattr", "setattr", "globals", "locals", "vars", "dir"}),
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A pair as a task, and the settings that its configuration names."""

    domain: Domain
    #: As `progevo.config.Settings` has them, without defaults.
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SelfReported:
    """An `Evaluator` that takes a user's evaluator at its word.

    Attributes:
        evaluator: the user's file; it and the files beside it are readable inside.
        functions: which of its functions scores a split.
        feature_dimensions: metrics that are axes of a grid and no part of a fitness that is an average.
    """

    evaluator: Path
    functions: Mapping[str, str]
    files: Mapping[str, Path]
    feature_dimensions: tuple[str, ...] = field(default=("complexity", "diversity"))

    @property
    def harness(self) -> Path:
        return HARNESS

    def inputs(self, split: str, /) -> Inputs:
        return Inputs(
            request={"evaluator": self.evaluator.name, "function": self.functions[split]}, files=dict(self.files)
        )

    def score(self, split: str, answer: Answer, /) -> Score:
        """The evaluator's `combined_score`, else the mean of its numbers (utils/metrics_utils.py, get_fitness_score).

        Raises:
            BadOutput: the evaluator says that there was an error, or no number to rank by.
        """
        said = answer.value if isinstance(answer.value, dict) else {}
        names, values = said.get("names"), answer.arrays[0] if len(answer.arrays) == 1 else None
        if not isinstance(names, list) or values is None or len(names) != len(values):
            raise BadOutput("the evaluator's metrics did not arrive whole")
        if said.get("error"):
            raise BadOutput(f"the evaluator reports: {said['error']}")
        metrics = {str(name): float(value) for name, value in zip(names, values, strict=True)}
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        return Score(score=fitness(metrics, self.feature_dimensions), metrics=finite)


def fitness(metrics: Mapping[str, float], feature_dimensions: Sequence[str]) -> float:
    """What a search ranks on. Raises `BadOutput` where there is no finite number."""
    if "combined_score" in metrics:
        value = metrics["combined_score"]
    else:
        known = {name: value for name, value in metrics.items() if not math.isnan(value) and name != "error"}
        ranked = [value for name, value in known.items() if name not in feature_dimensions] or list(known.values())
        if not ranked:
            raise BadOutput("the evaluator returned no number")
        value = math.fsum(ranked) / len(ranked)
    if not math.isfinite(value):
        raise BadOutput(f"the evaluator's combined_score is {value}")
    return value


def read_pair(program: Path, evaluator: Path, *, configuration: Path | None = None, drop: Sequence[str] = ()) -> Pair:
    """The task that two of a user's files make, with the settings of a third.

    Raises:
        TaskError: a file cannot be read, or the evaluator defines no `evaluate`.
        ConfigError: the configuration holds what means nothing here.
    """
    if drop and configuration is None:
        raise ConfigError("--drop-key is about the keys of a configuration; add --config config.yaml")
    found = read_keys(configuration, drop) if configuration is not None else {}
    about = {name.removeprefix("pair."): value for name, value in found.items() if name.startswith("pair.")}
    settings = nested({name: value for name, value in found.items() if not name.startswith("pair.")})
    for name, wanted in (("language", "python"), ("file_suffix", ".py")):
        if about.get(name, wanted) != wanted:
            raise ConfigError(f"{name} is {about[name]!r}; progevo evolves Python programs, where it is {wanted!r}")
    if "memory_bytes" in settings.get("limits", {}):
        settings["limits"]["memory_bytes"] = int(settings["limits"]["memory_bytes"] * MIB)
    seed, judge = read_text(program), read_text(evaluator)
    stages, functions = cascade(evaluator, judge, about)
    timeout_s = settings.get("limits", {}).get("wall_s", TIMEOUT_S)
    dimensions = settings.get("constants", {}).get("feature_dimensions", ("complexity", "diversity"))
    name = evaluator.resolve().parent.name
    domain = Domain(
        name=f"openevolve:{name}",
        entrypoint="",
        seed=Program(seed),
        prompt=str(about.get("prompt", "")),
        metric=Metric(name="combined_score", direction="maximize"),
        gate=policy(about.get("max_bytes")),
        limits=Limits(wall_s=TIMEOUT_S, cpu_s=math.ceil(timeout_s), processes=64),
        profile="numeric",
        evaluator=SelfReported(
            evaluator=evaluator, functions=functions, files=beside(evaluator), feature_dimensions=tuple(dimensions)
        ),
        splits=(SEARCH,),
        data=DataSource(source=evaluator.name, sha256=hashlib.sha256(judge.encode()).hexdigest()),
        stages=stages,
        trust="self_reported",
    )
    return Pair(domain=domain, settings={**settings, "task": domain.name})


def cascade(evaluator: Path, source: str, about: Mapping[str, Any]) -> tuple[tuple[Stage, ...], Mapping[str, str]]:
    """The stages of an evaluator, and which function scores which split; a run ends at the last one.

    As `_cascade_evaluate` there: without `evaluate_stage1`, or with `cascade_evaluation: false`, it is `evaluate`; a
    stage follows where there is a function for it and a threshold before it.
    """
    try:
        tree = ast.parse(source, str(evaluator))
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"the evaluator {evaluator} is not Python: {error}") from None
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    defined |= {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    if "evaluate" not in defined:
        raise TaskError(f"the evaluator {evaluator} defines no function evaluate(program_path)")
    thresholds = about.get("thresholds", list(THRESHOLDS))
    if not all(type(value) in (int, float) for value in thresholds):
        raise ConfigError(f"cascade_thresholds is {thresholds!r}; it is a list of numbers")
    if not about.get("cascade", True) or STAGES[0] not in defined or not thresholds:
        return (), {SEARCH: "evaluate"}
    there = [name for name in STAGES if name in defined]
    there = there[: 1 + len(thresholds)]
    stages = tuple(
        Stage(split=name, threshold=float(least)) for name, least in zip(there[:-1], thresholds, strict=False)
    )
    return stages, {**{stage.split: stage.split for stage in stages}, SEARCH: there[-1]}


def policy(max_bytes: int | None) -> GatePolicy:
    if max_bytes is None:
        return IMPORTED
    if max_bytes < 1:
        raise ConfigError(f"max_code_length is {max_bytes}; it must be above 0")
    return replace(IMPORTED, max_bytes=max_bytes)


def beside(evaluator: Path) -> dict[str, Path]:
    """The evaluator, and what lies beside it that it may read."""
    files = (path for path in sorted(evaluator.resolve().parent.iterdir()) if path.suffix in BESIDE)
    found = {path.name: path for path in files if path.is_file() and not path.name.startswith(".")}
    return {**found, evaluator.name: evaluator.resolve()}


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with dotted names as tables of one level."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        table, _, key = name.rpartition(".")
        if table:
            found.setdefault(table, {})[key] = value
        else:
            found[key] = value
    return found


def read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise TaskError(f"{file} cannot be read: {complaint.of_reading(error)}") from None
