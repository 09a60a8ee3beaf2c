"""What `progevo bench` measures: a search's own thinking, and the sandbox."""

from __future__ import annotations

from progevo.bench.display import plot, sandbox_lines
from progevo.bench.sandbox import bench_sandbox
from progevo.bench.search import bench_search

__all__ = ["bench_sandbox", "bench_search", "plot", "sandbox_lines"]
