"""Where jobs run: any `concurrent.futures.Executor`; here, threads."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor


def open_executor(workers: int, purpose: str) -> Executor:
    """An executor for `workers` jobs at a time. Threads are enough: every candidate is a process tree of its own."""
    return ThreadPoolExecutor(max_workers=workers, thread_name_prefix=f"progevo-{purpose}")
