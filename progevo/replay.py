"""Replay: a run's tree once more, from its journal alone, without the proposer; and its best programs scored again."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

from progevo import result as results
from progevo.domain import SEARCH, Domain
from progevo.errors import RunError
from progevo.evaluate import evaluate
from progevo.journal import read_run
from progevo.rebuild import replayed
from progevo.record import Record
from progevo.sandbox import Sandbox
from progevo.search.catalogue import make_search
from progevo.twins import repeatable
from progevo.types import Node, Program


def replay(folder: Path) -> dict[str, Any]:
    """What a replay found: `{"nodes": 41, "differences": []}`, a line of text for each difference.

    Looked at are what the search asks for, the program files, who is a copy of whom, and `result.json`, if there is
    one. Raises `RunError` for a folder that holds no run.
    """
    record = read_run(folder)
    start = record.start
    assert start is not None  # read_run has seen to it
    search = make_search(start.search, start.constants, start.seed)
    found = replayed(search, record)
    found += [text for node in record.nodes for text in _program(folder, node) + _copy(node, record)]
    if not found and (folder / results.FILE).exists():
        found += _result(results.read_result(folder / results.FILE), results.build_result(record, search.summary()))
    return {"nodes": len(record.nodes), "differences": found}


def rescore(folder: Path, domain: Domain, sandbox: Sandbox, count: int) -> list[dict[str, Any]]:
    """The seed and the best `count` programs run again, beside what the journal says.

    One row each: `{"node", "id", "recorded", "again", "status", "same"}`, values in the task's own metric. For a noisy
    task `same` is `null`: nobody expects it.
    """
    record = read_run(folder)
    assert record.start is not None
    record.best_node()
    metric, noisy = record.start.metric, record.start.confirm
    rows: list[dict[str, Any]] = []
    for node in {node.index: node for node in (record.nodes[0], *record.ranked(count))}.values():
        outcome = evaluate(domain, node.candidate, SEARCH, sandbox)
        program = node.candidate.program
        rows.append(
            {
                "node": node.index,
                "id": program.id if program is not None else None,
                "recorded": metric.value(node.score),
                "again": metric.value(outcome.score) if outcome.ok else None,
                "status": outcome.status,
                "same": None if noisy else outcome.ok and math.isclose(outcome.score, node.score, rel_tol=1e-9),
            }
        )
    return rows


def _program(folder: Path, node: Node) -> list[str]:
    """Whether the program's file holds what its name says, and the tree that the journal says."""
    known = node.candidate.program
    if known is None:
        return []
    try:
        content = (folder / "programs" / f"{known.id}.py").read_bytes()
    except OSError as error:
        return [f"node {node.index}: its program {known.id} cannot be read: {error.strerror}"]
    if hashlib.sha256(content).hexdigest() != known.id:
        return [f"node {node.index}: its program {known.id} is not what was run: the file was changed"]
    if node.outcome.status == "gate_refused":
        return []  # there are texts whose mere parsing takes gigabytes
    twin = Program(content.decode("utf-8", "surrogatepass")).twin
    return [] if twin == known.twin else [f"node {node.index}: its tree is {twin}, the journal says {known.twin}"]


def _copy(node: Node, record: Record) -> list[str]:
    """Whether a copy has its original's outcome, and an original none before it that would repeat."""
    if node.twin_of is not None:
        first = record.nodes[node.twin_of]
        same = (first.outcome.status, first.score) == (node.outcome.status, node.score)
        return [] if same else [f"node {node.index}: a copy of node {first.index} with another outcome"]
    if node.outcome.status in ("no_program", "gate_refused"):
        return []
    earlier = record.twins.scored(node.candidate, node.index)
    if earlier is None or not repeatable(record.nodes[earlier].outcome):
        return []
    return [f"node {node.index}: repeats node {earlier}, and is not marked as its copy"]


def _result(written: results.Result, rebuilt: results.Result) -> list[str]:
    names = [name for name in {**written, **rebuilt} if written.get(name) != rebuilt.get(name)]
    return [f"{results.FILE} does not follow from the journal in {name}" for name in names]


def check_task(record: Record, domain: Domain) -> None:
    """Raises `RunError` where the task is not the one that was run."""
    assert record.start is not None
    if domain.name != record.start.task:
        raise RunError(f"{record.folder} is a run of {record.start.task!r}, not of {domain.name!r}")
