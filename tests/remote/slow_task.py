"""A task that a worker finds by the path of this file: name a number. What it is told of it is the environment's."""

from __future__ import annotations

import os
from pathlib import Path

from progevo import Domain, GatePolicy, Limits, Metric, Program, Score
from progevo.domain import SEARCH, TEST, Stage
from progevo.evaluators.calls import Calls
from progevo.types import DataSource

#: What a program is asked, and what it should answer: the truth, which no order and no program ever holds.
QUESTIONS = {SEARCH: [1.0, 2.0], TEST: [3.0, 4.0], "first": [0.0]}
TRUTH = {SEARCH: 7007.0, TEST: 7009.0, "first": 7007.0}


def score(split, outputs):
    cases = tuple(abs(float(output) - TRUTH[split]) for output in outputs)
    return Score(score=-sum(cases) / len(cases), cases=cases)


def domain(*, data: Path | None = None, stages: int = 0):
    return Domain(
        name="slow",
        entrypoint="solve",
        seed=Program("def solve(x):\n    return 0\n"),
        prompt=os.environ.get("SLOW_TASK_PROMPT", ""),
        metric=Metric(name="distance", direction="minimize", aggregate="mean"),
        gate=GatePolicy(imports=frozenset(), permissive=True),
        limits=Limits(wall_s=30.0, cpu_s=10),
        evaluator=Calls(cases=QUESTIONS, score=score),
        profile="stdlib",
        data=DataSource(source="the environment", sha256=os.environ.get("SLOW_TASK_DATA")),
        stages=(Stage(split="first", threshold=7007.0),) * stages,
    )
