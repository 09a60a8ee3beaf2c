"""The page on schedules says what the code says."""

from __future__ import annotations

import pytest

from progevo.schedule import DEPARTURES, SCHEDULES, schedule_of, table
from progevo.search.catalogue import SEARCHES


def test_the_table_of_the_docs_is_the_code_s(repo):
    page = (repo / "docs" / "fidelity.md").read_text()
    assert "\n".join(table(SEARCHES)) in page, "docs/fidelity.md: put the lines of progevo.schedule.table there"
    for schedule in SCHEDULES.values():
        assert f"- `{schedule.name}`: {schedule.about}" in page


def test_a_search_without_an_entry_has_no_table():
    with pytest.raises(KeyError):
        table({**SEARCHES, "annealing": None})
    assert all(DEPARTURES[search].keys() == SCHEDULES.keys() for search in SEARCHES)


def test_one_worker_runs_the_published_loop_and_several_in_order():
    assert schedule_of(None, 1).name == "serial"
    assert schedule_of(None, 2).name == "ordered"
    assert schedule_of("async", 1).name == "async"
