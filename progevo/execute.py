"""Where jobs run: in threads of this process, or by any `concurrent.futures.Executor` of a person's own."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, CancelledError, Executor, ThreadPoolExecutor

from progevo.sandbox import Confinement, Sandbox
from progevo.sandbox.outcome import clean
from progevo.types import Execution, Job

#: The word for this machine.
LOCAL = "local"
#: What an executor raises in place of a result where it lost a worker: no fault of the job's.
LOST = (BrokenExecutor, CancelledError)


def open_executor(workers: int) -> Executor:
    """An executor for `workers` jobs at a time. Threads are enough: every candidate is a process tree of its own."""
    return ThreadPoolExecutor(max_workers=workers, thread_name_prefix="progevo-judge")


class Handed:
    """A sandbox of this process whose runs are an executor's jobs. It is closed by whoever opened it."""

    def __init__(self, box: Sandbox, executor: Executor) -> None:
        self._box, self._executor = box, executor

    @property
    def confinement(self) -> Confinement:
        return self._box.confinement

    def run(self, job: Job) -> Execution:
        try:
            return self._executor.submit(self._box.run, job).result()
        except LOST as error:
            return lost(error)

    def close(self) -> None:
        self._box.close()  # its runs end


def lost(error: BaseException) -> Execution:
    """What is known of a run whose worker was lost: the host's fault, for which it is asked for again."""
    word = clean(str(error), 300)
    return Execution(
        status="sandbox_lost", reason=f"its worker was lost: {type(error).__name__}{f': {word}' if word else ''}"
    )
