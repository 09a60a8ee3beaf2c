"""Rows for other programs to count with, and the picture of the progress."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest
from click.testing import CliRunner

from progevo.cli import main
from progevo.errors import ConfigError
from progevo.journal import read_run
from progevo.report.export import export, to_dataframe
from tests.report.test_page import NASTY, hostile  # noqa: F401  (a fixture)


def test_json_lines_hold_every_node(wandered):
    folder = wandered()
    found = [json.loads(line) for line in export(folder, "jsonl", None).splitlines()]
    record = read_run(folder)
    result = json.loads((folder / "result.json").read_text())
    assert [row["node"] for row in found] == list(range(len(record.nodes)))
    assert [row["search"] for row in found] == [-node.score if node.outcome.ok else None for node in record.nodes]
    assert [row["parent"] for row in found] == [node.parent for node in record.nodes]
    assert {row["node"] for row in found if row["test"] is not None} == set(record.tested)
    assert found[record.best]["test"] == result["best"]["test"]
    assert sum(row["no_op"] for row in found) == result["no_ops"]
    assert sum(row["twin_of"] is not None for row in found) == result["no_ops"] + result["duplicates"]
    assert sum(row["draws"] for row in found) == result["spent"]["calls"]
    assert sum(row["cost_usd"] for row in found) == pytest.approx(result["spent"]["cost_usd"])
    assert found[5]["tokens"] is None  # no provider said how many tokens its answer took


def test_csv_and_the_data_frame_hold_the_same(wandered):
    folder = wandered()
    table = list(csv.DictReader(io.StringIO(export(folder, "csv", None))))
    frame = to_dataframe(folder)
    assert [int(row["node"]) for row in table] == list(frame.index)
    assert [row["status"] for row in table] == list(frame["status"])
    for row, value in zip(table, frame["search"], strict=True):
        assert row["search"] == ("" if value != value else repr(value))
    assert "metric distance" in frame.columns


def test_a_text_is_no_formula_and_hides_nothing(hostile, tmp_path):  # noqa: F811
    text = export(hostile, "csv", tmp_path / "nodes.csv")
    assert (tmp_path / "nodes.csv").read_text("utf-8") == text
    assert "\u202e" not in text
    rows = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in rows} == {len(rows[0])}
    exact = [json.loads(line) for line in export(hostile, "jsonl", None).split("\n") if line]
    assert exact[1]["origin"].startswith(NASTY)
    assert exact[0]["metrics"][NASTY] is None


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1"])
def test_formulas_get_an_apostrophe(text):
    from progevo.report.export import _cell

    assert _cell(text) == f"'{text}"
    assert _cell(-1.5) == -1.5
    assert _cell("plain = text") == "plain = text"


def test_what_cannot_be_exported_says_why(wandered, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="no format 'xml'; there are jsonl, csv, parquet"):
        export(wandered(), "xml", None)
    with pytest.raises(ConfigError, match="name a file"):
        export(wandered(), "parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"progevo\[parquet\]"):
        export(wandered(), "parquet", tmp_path / "nodes.parquet")


def test_parquet_where_it_is_installed(wandered, tmp_path):
    pytest.importorskip("pyarrow", reason="parquet is an extra: pip install 'progevo[parquet]'")
    import pandas as pd

    export(wandered(), "parquet", tmp_path / "nodes.parquet")
    assert pd.read_parquet(tmp_path / "nodes.parquet").equals(to_dataframe(wandered()))


def test_commands(wandered, tmp_path):
    folder = str(wandered())
    found = CliRunner().invoke(main, ["export", folder, "--format", "csv"])
    assert found.output == export(wandered(), "csv", None)
    found = CliRunner().invoke(main, ["export", folder, "-o", str(tmp_path / "nodes.jsonl")])
    assert (found.exit_code, found.output) == (0, "")
    assert (tmp_path / "nodes.jsonl").read_text() == export(wandered(), "jsonl", None)
    assert CliRunner().invoke(main, ["export", str(tmp_path)]).exit_code == 2


def test_the_plot_shows_every_candidate_and_the_bests_that_were_crowned(wandered):
    pytest.importorskip("matplotlib", reason="plots are an extra: pip install 'progevo[plot]'")
    from matplotlib.figure import Figure

    from progevo.report.plot import draw
    from progevo.report.reading import read

    reading = read(wandered())
    axes = Figure().subplots()
    draw(reading, axes)
    nodes = reading.record.nodes
    points = axes.collections[0].get_offsets().tolist()
    assert points == [[node.index, -node.score] for node in nodes if node.outcome.ok]
    best, failed = axes.lines
    assert list(best.get_ydata())[:-1] == [-nodes[index].score for _, index in reading.bests]
    assert list(failed.get_xdata()) == [node.index for node in nodes if not node.outcome.ok]
    low, high = axes.get_ylim()
    assert low > high  # smaller is better, so it stands higher


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_plot_is_written(hostile, tmp_path, ending):  # noqa: F811
    pytest.importorskip("matplotlib", reason="plots are an extra: pip install 'progevo[plot]'")
    file = tmp_path / f"progress.{ending}"
    found = CliRunner().invoke(main, ["plot", str(hostile), "-o", str(file)])
    assert found.exit_code == 0, found.output
    assert file.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert b"<img" not in file.read_bytes()
    wrong = CliRunner().invoke(main, ["plot", str(hostile), "-o", str(tmp_path / "x.nothing")])
    assert wrong.exit_code == 2
    assert "cannot be written" in wrong.output
