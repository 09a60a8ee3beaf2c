"""What a run is about to do: the plan, the name of its folder, and what its `config.toml` says."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from progevo.domain import Domain
from progevo.sandbox import Confinement
from progevo.types import Json

#: Packages whose version can change what a score means.
PACKAGES = ("progevo", "libcst", "numpy", "pandas", "scikit-learn", "scipy")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run is about to do."""

    domain: Domain
    search: str
    proposer: str
    iterations: int
    workers: int
    seed: int
    folder: Path
    confinement: Confinement
    #: What the sandbox's self-test held, where one was made.
    proof: Mapping[str, Json] | None


def new_folder(search: str, task: str, seed: int) -> Path:
    """A run folder that is not there yet: `runs/<date>_<time>_<search>_<task>_seed<seed>`, numbered if need be."""
    stem = re.sub(r"[^\w.-]+", "_", f"{datetime.now():%Y-%m-%d_%H%M%S}_{search}_{task}_seed{seed}")
    folder, number = Path("runs") / stem, 1
    while os.path.exists(folder):
        number += 1
        folder = Path("runs") / f"{stem}_{number}"
    return folder


def versions() -> dict[str, str]:
    """The versions of everything that can change what a score means."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def config(plan: Plan, constants: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What `config.toml` holds: the merged settings, and what they ran on."""
    data = {"source": plan.domain.data.source, "sha256": plan.domain.data.sha256, "rows": plan.domain.data.rows}
    return {
        "search": plan.search,
        "task": plan.domain.name,
        "proposer": plan.proposer,
        "iterations": plan.iterations,
        "workers": plan.workers,
        "seed": plan.seed,
        "constants": dict(constants),
        **{name: value for name, value in settings.items() if name != "ran_on"},
        "ran_on": {
            **settings.get("ran_on", {}),
            "gate": plan.domain.gate.name,
            "data": {name: value for name, value in data.items() if value is not None},
            "sandbox": {
                "backend": plan.confinement.backend,
                "rung": plan.confinement.rung,
                "version": plan.confinement.version,
                "kernel": plan.confinement.kernel,
                "profile": plan.confinement.profile,
            },
            "versions": versions(),
        },
    }


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
