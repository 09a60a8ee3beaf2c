"""Plot: the progress of a run as a picture for papers and slides, drawn by matplotlib."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from progevo import complaint
from progevo.errors import ConfigError
from progevo.report.header import number, title
from progevo.report.reading import Reading, read
from progevo.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: So many of the largest jumps are named.
NAMED = 6


def plot(folder: Path, file: Path) -> None:
    """Draws every candidate and the running best of a run into `file`, a format that its ending names.

    Raises `ConfigError` where matplotlib is missing or the file cannot be written, `RunError` as `read` does, and
    for a run without a scored program.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("a plot needs matplotlib; pip install 'progevo[plot]'") from None
    reading = read(folder)
    reading.record.best_node()
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    draw(reading, figure.subplots())
    try:
        figure.savefig(file, dpi=160)
    except OSError as error:
        raise ConfigError(f"the plot cannot be written to {file}: {complaint.of_writing(file, error)}") from None
    except ValueError as error:
        raise ConfigError(f"the plot cannot be written to {file}: {error}") from None


def draw(reading: Reading, axes: Axes) -> None:
    """The progress on given axes: better is always higher, failures are marks along the lower edge."""
    record, nodes = reading.record, reading.record.nodes
    assert record.start is not None
    metric = record.start.metric
    scored = [node for node in nodes if node.outcome.ok]
    failed = [node.index for node in nodes if not node.outcome.ok]
    bests = [index for _, index in reading.bests]
    values = {node.index: metric.value(node.score) for node in scored}
    axes.scatter([node.index for node in scored], [values[node.index] for node in scored], s=9, label="candidates")
    axes.step(
        [*(max(told - 1, index) for told, index in reading.bests), len(nodes) - 1],
        [*(values[index] for index in bests), values[bests[-1]]],
        where="post",
        color="tab:orange",
        label="best so far",
    )
    if failed:
        edge = axes.get_xaxis_transform()
        axes.plot(failed, [0.02] * len(failed), "x", color="tab:red", ms=4, transform=edge, label="failed")
    gains = {after: abs(values[after] - values[before]) for before, after in itertools.pairwise(bests)}
    for index in sorted(gains, key=lambda index: -gains[index])[:NAMED]:
        words = visible(nodes[index].candidate.origin)[:28].replace("$", r"\$")
        axes.annotate(words, (index, values[index]), (4, -10), textcoords="offset points", fontsize=7)
    if metric.direction == "minimize":
        axes.invert_yaxis()
    unit = f" in {metric.unit}" if metric.unit else ""
    axes.set_xlabel("candidate")
    axes.set_ylabel(_plain(f"{metric.name}{unit} on search"))
    axes.set_title(_plain(f"{title(reading)}: {number(values[0])} → {number(values[record.best])}"), fontsize=10)
    axes.legend(fontsize=8)


def _plain(text: str) -> str:
    """Text that matplotlib shows as it is: no mathematics."""
    return visible(text).replace("$", r"\$")
