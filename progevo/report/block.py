"""Block: everything that the page's script knows of a run, as one JSON value: node by node in columns.

    {"schema": "progevo.page/1", "title", "header": [...], "result": {...}, "nodes": {"parent": [...]}, "texts": "..."}

What is not known is `null`. Words that repeat stand once, in `words`, and columns name them by their number.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import get_args

from progevo.report.header import header, title
from progevo.report.reading import Reading
from progevo.report.shape import shape_of
from progevo.report.texts import Texts, read_logs
from progevo.sketch import compare
from progevo.twins import no_op
from progevo.types import Draw, Json, Metric, Node, Outcome, Status
from progevo.visible import HIDDEN, shortened

SCHEMA = "progevo.page/1"

#: The most that is shown of one reason, remark, origin or name, in characters.
WORDS = 600
#: So many held-out cases are shown of a node, and so many draws.
CASES = 400
DRAWS = 32
#: So many search cases that moved are named.
MOVED = 8


class Words:
    """Texts by number: a few causes and moves for thousands of nodes."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int | None:
        if not text:
            return None
        return self._numbers.setdefault(shortened(text, WORDS), len(self._numbers))

    def listed(self) -> list[Json]:
        return list(self._numbers)


def build_block(reading: Reading) -> dict[str, Json]:
    """The block of a run. Every number in it is finite."""
    record = reading.record
    start, nodes = record.start, record.nodes
    assert start is not None
    metric = start.metric
    shape = shape_of(reading.search, nodes)
    words, texts = Words(), Texts()
    columns = _columns(reading, words, texts)
    for name in ("visits", "puct"):
        if name in shape:
            columns[name] = shape[name]
    failed = [node.index for node in nodes if not node.outcome.ok]
    logs = read_logs(record.folder, record.logs, first=(record.best, *failed))
    return {
        "schema": SCHEMA,
        "title": title(reading),
        "state": reading.state,
        "folder": record.folder.resolve().name,
        "header": [dataclasses.asdict(row) for row in header(reading)],
        "metric": {"name": metric.name, "direction": metric.direction, "unit": metric.unit},
        "workers": record.workers,
        "statuses": list(get_args(Status)),
        "best": record.best if nodes else None,
        "bests": [list(each) for each in reading.bests],
        "nodes": columns,
        "metrics": _metrics(nodes),
        "draws": {str(node.index): _draws(node.candidate.draws, words) for node in nodes if node.candidate.draws},
        "confirmed": {str(index): _judged(outcome, metric, words) for index, outcome in record.confirmed.items()},
        "tested": {str(index): _tested(reading, index, words) for index in record.tested},
        "islands": shape.get("islands"),
        "result": reading.result,
        "words": words.listed(),
        "hidden": [list(each) for each in HIDDEN],
        "texts": texts.packed(logs),
    }


def to_text(block: Mapping[str, Json]) -> str:
    """Strict JSON in ASCII that may stand inside a `script` element: nothing in it ends the element or a line.

    `ensure_ascii` writes U+2028, U+2029 and halves of surrogate pairs as escapes.
    """
    written = json.dumps(block, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return written


def _columns(reading: Reading, words: Words, texts: Texts) -> dict[str, Json]:
    nodes, statuses = reading.record.nodes, {status: place for place, status in enumerate(get_args(Status))}
    start = reading.record.start
    assert start is not None

    def column(values: Sequence[Json]) -> Json:
        return list(values)

    return {
        "step": column([node.step for node in nodes]),
        "parent": column([node.parent for node in nodes]),
        "status": column([statuses[node.outcome.status] for node in nodes]),
        "value": column([_value(node.outcome, start.metric) for node in nodes]),
        "origin": column([words.number(node.candidate.origin) for node in nodes]),
        "remark": column([words.number(node.candidate.reason) for node in nodes]),
        "reason": column([words.number(node.outcome.reason) for node in nodes]),
        "program": column([texts.number(node) for node in nodes]),
        "twin_of": column([node.twin_of for node in nodes]),
        "no_op": column([int(node.twin_of is not None and no_op(node, nodes)) for node in nodes]),
        "same_answer_as": column([node.same_answer_as for node in nodes]),
        "wall_s": column([_finite(node.outcome.usage.wall_s, 4) for node in nodes]),
        "cpu_s": column([_finite(node.outcome.usage.cpu_s, 4) for node in nodes]),
        "max_rss_bytes": column([node.outcome.usage.max_rss_bytes for node in nodes]),
        "moved": column([_moved(node, nodes) for node in nodes]),
        "elapsed_s": column([_finite(each, 2) for each in reading.elapsed_s]),
    }


def _moved(node: Node, nodes: Sequence[Node]) -> Json:
    """Which search cases got another value than the parent's: `[how many, of how many, every how many-th, which]`."""
    if node.parent is None:
        return None
    found = compare(nodes[node.parent].outcome.sketch, node.outcome.sketch)
    if found is None:
        return None
    return [len(found.changed), found.of, found.spacing, list(found.changed[:MOVED])]


def _metrics(nodes: Sequence[Node]) -> Json:
    """Each metric as a column; `null` where a node has none, or one that is no finite number."""
    names = dict.fromkeys(name for node in nodes for name in node.outcome.metrics)
    return [[shortened(name, WORDS), [_finite(node.outcome.metrics.get(name)) for node in nodes]] for name in names]


def _draws(draws: Sequence[Draw], words: Words) -> Json:
    return [
        {
            "model": words.number(draw.model),
            "verdict": draw.verdict,
            "kind": words.number(draw.kind),
            "fault": draw.fault,
            "steps": [words.number(step) for step in draw.steps],
            "prompt": draw.tokens.prompt,
            "completion": draw.tokens.completion,
            "reasoning": draw.tokens.reasoning,
            "cached": draw.tokens.cached,
            "cost_usd": _finite(draw.cost_usd),
            "seconds": _finite(draw.seconds, 3),
            "file": words.number(draw.file or ""),
        }
        for draw in draws[:DRAWS]
    ]


def _judged(outcome: Outcome, metric: Metric, words: Words) -> Json:
    return {
        "status": outcome.status,
        "value": _value(outcome, metric),
        "reason": words.number(outcome.reason),
    }


def _tested(reading: Reading, index: int, words: Words) -> Json:
    """The runs of a node on the held-out part, each with its first cases, and which of them were right."""
    start = reading.record.start
    assert start is not None
    runs: list[Json] = []
    rights = reading.record.right.get(index, ())
    for place, run in enumerate(reading.record.tested[index]):
        right = rights[place] if place < len(rights) else None
        judged = _judged(run, start.metric, words)
        assert isinstance(judged, dict)
        judged["cases"] = [_finite(case, 6) for case in run.cases[:CASES]]
        judged["count"] = len(run.cases)
        judged["right"] = right[:CASES] if right is not None else None
        runs.append(judged)
    return runs


def _value(outcome: Outcome, metric: Metric) -> float | None:
    return _finite(metric.value(outcome.score)) if outcome.ok else None


def _finite(value: float | None, digits: int | None = None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return value if digits is None else round(value, digits)
