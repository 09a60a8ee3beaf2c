"""The command line's frame: the root command, what commands share, and how errors become exit codes."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from progevo.errors import ConfigError, ProgevoError

CONTEXT = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "PROGEVO"}


class Group(click.Group):
    """Turns progevo's own errors into one line on stderr and their exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        # Also while a task is still being made: what was started for that ends with an exception, and not with a kill.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except ProgevoError as error:
            click.echo(f"progevo: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("progevo: interrupted", err=True)
            ctx.exit(130)
        finally:
            signal.signal(signal.SIGTERM, before)


@click.group(cls=Group, context_settings=CONTEXT)
@click.version_option(package_name="progevo")
def main() -> None:
    """Evolve Python programs in a sandbox.

    Exit codes: 0 ok, 1 the question was answered no, 2 usage or configuration, 3 no sandbox, 4 the proposer failed,
    130 interrupted.
    """


executor_option = click.option(
    "--executor", metavar="WHERE", help="Where candidates run: local or dask://HOST:PORT.  [default: local]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
task_option = click.option("--task", help="A task's name, folder or file (progevo tasks lists the built-in ones).")
data_option = click.option(
    "--data",
    "--algotune-root",
    "data",
    type=click.Path(path_type=Path),
    help="A data file or folder in place of the task's own; of algotune, your checkout.",
)


@contextmanager
def draining() -> Iterator[threading.Event]:
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


def source_of(file: Path) -> str:
    from progevo import complaint

    try:
        return bytes_of(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the program {file} cannot be read: {complaint.of_reading(error)}") from None


def bytes_of(file: Path) -> bytes:
    from progevo import complaint

    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"the program {file} cannot be read: {complaint.of_reading(error)}") from None


def show(found: Any, as_json: bool, lines: Callable[[], list[str]]) -> None:
    click.echo(json.dumps(found, allow_nan=False, indent=2) if as_json else "\n".join(lines()))
