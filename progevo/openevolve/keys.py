"""The keys of an OpenEvolve configuration that mean something here. All others are named in one error, or dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from progevo import complaint
from progevo.errors import ConfigError

#: Key there -> setting here, in dotted paths. What starts with `pair` is about the pair itself, not a setting.
TAKEN = {
    "max_iterations": "iterations",
    "random_seed": "seed",
    "max_code_length": "pair.max_bytes",
    "language": "pair.language",
    "file_suffix": "pair.file_suffix",
    "prompt.system_message": "pair.prompt",
    "prompt.num_diverse_programs": "constants.num_diverse_programs",
    "llm.primary_model": "model",
    "llm.api_base": "base_url",
    "llm.temperature": "temperature",
    "llm.max_tokens": "reply_tokens",
    "llm.reasoning_effort": "reasoning_effort",
    "llm.timeout": "call_timeout",
    "evaluator.timeout": "limits.wall_s",
    "evaluator.memory_limit_mb": "limits.memory_bytes",
    "evaluator.parallel_evaluations": "workers",
    "evaluator.cascade_evaluation": "pair.cascade",
    "evaluator.cascade_thresholds": "pair.thresholds",
    **{
        f"database.{name}": f"constants.{name}"
        for name in (
            *("population_size", "archive_size", "num_islands", "migration_interval", "migration_rate"),
            *("elite_selection_ratio", "exploration_ratio", "exploitation_ratio", "feature_dimensions"),
            *("feature_bins", "diversity_reference_size"),
        )
    },
}

#: What the values of some keys are; those of searches and limits are looked at where they are used.
KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "max_iterations": (int, "a whole number"),
    "random_seed": (int, "a whole number"),
    "max_code_length": (int, "a whole number"),
    "prompt.system_message": (str, "a text"),
    "llm.primary_model": (str, "a name"),
    "llm.api_base": (str, "a base URL"),
    "llm.temperature": ((int, float), "a number"),
    "llm.max_tokens": (int, "a whole number"),
    "llm.reasoning_effort": (str, "a word"),
    "llm.timeout": ((int, float), "a number of seconds"),
    "evaluator.timeout": ((int, float), "a number of seconds"),
    "evaluator.memory_limit_mb": ((int, float), "a number of MiB"),
    "evaluator.parallel_evaluations": (int, "a whole number"),
    "evaluator.cascade_evaluation": (bool, "true or false"),
    "evaluator.cascade_thresholds": (list, "a list of numbers"),
    "database.feature_dimensions": (list, "a list of names"),
}


def read_keys(file: Path, drop: Sequence[str]) -> dict[str, Any]:
    """Settings by dotted name, from a YAML file. `drop` names keys, or whole tables, to leave aside.

    Raises `ConfigError` for a file that cannot be read, for keys that mean nothing here, all in one message, and for a
    dropped key that is not there.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError(
            f"{file} is YAML, which takes PyYAML to read; install it: pip install 'progevo[openevolve]'"
        ) from None
    try:
        table = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"the configuration {file} cannot be read: {complaint.of_reading(error)}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"the configuration {file} must be a table of keys, as OpenEvolve's are")
    values = flat(table)
    covered = {key: {name for name in values if name == key or name.startswith(f"{key}.")} for key in drop}
    if idle := [key for key, names in covered.items() if not names]:
        raise ConfigError(f"--drop-key {idle[0]}: {file} has no such key; it has {', '.join(values)}")
    dropped = set().union(*covered.values())
    unknown = [name for name in values if name not in TAKEN and name not in dropped]
    if unknown:
        options = " ".join(f"--drop-key {name}" for name in unknown)
        raise ConfigError(
            f"the configuration {file} has keys that mean nothing here: {', '.join(unknown)}; to leave them aside add"
            f" {options} (a table's name drops all of it, such as --drop-key llm)"
        )
    taken = {name: value for name, value in values.items() if name not in dropped and value is not None}
    for name, (kind, word) in KINDS.items():
        value = taken.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool)):
            raise ConfigError(f"{name} is {value!r} in {file}; it is {word}")
    return {TAKEN[name]: value for name, value in taken.items()}


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested table with dotted names; `feature_bins` may itself be a table, and is a value."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name not in TAKEN:
            found |= flat(value, f"{name}.")
        else:
            found[name] = value
    return found
