"""Header: what stands at the top of the page, as rows of label and text, which it shows with and without script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from progevo.report.reading import Reading
from progevo.sandbox.prove import stopped
from progevo.types import Metric

STATES = {
    "ended": "ended",
    "running": "running",
    "stopped": "stopped without an end: killed, or its machine went down",
    "open": "not ended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fact. `card` ones stand large at the top, the others in a list below; `note` is smaller print."""

    label: str
    text: str
    note: str = ""
    card: bool = False


def title(reading: Reading) -> str:
    """What the page is called."""
    start = reading.record.start
    assert start is not None
    return f"{start.task} · {start.search} · seed {start.seed}"


def header(reading: Reading) -> list[Row]:
    """The rows, the cards first."""
    record, result = reading.record, reading.result
    start = record.start
    assert start is not None
    metric = start.metric
    unit = f" in {metric.unit}" if metric.unit else ""
    better = "smaller is better" if metric.direction == "minimize" else "larger is better"
    rows = [Row(label="State", text=_state(reading), note=_counted(reading), card=True)]
    if result is not None:
        rows += _scores(result, metric, unit)
    models = ", ".join(result["proposer"]["models"]) if result is not None else ""
    data = start.data
    box, refused = start.sandbox, start.sandbox.limits_refused
    rows += [
        Row(
            label="Task",
            text=start.task,
            note=f"{metric.name}{unit}: {better}; {_trust(start.trust)}",
        ),
        Row(
            label="Data",
            text=data.source + (f", {data.rows:,} rows" if data.rows is not None else ""),
            note=f"sha256 {data.sha256}" if data.sha256 else "",
        ),
        Row(label="Search", text=start.search, note=words(start.constants)),
        Row(label="Proposer", text=start.proposer, note=f"models: {models}" if models else "no model was asked"),
        Row(label="Seed", text=f"{start.seed}", note=f"schedule {start.schedule}, workers {record.workers}"),
        Row(label="Budget", text=_amounts(reading, "budget"), note=f"spent: {_amounts(reading, 'spent')}"),
        Row(
            label="Acceptance",
            text=f"{start.acceptance}, {_times(start.repeats, 'run')} of each program",
            note="a new best is run again before it is called so" if start.confirm else "",
        ),
        Row(
            label="Sandbox",
            text=f"{box.backend} {box.version}, {box.rung}, profile {box.profile}",
            note=f"kernel {box.kernel}" + (f"; limits this host refused: {words(refused)}" if refused else ""),
        ),
        Row(label="Proof", text=_proof(start.measured.proof), note="the sandbox's own test before the run"),
        Row(label="Versions", text=words(start.versions)),
        Row(label="Started", text=start.measured.started, note=f"ended {record.ended}" if record.ended else ""),
        Row(label="Reproduce", text=command(reading), note="in the folder of the run; equal seeds give equal journals"),
    ]
    if record.drift:
        changes = ", ".join(each.name for each in record.drift)
        rows.append(Row(label="Changed", text=changes, note="since the start, and allowed by whoever resumed the run"))
    if reading.search is None:
        note = "visits, cells and result are unknown here"
        rows.append(Row(label="Replay", text="this version of progevo searches differently", note=note))
    return rows


def command(reading: Reading) -> str:
    """What makes this run again."""
    start = reading.record.start
    assert start is not None
    if not start.settings.keys() & {"task", "openevolve"}:
        return "the Python program that called progevo.run"
    return "progevo run --config config.toml --out ../again"


def words(table: Mapping[str, Any]) -> str:
    """A table as text: `c_puct 1.0, ...`."""
    return ", ".join(f"{name} {_word(value)}" for name, value in table.items())


def number(value: float | None, signed: bool = False) -> str:
    """A value as people read it: six significant digits; the word where it is not known."""
    if value is None or not math.isfinite(value):
        return "unknown"
    return f"{value:+.6g}" if signed else f"{value:.6g}"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return f"({words(value)})"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(_word, value))
    return f"{value}"


def _scores(result: dict[str, Any], metric: Metric, unit: str) -> list[Row]:
    """Search and test apart; on test with what is known of the noise."""
    seed, best, gain = result["seed_program"], result["best"], result["gain"]
    arrow = f"{metric.name}{unit}, seed → best"
    rows = [
        Row(
            label="On search, what the search ranked by",
            text=f"{number(seed['search'])} → {number(best['search'])}",
            note=f"{arrow} (node {best['node']}); flattered by having been chosen for"
            if best["node"]
            else "nothing better than the seed was found",
            card=True,
        )
    ]
    if best["test_status"] is None:
        text, note = "not scored", "the held-out part is opened once, at the end"
    elif best["test"] is None:
        text, note = f"{number(seed['test'])} → failed", f"the best failed on the held-out part: {best['test_status']}"
    else:
        text, note = f"{number(seed['test'])} → {number(best['test'])}", arrow
    rows.append(Row(label="On test, held out", text=text, note=note, card=True))
    if gain["test"] is not None and best["node"]:
        verdict = {True: "resolved", False: "unresolved: inside its noise", None: "its noise is unknown"}
        lines = []
        if gain["interval"] is not None:
            low, high = gain["interval"]
            level = 100 * (1 - 0.05 / 2 ** (max(1, result["held_out"]["looks"]) - 1))
            lines.append(f"{level:g} % interval {number(low, True)} to {number(high, True)}")
            lines.append(f"least that could be resolved {number(gain['resolvable'])}")
        if gain["catastrophic"] is not None:
            lines.append(f"{gain['catastrophic']} cases the seed had right are now wrong")
        rows.append(
            Row(
                label="Gain on test, above 0 is better",
                text=f"{number(gain['test'], True)} {verdict[gain['resolved']]}",
                note="; ".join(lines),
                card=True,
            )
        )
    return rows


def _state(reading: Reading) -> str:
    reason = reading.record.stop_reason
    return f"ended: {reason}" if reading.state == "ended" else STATES[reading.state]


def _counted(reading: Reading) -> str:
    nodes = reading.record.nodes
    failed = sum(not node.outcome.ok for node in nodes)
    return f"{_times(len(nodes), 'node')}, {failed} failed, {_times(len(reading.record.open), 'question')} open"


def _times(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'s' * (count != 1)}"


def _amounts(reading: Reading, which: str) -> str:
    if reading.result is None:
        return "unknown"
    known = {name: value for name, value in reading.result[which].items() if value is not None}
    if which == "budget":
        known |= {name: value for name, value in reading.result["stops"].items() if value is not None}
    return ", ".join(f"{value:,g} {name}" if value < 1e6 else f"{value:,} {name}" for name, value in known.items())


def _proof(proof: Mapping[str, Any] | None) -> str:
    return stopped(proof) if proof else "none: a sandbox of the caller's own"


def _trust(trust: str) -> str:
    return "the host computed every number" if trust == "host_scored" else "the evaluator scored itself"
