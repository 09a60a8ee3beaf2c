"""--executor, as people use it: checked, recorded, kept by a resume, and free to change."""

from __future__ import annotations

import tomllib
from concurrent.futures import Future
from dataclasses import replace

import pytest
from click.testing import CliRunner

from progevo.cli import main
from progevo.cli.problems import check_same
from progevo.config import settings_of
from progevo.errors import ConfigError
from progevo.journal import read_run
from progevo.remote import worker
from progevo.remote.elsewhere import Pool
from tests.remote.loopback import TASK

THERE = "dask://there:8786"


class Here:
    """An executor whose one worker is this process."""

    def submit(self, function, argument, /):
        future: Future = Future()
        future.set_result(function(argument))
        return future


@pytest.fixture
def connections(monkeypatch):
    """Every cluster that is connected to."""
    words: list[str] = []

    def connect(word):
        words.append(word)
        return Pool(Here())

    monkeypatch.setattr("progevo.remote.elsewhere.connect", connect)
    yield words
    worker.leave()


def progevo(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    return done.exit_code, done.output


def test_where_candidates_run_is_recorded_kept_and_may_change(tmp_path, connections):
    folder = tmp_path / "r"
    code, said = progevo("run", "--task", TASK, "--iterations", 2, "--out", folder, "--executor", THERE)
    assert code == 0, said
    assert f"on the workers of {THERE}" in said
    assert connections == [THERE]
    assert tomllib.loads((folder / "config.toml").read_text())["executor"] == THERE
    code, said = progevo("resume", folder, "--iterations", "+1")
    assert (code, connections) == (0, [THERE] * 2), said
    code, said = progevo("resume", folder, "--iterations", "+1", "--executor", "local")
    assert (code, connections) == (0, [THERE] * 2), said
    assert read_run(folder).start.settings["executor"] == THERE
    assert len(read_run(folder).nodes) == 5
    assert read_run(folder).drift == []  # it is no part of what a score means
    searches = ("--search", "era", "--search", "greedy", "--seeds", 1, "--iterations", 1)
    code, said = progevo("compare", "--task", TASK, *searches, "--out", tmp_path / "c", "--executor", THERE)
    assert (code, connections) == (0, [THERE] * 4), said


def test_a_word_that_is_none_ends_with_2(tmp_path):
    for word in ("ray://there:1", "dask://there"):
        code, said = progevo("run", "--task", TASK, "--out", tmp_path / "r", "--executor", word)
        assert code == 2
        assert f"there is no executor {word!r}" in said
        assert not (tmp_path / "r").exists()


def test_problems_may_go_on_elsewhere_but_not_by_other_settings(tmp_path):
    folder = tmp_path / "r"
    assert progevo("run", "--task", TASK, "--iterations", 1, "--out", folder)[0] == 0
    settings = settings_of(read_run(folder).start.settings)
    check_same(replace(settings, executor=THERE), folder)
    with pytest.raises(ConfigError, match="holds a run by other settings"):
        check_same(replace(settings, seed=1), folder)
