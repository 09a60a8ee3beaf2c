"""result.json: what a run found, in the task's own metric, by a versioned schema (`docs/result-file.md`).

The search score and the held-out score stand apart and are never mixed. What is not known is `null`. Everything
here follows from the journal's record; nothing is measured anew.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from progevo.domain import Domain
from progevo.errors import RunError
from progevo.sandbox import Confinement
from progevo.types import Json, Metric, Node, Outcome, Status

SCHEMA = "progevo.result/1"
FILE = "result.json"

Result = dict[str, Any]

#: The half-width of a 95 % interval in standard errors, for a normal distribution.
Z_95 = 1.96


def build_result(
    *,
    domain: Domain,
    nodes: Sequence[Node],
    tested: Mapping[int, Outcome],
    confinement: Confinement,
    proof: Mapping[str, Json] | None,
    search: str,
    constants: Mapping[str, Json],
    shape: Mapping[str, Json],
    proposer: str,
    seed: int,
    workers: int,
    iterations: int,
    evaluations: int,
    seconds: float,
    stop_reason: str,
    versions: Mapping[str, str],
    started: str,
    ended: str,
) -> Result:
    """The content of result.json."""
    first, best = nodes[0], best_of(nodes)
    counts = Counter(node.outcome.status for node in nodes)
    copies = [node for node in nodes if node.twin_of is not None]
    no_ops = sum(_repeats_its_parent(node, nodes) for node in copies)
    return {
        "schema": SCHEMA,
        "task": domain.name,
        "data": dataclasses.asdict(domain.data),
        "metric": {"name": domain.metric.name, "direction": domain.metric.direction, "unit": domain.metric.unit},
        "trust": domain.trust,
        "search": {"name": search, **constants},
        "proposer": {"name": proposer, "models": []},
        "seed": seed,
        "schedule": "serial" if workers == 1 else "ordered",
        "workers": workers,
        "budget": {**_budget(iterations=iterations)},
        "spent": {
            "iterations": len(nodes) - 1,
            "evaluations": evaluations,
            "calls": 0,
            "tokens": 0,
            "cost_usd": 0.0,
            "seconds": round(seconds, 3),
        },
        "stop_reason": stop_reason,
        "counts": {status: counts[status] for status in get_args(Status)},
        "duplicates": len(copies) - no_ops,
        "no_ops": no_ops,
        "seed_program": {"id": _id(first), **_worth(domain.metric, first, tested)},
        "best": {"id": _id(best), "node": best.index, **_worth(domain.metric, best, tested), "file": "best.py"},
        "gain": gain(domain.metric, first, best, tested),
        **shape,
        "sandbox": {
            "backend": confinement.backend,
            "rung": confinement.rung,
            "version": confinement.version,
            "kernel": confinement.kernel,
            "profile": confinement.profile,
            "limits": dataclasses.asdict(domain.limits),
            "limits_refused": confinement.limits_refused,
            "proof": dict(proof) if proof is not None else None,
        },
        # No model is asked yet: nothing was drawn, so nothing could arrive damaged, and there is no rate.
        "reply_damage": {
            "drawn": 0,
            "damaged": 0,
            "recovered": 0,
            "by_kind": {},
            "by_fault": {},
            "attempts_allowed": None,
            "redraws": {"count": 0, "tokens": 0, "seconds": 0.0},
            "rate": None,
            "interval": None,
        },
        "versions": dict(versions),
        "started": started,
        "ended": ended,
    }


def best_of(nodes: Sequence[Node]) -> Node:
    """The node with the largest score, the first of equals: a copy never displaces its original."""
    return max(nodes, key=lambda node: node.score)


def gain(metric: Metric, first: Node, best: Node, tested: Mapping[int, Outcome]) -> dict[str, Json]:
    """How much better the best is than the seed, on search and on test; above 0 is better for every metric.

    `test_se` is the standard error of the paired difference over the test cases, `interval` its 95 % interval;
    a gain whose interval holds 0 is not resolved. `resolvable` is the least gain that these cases could resolve.
    """
    searched = best.score - first.score
    found: dict[str, Json] = {
        "search": searched if math.isfinite(searched) else None,
        "test": None,
        "test_se": None,
        "interval": None,
        "resolved": None,
        "resolvable": None,
        "catastrophic": None,
    }
    before, after = tested.get(first.index), tested.get(best.index)
    if before is None or after is None or not (before.ok and after.ok):
        return found
    difference = after.score - before.score
    if not math.isfinite(difference):
        return found
    found["test"] = difference
    error = paired_standard_error(metric, before.cases, after.cases)
    if error is not None:
        low, high = difference - Z_95 * error, difference + Z_95 * error
        found.update(test_se=error, interval=[low, high], resolved=not low <= 0.0 <= high, resolvable=Z_95 * error)
    return found


def paired_standard_error(metric: Metric, before: Sequence[float], after: Sequence[float]) -> float | None:
    """The standard error of the difference between two metric values over the same cases; `None` if unknown.

    For a mean it is that of the mean difference. For a root mean (RMSE from squared errors) the delta method gives
    the difference's influence of one case: s_b/(2 r_b) - s_a/(2 r_a), with s the case's value and r the metric's.
    """
    count = len(before)
    if metric.aggregate is None or count < 2 or len(after) != count:
        return None
    if metric.aggregate == "root_mean" and min(*before, *after) < 0:
        return None  # these cannot be what an RMSE is made of
    scale_before = scale_after = 1.0
    if metric.aggregate == "root_mean":
        roots = [math.sqrt(math.fsum(cases) / count) for cases in (before, after)]
        if not all(roots):
            return None
        scale_before, scale_after = 1 / (2 * roots[0]), 1 / (2 * roots[1])
    influence = [scale_after * b - scale_before * a for a, b in zip(before, after, strict=True)]
    mean = math.fsum(influence) / count
    variance = math.fsum((value - mean) ** 2 for value in influence) / (count - 1)
    return math.sqrt(variance / count)


def read_result(path: Path) -> Result:
    """A result.json. Raises `RunError` where it cannot be read or has another schema."""
    try:
        result = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read as a result: {error}") from None
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise RunError(f"{path} is not a result of the schema {SCHEMA!r}")
    return result


def to_json(result: Result) -> str:
    """Strict JSON, indented, with a line end."""
    return json.dumps(result, allow_nan=False, indent=2) + "\n"


def _repeats_its_parent(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether a copy is one of its own parent, which may be a copy itself."""
    return node.parent is not None and node.twin_of in (node.parent, nodes[node.parent].twin_of)


def _worth(metric: Metric, node: Node, tested: Mapping[int, Outcome]) -> dict[str, Json]:
    outcome = tested.get(node.index)
    return {
        "search": metric.value(node.score) if node.outcome.ok else None,
        "test": metric.value(outcome.score) if outcome is not None and outcome.ok else None,
        "test_status": outcome.status if outcome is not None else None,
    }


def _id(node: Node) -> str | None:
    return node.candidate.program.id if node.candidate.program is not None else None


def _budget(*, iterations: int) -> dict[str, Json]:
    unlimited = dict.fromkeys(("evaluations", "calls", "tokens", "cost_usd", "seconds"))
    return {"iterations": iterations, **unlimited}
