"""Commands that show a run or hand it on: report, view, export, plot."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

import click

from progevo.cli.group import json_option, main, show
from progevo.show import result_lines


@main.command(short_help="Write a run's result and page anew.")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@json_option
def report(folder: Path, opened: bool, as_json: bool) -> None:
    """Write result.json, best.py and report.html of a run anew from its journal, finished or not."""
    from progevo.report import write_page
    from progevo.run import report as write

    result = write(folder)
    page = write_page(folder)
    show(result, as_json, lambda: [*result_lines(result), f"page      {page}"])
    if opened:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            here = f"open {page} in one yourself, or look at it with progevo view {shlex.quote(str(folder))}"
            click.echo(f"no browser could be opened on this machine; {here}", err=True)


@main.command(short_help="A run's page, live.")
@click.argument("path", metavar="RUN|DIR", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), help="The port on 127.0.0.1.  [default: 7870, or a free one]")
def view(path: Path, port: int | None) -> None:
    """Show a run's page while the run goes on, or all runs of a folder, on 127.0.0.1 alone. Ends with an interrupt."""
    from progevo.report.serve import Viewer

    with Viewer(path, port) as viewer:
        click.echo(f"{viewer.address}  (interrupt to end)")
        with contextlib.suppress(KeyboardInterrupt):  # the way to end it
            viewer.serve_forever()


@main.command(short_help="Every candidate of a run as a row.")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--format", "form", default="jsonl", show_default=True, help="jsonl, csv or parquet.")
@click.option("--out", "-o", type=click.Path(path_type=Path), help="Write it there instead of to stdout.")
def export(folder: Path, form: str, out: Path | None) -> None:
    """Every candidate of a run as a row: status, values on search and test, cause, cost, metrics."""
    from progevo.report.export import export as write

    text = write(folder, form, out)
    if out is None:
        click.echo(text, nl=False)


@main.command(short_help="A run's progress as a picture.")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--out", "-o", required=True, type=click.Path(path_type=Path), help="The file: .png, .svg or .pdf.")
def plot(folder: Path, out: Path) -> None:
    """A run's progress as a picture for papers: candidates, failures, the best so far. Needs progevo[plot]."""
    from progevo.report.plot import plot as draw

    draw(folder, out)
