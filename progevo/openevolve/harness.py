"""Runs inside the sandbox: a user's OpenEvolve evaluator, which loads and judges the candidate in this process.

What crosses the wire is what the evaluator said: the names of its numbers, the numbers, and its word for a failure.
Artifacts go to the log.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: How much of one artifact is shown.
ARTIFACT_CHARACTERS = 2000


class BadOutput(Exception):
    """The evaluator returned no metrics."""


class EvaluationResult:
    """Stands in for `openevolve.evaluation_result.EvaluationResult`: metrics, and artifacts beside them."""

    def __init__(self, metrics: dict[str, Any], artifacts: dict[str, Any] | None = None) -> None:
        self.metrics = metrics
        self.artifacts = {} if artifacts is None else artifacts

    @classmethod
    def from_dict(cls, metrics: dict[str, Any]) -> EvaluationResult:
        return cls(metrics)

    def to_dict(self) -> dict[str, Any]:
        return self.metrics

    def has_artifacts(self) -> bool:
        return bool(self.artifacts)

    def get_artifact_keys(self) -> list[str]:
        return list(self.artifacts)

    def get_artifact_size(self, key: str) -> int:
        value = self.artifacts.get(key, b"")
        return len(value if isinstance(value, bytes) else str(value).encode())

    def get_total_artifact_size(self) -> int:
        return sum(map(self.get_artifact_size, self.artifacts))


def run(
    source: str, request: Mapping[str, Any], inputs: str | os.PathLike[str]
) -> tuple[dict[str, Any], list[list[float]]]:
    """Calls one function of the evaluator with the path of the candidate's text, which has not been run before."""
    folder, program = Path(inputs), Path("program.py").absolute()
    program.write_text(source, "utf-8")
    stand_in()
    sys.path.insert(0, str(folder))
    # For interpreters that the evaluator starts: they find the same packages.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    evaluator = load(folder / request["evaluator"])
    result = getattr(evaluator, request["function"])(str(program))
    metrics = result if isinstance(result, dict) else getattr(result, "metrics", None)
    if not isinstance(metrics, dict):
        raise BadOutput(f"the evaluator returned {type(result).__name__}, neither a dict nor an object with metrics")
    show(getattr(result, "artifacts", None))
    numbers = {str(name): number for name, value in metrics.items() if (number := as_number(value)) is not None}
    error = next((str(metrics[name]) for name in ("error", "timeout") if is_word(metrics.get(name))), "")
    return {"names": list(numbers), "error": error[:500]}, [list(numbers.values())]


def stand_in() -> None:
    """Makes `from openevolve.evaluation_result import EvaluationResult` work, and no more of that package."""
    package, module = types.ModuleType("openevolve"), types.ModuleType("openevolve.evaluation_result")
    package.__path__ = []
    for each in (package, module):
        vars(each)["EvaluationResult"] = EvaluationResult
    vars(package)["evaluation_result"] = module
    sys.modules |= {"openevolve": package, "openevolve.evaluation_result": module}


def load(file: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("evaluation_module", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def as_number(value: Any) -> float | None:
    """A metric as a float; `None` for a flag and for what is none."""
    if isinstance(value, (bool, str, bytes)) or type(value).__name__ == "bool_":
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def is_word(value: Any) -> bool:
    """Whether a metric called `error` or `timeout` says that there was one."""
    return value is True or (isinstance(value, str) and bool(value.strip()))


def show(artifacts: Any) -> None:
    if isinstance(artifacts, dict):
        for name, value in artifacts.items():
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            print(f"artifact {name}: {text[:ARTIFACT_CHARACTERS]}")
