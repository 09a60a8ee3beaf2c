"""The command line: each command parses its arguments and calls one function of the rooms above. One module a group."""

from progevo.cli import comparisons, machine, pages, programs, runs, tasks
from progevo.cli.group import main

__all__ = ["comparisons", "machine", "main", "pages", "programs", "runs", "tasks"]
