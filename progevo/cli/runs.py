"""Commands that run a search, or go on with one: run, resume, replay."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from progevo.cli.budgets import budget_of, budget_options, caps_of
from progevo.cli.group import data_option, executor_option, json_option, main, show, task_option
from progevo.cli.models import model_flags, model_options
from progevo.cli.pairs import pair_flags, pair_options
from progevo.cli.problems import each_problem, problem_options, run_problems
from progevo.cli.sessions import begin, begin_or_go_on, domain_of_settings, go_on, settings_of_run
from progevo.errors import ConfigError
from progevo.show import preview_lines, replay_lines, result_lines


@main.command(short_help="Search for a better program.")
@click.argument("search", required=False)
@task_option
@click.option("--iterations", type=int, help="Candidates to propose.  [default: 40]")
@budget_options
@click.option("--workers", type=int, help="Candidates in flight at a time.  [default: 1]")
@click.option("--schedule", help="serial, ordered, sync or async.  [default: serial; ordered for several workers]")
@click.option("--seed", type=int, help="What every random draw derives from.  [default: 0]")
@click.option(
    "--proposer", help="Who writes candidates: mutate, llm or recorded:FILE.  [default: llm if there is a model]"
)
@click.option("--sandbox", help="The form: auto, warm, pool or cold.  [default: auto]")
@executor_option
@click.option("--repeats", type=int, help="Runs of each program, for noisy tasks.  [default: 1]")
@click.option("--acceptance", help="What may be best: mean or no_regression.  [default: mean]")
@click.option("--top", type=int, help="How many of the best to score on the held-out part.  [default: 1]")
@click.option("--c-puct", type=float, help="ERA's exploration constant: --set c_puct=.  [default: 1.0]")
@click.option(
    "--set",
    "constants",
    multiple=True,
    metavar="NAME=VALUE",
    help="A constant of the search, such as population_size=500, the value as in TOML; may be given again.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    help="A limit that differs from the task's, such as wall_s=30; may be given again.",
)
@click.option("--out", type=click.Path(path_type=Path), help="The run folder, new or empty.  [default: under runs/]")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with the same settings.")
@problem_options
@data_option
@pair_options
@model_options
@json_option
def run(
    out: Path | None,
    config: Path | None,
    as_json: bool,
    dry_run: bool,
    limits: tuple[str, ...],
    constants: tuple[str, ...],
    **flags: Any,
) -> None:
    """Search for a better program.

    SEARCH is era (Flat-PUCT tree search, the default), openevolve (islands), or one of the references to compare them
    with: best_of_n, random_parent and greedy.
    """
    from progevo.config import read_settings
    from progevo.plan import new_folder
    from progevo.preview import preview

    _check_search(flags["search"])
    if limits:
        flags["limits"] = _once("--limit", map(_limit, limits))
    if constants:
        flags["constants"] = _once("--set", map(_constant, constants))
    flags["data"] = str(flags["data"]) if flags["data"] is not None else None
    beneath, config = pair_flags(flags, config)
    settings = read_settings(config, model_flags(flags), beneath)
    chosen = each_problem(settings)
    if dry_run:
        plan = preview(domain_of_settings(chosen[0]), chosen[0], budget_of(settings))
        plan["problems"] = len(chosen)
        show(plan, as_json, lambda: preview_lines(plan))
        return
    if len(chosen) > 1:
        folder = out if out is not None else new_folder(settings.search, settings.task, settings.seed)
        run_problems(chosen, folder, begin_or_go_on, as_json)
        return
    domain = domain_of_settings(chosen[0])
    folder = out if out is not None else new_folder(settings.search, domain.name, settings.seed)
    begin(chosen[0], domain, folder, lambda result: show(result, as_json, lambda: result_lines(result)))


@main.command(short_help="Go on with a run.")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--iterations", metavar="+N", help="So many more iterations than it had, such as +20.")
@budget_options
@click.option("--allow-drift", "allowed", multiple=True, metavar="NAME", help="Something that may have changed since.")
@click.option("--workers", type=int, help="Candidates in flight from now on, of a run with --schedule async.")
@click.option("--base-url", help="Where the models are now, if that is not where they were.")
@click.option("--executor", metavar="WHERE", help="Where candidates run now: local or dask://HOST:PORT.")
@task_option
@data_option
@json_option
def resume(
    folder: Path,
    iterations: str | None,
    allowed: tuple[str, ...],
    workers: int | None,
    base_url: str | None,
    executor: str | None,
    task: str | None,
    data: Path | None,
    as_json: bool,
    **caps: float | None,
) -> None:
    """Go on with a run as if it had never stopped, however it did: killed, interrupted, out of budget, or finished.

    Caps given here replace those of the run. What changes what a score means must be what it was (--allow-drift).
    """
    from dataclasses import replace

    settings = settings_of_run(folder, task, data)
    if base_url is not None:
        settings = replace(settings, base_url=base_url)
    if executor is not None:
        settings = replace(settings, executor=executor)
    go_on(
        settings,
        folder,
        lambda result: show(result, as_json, lambda: result_lines(result)),
        more=_more(iterations),
        caps=caps_of(caps),
        allowed=allowed,
        workers=workers,
    )


@main.command(short_help="A run's tree once more.")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--rescore", "count", type=int, help="Also run the seed and so many of the best again.")
@task_option
@data_option
@json_option
def replay(folder: Path, count: int | None, task: str | None, data: Path | None, as_json: bool) -> None:
    """Rebuild a run's tree from its journal, without the proposer. Exits with 1 where something differs."""
    from progevo.journal import read_run
    from progevo.replay import check_task, rescore
    from progevo.replay import replay as measure

    if count is not None and count < 1:
        raise ConfigError(f"--rescore is {count}; it must be at least 1")
    found: dict[str, Any] = {**measure(folder), "rescored": None}
    if count is not None:
        from progevo.sandbox.probe import open_sandbox

        domain = domain_of_settings(settings_of_run(folder, task, data))
        check_task(read_run(folder), domain)
        found["rescored"] = rescore(folder, domain, open_sandbox(domain.profile, "cold"), count)
    rows = found["rescored"] or []
    show(found, as_json, lambda: replay_lines(found))
    sys.exit(1 if found["differences"] or any(row["same"] is False for row in rows) else 0)


