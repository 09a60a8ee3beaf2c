"""The boundary: running one program, confined, with nothing but its answer coming back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from progevo.types import Execution, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What confines the candidates of a run, as written into its result."""

    backend: str
    #: Which form of the backend: "cold" starts a fresh sandbox for every candidate.
    rung: str
    version: str
    kernel: str
    profile: str
    #: Limits that this host does not grant, by name, each with the reason.
    limits_refused: dict[str, Any]
    #: Who sums up CPU and memory over all processes: "cgroup v1", "cgroup v2", or the host's watch, which looks every
    #: tenth of a second.
    counted_by: str = "the watch"


class Sandbox(Protocol):
    """Runs programs in confinement. Safe to call from several threads; every call gets a sandbox of its own.

    A failing program is an `Execution` with its cause. A failing host is one too (`sandbox_lost`): the caller asks
    again. Raises nothing but `ConfigError` for a job that can never run (an input file that is not there).
    """

    @property
    def confinement(self) -> Confinement:
        """What confines a candidate here."""
        ...

    def run(self, job: Job, /) -> Execution:
        """How one run ended. When this returns, nothing of the sandbox is alive; or it was killed and does not end, and
        the run is `sandbox_lost` with a reason that names what is left.
        """
        ...

    def close(self) -> None:
        """Ends whatever still runs; those runs return `sandbox_lost`. Warns of what waited and does not end."""
        ...
