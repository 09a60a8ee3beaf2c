"""A stand-in for the framework of AlgoTune, as far as its tasks ask for it: `AlgoTuneTasks.base` with two names.

This file is trusted, stands alone, and runs in two places: in the host's process that has the trusted task, and, with
the text of a task behind it, as the reference program that candidates are compared with. A candidate gets neither.

Every task there imports nothing else of the framework: `from AlgoTuneTasks.base import register_task, Task`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

#: By name, what tasks have registered.
REGISTRY: dict[str, type] = {}


class Task:
    """What a task is a subclass of."""

    def __init__(
        self,
        n: int | None = None,
        dataset_size: int | None = None,
        target_time_ms: int | None = None,
        data_dir: str | None = None,
        **options: Any,
    ) -> None:
        names = [name for name, known in REGISTRY.items() if known is type(self)]
        self.task_name = names[0] if names else type(self).__name__
        self.n, self.dataset_size, self.target_time_ms, self.data_dir = n, dataset_size, target_time_ms, data_dir
        self.k = None
        self.oracle = self.solve  # type: ignore[attr-defined]


def register_task(name: str) -> Any:
    """A decorator that writes a task into `REGISTRY`."""

    def register(task: type) -> type:
        REGISTRY[name] = task
        return task

    return register


def task(argument: list[str]) -> Any:
    """A new object of the task in a file, by its name; the file is run once."""
    file, name = argument
    if not REGISTRY:
        run(Path(file).read_text("utf-8"), file)
    return chosen(name)()


def run(source: str, file: str) -> None:
    """Runs the text of a task, which registers itself."""
    package, base = ModuleType("AlgoTuneTasks"), ModuleType("AlgoTuneTasks.base")
    package.__path__ = []
    package.base = base  # type: ignore[attr-defined]
    base.Task, base.register_task = Task, register_task  # type: ignore[attr-defined]
    module = ModuleType("algotune_task")
    module.__file__ = file
    sys.modules.update({"AlgoTuneTasks": package, "AlgoTuneTasks.base": base, "algotune_task": module})
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)


def chosen(name: str) -> type:
    """The task of a name; some register under another one than that of their folder, then the only one there is."""
    if name not in REGISTRY and len(REGISTRY) != 1:
        raise LookupError(f"it registers {', '.join(sorted(REGISTRY)) or 'nothing'}, and no {name}")
    return REGISTRY[name] if name in REGISTRY else next(iter(REGISTRY.values()))