def _check_search(word: str | None) -> None:
    """Raises `ConfigError` for a task where a search belongs, which is what people type first."""
    from progevo.domain import is_task
    from progevo.search.catalogue import SEARCHES

    if word is not None and word not in SEARCHES and is_task(word):
        raise ConfigError(
            f"{word!r} is a task, and no search: progevo run era --task {shlex.quote(word)}; the searches are"
            f" {', '.join(SEARCHES)}"
        )


def _more(text: str | None) -> int:
    if text is None:
        return 0
    if not (text.startswith("+") and text[1:].isdigit()):
        raise ConfigError(f"--iterations of resume takes +N, so many more than the run had; it was given {text!r}")
    return int(text[1:])


def _once(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ConfigError(f"{option} was given {name} twice, as {found[name]!r} and as {value!r}; give it once")
        found[name] = value
    return found


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ConfigError(f"--limit takes NAME=NUMBER, such as wall_s=30; it was given {text!r}") from None


def _constant(text: str) -> tuple[str, Any]:
    import tomllib

    name, equals, value = text.partition("=")
    if not name or not equals or not value.strip():
        raise ConfigError(f"--set was given {text!r}; it takes NAME=VALUE, such as --set population_size=500")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        raise ConfigError(
            f"--set was given {text!r}; the value is written as in TOML: a number as it is (population_size=500), text"
            """ in quotes ('name="word"'), a list in brackets ('feature_dimensions=["complexity", "score"]')"""
        ) from None
