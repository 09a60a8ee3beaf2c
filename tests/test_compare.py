"""compare: medians and paired differences against numbers computed by hand; what is not equal is refused."""

from __future__ import annotations

import json

import pytest

from progevo.compare import compare, compare_lines
from progevo.errors import ConfigError
from progevo.run import run
from tests.plain_run import StandIn, Wanderer, task


@pytest.fixture
def results(tmp_path):
    """Makes run folders that hold a result of one real run, with changes."""
    run(task(), proposer=Wanderer(), sandbox=StandIn(), iterations=2, out=tmp_path / "real")
    real = json.loads((tmp_path / "real" / "result.json").read_text())

    def make(name, word, seed, value, test, /, **changes):
        result = {
            **real,
            "search": {"name": word},
            "seed": seed,
            "best": {**real["best"], "search": value, "test": test},
            **changes,
        }
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps(result))
        return tmp_path / name

    return make


def test_medians_and_paired_differences_by_hand(results):
    """The metric is minimized: a smaller value is a difference above 0."""
    values = {"a": [3.0, 5.0, 4.0], "b": [2.0, 5.5, 1.0]}
    folders = [
        results(f"{search}{seed}", search, seed, value, value + 1 if search == "a" or seed else None)
        for search, found in values.items()
        for seed, value in enumerate(found)
    ]
    found = compare(folders)
    a, b = found["rows"]
    assert (a["search"]["median"], a["search"]["least"], a["search"]["largest"]) == (4.0, 3.0, 5.0)
    assert (b["search"]["median"], b["test"]["median"]) == (2.0, 4.25)
    (difference,) = found["differences"]
    assert difference["search"]["by_seed"] == {"0": 1.0, "1": -0.5, "2": 3.0}
    assert difference["search"]["median"] == 1.0
    assert difference["test"]["by_seed"] == {"0": None, "1": -0.5, "2": 3.0}
    assert (difference["seeds"], difference["enough"], found["reference"]) == (3, True, "a")
    lines = compare_lines(found)
    assert "4.00000 (3.00000 to 5.00000)" in lines[2]
    assert "1.00000 (-0.50000 to 3.00000)" in lines[4]
    assert not any("fewer" in line for line in lines)


def test_fewer_than_three_seeds_are_marked(results):
    folders = [results(f"{search}{seed}", search, seed, 1.0, None) for search in "ab" for seed in (0, 1)]
    found = compare(folders)
    assert [row["enough"] for row in (*found["rows"], *found["differences"])] == [False] * 3
    assert sum("fewer than three seeds" in line for line in compare_lines(found)) == 3
    assert "unknown" in compare_lines(found)[2]


def test_rows_of_one_search_are_told_apart_by_what_differs(results):
    folders = [
        results("one", "era", 0, 1.0, 1.0, search={"name": "era", "c_puct": 1.0}),
        results("two", "era", 0, 1.0, 1.0, search={"name": "era", "c_puct": 2.0}),
        results("three", "greedy", 0, 1.0, 1.0),
    ]
    assert [row["name"] for row in compare(folders)["rows"]] == ["era c_puct=1.0", "era c_puct=2.0", "greedy"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": {"iterations": 9, "evaluations": 7}}, ["their budget differs", "iterations 2", "evaluations 7"]),
        ({"task": "another"}, ["their task differs", "another"]),
        ({"data": {"source": "s3e1", "sha256": None, "rows": 1}}, ["their data differs", "s3e1"]),
        ({"stops": {"patience": 3, "target": None}}, ["their stops differs", "patience 3"]),
        ({"stop_reason": "interrupted"}, ["did not use up its budget", "interrupted", "progevo resume"]),
        ({"stop_reason": None}, ["did not use up its budget"]),
        ({"search": {"name": "a"}}, ["a run of a with seed 0 already"]),
    ],
)
def test_what_is_not_equal_is_refused_with_the_numbers(results, changes, words):
    folders = [results("one", "a", 0, 1.0, 1.0), results("two", "b", 0, 1.0, 1.0, **changes)]
    with pytest.raises(ConfigError) as refusal:
        compare(folders)
    for word in words:
        assert word in str(refusal.value)
