"""Listing: the runs of a folder with their state, as the live viewer's first page. It needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from progevo.report.header import number
from progevo.report.page import piece
from progevo.report.reading import Reading
from progevo.visible import markup

_HEAD = ("run", "state", "task", "search", "seed", "nodes", "failed", "seed's value", "best on search", "started")


def build_listing(runs: Sequence[tuple[str, Reading | str]]) -> str:
    """The page as text."""
    rows = "".join(_row(name, reading) for name, reading in runs)
    head = "".join(f"<th>{name}</th>" for name in _HEAD)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>progevo runs</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="refresh" content="5">'
        f'<link rel="icon" href="data:,"><style>{piece("style")}</style></head>'
        '<body><header><h1>Runs</h1></header><main><section class="full across">'
        f'<table class="small"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</section></main></body></html>"
    )


def _row(name: str, reading: Reading | str) -> str:
    link = f'<a href="/runs/{quote(name, safe="")}/">{markup(name)}</a>'
    if isinstance(reading, str):
        return f'<tr><td>{link}</td><td colspan="{len(_HEAD) - 1}">{markup(reading)}</td></tr>'
    record = reading.record
    start, nodes = record.start, record.nodes
    assert start is not None
    value = start.metric.value
    cells = [
        f"ended: {record.stop_reason}" if reading.state == "ended" else reading.state,
        start.task,
        start.search,
        start.seed,
        len(nodes),
        sum(not node.outcome.ok for node in nodes),
        number(value(nodes[0].score)) if nodes else "",
        number(value(record.best_score)) if nodes else "",
        start.measured.started,
    ]
    return f"<tr><td>{link}</td>{''.join(f'<td>{markup(cell)}</td>' for cell in cells)}</tr>"
