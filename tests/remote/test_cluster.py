"""Real Dask workers on loopback: the same result as here, whoever dies in the middle of it."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from progevo.errors import ConfigError, SandboxUnavailable
from progevo.journal import read_run
from progevo.remote import cluster, elsewhere
from progevo.run import resume, run
from tests.plain_run import lines, unmeasured
from tests.remote.loopback import (
    Scripted,
    descendants,
    is_alive,
    loopback,
    named,
    program,
    slow_program,
    slow_task,
    wait_until,
)

pytest.importorskip("distributed", reason="more machines are an extra: pip install 'progevo[dask]'")


def script(name: str, seconds: float) -> Scripted:
    """Five programs; the second one can be found, and takes its time."""
    return Scripted(
        [program(10), slow_program(20, name, seconds), program(30), "def solve(x):\n    1 / 0\n", program(5)]
    )


@pytest.fixture
def here(tmp_path):
    """What a run of `script` comes to on this machine: its journal, but for what was measured."""

    def lead(name: str, seconds: float):
        folder = tmp_path / "here"
        run(slow_task(), proposer=script(name, seconds), iterations=5, workers=2, out=folder)
        return unmeasured(folder)

    return lead


@pytest.mark.parametrize("nanny", [True, False], ids=["nanny", "no nanny"])
def test_a_worker_that_is_killed_in_the_middle_of_a_candidate_changes_nothing(tmp_path, here, nanny):
    name = f"pe-killed{nanny}"
    with loopback(tmp_path, 2, nanny=nanny) as dask, ThreadPoolExecutor(1) as executor:
        folder = tmp_path / "there"
        going = executor.submit(
            run, slow_task(), proposer=script(name, 3), iterations=5, workers=2, out=folder, executor=dask.word
        )
        wait_until(lambda: named(name) or going.done(), "the slow candidate")
        candidate = named(name)
        assert candidate is not None, going.result()
        worker = dask.worker_of(candidate)
        boxes = descendants(worker.pid)
        assert candidate in boxes
        assert len(boxes) > 1  # its sandbox, too
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, [worker, *boxes])), "the dead worker's sandboxes to be gone")
        result = going.result()
    assert unmeasured(folder) == here(name, 3)
    told = Counter(event["index"] for event in lines(folder) if event["event"] == "node")
    assert told == dict.fromkeys(range(6), 1)
    assert result["counts"]["sandbox_lost"] == 0
    assert result["sandbox"]["proof"]["orphan"] is True
    assert result["sandbox"]["rung"] == "warm"


def test_workers_that_are_stopped_leave_no_sandbox(tmp_path):
    with loopback(tmp_path, 2, nanny=True) as dask:
        run(slow_task(), proposer=Scripted([program(1)]), iterations=1, out=tmp_path / "run", executor=dask.word)
        stopped, killed = dask.workers
        boxes = [*descendants(stopped.pid), *descendants(killed.pid)]
        assert len(descendants(stopped.pid)) > 2  # it was greeted, and has a sandbox that waits
        assert len(descendants(killed.pid)) > 2
        stopped.terminate()
        # A nanny that is killed takes its worker with it.
        killed.kill()
        wait_until(lambda: not any(map(is_alive, boxes)), "every sandbox to be gone")


def test_a_run_that_loses_its_scheduler_stops_and_goes_on_elsewhere(tmp_path, here, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_S", 2.0)
    with loopback(tmp_path, 1, nanny=False) as dask, ThreadPoolExecutor(1) as executor:
        folder = tmp_path / "there"
        going = executor.submit(
            run, slow_task(), proposer=script("pe-alone", 3), iterations=5, workers=2, out=folder, executor=dask.word
        )
        wait_until(lambda: named("pe-alone") or going.done(), "the slow candidate")
        dask.scheduler.kill()
        with pytest.raises(
            SandboxUnavailable, match=r"the scheduler at dask://127\.0\.0\.1:\d+ is gone.*resume"
        ) as stop:
            going.result()
        assert stop.value.exit_code == 3
    record = read_run(folder)
    assert record.stop_reason == "sandbox_lost"
    assert record.open  # what was in flight is asked again
    assert all(node.outcome.status == "ok" for node in record.nodes)
    with pytest.raises(ConfigError, match="no Dask scheduler answers at dask://"):
        resume(folder, slow_task(), proposer=script("pe-alone", 3), executor=dask.word)
    resume(folder, slow_task(), proposer=script("pe-alone", 3), executor="local")
    nodes = [event for event in unmeasured(folder) if event["event"] == "node"]
    assert nodes == [event for event in here("pe-alone", 3) if event["event"] == "node"]


def test_a_run_whose_workers_are_all_gone_stops_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "NO_WORKER_S", 1.0)
    monkeypatch.setattr(cluster, "COUNT_S", 0.2)
    monkeypatch.setattr(elsewhere, "LOOK_UP_S", 0.1)
    with loopback(tmp_path, 1, nanny=False) as dask, ThreadPoolExecutor(1) as executor:
        going = executor.submit(
            run,
            slow_task(),
            proposer=Scripted([slow_program(1, "pe-last", 20)]),
            iterations=1,
            out=tmp_path / "run",
            executor=dask.word,
        )
        wait_until(lambda: named("pe-last") or going.done(), "the slow candidate")
        dask.workers[0].kill()
        with pytest.raises(SandboxUnavailable, match="has had no worker for 1 s"):
            going.result()
    assert list(read_run(tmp_path / "run").open) == [1]


def test_a_worker_that_would_score_by_something_else_is_refused_at_connect_and_when_it_comes_later(tmp_path):
    with loopback(tmp_path, 1, nanny=False) as dask, ThreadPoolExecutor(1) as executor:
        stop, folder = threading.Event(), tmp_path / "run"
        going = executor.submit(
            run,
            slow_task(),
            proposer=Scripted([slow_program(number, "pe-first", 2) for number in range(40)]),
            iterations=40,
            workers=2,
            out=folder,
            executor=dask.word,
            stop=stop,
        )
        wait_until(lambda: named("pe-first") or going.done(), "the slow candidate")
        late = dask.add_worker(nanny=False, SLOW_TASK_PROMPT="do something else")
        told = f"(?s)a worker of {dask.word} .*process {late.pid}.*  task: here [0-9a-f]+.*, there [0-9a-f]+"
        with pytest.raises(ConfigError, match=told):
            going.result()
        assert {node.outcome.status for node in read_run(folder).nodes} == {"ok"}
        with pytest.raises(ConfigError, match=f"(?s)process {late.pid}.*  task: here") as refused:
            run(slow_task(), proposer=script("pe-none", 0), out=tmp_path / "none", executor=dask.word)
        assert refused.value.exit_code == 2
        assert "evaluator" not in str(refused.value)  # which is the same there
        assert not (tmp_path / "none").exists()
