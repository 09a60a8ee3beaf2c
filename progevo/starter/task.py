"""The task: what a program must do, what it is given, how its answers are scored, what the search starts from."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from progevo import Domain, GatePolicy, Limits, Metric, Program, Score
from progevo.evaluators.calls import Calls, numbers

from .moves import MOVES

NAME = "starter"
ABOUT = "Smooth noisy signals: smooth(samples), scored by the RMSE against the signals without noise."

HERE = Path(__file__).parent
#: Signals of each part, and samples of a signal.
SIGNALS, SAMPLES = {"search": 40, "test": 40}, 60


def drawn(split: str) -> list[tuple[list[float], list[float]]]:
    """For each signal of a part what the program gets, and what it should find. The same at every call."""
    rng = random.Random(f"{NAME} {split}")
    pairs = []
    for _ in range(SIGNALS[split]):
        waves = [(rng.uniform(0.2, 1.0), rng.uniform(0.5, 3.0), rng.uniform(0.0, 6.28)) for _ in range(3)]
        times = [place / SAMPLES for place in range(SAMPLES)]
        clean = [sum(size * math.sin(6.28 * pace * t + shift) for size, pace, shift in waves) for t in times]
        pairs.append(([value + rng.gauss(0.0, 0.3) for value in clean], clean))
    return pairs


#: What the program is given, readable for it, and what it should find, which never leaves this process.
CASES = {split: [noisy for noisy, _ in drawn(split)] for split in SIGNALS}
TRUTH = {split: [clean for _, clean in drawn(split)] for split in SIGNALS}


def score(split: str, outputs: list[Any]) -> Score:
    """What the answers are worth, one answer a case. They are claims: `numbers` refuses what is no list of numbers."""
    errors = []
    for output, clean in zip(outputs, TRUTH[split], strict=True):
        smooth = numbers(output, SAMPLES)
        errors.append(sum((a - b) ** 2 for a, b in zip(smooth, clean, strict=True)) / SAMPLES)
    # The search wants more, so an error gets a minus. One value a case is what tells a gain from noise at the end.
    return Score(score=-math.sqrt(sum(errors) / len(errors)), cases=tuple(errors))


def domain(*, data: Path | None = None) -> Domain:
    """Everything about the task; `data` is what `--data` names, for tasks that read a file."""
    return Domain(
        name=NAME,
        entrypoint="smooth",
        seed=Program((HERE / "seed.py").read_text("utf-8")),
        prompt=(HERE / "prompt.md").read_text("utf-8"),
        metric=Metric(name="RMSE", direction="minimize", aggregate="root_mean"),
        gate=GatePolicy(imports=frozenset({"math", "statistics"})),
        limits=Limits(wall_s=10.0, cpu_s=10, memory_bytes=256 * 1024 * 1024),
        profile="stdlib",  # "numeric" has numpy and scipy, "tabular" pandas and scikit-learn as well
        evaluator=Calls(cases=CASES, score=score),
        moves=MOVES,
        case_ids={split: [tuple(case) for case in cases] for split, cases in CASES.items()},
    )
