"""Sandbox profiles: which packages, paths and environment a kind of program gets, read from TOML."""

from __future__ import annotations

import math
import os
import sys
import tomllib
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from progevo import complaint
from progevo.errors import ConfigError
from progevo.types import Job, Limits

#: The environment that every candidate sees, before a profile adds to it. The host's own is never passed on.
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",  # set order is the same in every run
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of program's surroundings; the fields are the keys of the TOML file."""

    name: str
    about: str
    packages: bool
    least_memory_bytes: int
    shm_bytes: int
    preload: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    #: Top-level names of third-party packages that programs can neither import nor read, where they are installed.
    hidden: tuple[str, ...] = ()
    refused_calls: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    #: The most that a job may ask for, by the name of a limit.
    limits: dict[str, float] = field(default_factory=dict)

    def within(self, limits: Limits) -> Limits:
        """`limits`, each lowered to what this profile allows."""
        asked = {name: getattr(limits, name) for name in self.limits}
        lower: dict[str, Any] = {
            name: type(asked[name])(most) for name, most in self.limits.items() if asked[name] > most
        }
        return replace(limits, **lower)

    def check(self, job: Job) -> None:
        """Raises `ConfigError` for a job that can never run: too much or too little asked for, an input not there."""
        for name, most in self.limits.items():
            if getattr(job.limits, name) > most:
                raise ConfigError(
                    f"{name} is {getattr(job.limits, name):.12g}; the profile {self.name!r} allows {most:.12g} at most"
                )
        least = self.least_memory_bytes
        if job.limits.memory_bytes < least:
            raise ConfigError(
                f"memory_bytes is {job.limits.memory_bytes}; the profile {self.name!r} needs at least {least}"
            )
        for name, path in job.inputs.files.items():
            if not os.path.isfile(path):
                raise ConfigError(f"the input {name!r} should be the file {path}, which is not there")
        box = job.inputs.black_box
        if box is not None and not os.path.isfile(box.file):
            raise ConfigError(f"the functions of the black box should be in the file {box.file}, which is not there")
        if box is not None and box.in_turn and job.limits.processes != 1:
            raise ConfigError(
                f"processes is {job.limits.processes}; it must be 1 where a black box is asked in turn: the CPU that a"
                " problem cost is that of one process"
            )


def load_profile(name: str) -> Profile:
    """The profile of a given name, or in the TOML file of a given path.

    Raises `ConfigError` for a name that is not there and for a file with unknown, missing or mistyped keys.
    """
    if name.endswith(".toml"):
        file = Path(name)
        known = ""
    else:
        folder = resources.files("progevo.sandbox_profiles")
        names = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
        file = Path(str(folder / f"{name}.toml"))
        known = f"; the profiles here are {', '.join(names)}, a path must end in .toml"
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no sandbox profile {name!r}{known}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"the sandbox profile {name!r} cannot be read: {complaint.of_reading(error)}") from None
    fields = set(Profile.__dataclass_fields__) - {"name"}
    unknown = sorted(set(table) - fields)
    if unknown:
        raise ConfigError(
            f"the sandbox profile {name!r} has unknown keys: {', '.join(unknown)};"
            f" it may have {', '.join(sorted(fields))}"
        )
    try:
        profile = msgspec.convert({**table, "name": file.stem}, Profile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the sandbox profile {name!r}: {complaint.of_value(error, table, Profile)}") from None
    odd = [name for name in profile.hidden if not name.isidentifier()]
    if odd:
        raise ConfigError(
            f"the sandbox profile {name!r} hides {', '.join(map(repr, odd))}; the names of packages, as they are"
            " imported, can be hidden"
        )
    odd = [name for name in profile.preload if name.partition(".")[0] in profile.hidden]
    if odd:
        raise ConfigError(
            f"the sandbox profile {name!r} preloads {', '.join(odd)}, which it hides; it can do one of the two"
        )
    odd = [name for name in profile.preload if name.partition(".")[0] not in sys.stdlib_module_names]
    if odd and not profile.packages:
        raise ConfigError(
            f"the sandbox profile {name!r} preloads {', '.join(odd)}, which the standard library lacks, and shows no"
            " packages; say packages = true, or leave it out"
        )
    odd = [key for key, value in profile.environment.items() if not key or "=" in key or "\0" in key + value]
    if odd:
        raise ConfigError(
            f"the sandbox profile {name!r} sets {', '.join(map(repr, odd))} in the environment; a name there is not"
            " empty and has no =, and neither it nor its value has a zero byte"
        )
    odd = [key for key, value in profile.limits.items() if not 0 < value < math.inf]
    if odd:
        raise ConfigError(f"the sandbox profile {name!r} limits {', '.join(odd)} to what is no number above 0")
    if min(profile.shm_bytes, profile.least_memory_bytes) < 1:
        raise ConfigError(f"the sandbox profile {name!r}: shm_bytes and least_memory_bytes must be 1 or more")
    missing = [path for path in profile.readable if not os.path.isabs(path) or not os.path.exists(path)]
    if missing:
        raise ConfigError(
            f"the sandbox profile {name!r} makes {', '.join(missing)} readable, which is not there; name host paths in"
            " full that exist"
        )
    unknown = sorted(set(profile.limits) - set(Limits.__dataclass_fields__))
    if unknown:
        raise ConfigError(
            f"the sandbox profile {name!r} names limits that do not exist: {', '.join(unknown)};"
            f" they are {', '.join(Limits.__dataclass_fields__)}"
        )
    return profile
