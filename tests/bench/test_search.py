from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from progevo.bench import bench_search
from progevo.bench.islands import island_rows
from progevo.bench.loop import loop_figures
from progevo.bench.search import PAIRS, search_rows
from progevo.errors import ConfigError
from progevo.show import island_lines


def test_bench_search():
    report = bench_search((2, 50, 400))
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["schema"] == "progevo.bench/1"
    assert [row["nodes"] for row in report["rows"]] == [2, 50, 400]
    assert [row["pairs"] for row in report["rows"]] == [1, 49, PAIRS]
    assert report["rows"][0]["depth"] == 1
    for row in report["rows"]:
        assert row["search"] == "flat_puct"
        assert row["same_parents"] is True
        assert row["ratio"] > 0
        for spread in (row, row["plain"]):
            for kind in ("wall_ms", "cpu_ms"):
                assert 0 < spread[kind]["median"] <= spread[kind]["p95"]


def test_islands_are_measured_with_the_usual_limit_and_with_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "openevolve.config", None)  # as if it were not installed
    rows: Any = island_rows((50, 1200), PAIRS)
    shapes = [(row["nodes"], row["population_size"], row["programs"] <= row["population_size"]) for row in rows]
    assert shapes == [(50, 1000, True), (1200, 1000, True), (1200, 1200, True)]
    assert rows[2]["programs"] > 1000
    assert [row["pairs"] for row in rows] == [49, PAIRS, PAIRS]
    for row in rows:
        assert row["search"] == "islands"
        assert row["openevolve"] is row["ratio"] is None
        for kind in ("wall_ms", "cpu_ms"):
            assert 0 < row[kind]["median"] <= row[kind]["p95"]
    assert "not installed" in "\n".join(island_lines(rows))


def test_openevolve_is_measured_where_it_is_installed():
    pytest.importorskip("openevolve.database", reason="openevolve is not installed")
    rows: Any = island_rows((60,), PAIRS)
    (row,) = rows
    assert row["openevolve"]["pairs"] == 59
    assert row["openevolve"]["cpu_ms"]["median"] > 0
    assert row["ratio"] > 0
    assert f"OpenEvolve {row['openevolve']['version']}, its database alone" in island_lines(rows)


def test_trees_are_the_same_at_every_call():
    first, again = (search_rows((300,))[0]["depth"] for _ in range(2))
    assert first == again


@pytest.mark.parametrize("size", [1, 0, -3])
def test_sizes_too_small_to_measure(size):
    with pytest.raises(ConfigError, match=f"a tree of {size} nodes has no ask and tell"):
        bench_search((100, size))


def test_the_loop_s_figures_are_there_and_add_up():
    found = loop_figures(40)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["journal"]["events_per_s"] > 0
    assert [(row["nodes"], row["workers"]) for row in found["outside"]] == [(40, 1), (40, 2)]
    for row in found["outside"]:
        assert row["wall_ms"] > 0
        assert row["cpu_ms"] > 0
    assert [row["workers"] for row in found["loop"]] == [1, 2]
    for row in found["loop"]:
        assert row["candidates_per_s"] > 0
        assert 0 <= row["outside_share"] < 1
