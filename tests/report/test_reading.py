"""What the page knows of a run that goes on, was killed, or has barely begun."""

from __future__ import annotations

import fcntl
import shutil
import sys

import pytest

from progevo.errors import RunError
from progevo.report.block import build_block, to_text
from progevo.report.page import build_page
from progevo.report.reading import read, state_of
from progevo.report.serve import Watched
from tests.report.conftest import parse

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is told by /proc/locks alone")


def cut(folder, to, lines, *, half=""):
    """A copy of a run as it was after so many lines of its journal."""
    shutil.copytree(folder, to)
    kept = (folder / "journal.jsonl").read_text().splitlines(keepends=True)[:lines]
    (to / "journal.jsonl").write_text("".join(kept) + half)
    return to


@LINUX
def test_states(wandered, tmp_path):
    folder = cut(wandered(), tmp_path / "run", 40)
    assert read(folder).state == "stopped"
    with open(folder / "journal.jsonl", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert read(folder).state == "running"
    assert read(folder).state == "stopped"
    assert read(wandered()).state == "ended"


@LINUX
def test_looking_takes_no_lock(wandered, tmp_path):
    folder = cut(wandered(), tmp_path / "run", 40)
    state_of(folder, ended=False)
    with open(folder / "journal.jsonl", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("search", ["era", "openevolve"])
def test_every_beginning_of_a_run_makes_a_page(wandered, tmp_path, search):
    whole = (wandered(search) / "journal.jsonl").read_text().splitlines()
    for lines in (1, 2, 3, 4, 17, len(whole) - 1):
        folder = cut(wandered(search), tmp_path / f"{lines}", lines, half='{"event": "asked", "st')
        reading = read(folder)
        parsed = parse(build_page(reading, live=True))
        assert parsed.of("html")[0]["data-mode"] == "live"
        assert len(parsed.block["nodes"]["parent"]) == len(reading.record.nodes)
        assert (parsed.block["result"] is None) == (lines == 1)


def test_a_run_whose_search_asks_differently_now_is_shown_without_what_only_the_search_knows(wandered, tmp_path):
    folder = cut(wandered(), tmp_path / "run", 60)
    lines = (folder / "journal.jsonl").read_text().replace('"c_puct":1.0', '"c_puct":9.0')
    (folder / "journal.jsonl").write_text(lines)
    reading = read(folder)
    block = build_block(reading)
    assert reading.search is None
    assert block["result"] is None
    assert "visits" not in block["nodes"]
    assert "Replay" in {row["label"] for row in block["header"]}
    assert to_text(block)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="not a run folder"):
        read(tmp_path)


def test_a_run_is_read_anew_when_it_has_grown_and_only_then(wandered, tmp_path):
    folder = cut(wandered(), tmp_path / "run", 40)
    watched = Watched(folder=folder)
    mark, first = watched.look()
    assert watched.look() == (mark, first)
    assert watched.look()[1] is first
    lines = (wandered() / "journal.jsonl").read_text()
    watched._rest_until = 0.0
    (folder / "journal.jsonl").write_text(lines)  # killed and resumed: more lines than there were
    later, second = watched.look()
    assert later != mark
    assert len(second.record.nodes) > len(first.record.nodes)
    assert second.record.stop_reason == "iterations"


def test_looking_rests_between_two_readings(wandered, tmp_path):
    folder = cut(wandered(), tmp_path / "run", 40)
    watched = Watched(folder=folder)
    _, first = watched.look()
    watched._rest_until = float("inf")
    shutil.copy(wandered() / "journal.jsonl", folder / "journal.jsonl")
    assert watched.look()[1] is first
