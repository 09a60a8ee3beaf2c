"""The command that compares runs, and makes them where they are not there: compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from progevo.cli.group import data_option, executor_option, json_option, main, show, task_option
from progevo.cli.problems import check_no_run, check_same, going_on, problem_options, the_problem
from progevo.cli.sessions import begin_or_go_on, domain_of_settings
from progevo.errors import ConfigError


@main.command(short_help="Searches at equal budgets.")
@click.argument("folders", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path))
@task_option
@click.option("--search", "searches", multiple=True, help="A search to run and compare; given again for each.")
@click.option("--seeds", type=int, help="Seeds 0, 1, ... for each search.  [default: 3]")
@click.option("--iterations", type=int, help="Candidates to propose in each run.  [default: 40]")
@click.option("--max-evaluations", type=int, help="Candidates run in the sandbox, the same for each run.")
@click.option("--workers", type=int, help="Candidates in flight at a time.  [default: 1]")
@click.option("--schedule", help="serial, ordered, sync or async.")
@click.option("--proposer", help="Who writes candidates.  [default: mutate]")
@executor_option
@click.option("--out", type=click.Path(path_type=Path), help="Where the runs go.  [default: under runs/]")
@click.option("--html", type=click.Path(path_type=Path), help="Also write the comparison as a page.")
@problem_options
@data_option
@json_option
def compare(
    folders: tuple[Path, ...],
    task: str | None,
    searches: tuple[str, ...],
    seeds: int | None,
    out: Path | None,
    html: Path | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Compare finished runs (RUN...), or run searches for it (--task T --search A --search B --seeds K).

    Median and spread over seeds, and paired differences. Unequal budgets are refused. With the --out of a comparison
    that was cut short, it goes on.
    """
    from progevo.compare import compare as measure
    from progevo.compare import compare_lines
    from progevo.files import check_place

    given = [name for name, value in flags.items() if value is not None]
    if folders and (task or searches or seeds is not None or out or given):
        raise ConfigError("compare takes runs that are there, or --task and --search to make them, not both")
    if not folders and task is None and not searches:
        raise ConfigError(
            "there is nothing to compare; name runs (progevo compare RUN RUN), or --task, and a --search for each"
        )
    if html is not None:
        check_place(html)
    made = folders or tuple(_runs_to_compare(task, searches, 3 if seeds is None else seeds, out, flags))
    found = measure(made)
    if html is not None:
        from progevo.compare import named
        from progevo.report.comparison import write_comparison

        write_comparison(html, found, named(made))
    show(found, as_json, lambda: compare_lines(found))


def _runs_to_compare(
    task: str | None, searches: tuple[str, ...], seeds: int, out: Path | None, flags: dict[str, Any]
) -> list[Path]:
    from progevo.compare import plan_runs
    from progevo.config import read_settings
    from progevo.plan import new_folder
    from progevo.search.catalogue import make_search

    flags["data"] = str(flags["data"]) if flags["data"] is not None else None
    settings = the_problem(read_settings(None, {**flags, "task": task}))
    for search in searches:  # a wrong word ends the comparison before the first run, not after it
        make_search(search, {}, 0)
    domain = domain_of_settings(settings)
    folder = out if out is not None else new_folder("compare", domain.name, 0)
    runs = [
        (replace(settings, search=search, seed=seed), path) for search, seed, path in plan_runs(searches, seeds, folder)
    ]
    check_no_run(folder, len(runs))
    for each, path in runs:
        check_same(each, path)
    with going_on(folder, [path for _, path in runs]):
        for each, path in runs:
            click.echo(f"{each.search}, seed {each.seed}: {path}", err=True)
            begin_or_go_on(each, path)
    return [path for _, path in runs]
