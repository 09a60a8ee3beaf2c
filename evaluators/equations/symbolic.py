"""Symbolic: whether a fitted formula is the true one, as far as SymPy shows it: a stand-in for the benchmark's judge.

LLM-SRBench has a language model decide that (arXiv:2504.10415, section 3). Here the fitted formula, its parameters
included, is the same as the true one (1), or its values differ from the true ones (0), or neither could be shown
(`None`, with the reason): SymPy is not there, ran out of its 10 seconds or its 1 GiB, or found no form in which the two
agree.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from progevo.evaluators.equations import measures
from progevo.evaluators.equations.expression import Expression, compute, plain
from progevo.evaluators.equations.problem import Samples
from progevo.types import MIB

CHILD = Path(__file__).resolve().with_name("algebra.py")
WALL_S, MEMORY_BYTES = 10.0, 1024 * MIB

#: Formulas whose values differ by more than this NMSE are not the same.
DIFFERENT = 1e-6
#: Rows at which SymPy measures terms.
POINTS = 20


class Judgement(NamedTuple):
    """1.0 for the same, 0.0 for another, `None` for not known, with the reason."""

    same: float | None
    why: str = ""


def judge(ours: Expression, truth: Expression, names: tuple[str, ...], samples: Samples) -> Judgement:
    """Whether two formulas in these inputs are the same; the samples give rows where that matters."""
    if importlib.util.find_spec("sympy") is None:
        return Judgement(None, "SymPy is not installed; pip install 'progevo[srbench]' brings it")
    values = dict(zip(names, samples.inputs, strict=True))
    found, right = compute(ours, values, len(samples)), compute(truth, values, len(samples))
    kept = np.isfinite(right)
    if not kept.any():
        return Judgement(None, "the true formula has no value at any of the rows")
    apart = measures.nmse(found[kept], right[kept])
    if apart is None or apart > DIFFERENT:
        return Judgement(0.0)
    rows = np.unique(np.linspace(0, len(samples) - 1, POINTS).astype(int))
    points = [{name: float(values[name][row]) for name in names} for row in rows]
    return asked({"ours": plain(ours), "truth": plain(truth), "points": points})


def asked(question: dict[str, Any], wall_s: float = WALL_S, memory_bytes: int = MEMORY_BYTES) -> Judgement:
    """What the child process says, which is never waited for longer than `wall_s`."""
    told = {**question, "path": sys.path, "memory_bytes": memory_bytes}
    try:
        done = subprocess.run(
            [sys.executable, "-P", os.fspath(CHILD)], input=json.dumps(told), capture_output=True, text=True,
            timeout=wall_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Judgement(None, f"SymPy did not decide within {wall_s:g} s")
    try:
        found = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        memory = "MemoryError" in done.stderr
        words = f"SymPy took more than {memory_bytes // MIB} MiB" if memory else f"SymPy failed: {last[:200]}"
        return Judgement(None, words)
    return Judgement(1.0 if found["same"] else None, found["why"])
