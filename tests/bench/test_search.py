from __future__ import annotations

import json

import pytest

from progevo.bench import bench_search
from progevo.bench.search import PAIRS
from progevo.errors import ConfigError


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


def test_trees_are_the_same_at_every_call():
    first, again = (bench_search((300,))["rows"][0]["depth"] for _ in range(2))
    assert first == again


@pytest.mark.parametrize("size", [1, 0, -3])
def test_sizes_too_small_to_measure(size):
    with pytest.raises(ConfigError, match=f"a tree of {size} nodes has no ask and tell"):
        bench_search((100, size))
