from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from progevo.bench import bench_sandbox, plot, sandbox_lines
from progevo.bench.forms import FORMS
from progevo.cli import main
from progevo.errors import ConfigError


@pytest.fixture(scope="module")
def report():
    return bench_sandbox(("stdlib",), rounds=1, quick=True)


def test_every_form_has_its_row(report):
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["schema"] == "progevo.bench/1"
    assert [row["form"] for row in report["rows"]] == list(FORMS)
    for row in report["rows"]:
        assert (row["profile"], row["candidate"]) == ("stdlib", "trivial")
        assert row["candidates_per_s"] > 0
        for kind in ("wall_ms", "cpu_ms"):
            assert 0 < row[kind]["median"] <= row[kind]["p95"]


def test_a_warm_candidate_costs_a_small_part_of_a_cold_one(report):
    ratios = {row["form"]: row["ratio_to_cold"]["cpu"] for row in report["rows"]}
    assert ratios["cold"] == 1
    assert ratios["warm"] < 0.5 > ratios["warm_spare"]  # with nothing but the standard library; measured: an eighth


def test_limits_bite_where_they_should(report):
    bites = {(bite["limit"], bite["of"]): bite for bite in report["limits"]}
    assert {name: bite["status"] for name, bite in bites.items()} == {
        ("wall_s", "sandbox"): "timeout",
        ("cpu_s", "process"): "cpu_limit",
        ("cpu_s", "sandbox"): "cpu_limit",
        ("memory_bytes", "process"): "memory_limit",
        ("memory_bytes", "sandbox"): "memory_limit",
        ("output_bytes", "sandbox"): "output_limit",
    }
    assert 1 <= bites["wall_s", "sandbox"]["overshoot"] < 60  # a ratio; how near, a busy machine says
    assert bites["memory_bytes", "process"]["overshoot"] <= 1
    assert bites["output_bytes", "sandbox"]["overshoot"] < 1.1
    assert 12 * 2**20 < report["least_memory"][0]["memory_bytes"] < 64 * 2**20  # of the interpreter, mapped


def test_a_kill_leaves_nothing(report):
    for form in ("cold", "warm"):
        assert report["kill"][form]["left"] == 0
        assert report["kill"][form]["gone_ms"]["median"] < 30_000


def test_what_a_child_holds_of_its_own_is_a_part_of_what_a_sandbox_holds(report):
    held = report["memory"][0]
    assert held["profile"] == "stdlib"
    for kind in ("zygote", "waiting", "busy", "cold_busy"):
        sizes = held[kind]
        assert sizes["rss_bytes"] is None or sizes["uss_bytes"] <= sizes["pss_bytes"] <= sizes["rss_bytes"]
    # Of the zygote, before its memory was in them: it has imported nothing large.
    assert held["files_bytes"] is None or 2**22 < held["files_bytes"] < 2**26


def test_the_table_names_every_form_and_limit(report):
    text = "\n".join(sandbox_lines(report))
    assert all(form in text for form in FORMS)
    assert all(bite["limit"] in text for bite in report["limits"])


def test_a_plot_is_drawn_or_says_what_is_missing(report, tmp_path):
    file = tmp_path / "bench.png"
    try:
        plot(report, file)
    except ConfigError as error:
        assert "pip install 'progevo[plot]'" in str(error)  # noqa: PT017
        pytest.skip("matplotlib is not installed")
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "word"), [(["--profile", "nowhere"], "nowhere"), (["--rounds", "0"], "0 rounds measure nothing")]
)
def test_what_cannot_be_measured_is_refused(arguments, word):
    done = CliRunner().invoke(main, ["bench", "sandbox", *arguments])
    assert done.exit_code == 2
    assert word in done.stderr


def test_what_cannot_be_drawn_is_told_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr("progevo.bench.display.find_spec", lambda name: None)
    monkeypatch.setattr("progevo.bench.bench_sandbox", lambda **settings: pytest.fail("it was measured"))
    done = CliRunner().invoke(main, ["bench", "sandbox", "--plot", "picture.png"])
    assert done.exit_code == 2
    assert "progevo[plot]" in done.output


def test_fewer_candidates_than_none_are_refused():
    with pytest.raises(ConfigError, match="0 or more"):
        bench_sandbox(soak_count=-5)
