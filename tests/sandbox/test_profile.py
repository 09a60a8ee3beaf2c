"""Profiles: data, read strictly."""

from __future__ import annotations

import pytest

from progevo.errors import ConfigError
from progevo.sandbox.profile import load_profile

GOOD = """
about = "mine"
packages = false
least_memory_bytes = 1000
shm_bytes = 1000
"""


@pytest.mark.parametrize("name", ["stdlib", "tabular"])
def test_the_shipped_profiles_pin_every_thread_pool_to_one(name):
    environment = load_profile(name).environment
    for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA"):
        assert environment[f"{library}_NUM_THREADS"] == "1"
    assert environment["VECLIB_MAXIMUM_THREADS"] == "1"


def test_a_profile_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    profile = load_profile(str(file))
    assert (profile.name, profile.packages, profile.preload) == ("mine", False, ())


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (GOOD + "colour = 1", "colour"),
        (GOOD.replace("false", '"no"'), "packages"),
        (GOOD.replace("about", "# about"), "about"),
        (GOOD + "name = 'other'", "name"),
        ("about = ", "cannot be read"),
    ],
)
def test_a_profile_that_is_not_well_formed_is_refused_by_name(tmp_path, text, word):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=word):
        load_profile(str(file))


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ConfigError, match="stdlib, tabular"):
        load_profile("nothing")
