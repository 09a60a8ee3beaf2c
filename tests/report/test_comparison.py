"""Several runs in one page."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from progevo import run
from progevo.cli import main
from progevo.report.comparison import band, running_best
from progevo.report.header import number
from progevo.report.reading import read
from tests.plain_run import StandIn, Wanderer, task
from tests.report.conftest import parse


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two searches, two seeds each."""
    folder = tmp_path_factory.mktemp("compared")
    for search in ("era", "greedy"):
        for seed in (0, 1):
            out = folder / f"{search}{seed}"
            run(task(), search=search, seed=seed, proposer=Wanderer(), iterations=15, sandbox=StandIn(), out=out)
    return folder


def test_bands_by_hand():
    assert band([[3.0, 2.0, 1.0], [4.0, 4.0], [9.0]]) == [(3.0, 4.0, 9.0), (2.0, 4.0, 9.0), (1.0, 4.0, 9.0)]


def test_the_running_best_is_by_candidates_and_never_worse(runs):
    reading = read(runs / "era0")
    found = running_best(reading)
    assert len(found) == 16
    assert found == sorted(found, reverse=True)  # a distance: smaller is better
    assert found[0] == -reading.record.nodes[0].score
    assert found[-1] == -reading.record.best_score


def test_the_page_holds_what_the_comparison_found(runs, tmp_path):
    folders = [str(runs / name) for name in ("era0", "era1", "greedy0", "greedy1")]
    page = tmp_path / "compare.html"
    done = CliRunner().invoke(main, ["compare", *folders, "--html", str(page), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    parsed = parse(page.read_text("utf-8"))
    assert parsed.of("script") == []
    (policy,) = [each["content"] for each in parsed.of("meta") if "content" in each and "http-equiv" in each]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    cells = parsed.texts["td"]
    for name in ("era0", "era1", "greedy0", "greedy1"):
        result = json.loads((runs / name / "result.json").read_text())
        at = cells.index(name)
        assert cells[at - 1 : at + 5] == [
            result["search"]["name"],
            name,
            str(result["seed"]),
            "15",
            number(result["best"]["search"]),
            number(result["best"]["test"]),
        ]
    for row in found["rows"]:
        assert any(cell.startswith(number(row["test"]["median"])) for cell in cells)
    assert len(parsed.of("polyline")) == len(parsed.of("polygon")) == 2
    assert all(len(line["points"].split()) == 16 for line in parsed.of("polyline"))


def test_names_in_it_are_text(tmp_path):
    evil = "<img src=x onerror=alert(1)>\u202e"
    out = tmp_path / "run <b>"
    run(task(name=evil), proposer=Wanderer(), iterations=3, sandbox=StandIn(), out=out)
    page = tmp_path / "compare.html"
    assert CliRunner().invoke(main, ["compare", str(out), "--html", str(page)]).exit_code == 0
    text = page.read_text("utf-8")
    assert parse(text).of("img") == []
    assert "\u202e" not in text
    assert "run <b>" in parse(text).texts["td"]
