"""Comparison: several runs in one page: running best with median and band, test scores, failures, replies.

The page is still and needs no script; its picture is an SVG drawn here.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from progevo.files import write_file
from progevo.report.header import number
from progevo.report.page import piece, still_policy
from progevo.report.reading import Reading, read
from progevo.visible import markup

#: The picture, in its own units.
WIDTH, HEIGHT = 960, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 230, 26, 36
#: Lines differ by their dashes as well as by their colour.
DASHES = ("", "8 4", "2 3", "10 3 2 3", "14 5", "5 5")


def write_comparison(file: Path, found: Mapping[str, Any], named: Mapping[str, Sequence[Path]]) -> None:
    """Writes the page of what `progevo compare` found, with the folders of the runs by their name in it.

    Raises `RunError` where a folder cannot be read or the file not be written.
    """
    readings = {name: [read(folder) for folder in folders] for name, folders in named.items()}
    write_file(file, build_comparison(found, readings).encode("utf-8"))


def build_comparison(found: Mapping[str, Any], runs: Mapping[str, Sequence[Reading]]) -> str:
    """The page as text."""
    metric = found["metric"]
    better = "smaller is better" if metric["direction"] == "minimize" else "larger is better"
    what = f"{metric['name']}{' in ' + metric['unit'] if metric['unit'] else ''}, {better}"
    title = markup(f"{found['task']}: {', '.join(runs)}")
    parts = [
        _section(f"Best on search by candidates: {what}", _picture(runs)),
        _section("Over seeds", _table(("search", "seeds", "best on search", "best on test"), _spreads(found))),
        _section("Every run", _table(_RUN, [row for name, each in runs.items() for row in _run_rows(name, each)])),
        _section("Candidates by status", _statuses(runs)),
        _section("Replies", _table(("search", "drawn", "recovered", "damaged", "by kind"), _replies(runs))),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{markup(still_policy())}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{piece('style')}</style></head>"
        f"<body><header><h1>{title}</h1></header><main>{''.join(parts)}</main></body></html>"
    )


def running_best(reading: Reading) -> list[float]:
    """By number of candidates, the seed being the first: the best on search, in the task's metric."""
    start, nodes = reading.record.start, reading.record.nodes
    assert start is not None
    taken = {told: nodes[index].score for told, index in reading.bests}
    found: list[float] = []
    for told in range(1, len(nodes) + 1):
        found.append(start.metric.value(taken[told]) if told in taken else found[-1])
    return found


def band(series: Sequence[Sequence[float]]) -> list[tuple[float, float, float]]:
    """Least, median and largest at each place; a shorter series goes on with its last value."""
    length = max(map(len, series))
    columns = [[each[min(place, len(each) - 1)] for each in series] for place in range(length)]
    return [(min(column), statistics.median(column), max(column)) for column in columns]


