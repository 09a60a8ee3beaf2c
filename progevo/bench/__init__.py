"""What `progevo bench` measures: a search's own thinking, and the sandbox."""

from __future__ import annotations

from progevo.bench.display import can_plot, plot, sandbox_lines
from progevo.bench.sandbox import bench_sandbox
from progevo.bench.search import bench_search

__all__ = ["bench_sandbox", "bench_search", "can_plot", "plot", "sandbox_lines"]
