"""Options that name an OpenEvolve pair in place of a task."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from progevo.errors import ConfigError

if TYPE_CHECKING:
    from progevo.config import Settings
    from progevo.domain import Domain

Command = Callable[..., None]


def pair_options(command: Command) -> Command:
    for option in reversed(
        (
            click.option(
                "--openevolve",
                type=click.Path(path_type=Path),
                nargs=2,
                metavar="PROGRAM EVALUATOR",
                help="Instead of a task: OpenEvolve's initial_program.py and evaluator.py.",
            ),
            click.option(
                "--drop-key", multiple=True, metavar="NAME", help="A key of OpenEvolve's YAML file to leave aside."
            ),
        )
    ):
        command = option(command)
    return command


def pair_flags(flags: dict[str, Any], config: Path | None) -> tuple[Mapping[str, Any], Path | None]:
    """Makes settings of what `flags` say about a pair; what its YAML file sets, and the TOML file that is left."""
    files, drop = flags.pop("openevolve"), flags.pop("drop_key")
    yaml = config is not None and config.suffix in (".yaml", ".yml")
    if files is None:
        if yaml or drop:
            raise ConfigError("a YAML configuration and --drop-key belong to --openevolve PROGRAM EVALUATOR")
        return {}, config
    if flags["task"] is not None or flags["data"] is not None:
        raise ConfigError("--openevolve names the task: leave out --task and --data")
    from progevo.openevolve import read_pair

    flags["openevolve"] = [os.path.abspath(file) for file in files]
    if yaml:
        assert config is not None
        flags |= {"openevolve_config": os.path.abspath(config), "drop_key": list(drop)}
        return read_pair(*files, configuration=config, drop=drop).settings, None
    return read_pair(*files, drop=drop).settings, config


def pair_domain(settings: Settings) -> Domain:
    """The task that the settings of a run with a pair name."""
    from progevo.openevolve import read_pair

    program, evaluator = map(Path, settings.openevolve)
    config = Path(settings.openevolve_config) if settings.openevolve_config is not None else None
    return read_pair(program, evaluator, configuration=config, drop=settings.drop_key).domain