def _picture(runs: Mapping[str, Sequence[Reading]]) -> str:
    bands = {name: band([running_best(reading) for reading in each]) for name, each in runs.items()}
    start = next(iter(runs.values()))[0].record.start
    assert start is not None
    score = start.metric.score
    everything = [score(value) for each in bands.values() for row in each for value in row]
    low, high = min(everything), max(everything)
    span, last = (high - low) or 1.0, max(len(each) for each in bands.values()) - 1

    def x(place: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * place / max(1, last), 1)

    def y(value: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (high - score(value)) / span, 1)

    drawn = [
        f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value)}" y2="{y(value)}"/>'
        f'<text text-anchor="end" x="{LEFT - 8}" y="{y(value) + 4}">{number(value)}</text>'
        for value in (start.metric.value(low + span * part / 4) for part in range(5))
    ]
    drawn += [
        f'<text text-anchor="middle" x="{x(place)}" y="{HEIGHT - 12}">{place}</text>'
        for place in sorted({last * part // 4 for part in range(5)})
    ]
    taken: list[float] = []
    for place, (name, each) in enumerate(bands.items()):
        kind = f"series-{place % len(DASHES)}"
        upper = [f"{x(at)},{y(row[2])}" for at, row in enumerate(each)]
        lower = [f"{x(at)},{y(row[0])}" for at, row in enumerate(each)]
        line = " ".join(f"{x(at)},{y(row[1])}" for at, row in enumerate(each))
        dashes = DASHES[place % len(DASHES)]
        drawn.append(f'<polygon class="band {kind}" points="{" ".join([*upper, *reversed(lower)])}"/>')
        drawn.append(f'<polyline class="median {kind}" stroke-dasharray="{dashes or "none"}" points="{line}"/>')
        level = y(each[-1][1]) + 4
        while any(abs(level - other) < 15 for other in taken):
            level += 15
        taken.append(level)
        drawn.append(f'<text class="name {kind}" x="{x(len(each) - 1) + 8}" y="{level}">{markup(name[:32])}</text>')
    words = markup(f"best on search by candidates of {', '.join(runs)}; the table of runs holds the ends")
    caption = "lines are medians over seeds, bands reach from the worst to the best seed; better is higher"
    return (
        f'<svg class="comparison" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words}">{"".join(drawn)}</svg>'
        f'<p class="quiet">{caption}</p>'
    )


_RUN = ("search", "run", "seed", "candidates", "best on search", "best on test", "gain on test", "interval", "verdict")


def _run_rows(name: str, runs: Sequence[Reading]) -> list[list[str]]:
    rows = []
    for reading in runs:
        result, folder = reading.result, reading.record.folder.resolve().name
        start = reading.record.start
        assert start is not None
        row = [name, folder, str(start.seed), str(len(reading.record.nodes) - 1)]
        if result is None:
            rows.append([*row, "unknown", "unknown", "unknown", "unknown", "unknown"])
            continue
        gain, best = result["gain"], result["best"]
        interval = (
            " to ".join(number(each, signed=True) for each in gain["interval"]) if gain["interval"] else "unknown"
        )
        verdict = {True: "resolved", False: "unresolved", None: "unknown"}[gain["resolved"]]
        ends = [number(best["search"]), number(best["test"]), number(gain["test"], signed=True)]
        rows.append([*row, *ends, interval, verdict])
    return rows


def _spreads(found: Mapping[str, Any]) -> list[list[str]]:
    rows = [(row["name"], row) for row in found["rows"]]
    rows += [(f"{row['name']} against {found['reference']}, above 0 is better", row) for row in found["differences"]]
    return [
        [name, f"{row['seeds']}{'' if row['enough'] else ' (too few)'}", _spread(row["search"]), _spread(row["test"])]
        for name, row in rows
    ]


def _spread(found: Mapping[str, Any]) -> str:
    if found["median"] is None:
        return "unknown"
    return f"{number(found['median'])} ({number(found['least'])} to {number(found['largest'])})"


def _statuses(runs: Mapping[str, Sequence[Reading]]) -> str:
    counts = {
        name: Counter(node.outcome.status for reading in each for node in reading.record.nodes)
        for name, each in runs.items()
    }
    used = sorted({status for each in counts.values() for status in each}, key=lambda status: (status != "ok", status))
    rows = [[name, *(str(each[status]) for status in used)] for name, each in counts.items()]
    return _table(("search", *used), rows)


def _replies(runs: Mapping[str, Sequence[Reading]]) -> list[list[str]]:
    rows = []
    for name, each in runs.items():
        draws = [draw for reading in each for node in reading.record.nodes for draw in node.candidate.draws]
        verdicts = Counter(draw.verdict for draw in draws)
        kinds = Counter(draw.kind for draw in draws if draw.verdict == "damaged")
        words = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(8))
        rows.append([name, str(len(draws)), str(verdicts["recovered"]), str(verdicts["damaged"]), words or "none"])
    return rows


def _section(title: str, content: str) -> str:
    return f'<section class="full across"><h2>{markup(title)}</h2>{content}</section>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{markup(each)}</th>" for each in head)
    body = "".join(f"<tr>{''.join(f'<td>{markup(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="small"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
