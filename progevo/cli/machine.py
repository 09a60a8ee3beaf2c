"""Commands about this machine: doctor, data, bench."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from progevo.cli.group import json_option, main, show
from progevo.errors import ConfigError
from progevo.show import bench_search_lines, words


@main.command(short_help="Whether this host can run candidates.")
@click.option("--profile", default="tabular", show_default=True, help="The sandbox profile to try.")
@click.option("--sandbox", default="auto", show_default=True, help="The form to try: auto, warm, pool or cold.")
@click.option("--prove", is_flag=True, help="Attack the sandbox and see that it holds, as every run does first.")
@json_option
def doctor(profile: str, sandbox: str, prove: bool, as_json: bool) -> None:
    """Whether this host can run candidates: tries the sandbox, and says what to do where it cannot."""
    from progevo.doctor import examine
    from progevo.sandbox.prove import stopped

    found = examine(profile, sandbox, prove=prove)
    show(
        found,
        as_json,
        lambda: [f"{name:<12} {stopped(value) if name == 'proof' else words(value)}" for name, value in found.items()],
    )
    sys.exit(0 if found["sandbox"] == "works" else 3)


@main.group()
def data() -> None:
    """Data sets of the built-in tasks."""


@data.command("get", short_help="Fetch the data set of a task once.")
@click.argument("name")
@click.option("--from", "source", type=click.Path(path_type=Path), help="Take this file or folder instead.")
@click.option("--url", help="Download from here instead; the checksum stays the same.")
def get_data(name: str, source: Path | None, url: str | None) -> None:
    """Fetch the data set of task NAME once, check it, and keep it for later runs."""
    from progevo.dataset import get
    from progevo.domain import load_task

    task = load_task(name)
    if (install := getattr(task, "install", None)) is not None:  # what it takes is no single file
        if source is None or url is not None:
            raise ConfigError(f"the data of {name!r} is a folder of yours: give it with --from FOLDER, and no --url")
        click.echo(install(source))
        return
    dataset = getattr(task, "DATASET", None)
    if dataset is None:
        raise ConfigError(f"the task {name!r} needs no data set")
    click.echo(get(dataset, from_file=source, url=url))


@main.group()
def bench() -> None:
    """Measurements of this machine."""


@bench.command("search", short_help="What one ask and tell cost.")
@click.option("--size", "sizes", type=int, multiple=True, help="Nodes told; may be given again.")
@json_option
def bench_search(sizes: tuple[int, ...], as_json: bool) -> None:
    """What one ask and tell cost after so many nodes, and the whole loop around candidates. One to two minutes.

    Flat PUCT stands beside a plain transcription of its formula, the
    islands beside OpenEvolve's own database, where that is installed.
    """
    from progevo.bench import bench_search as measure

    found: dict[str, Any] = measure(sizes or None)
    show(found, as_json, lambda: bench_search_lines(found))


@bench.command("sandbox", short_help="What a candidate costs, and how limits bite.")
@click.option("--profile", "profiles", multiple=True, help="stdlib, numeric or tabular; may be given again.")
@click.option("--rounds", type=int, help="How often each form runs in turn.  [default: 5]")
@click.option("--quick", is_flag=True, help="Two rounds, for a first look.")
@click.option("--soak", "soak_count", type=int, default=0, help="Then so many mixed candidates through one zygote.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Draw it as well; needs progevo[plot].")
@json_option
def bench_sandbox(
    profiles: tuple[str, ...], rounds: int | None, quick: bool, soak_count: int, picture: Path | None, as_json: bool
) -> None:
    """What a candidate costs in each form of the sandbox, how its limits bite, what it holds. One to two minutes."""
    from progevo.bench import bench_sandbox as measure
    from progevo.bench import can_plot, plot, sandbox_lines

    settings: dict[str, Any] = {"quick": quick, "rounds": rounds, "soak_count": soak_count}
    if profiles:
        settings["profiles"] = profiles
    if picture is not None:
        can_plot(picture)
    found = measure(**settings, say=lambda line: click.echo(line, err=True))
    if picture is not None:
        plot(found, picture)
    show(found, as_json, lambda: sandbox_lines(found))
