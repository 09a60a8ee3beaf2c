"""What a run is about to do: the plan, the name of its folder, its first line and what its `config.toml` says."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from progevo.budget import Budget
from progevo.domain import Domain
from progevo.events import SCHEMA, Confined, Started, StartMeasured
from progevo.fingerprint import fingerprint, versions
from progevo.sandbox import Confinement
from progevo.schedule import Schedule
from progevo.types import Json


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run is about to do."""

    domain: Domain
    search: str
    constants: Mapping[str, Json]
    proposer: str
    budget: Budget
    workers: int
    schedule: Schedule
    seed: int
    #: How often each program is run, and its score averaged.
    repeats: int
    acceptance: str
    #: How many of the best are scored on the held-out part, besides the seed.
    top: int
    folder: Path
    confinement: Confinement
    #: What the sandbox's self-test held, where one was made.
    proof: Mapping[str, Json] | None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        assert self.budget.iterations is not None
        return self.budget.iterations

    @property
    def confirm(self) -> bool:
        """Whether a node is run again before it may be called best: where the same program scores differently."""
        return self.domain.noisy or self.repeats > 1


def new_folder(search: str, task: str, seed: int) -> Path:
    """A run folder that is not there yet: `runs/<date>_<time>_<search>_<task>_seed<seed>`, numbered if need be."""
    stem = re.sub(r"[^\w.-]+", "_", f"{datetime.now():%Y-%m-%d_%H%M%S}_{search}_{task}_seed{seed}")
    folder, number = Path("runs") / stem, 1
    while os.path.exists(folder):
        number += 1
        folder = Path("runs") / f"{stem}_{number}"
    return folder


def started(plan: Plan) -> Started:
    """The first line of the journal."""
    domain, box = plan.domain, plan.confinement
    return Started(
        schema=SCHEMA,
        task=domain.name,
        metric=domain.metric,
        data=domain.data,
        limits=domain.limits,
        splits=domain.splits,
        trust=domain.trust,
        search=plan.search,
        constants=dict(plan.constants),
        proposer=plan.proposer,
        seed=plan.seed,
        schedule=plan.schedule.name,
        workers=plan.workers,
        repeats=plan.repeats,
        confirm=plan.confirm,
        acceptance=plan.acceptance,
        top=plan.top,
        budget=plan.budget,
        sandbox=Confined(**{entry.name: getattr(box, entry.name) for entry in dataclasses.fields(box)}),
        versions=versions(),
        fingerprint=fingerprint(domain, box),
        settings=dict(plan.settings),
        measured=StartMeasured(started=now(), proof=dict(plan.proof) if plan.proof is not None else None),
    )


def config(plan: Plan) -> dict[str, Any]:
    """What `config.toml` holds: the merged settings, and what they ran on."""
    data = {"source": plan.domain.data.source, "sha256": plan.domain.data.sha256, "rows": plan.domain.data.rows}
    budget = {
        "max_evaluations": plan.budget.evaluations,
        "max_minutes": plan.budget.seconds / 60 if plan.budget.seconds is not None else None,
        "max_calls": plan.budget.calls,
        "max_tokens": plan.budget.tokens,
        "max_cost": plan.budget.cost_usd,
        "patience": plan.budget.patience,
        "target": plan.budget.target,
    }
    return {
        "search": plan.search,
        "task": plan.domain.name,
        "proposer": plan.proposer,
        "iterations": plan.iterations,
        **{name: value for name, value in budget.items() if value is not None},
        "workers": plan.workers,
        "schedule": plan.schedule.name,
        "seed": plan.seed,
        "repeats": plan.repeats,
        "acceptance": plan.acceptance,
        "top": plan.top,
        **plan.settings,
        "constants": dict(plan.constants),
        "ran_on": {
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
