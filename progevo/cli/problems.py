"""Options of a task, and running each problem of a task that has several."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from progevo.cli.group import show
from progevo.errors import ConfigError, ProgevoError, RunError

if TYPE_CHECKING:
    from progevo.config import Settings

Command = Callable[..., None]
Result = dict[str, Any]


def problem_options(command: Command) -> Command:
    """`--problem`, `--n` and `--option`, which the command gets together as `options`; `None` where none is given."""

    @functools.wraps(command)
    def folded(*args: Any, problem: str | None, n: str | None, option: tuple[str, ...], **rest: Any) -> None:
        given = [*map(_named, option), ("problem", problem), ("n", n)]
        found = {name: value for name, value in given if value is not None}
        if len(found) < sum(value is not None for _, value in given):
            raise ConfigError("an option of the task is given twice; give each once")
        command(*args, options=found or None, **rest)

    made: Command = folded
    for each in reversed(
        (
            click.option("--problem", metavar="ID", help="A problem, or a group of them, of a task that has several."),
            click.option("--n", metavar="N", help="The size of a problem, for a task that has sizes."),
            click.option(
                "--option", multiple=True, metavar="NAME=VALUE", help="An option of the task; may be given again."
            ),
        )
    ):
        made = each(made)
    return made


def each_problem(settings: Settings) -> list[Settings]:
    """The settings for each problem that they name: these alone where the task has no problems, or one is meant."""
    from dataclasses import replace

    from progevo.domain import load_task
    from progevo.options import PROBLEM, problem_ids

    if settings.openevolve:
        if settings.options:
            raise ConfigError(f"an OpenEvolve pair has no options; leave out {', '.join(settings.options)}")
        return [settings]
    which = settings.options.get(PROBLEM)
    data = Path(settings.data) if settings.data is not None else None
    ids = problem_ids(settings.task, load_task(settings.task), None if which is None else str(which), data)
    return [replace(settings, options={**settings.options, PROBLEM: each}) for each in ids] or [settings]


def the_problem(settings: Settings) -> Settings:
    """The settings for the one problem that they name. Raises `ConfigError` where they name several."""
    found = each_problem(settings)
    if len(found) > 1:
        names = ", ".join(str(each.options["problem"]) for each in found[:3])
        raise ConfigError(f"that names {len(found)} problems, {names} and so on; this command takes one")
    return found[0]


def run_problems(
    chosen: Sequence[Settings], out: Path, start: Callable[[Settings, Path], Result], as_json: bool
) -> None:
    """Runs each problem in a folder of its own under `out`, or goes on with it; prints and writes the summary."""
    from progevo.domain import load_task
    from progevo.problems import folders, run_each, summary, summary_lines, write

    task = chosen[0].task
    by_id = {str(each.options["problem"]): each for each in chosen}
    runs = folders(list(by_id), out)
    check_no_run(out, len(runs))
    for name, folder in runs.items():
        check_same(by_id[name], folder)

    def one(name: str, folder: Path) -> Result:
        click.echo(f"{name}: {folder}", err=True)
        return start(by_id[name], folder)

    with going_on(out, list(runs.values())):
        results = run_each(one, list(by_id), out)
    found = summary(task, results, getattr(load_task(task), "summarize", None))
    if found["run"]:
        write(out, found)
    show(found, as_json, lambda: summary_lines(found))
    if not found["run"]:
        raise ConfigError("no problem could be run; what each lacks is said above")


@contextlib.contextmanager
def going_on(out: Path, folders: Sequence[Path]) -> Iterator[None]:
    """Says what is kept of the runs under `out`, and how to go on with them, where not all come to their end."""
    try:
        yield
    except (ProgevoError, SystemExit, KeyboardInterrupt):
        from progevo.compare import UNFINISHED
        from progevo.journal import FILE, read_run

        finished = 0
        for folder in folders:
            with contextlib.suppress(RunError):
                finished += read_run(folder).stop_reason not in UNFINISHED
        if any(os.path.exists(folder / FILE) for folder in folders):
            word = shlex.quote(str(out))
            kept = f"{finished} of {len(folders)} runs are finished, and kept"
            click.echo(f"{kept}; the same command with --out {word} goes on with the others", err=True)
        raise


def check_no_run(out: Path, count: int) -> None:
    """Raises `ConfigError` where the folder for several runs is that of a run."""
    from progevo.journal import FILE

    if os.path.exists(out / FILE):
        raise ConfigError(f"{out} holds a run of its own; give another --out for the {count} runs")


def check_same(settings: Settings, folder: Path) -> None:
    """Raises `ConfigError` where a folder holds a run by other settings; where its candidates ran may differ."""
    from progevo.journal import FILE, read_run

    if not os.path.exists(folder / FILE):
        return
    first = read_run(folder).start
    if first is None:
        return
    there, here = first.settings, json.loads(json.dumps(settings.given()))
    names = sorted(name for name in {*there, *here} - {"executor"} if there.get(name) != here.get(name))
    if names:
        words = ", ".join(f"{name} {there.get(name)!r} there, {here.get(name)!r} here" for name in names)
        raise ConfigError(f"{folder} holds a run by other settings ({words}); give another --out, or those settings")


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--option takes NAME=VALUE, such as fit=bfgs; it was given {text!r}")
    return name, value
