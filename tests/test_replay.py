"""replay: a run's tree from its journal alone; each kind of difference is found and named."""

from __future__ import annotations

import json
import random

import pytest

from progevo.journal import FILE
from progevo.replay import replay, rescore
from progevo.run import run
from progevo.search.catalogue import SEARCHES
from tests.plain_run import Number, StandIn, Wanderer, task


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("schedule", ["sync", "async"])
def test_a_run_replays_as_it_was(tmp_path, search, schedule):
    run(
        task(),
        search=search,
        proposer=Wanderer(),
        sandbox=StandIn(delay_s=0.003),
        iterations=25,
        workers=4,
        schedule=schedule,
        out=tmp_path / "r",
    )
    assert replay(tmp_path / "r") == {"nodes": 26, "differences": []}


@pytest.fixture
def folder(tmp_path):
    run(task(), proposer=Wanderer(), sandbox=StandIn(), iterations=25, seed=1, out=tmp_path / "r")
    return tmp_path / "r"


def rewrite(folder, change):
    """Changes the journal's events by hand."""
    events = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    for event in events:
        change(event)
    (folder / FILE).write_text("".join(json.dumps(event) + "\n" for event in events))


def test_another_order_of_asking_is_found(folder):
    def change(event):
        if event["event"] in ("asked", "node") and event["step"] == 9:
            event["parent"] = 0 if event["parent"] else 1

    rewrite(folder, change)
    (difference,) = replay(folder)["differences"]
    assert difference.startswith("step 9 asked for a child of node")


def test_another_score_leads_to_another_tree(folder):
    def change(event):
        if event["event"] == "node" and event["index"] == 0:
            event["outcome"]["score"] = 1e9

    rewrite(folder, change)
    assert replay(folder)["differences"]


def test_a_changed_result_is_found(folder):
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "best": {**result["best"], "search": 0.0}}))
    assert replay(folder)["differences"] == ["result.json does not follow from the journal in best"]


def test_a_changed_or_lost_program_is_found(folder):
    one, other = sorted((folder / "programs").iterdir())[:2]
    one.write_text("x = 1\n")
    other.unlink()
    found = replay(folder)["differences"]
    assert any(one.stem in line and "was changed" in line for line in found)
    assert any(other.stem in line and "cannot be read" in line for line in found)


def test_an_unmarked_copy_is_found(folder):
    marked = []

    def change(event):
        if event["event"] == "node" and event["twin_of"] is not None and event["outcome"]["status"] == "ok":
            marked.append(event["index"])
            event["twin_of"] = None

    rewrite(folder, change)
    assert marked, "the run was to hold a copy"
    found = replay(folder)["differences"]
    assert all(any(line.startswith(f"node {index}: repeats node") for line in found) for index in marked)


def test_the_best_scored_again_are_compared_with_what_was_recorded(folder):
    rows = rescore(folder, task(), StandIn(), 3)
    assert rows[0]["node"] == 0
    assert 2 <= len(rows) <= 4
    assert all(row["same"] and row["recorded"] == row["again"] for row in rows)
    moved = task(evaluator=Number(target=11.0))
    assert not any(row["same"] for row in rescore(folder, moved, StandIn(), 1))
    noisy = StandIn(noise=random.Random(0))
    assert {row["same"] for row in rescore(folder, task(), noisy, 1)} == {False}
