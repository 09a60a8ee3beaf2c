"""The named searches: every word makes one, every constant is checked, a wrong name lists the right ones."""

from __future__ import annotations

import dataclasses
import json

import pytest

from progevo.errors import ConfigError
from progevo.search.catalogue import SEARCHES, make_search
from progevo.testing import drive


@pytest.mark.parametrize("name", SEARCHES)
def test_every_word_makes_a_fresh_search_with_its_constants(name):
    one, other = make_search(name, {}, 0), make_search(name, {}, 0)
    assert drive(one, [0.0, 1.0, 0.5]) == drive(other, [0.0, 1.0, 0.5])
    known = [field.name for field in dataclasses.fields(SEARCHES[name].constants)]
    assert list(one.constants()) == known
    # What a run's config.toml holds makes the same search again.
    written = json.loads(json.dumps(one.constants()))
    assert make_search(name, written, 0).constants() == one.constants()


def test_constants_arrive():
    assert make_search("era", {"c_puct": 2}, 0).constants() == {"c_puct": 2.0}
    changed = {"population_size": 7, "feature_bins": {"score": 3}, "feature_dimensions": ["score"]}
    found = make_search("openevolve", changed, 0).constants()
    assert {name: found[name] for name in changed} == changed


@pytest.mark.parametrize("name", ["openevolve", "random_parent"])
def test_the_seed_arrives(name):
    scores = [float(index) for index in range(50)]
    one, same, other = (drive(make_search(name, {}, seed), scores) for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize(
    ("name", "constants", "words"),
    [
        ("annealing", {}, "no search 'annealing'; the searches are era, openevolve, best_of_n, random_parent, greedy"),
        ("era", {"cpuct": 1.0}, "'era' does not take these constants: cpuct; it takes c_puct"),
        ("openevolve", {"c_puct": 1.0, "islands": 3}, "c_puct, islands; it takes population_size, archive_size"),
        ("greedy", {"c_puct": 1.0}, "'greedy' does not take these constants: c_puct; it takes none"),
        (
            "openevolve",
            {"num_islands": "five"},
            "'openevolve' is wrong: num_islands is 'five'; it must be a whole number",
        ),
        ("openevolve", {"num_islands": True}, "num_islands is True; it must be a whole number"),
        (
            "openevolve",
            {"feature_dimensions": ["score", 3]},
            "feature_dimensions holds a whole number, where it must be",
        ),
        ("openevolve", {"num_islands": 0}, "num_islands is 0; it must be at least 1"),
        ("era", {"c_puct": -1.0}, "c_puct must be a finite number"),
    ],
)
def test_what_is_wrong_is_named(name, constants, words):
    with pytest.raises(ConfigError, match=words):
        make_search(name, constants, 0)
