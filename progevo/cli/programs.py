"""Commands about programs and what became of them: show, best, eval, gate, tasks."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from progevo.cli.group import bytes_of, data_option, json_option, main, show, source_of, task_option
from progevo.cli.problems import problem_options
from progevo.cli.sessions import domain_of
from progevo.errors import ConfigError, RunError
from progevo.show import node_facts, node_lines, outcome_facts, reply_facts, reply_lines, result_lines, usage_lines

if TYPE_CHECKING:
    from progevo.record import Record


@main.command("show", short_help="A run's result, or one node of it.")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("node", type=int, required=False)
@click.option("--diff", "differs", is_flag=True, help="What the node changed of its parent's program.")
@click.option("--replies", is_flag=True, help="What the model channel did: every reply, and how many were damaged.")
@json_option
def show_run(path: Path, node: int | None, differs: bool, replies: bool, as_json: bool) -> None:
    """A run's result, or one NODE of it, or its replies: PATH is a run folder or a result.json."""
    from progevo.journal import read_run
    from progevo.result import FILE, read_result

    folder = path.parent if os.path.isfile(path) else path
    if node is not None:
        record = read_run(folder)
        if not 0 <= node < len(record.nodes):
            told = f"its nodes are 0 to {len(record.nodes) - 1}" if record.nodes else "it holds no scored program"
            raise RunError(f"there is no node {node} in {path}; {told}")
        if differs:
            _show_difference(record, node, as_json)
            return
        found = node_facts(record, node)
        show(found, as_json, lambda: node_lines(found))
    elif differs:
        raise ConfigError("--diff shows what one node changed: name the node (progevo show RUN NODE --diff)")
    elif replies:
        channel = reply_facts(read_run(folder))
        show(channel, as_json, lambda: reply_lines(channel))
    elif path == folder and not os.path.exists(path / FILE):
        record = read_run(path)
        state = "it runs, or was killed" if record.stop_reason is None else f"it ended: {record.stop_reason}"
        facts = {"nodes": len(record.nodes), "stop_reason": record.stop_reason, "result": None}
        show(facts, as_json, lambda: [f"{path} has {len(record.nodes)} nodes and no {FILE}: {state}"])
    else:
        result = read_result(path / FILE if path == folder else path)
        show(result, as_json, lambda: result_lines(result))


def _show_difference(record: Record, node: int, as_json: bool) -> None:
    """Coloured on a terminal, plain elsewhere."""
    from progevo.report.difference import difference

    colours = {"new": "green", "gone": "red", "place": "cyan"}
    lines = difference(record, node)
    facts = {"node": node, "parent": record.nodes[node].parent, "lines": [line for _, line in lines]}
    show(facts, as_json, lambda: [click.style(line, fg=colours.get(kind)) for kind, line in lines] or ["the same text"])


@main.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Write it there instead of to stdout.")
def best(folder: Path, out: Path | None) -> None:
    """The best program of a run so far, on stdout."""
    from progevo.files import write_file
    from progevo.journal import read_run

    program = read_run(folder).best_node().candidate.program
    assert program is not None
    source = program.source.encode("utf-8", "surrogatepass")
    if out is not None:
        write_file(out, source)
    else:
        click.echo(source, nl=False)


@main.command("eval", short_help="One program through gate, sandbox and score.")
@click.argument("file", type=click.Path(path_type=Path))
@task_option
@problem_options
@data_option
@json_option
def evaluate_file(
    file: Path, task: str | None, data: Path | None, options: dict[str, Any] | None, as_json: bool
) -> None:
    """One program through gate, sandbox and score, on the search part. Exits with 1 unless its outcome is ok."""
    from progevo.domain import SEARCH
    from progevo.evaluate import evaluate
    from progevo.sandbox.probe import open_sandbox
    from progevo.types import Candidate, Program

    domain = domain_of(task, data, options)
    program = Program(source_of(file))
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
    show(found, as_json, lambda: [f"{outcome.status}: {value}", *usage_lines(outcome)])
    sys.exit(0 if outcome.ok else 1)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--task", default="s3e1", show_default=True, help="The task by whose policy the program is judged.")
@problem_options
@data_option
@json_option
def gate(file: Path, task: str, data: Path | None, options: dict[str, Any] | None, as_json: bool) -> None:
    """What the gate finds in a program, line by line. Exits with 1 if it is refused."""
    from progevo.gate import check

    domain = domain_of(task, data, options)
    verdict = check(bytes_of(file), domain.gate, domain.entrypoint, domain.other_entrypoints)
    findings = [{"line": found.line, "rule": found.rule, "message": found.message} for found in verdict.findings]
    lines = [f"{file}:{found['line'] or 1}: {found['rule']}: {found['message']}" for found in findings]
    show({"ok": verdict.ok, "findings": findings}, as_json, lambda: lines or [f"{file}: passes"])
    sys.exit(0 if verdict.ok else 1)


@main.command()
@json_option
def tasks(as_json: bool) -> None:
    """The tasks that --task can name."""
    from progevo.domain import task_names

    names = task_names()
    show(names, as_json, lambda: [f"{name:<24} {about}" for name, about in names.items()])
