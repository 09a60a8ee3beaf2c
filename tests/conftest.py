"""What all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from progevo import Domain, GatePolicy, Limits, Metric, Program
from progevo.domain import SEARCH, TEST
from progevo.evaluators.calls import Calls


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared(repo: Path) -> Path:
    """The folder of facts beside the checkout: present where progevo is developed, and in its CI."""
    folder = repo.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no ../shared beside this checkout: its facts and golden files are not here")
    return folder


@pytest.fixture(scope="session")
def toy() -> Callable[..., Domain]:
    """Makes a task: find a number. Search and test want different ones, so that their scores cannot be confused."""
    target = {SEARCH: 10.0, TEST: 11.0}

    def make(**changes: object) -> Domain:
        evaluator = Calls(cases={SEARCH: [0], TEST: [0]}, score=lambda split, found: -((found[0] - target[split]) ** 2))
        domain = {
            "name": "toy",
            "entrypoint": "solve",
            "seed": Program("def solve(x):\n    return 0\n"),
            "metric": Metric(name="error", direction="minimize"),
            "gate": GatePolicy(imports=frozenset({"math", "time"})),
            "evaluator": evaluator,
            "profile": "stdlib",
            "limits": Limits(wall_s=10.0, cpu_s=5),
        }
        return Domain(**{**domain, **changes})

    return make
