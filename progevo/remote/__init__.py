"""Running candidates elsewhere: in the processes of any `concurrent.futures.Executor`, on any machine.

What travels to a worker is an order: a task's name, the hash of its data, its options and limits, a program's text and
the split. What comes back is how the run ended, with the answer as it came over the wire. The worker has the task, the
data and a sandbox of its own (`worker`); gate, truth, scores and journal stay with the run, which sees no more than a
`Sandbox` (`elsewhere`). Everything that crosses is plain data (`order`).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Protocol

from progevo.remote.order import Assignment, Reply


class Crew(Protocol):
    """The workers behind an executor."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def executor(self) -> Executor:
        """Takes orders."""
        ...

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """What it raises in place of a result where a worker was lost: no fault of the order's."""
        ...

    def greet(self, assignment: Assignment, /) -> Mapping[str, Reply]:
        """What each worker that is there says to an assignment, by its name; at least one.

        Raises `ConfigError` where there is none.
        """
        ...

    def look(self) -> None:
        """Raises `SandboxUnavailable` where nobody is left who could do an order. Called all the time."""
        ...

    def close(self) -> None:
        """Lets go of it."""
        ...
