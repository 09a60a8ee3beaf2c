"""Settings: strict, typed, and every one of them read."""

from __future__ import annotations

import dataclasses

import pytest

from progevo.config import Settings, apply_limits, read_settings, settings_of
from progevo.errors import ConfigError
from progevo.types import Limits


def test_a_flag_goes_before_the_file_and_the_file_before_the_default(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('task = "toy"\niterations = 7\nworkers = 3\n[limits]\nwall_s = 5\ncpu_s = 2\n')
    settings = read_settings(file, {"workers": 4, "seed": None, "limits": {"cpu_s": 9.0}})
    assert (settings.task, settings.iterations, settings.workers, settings.seed) == ("toy", 7, 4, 0)
    assert settings.limits == {"wall_s": 5, "cpu_s": 9.0}


def test_constants_of_a_search_come_from_their_table_and_from_flags(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('task = "toy"\n[constants]\npopulation_size = 7\narchive_size = 3\n')
    settings = read_settings(file, {"constants": {"archive_size": 4}, "c_puct": None})
    assert settings.constants == {"population_size": 7, "archive_size": 4}
    # c_puct has a flag and a key of its own, which mean the same.
    file.write_text('task = "toy"\nc_puct = 2.5\n')
    assert read_settings(file, {}).constants == {"c_puct": 2.5}
    assert read_settings(file, {"c_puct": 0.5}).constants == {"c_puct": 0.5}
    assert read_settings(file, {"constants": {"c_puct": 0.7}}).constants == {"c_puct": 0.7}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('task = "toy"\ncolour = "red"', "unknown settings: colour"),
        ("iterations = 3", "no task was named"),
        ('task = "toy"\niterations = "many"', "iterations"),
        ('task = "toy"\niterations = -1', "at least 0"),
        ('task = "toy"\nworkers = 0', "at least 1"),
        ('task = "toy"\n[limits]\nspeed = 3', "there is no limit 'speed'"),
        ('task = "toy"\n[limits]\nwall_s = 0', "above 0"),
        ('task = "toy"\n[limits]\ncpu_s = 1.5', "whole number"),
        ('task = "toy"\nlimits = 3', "must be a table"),
        ('task = "toy"\nconstants = 3', "must be a table"),
        ("task = ", "run.toml cannot be read: it is not TOML: Invalid value"),
        ('task = "toy"\niterations = "many"', "run.toml: iterations is 'many'; it must be a whole number$"),
        ('task = "toy"\nmodel = [1]', "run.toml: model holds a whole number, where it must be text$"),
        ('task = "toy"\nmodel = "a"\nedit = "x"', "run.toml: edit is 'x'; it must be full or diff$"),
        ('task = "toy"\n[limits]\nwall_s = "x"', "run.toml: limits holds text, where it must be a number$"),
        ('task = "toy"\nitertions = 3', "run.toml: unknown settings: itertions; did you mean iterations"),
        ('task = "toy"\nseed = -1', "run.toml: seed is -1; it must be at least 0$"),
        ("iterations = 3", "run.toml: no task was named"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, word):
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=word):
        read_settings(file, {})


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"none.toml cannot be read: there is no such file$"):
        read_settings(tmp_path / "none.toml", {"task": "toy"})
    with pytest.raises(ConfigError, match=r"cannot be read: it is a folder; name a file$"):
        read_settings(tmp_path, {"task": "toy"})
    (tmp_path / "latin.toml").write_bytes(b'task = "toy"\n# \xe9\n')
    with pytest.raises(ConfigError, match=r"not UTF-8 text \(byte 0xe9 in line 2\); save it as UTF-8$"):
        read_settings(tmp_path / "latin.toml", {})


def test_the_file_is_named_where_the_fault_is_in_it_or_goes_with_it(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('task = "toy"\nmodel = "a"\n')
    for flags, told in [
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"proposer": "mutate"}, f"asks no model; leave out --model or --proposer (with the settings of {file})"),
    ]:
        with pytest.raises(ConfigError) as refusal:
            read_settings(file, flags)
        assert str(refusal.value).endswith(told)
        assert not str(refusal.value).startswith(str(file))


def test_every_limit_can_be_changed_and_keeps_its_type():
    for field in dataclasses.fields(Limits):
        changed = apply_limits(Limits(), {field.name: 7.0})
        assert getattr(changed, field.name) == 7
        assert type(getattr(changed, field.name)) is type(getattr(Limits(), field.name))
        assert dataclasses.replace(changed, **{field.name: getattr(Limits(), field.name)}) == Limits()


def test_settings_stand_for_themselves():
    assert read_settings(None, {"task": "toy"}) == Settings(task="toy")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"temperature": ["0.3"]}, "temperature"),
        ({"reply_attempts": 9}, "reply_attempts"),
        ({"max_calls": 3}, "max_calls"),
        ({"proposer": "recorded:x", "temperature": ["0.3"], "edit": "diff"}, "temperature"),
    ],
)
def test_what_is_set_about_models_without_one_is_an_error(settings, named):
    with pytest.raises(ConfigError, match=f"has no use for {named};"):
        settings_of({"task": "s3e1", **settings})


def test_what_a_recording_reads_of_a_models_settings_is_taken():
    settings_of({"task": "s3e1", "proposer": "recorded:x", "edit": "diff", "reply_attempts": 2, "keep_replies": False})
