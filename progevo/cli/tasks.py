"""Commands for people who write a task: new-task and check-task."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from progevo.cli.group import data_option, json_option, main, show
from progevo.cli.problems import problem_options
from progevo.cli.sessions import domain_of, problem_of


@main.command("new-task", short_help="A complete task folder to begin with.")
@click.argument("name")
@click.option(
    "--in", "where", type=click.Path(path_type=Path), default=Path(), help="Where to put it.  [default: here]"
)
def make_task(name: str, where: Path) -> None:
    """Write a complete task folder NAME that runs: change it, file by file, into what you want."""
    from progevo.new_task import new_task

    written = new_task(name, where)
    folder = written[0].parent
    path = folder if folder.is_absolute() else f"./{folder}"
    click.echo("\n".join(str(file) for file in written))
    click.echo(f"try it:  progevo check-task {path}")
    click.echo(f"         progevo run era --task {path} --iterations 20")


@main.command("check-task", short_help="What is wrong with a task, in plain words.")
@click.argument("task")
@problem_options
@data_option
@json_option
def try_task(task: str, data: Path | None, options: dict[str, Any] | None, as_json: bool) -> None:
    """Try a task, named as for --task: its seed, its limits, its score, and whether its answers can be got at.

    Exits with 1 where something is wrong. The test part is scored once, for the seed alone.
    """
    from progevo.check_task import check_task
    from progevo.domain import load_task
    from progevo.errors import TaskError
    from progevo.options import typed
    from progevo.sandbox.probe import open_sandbox

    try:
        typed(task, getattr(load_task(task), "domain", lambda: None), options or {})
        problem_of(task, data, options)
    except TaskError as error:
        if "cannot be loaded" not in str(error):
            raise
    found = check_task(lambda: domain_of(task, data, options), open_sandbox)
    facts = [dataclasses.asdict(finding) for finding in found]
    show(facts, as_json, lambda: [f"{each.word:<6} {each.about}: {each.text}" for each in found])
    sys.exit(1 if any(finding.word == "wrong" for finding in found) else 0)
