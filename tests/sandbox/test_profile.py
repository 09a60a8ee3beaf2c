"""Profiles: data, read strictly."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from progevo import sandbox_profiles
from progevo.errors import ConfigError
from progevo.sandbox.probe import open_sandbox, probe_job
from progevo.sandbox.profile import load_profile
from progevo.sandbox.prove import prove
from progevo.types import MIB, Inputs, Job, Limits, Program

PROFILES = Path(next(iter(sandbox_profiles.__path__)))

GOOD = """
about = "mine"
packages = false
least_memory_bytes = 1000
shm_bytes = 1000
"""


@pytest.mark.parametrize("name", sorted(path.stem for path in PROFILES.glob("*.toml")))
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
        (GOOD.replace("false", '"no"'), "packages is 'no'; it must be true or false"),
        (GOOD.replace("about", "# about"), "about"),
        (GOOD + "name = 'other'", "name"),
        ("about = ", "cannot be read: it is not TOML"),
        (GOOD + 'hidden = ["a.b"]', r"hides 'a.b'"),
        (GOOD + 'hidden = ["../numpy", "sympy"]', "hides '../numpy';"),
        (GOOD + 'hidden = "sympy"', "hidden is 'sympy'; it must be a list"),
        (GOOD + "[limits]\nwall_s = 'long'", "limits holds text, where it must be a number"),
        (GOOD + "[limits]\nwall_s = -1", "limits wall_s to what is no number above 0"),
        (GOOD + "[limits]\nwall_s = nan", "limits wall_s to what is no number above 0"),
        (GOOD + "[environment]\n'A=B' = 'x'", "sets 'A=B' in the environment"),
        (GOOD + "[environment]\n'' = 'x'", "sets '' in the environment"),
        (GOOD + '[environment]\nA = "x\\u0000"', "sets 'A' in the environment"),
        (GOOD + 'preload = ["math", "sympy.core"]\nhidden = ["sympy"]', "preloads sympy.core, which it hides"),
        (GOOD + 'preload = ["os.path", "numpy.random"]', "preloads numpy.random, which the standard library lacks"),
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


def test_a_job_that_asks_for_more_than_its_profile_allows_is_refused(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(GOOD + "[limits]\nprocesses = 8\nwall_s = 2.5\n")
    profile = load_profile(str(file))
    harness = tmp_path / "harness.py"
    for limits, word in (
        (Limits(processes=8, wall_s=2.5), None),
        (Limits(processes=9, wall_s=2.5), "processes is 9; the profile 'own' allows 8 at most"),
        (Limits(processes=123456789, wall_s=2.5), "processes is 123456789; the profile 'own' allows 8 at most"),
        (Limits(processes=1, wall_s=2.6), "wall_s is 2.6; the profile 'own' allows 2.5 at most"),
    ):
        job = Job(program=Program(""), entrypoint="f", harness=harness, inputs=Inputs(), limits=limits)
        with contextlib.nullcontext() if word is None else pytest.raises(ConfigError, match=re.escape(word)):
            profile.check(job)


def test_a_profile_that_allows_less_than_the_defaults_opens(tmp_path):
    """The probe keeps to the profile's limits: it must not be the job that is refused."""
    file = tmp_path / "own.toml"
    file.write_text(GOOD + f"[limits]\nmemory_bytes = {128 * MIB}\nwall_s = 20.5\nopen_files = 32\n")
    profile = load_profile(str(file))
    limits = probe_job(profile).limits
    assert (limits.memory_bytes, limits.wall_s, limits.open_files) == (128 * MIB, 20.5, 32)
    assert limits.processes == Limits().processes
    profile.check(probe_job(profile))
    with contextlib.closing(open_sandbox(profile)) as sandbox:
        assert sandbox.run(probe_job(profile)).status == "ok"
        assert prove(sandbox, profile)["memory"] is True


def test_a_limit_that_does_not_exist_is_an_error(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(GOOD + "[limits]\nprocesess = 8\n")
    with pytest.raises(ConfigError, match="processes"):
        load_profile(str(file))
