"""The part of the page that needs no script: the header, the best program, and every node as a row of a table."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from progevo.errors import RunError
from progevo.report.header import Row, number
from progevo.report.reading import Reading
from progevo.report.texts import PROGRAM
from progevo.visible import markup, shortened


def header_html(rows: Sequence[Row]) -> str:
    """The rows as HTML: cards, and a list of terms."""
    cards = "".join(f'<div class="card">{_row(row)}</div>' for row in rows if row.card)
    facts = "".join(f"<div>{_row(row)}</div>" for row in rows if not row.card)
    return (
        f'<dl class="cards" id="cards">{cards}</dl>'
        f'<details class="facts"><summary>How it was run</summary><dl id="facts">{facts}</dl></details>'
    )


def best_html(reading: Reading) -> str:
    """The best program, to be read."""
    if not reading.record.nodes:
        return "<p>Nothing has been scored yet.</p>"
    source = _best(reading) or ""
    return f'<pre class="code"><code>{markup(shortened(source, PROGRAM))}</code></pre>'


def download(reading: Reading) -> str:
    """The best program as a link that holds it, byte for byte; empty where there is none."""
    source = _best(reading)
    if source is None:
        return ""
    content = base64.b64encode(source.encode("utf-8", "surrogatepass")).decode("ascii")
    return f'<a class="button" download="best.py" href="data:text/x-python;base64,{content}">Download best.py</a>'


def table_html(reading: Reading) -> str:
    """One row a node."""
    start = reading.record.start
    assert start is not None
    metric = start.metric
    rows = []
    for node in reading.record.nodes:
        outcome = node.outcome
        value = number(metric.value(outcome.score)) if outcome.ok else ""
        parent = "" if node.parent is None else str(node.parent)
        what = node.candidate.origin if outcome.ok else f"{node.candidate.origin}: {outcome.reason}"
        rows.append(
            f"<tr><td>{node.index}<td>{parent}<td>{outcome.status}<td>{value}<td>{markup(shortened(what, 160))}</tr>"
        )
    head = f"<tr><th>node<th>parent<th>status<th>{markup(metric.name)}<th>who, and why it failed</tr>"
    return f'<table class="plain"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'


def _row(row: Row) -> str:
    return f"<dt>{markup(row.label)}</dt><dd>{markup(row.text)}<small>{markup(row.note)}</small></dd>"


def _best(reading: Reading) -> str | None:
    if not reading.record.nodes:
        return None
    program = reading.record.best_node().candidate.program
    try:
        return program.source if program is not None else None
    except RunError:
        return None
