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

import msgspec

from progevo import channel, complaint
from progevo.errors import RunError
from progevo.files import write_file
from progevo.record import Record, changed_cases, lost_cases
from progevo.statistics import Sample, difference
from progevo.twins import no_op
from progevo.types import Json, Node, Outcome, Status

SCHEMA = "progevo.result/1"
FILE = "result.json"

Result = dict[str, Any]

#: What to do about a file that is no result.
_CURE = f"name a run folder or its {FILE}, which progevo report RUN writes anew from the journal"

#: What is capped, and counted.
BUDGETS = ("iterations", "evaluations", "calls", "tokens", "cost_usd", "seconds")


def build_result(record: Record, shape: Mapping[str, Json]) -> Result:
    """The content of result.json. `shape` is the search's own summary.

    Raises `RunError` where the record holds no scored program.
    """
    best, start = record.best_node(), record.start
    assert start is not None
    nodes, spent = record.nodes, record.spent
    counts = Counter(node.outcome.status for node in nodes)
    copies = [node for node in nodes if node.twin_of is not None]
    no_ops = sum(no_op(node, nodes) for node in copies)
    usage = channel.models(nodes)
    return {
        "schema": SCHEMA,
        "task": start.task,
        "data": dataclasses.asdict(start.data),
        "metric": {"name": start.metric.name, "direction": start.metric.direction, "unit": start.metric.unit},
        "trust": start.trust,
        "search": {"name": start.search, **start.constants},
        "proposer": {"name": start.proposer, "models": [each["name"] for each in usage], "usage": usage},
        "seed": start.seed,
        "schedule": start.schedule,
        "workers": record.workers,
        "repeats": start.repeats,
        "acceptance": start.acceptance,
        "budget": {name: getattr(record.budget, name) for name in BUDGETS},
        "stops": {"patience": record.budget.patience, "target": record.budget.target},
        "spent": {
            "iterations": spent.told,
            "evaluations": spent.evaluations,
            "calls": spent.calls,
            "tokens": None if spent.unknown_tokens else spent.tokens,
            "cost_usd": None if spent.unknown_cost else spent.cost_usd,
            "seconds": round(spent.seconds, 3),
        },
        "stop_reason": record.stop_reason,
        "counts": {status: counts[status] for status in get_args(Status)},
        "duplicates": len(copies) - no_ops,
        "no_ops": no_ops,
        "same_answers": sum(node.same_answer_as is not None for node in nodes),
        "seed_program": {"id": _id(nodes[0]), **_worth(record, nodes[0])},
        "best": {"id": _id(best), "node": best.index, **_worth(record, best), "file": "best.py"},
        "top": [{"id": _id(node), "node": node.index, **_worth(record, node)} for node in record.ranked(start.top)],
        "gain": gain(record),
        "held_out": {"looks": record.looks, "evaluations": spent.held_out},
        **shape,
        "sandbox": {
            **msgspec.structs.asdict(start.sandbox),
            "limits": dataclasses.asdict(start.limits),
            "proof": start.measured.proof,
        },
        "reply_damage": channel.reply_damage(nodes, start.settings.get("reply_attempts")),
        "drift": [msgspec.structs.asdict(each) for each in record.drift],
        "versions": start.versions,
        "started": start.measured.started,
        "ended": record.ended if record.stop_reason is not None else None,
    }


def gain(record: Record) -> dict[str, Json]:
    """How much better the best is than the seed, on search and on test; above 0 is better for every metric.

    `docs/statistics.md` says what each value means. Where the best is the seed, or failed on the test part, nothing
    can be said about a gain there.
    """
    start = record.start
    assert start is not None
    searched = record.best_score - record.nodes[0].score
    found: dict[str, Json] = {
        "search": searched if math.isfinite(searched) else None,
        "test": None,
        "test_se": None,
        "interval": None,
        "resolved": None,
        "resolvable": None,
        "gap": None,
        "gained": None,
        "lost": None,
        "catastrophic": None,
    }
    before, after = record.tested.get(0, ()), record.tested.get(record.best, ())
    if not before or not after or not all(run.ok for run in (*before, *after)):
        return found
    if record.best == 0:
        return {**found, "test": 0.0, "resolved": False, "gap": 0.0}
    samples = [[Sample(score=run.score, cases=run.cases) for run in runs] for runs in (before, after)]
    noisy, looks = start.confirm, max(1, record.looks)
    known = difference(start.metric, *samples, seed=str(start.seed), noisy=noisy, looks=looks)
    if known is None:
        return found
    marks = record.right[0][0], record.right[record.best][0]
    gained, lost = changed_cases(*marks)
    return {
        **found,
        "test": known.value,
        "test_se": known.standard_error,
        "interval": list(known.interval) if known.interval is not None else None,
        "resolved": known.resolved,
        "resolvable": known.resolvable,
        "gap": searched - known.value if math.isfinite(searched) else None,
        "gained": gained,
        "lost": lost,
        "catastrophic": lost_cases(*marks),
    }


def write(folder: Path, record: Record, shape: Mapping[str, Json]) -> Result:
    """Writes `best.py` and `result.json`; returns what the latter holds. Both follow from the journal."""
    found, program = build_result(record, shape), record.best_node().candidate.program
    assert program is not None
    write_file(folder / "best.py", program.source.encode("utf-8", "surrogatepass"))
    write_file(folder / FILE, to_json(found).encode())
    return found


def read_result(path: Path) -> Result:
    """A result.json. Raises `RunError` where it cannot be read or has another schema."""
    try:
        result = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read as a result: {complaint.of_reading(error)}; {_CURE}") from None
    if not isinstance(result, dict) or "schema" not in result:
        raise RunError(f"{path} is no result of a run; {_CURE}")
    if result["schema"] != SCHEMA:
        raise RunError(
            f"{path} has the schema {result['schema']!r}; this version of progevo reads {SCHEMA!r}:"
            " progevo report RUN writes the result of a run anew from its journal"
        )
    return result


def to_json(result: Result) -> str:
    """Strict JSON, indented, with a line end."""
    return json.dumps(result, allow_nan=False, indent=2) + "\n"


def _worth(record: Record, node: Node) -> dict[str, Json]:
    """A node's value on search (that of its confirmation, where there is one) and on test, the mean of its runs."""
    start = record.start
    assert start is not None
    runs = record.tested.get(node.index, ())
    searched = record.confirmed.get(node.index, node.outcome)
    whole = bool(runs) and all(run.ok for run in runs)
    return {
        "search": start.metric.value(searched.score) if searched.ok else None,
        "test": start.metric.value(math.fsum(run.score for run in runs) / len(runs)) if whole else None,
        "test_status": runs[-1].status if runs else None,
        "test_reason": runs[-1].reason or None if runs else None,
        "test_metrics": _metrics(runs) if whole else None,
    }


def _metrics(runs: Sequence[Outcome]) -> dict[str, Json]:
    """What the task reports beside its metric: the mean of the runs, `None` where that is not a finite number."""
    means = {name: math.fsum(run.metrics.get(name, math.nan) for run in runs) / len(runs) for name in runs[0].metrics}
    return {name: mean if math.isfinite(mean) else None for name, mean in means.items()}


def _id(node: Node) -> str | None:
    return node.candidate.program.id if node.candidate.program is not None else None
