"""The command line: each command parses its arguments and calls one function of the rooms above."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click

from progevo.errors import ConfigError, ProgevoError, RunError
from progevo.show import bench_search_lines, node_facts, node_lines, outcome_facts, result_lines, usage_lines, words

CONTEXT = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "PROGEVO"}


class Group(click.Group):
    """Turns progevo's own errors into one line on stderr and their exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ProgevoError as error:
            click.echo(f"progevo: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("progevo: interrupted", err=True)
            ctx.exit(130)


@click.group(cls=Group, context_settings=CONTEXT)
@click.version_option(package_name="progevo")
def main() -> None:
    """Evolve Python programs in a sandbox.

    Exit codes: 0 ok, 1 the question was answered no, 2 usage or configuration, 3 no sandbox, 4 the proposer failed,
    130 interrupted.
    """


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
task_option = click.option("--task", help="A task's name, folder or file (progevo tasks lists the built-in ones).")
data_option = click.option("--data", type=click.Path(path_type=Path), help="A data file in place of the task's own.")


@main.command(short_help="Search for a better program.")
@click.argument("search", required=False)
@task_option
@click.option("--iterations", type=int, help="Candidates to propose.  [default: 40]")
@click.option("--workers", type=int, help="Candidates in flight at a time.  [default: 1]")
@click.option("--seed", type=int, help="What every random draw derives from.  [default: 0]")
@click.option("--proposer", help="Who writes candidates: mutate, the offline mutator.  [default: mutate]")
@click.option("--sandbox", help="The form: auto, warm, pool or cold.  [default: auto]")
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
@click.option(
    "--config", type=click.Path(path_type=Path), help="A TOML file with the same settings; a YAML one of OpenEvolve's."
)
@click.option(
    "--openevolve",
    "pair_files",
    type=click.Path(path_type=Path),
    nargs=2,
    metavar="PROGRAM EVALUATOR",
    help="Instead of a task: OpenEvolve's initial_program.py and evaluator.py.",
)
@click.option("--drop-key", "drop", multiple=True, metavar="NAME", help="A key of that YAML file to leave aside.")
@data_option
@json_option
def run(
    out: Path | None,
    config: Path | None,
    pair_files: tuple[Path, Path] | None,
    drop: tuple[str, ...],
    as_json: bool,
    limits: tuple[str, ...],
    constants: tuple[str, ...],
    **flags: Any,
) -> None:
    """Search for a better program.

    SEARCH is era (Flat-PUCT tree search, the default), openevolve (islands), or one of the references to compare them
    with: best_of_n, random_parent and greedy.
    """
    from dataclasses import replace

    from progevo.config import apply_limits, read_settings
    from progevo.domain import find_domain
    from progevo.progress import open_progress
    from progevo.run import run as start

    if limits:
        flags["limits"] = dict(_limit(text) for text in limits)
    if constants:
        flags["constants"] = dict(_constant(text) for text in constants)
    flags["data"] = str(flags["data"]) if flags["data"] is not None else None
    pair, config = _pair(pair_files, config, drop, flags)
    settings = read_settings(config, flags, beneath=pair.settings if pair is not None else {})
    if pair is not None:
        domain = pair.domain
    else:
        domain = find_domain(settings.task, data=Path(settings.data) if settings.data is not None else None)
    domain = replace(domain, limits=apply_limits(domain.limits, settings.limits))
    progress = open_progress()
    extra: dict[str, Any] = {
        name: value for name, value in (("data", settings.data), ("limits", dict(settings.limits))) if value
    }
    if pair is not None:
        extra["ran_on"] = {"openevolve": dict(pair.origin)}
    with _draining() as stop:
        try:
            result = start(
                domain,
                search=settings.search,
                constants=settings.constants,
                proposer=settings.proposer,
                iterations=settings.iterations,
                workers=settings.workers,
                seed=settings.seed,
                sandbox=settings.sandbox,
                out=out,
                progress=progress,
                stop=stop,
                settings={**extra, "task": settings.task},
            )
        finally:
            progress.close()
    _print(result, as_json, lambda: result_lines(result))
    progress.done()
    if result["stop_reason"] == "interrupted":
        sys.exit(130)


@main.command(short_help="A run's result, or one node of it.")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("node", type=int, required=False)
@json_option
def show(path: Path, node: int | None, as_json: bool) -> None:
    """A run's result, or one NODE of it: PATH is a run folder or a result.json."""
    from progevo.journal import read_run
    from progevo.result import FILE, read_result

    folder = path if os.path.isdir(path) else path.parent
    if node is not None:
        record = read_run(folder)
        if not 0 <= node < len(record.nodes):
            told = f"its nodes are 0 to {len(record.nodes) - 1}" if record.nodes else "it holds no scored program"
            raise RunError(f"there is no node {node} in {path}; {told}")
        found = node_facts(record, node)
        _print(found, as_json, lambda: node_lines(found))
    elif path == folder and not os.path.exists(path / FILE):
        record = read_run(path)
        state = "it runs, or was killed" if record.stop_reason is None else f"it ended: {record.stop_reason}"
        facts = {"nodes": len(record.nodes), "stop_reason": record.stop_reason, "result": None}
        _print(facts, as_json, lambda: [f"{path} has {len(record.nodes)} nodes and no {FILE}: {state}"])
    else:
        result = read_result(path / FILE if path == folder else path)
        _print(result, as_json, lambda: result_lines(result))


@main.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Write it there instead of to stdout.")
def best(folder: Path, out: Path | None) -> None:
    """The best program of a run so far, on stdout."""
    from progevo.journal import read_run, write_file
    from progevo.result import best_of

    nodes = read_run(folder).nodes
    if not nodes:
        raise RunError(f"{folder} holds no scored program yet")
    program = best_of(nodes).candidate.program
    assert program is not None
    source = program.source.encode("utf-8", "surrogatepass")
    if out is not None:
        write_file(out, source)
    else:
        click.echo(source, nl=False)


@main.command("eval", short_help="One program through gate, sandbox and score.")
@click.argument("file", type=click.Path(path_type=Path))
@task_option
@data_option
@json_option
def evaluate_file(file: Path, task: str | None, data: Path | None, as_json: bool) -> None:
    """One program through gate, sandbox and score, on the search part. Exits with 1 unless its outcome is ok."""
    from progevo.domain import SEARCH
    from progevo.evaluate import evaluate
    from progevo.sandbox.probe import open_sandbox
    from progevo.types import Candidate, Program

    domain = _domain(task, data)
    program = Program(_source(file))
    with closing(open_sandbox(domain.profile, "cold")) as box:
        outcome = evaluate(domain, Candidate(program=program, origin=str(file)), SEARCH, box)
    metric = domain.metric
    found = {
        "task": domain.name,
        "data": domain.data.source,
        "program": program.id,
        "metric": {"name": metric.name, "direction": metric.direction, "unit": metric.unit},
        "search": metric.value(outcome.score) if outcome.ok else None,
        **outcome_facts(outcome),
    }
    value = (
        f"{metric.name} {found['search']:.6f} on the search part, {domain.data.source}"
        if outcome.ok
        else outcome.reason
    )
    _print(found, as_json, lambda: [f"{outcome.status}: {value}", *usage_lines(outcome)])
    sys.exit(0 if outcome.ok else 1)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", default="s3e1", show_default=True, help="The task by whose policy the program is judged.")
@json_option
def gate(file: Path, task: str, as_json: bool) -> None:
    """What the gate finds in a program, line by line. Exits with 1 if it is refused."""
    from progevo.gate import check

    domain = _domain(task, None)
    verdict = check(_bytes(file), domain.gate, domain.entrypoint)
    findings = [{"line": found.line, "rule": found.rule, "message": found.message} for found in verdict.findings]
    lines = [f"{file}:{found['line'] or 1}: {found['rule']}: {found['message']}" for found in findings]
    _print({"ok": verdict.ok, "findings": findings}, as_json, lambda: lines or [f"{file}: passes"])
    sys.exit(0 if verdict.ok else 1)


@main.command()
@json_option
def tasks(as_json: bool) -> None:
    """The tasks that --task can name."""
    from progevo.domain import task_names

    names = task_names()
    _print(names, as_json, lambda: [f"{name:<24} {about}" for name, about in names.items()])


@main.command(short_help="Whether this host can run candidates.")
@click.option("--profile", default="tabular", show_default=True, help="The sandbox profile to try.")
@click.option("--sandbox", default="auto", show_default=True, help="The form to try: auto, warm, pool or cold.")
@click.option("--prove", is_flag=True, help="Attack the sandbox and see that it holds, as every run does first.")
@json_option
def doctor(profile: str, sandbox: str, prove: bool, as_json: bool) -> None:
    """Whether this host can run candidates: tries the sandbox, and says what to do where it cannot."""
    from progevo.doctor import examine

    found = examine(profile, sandbox, prove=prove)
    _print(found, as_json, lambda: [f"{name:<12} {words(value)}" for name, value in found.items()])
    sys.exit(0 if found["sandbox"] == "works" else 3)


@main.group()
def data() -> None:
    """Data sets of the built-in tasks."""


@data.command("get", short_help="Fetch the data set of a task once.")
@click.argument("name")
@click.option("--from", "source", type=click.Path(path_type=Path), help="Take this file instead of downloading.")
@click.option("--url", help="Download from here instead; the checksum stays the same.")
def get_data(name: str, source: Path | None, url: str | None) -> None:
    """Fetch the data set of task NAME once, check it, and keep it for later runs."""
    from progevo.dataset import get
    from progevo.domain import load_task

    dataset = getattr(load_task(name), "DATASET", None)
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
    """What one ask and tell cost after so many nodes: Flat PUCT beside a plain transcription of its formula, the
    islands beside OpenEvolve's own database, where that is installed."""
    from progevo.bench import bench_search as measure

    found: dict[str, Any] = measure(sizes or None)
    _print(found, as_json, lambda: bench_search_lines(found))


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
    from progevo.bench import plot, sandbox_lines

    settings: dict[str, Any] = {"quick": quick, "rounds": rounds, "soak_count": soak_count}
    if profiles:
        settings["profiles"] = profiles
    found = measure(**settings, say=lambda line: click.echo(line, err=True))
    if picture is not None:
        plot(found, picture)
    _print(found, as_json, lambda: sandbox_lines(found))


@contextmanager
def _draining() -> Iterator[threading.Event]:
    """An event that the first interrupt sets; the second interrupt is a `KeyboardInterrupt`."""
    stop = threading.Event()

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pair(
    files: tuple[Path, Path] | None, config: Path | None, drop: tuple[str, ...], flags: dict[str, Any]
) -> tuple[Any, Path | None]:
    """OpenEvolve's pair, if there is one, and the TOML file that is left."""
    is_yaml = config is not None and config.suffix in (".yaml", ".yml")
    if files is None:
        if is_yaml or drop:
            raise ConfigError("a YAML configuration and --drop-key belong to --openevolve PROGRAM EVALUATOR")
        return None, config
    if flags["task"] is not None or flags["data"] is not None:
        raise ConfigError("--openevolve names the task: leave out --task and --data")
    from progevo.openevolve import read_pair

    pair = read_pair(*files, configuration=config if is_yaml else None, drop=drop)
    return pair, None if is_yaml else config


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ConfigError(f"--limit takes NAME=NUMBER, such as wall_s=30; it was given {text!r}") from None


def _constant(text: str) -> tuple[str, Any]:
    import tomllib

    name, _, value = text.partition("=")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        raise ConfigError(
            "--set takes NAME=VALUE, the value as in TOML, such as population_size=500 or"
            f""" 'feature_dimensions=["complexity", "score"]'; it was given {text!r}"""
        ) from None


def _domain(task: str | None, data: Path | None) -> Any:
    from progevo.domain import find_domain

    if task is None:
        raise ConfigError("no task was named; add --task NAME (progevo tasks lists them)")
    return find_domain(task, data=data)


def _source(file: Path) -> str:
    return _bytes(file).decode("utf-8", "surrogateescape")


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"the program {file} cannot be read: {error.strerror}") from None


def _print(found: Any, as_json: bool, lines: Callable[[], list[str]]) -> None:
    click.echo(json.dumps(found, allow_nan=False, indent=2) if as_json else "\n".join(lines()))


if __name__ == "__main__":
    main()
