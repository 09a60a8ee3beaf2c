"""Settings: one typed tree, filled from defaults, a TOML file, environment and flags. An unknown key is an error."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from progevo.errors import ConfigError
from progevo.types import Limits

#: A constant of one search that is also a flag and a key of its own, from the time when there was no other search.
C_PUCT = "c_puct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a person may decide about a run; the same names are keys of the TOML file and flags."""

    search: str = "era"
    task: str
    proposer: str = "mutate"
    #: Candidates to propose.
    iterations: int = 40
    #: Candidates in flight at a time.
    workers: int = 1
    seed: int = 0
    #: The form of the sandbox: auto, warm, pool or cold.
    sandbox: str = "auto"
    #: A data file to use in place of the task's own.
    data: str | None = None
    #: The search's constants by name, where they differ from its own (`progevo.search.catalogue` knows them).
    constants: Mapping[str, Any] = field(default_factory=dict)
    #: Limits that differ from the task's own, by name.
    limits: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("iterations", 0), ("workers", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        apply_limits(Limits(), self.limits)


def read_settings(
    file: Path | None, flags: Mapping[str, Any], beneath: Mapping[str, Any] = MappingProxyType({})
) -> Settings:
    """Settings from a TOML file and, before it, flags (where a flag is `None` it was not given); under both, `beneath`.

    Raises `ConfigError` for a file that cannot be read, a key that does not exist and a value of the wrong type.
    """
    table: dict[str, Any] = {}
    if file is not None:
        try:
            table = tomllib.loads(file.read_text("utf-8"))
            table.pop("ran_on", None)  # in the config.toml of a run: what it ran on is no setting
        except (OSError, ValueError) as error:
            raise ConfigError(f"the settings file {file} cannot be read: {error}") from None
    given = {name: value for name, value in flags.items() if value is not None}
    merged = {
        **beneath,
        **table,
        **given,
        "limits": {**_table(beneath, "limits"), **_table(table, "limits"), **given.get("limits", {})},
        "constants": {**_table(beneath, "constants"), **_constants(table, given)},
    }
    merged.pop(C_PUCT, None)
    known = [entry.name for entry in dataclasses.fields(Settings)]
    unknown = sorted(set(merged) - set(known))
    if unknown:
        raise ConfigError(f"unknown settings: {', '.join(unknown)}; there are {', '.join(known)}")
    if "task" not in merged:
        raise ConfigError("no task was named; add --task NAME (progevo tasks lists them)")
    try:
        return msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the settings are not well formed: {error}") from None


def apply_limits(limits: Limits, changes: Mapping[str, float]) -> Limits:
    """`limits` with some changed. Raises `ConfigError` for a name that is none and a value that cannot be one."""
    names = [entry.name for entry in dataclasses.fields(Limits)]
    whole = {name for name in names if name != "wall_s"}
    for name, value in changes.items():
        if name not in names:
            raise ConfigError(f"there is no limit {name!r}; the limits are {', '.join(names)}")
        if not 0 < value < 2**62 or (name in whole and value != int(value)):
            raise ConfigError(f"the limit {name} is {value}; it must be a {'whole ' * (name in whole)}number above 0")
    typed: dict[str, Any] = {name: int(value) if name in whole else float(value) for name, value in changes.items()}
    return dataclasses.replace(limits, **typed)


def _constants(table: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The table `[constants]` and, before it, flags; `c_puct` may also stand outside the table."""
    merged: dict[str, Any] = {}
    for source in (table, given):
        merged.update(_table(source, "constants"))
        if C_PUCT in source:
            merged[C_PUCT] = source[C_PUCT]
    return merged


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{name} must be a table, [{name}]; it is {found!r}")
    return found
