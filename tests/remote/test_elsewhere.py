"""The run's side: what it sends, what it makes of workers that differ or are lost, and what never leaves it."""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from progevo.domain import SEARCH, TEST, find_domain
from progevo.errors import ConfigError, SandboxUnavailable
from progevo.evaluate import job_of
from progevo.fingerprint import content_id, fingerprint, versions
from progevo.holdout import StillSealed, seal
from progevo.journal import read_run
from progevo.remote import cluster
from progevo.remote.elsewhere import Elsewhere
from progevo.remote.order import Greeting, Refusal, Reply, ended, plain
from progevo.run import resume, run
from progevo.types import Answer, Execution, Program
from tests.plain_run import CONFINEMENT, StandIn, unmeasured
from tests.plain_run import task as plain_task
from tests.remote.loopback import Scripted, program, slow_program, slow_task
from tests.remote.slow_task import QUESTIONS, TRUTH


def greeting(**changes: str) -> Reply:
    found = {**fingerprint(slow_task(), CONFINEMENT), **changes}
    return Reply(greeting=Greeting(worker="w, process 1", fingerprint=found, confinement=CONFINEMENT, proof={}))


def answered(number: float) -> Reply:
    return Reply(ended=ended(Execution(status="ok", answer=Answer(value=[number, number], arrays=((),)))))


@dataclass
class Crew:
    """Workers that say what is written down, one word after another; an exception is a worker's loss."""

    words: list = field(default_factory=list)
    greetings: dict = field(default_factory=lambda: {"w1": greeting(), "w2": greeting()})
    name: str = "the crew"
    lost: tuple = (BrokenExecutor, CancelledError, OSError)
    gone: bool = False
    closed: int = 0
    orders: list = field(default_factory=list)

    @property
    def executor(self):
        return self

    def greet(self, assignment, /):
        return self.greetings

    def look(self):
        if self.gone:
            raise SandboxUnavailable("nobody is left")

    def close(self):
        self.closed += 1

    def submit(self, function, order, /):
        self.orders.append(order)
        future: Future = Future()
        word = self.words.pop(0) if self.words else None
        if isinstance(word, BaseException):
            future.set_exception(word)
        elif word is not None:
            future.set_result(plain(word))
        return future


def away(crew: Crew) -> Elsewhere:
    return Elsewhere(crew, slow_task(), "auto")


JOB = job_of(slow_task(), Program(program(1)), SEARCH)


def test_what_travels_is_the_name_of_the_task_the_program_and_the_limits_as_plain_data():
    crew = Crew([answered(1)])
    away(crew).run(JOB)
    (order,) = crew.orders
    text = json.dumps(order)  # nothing in it but what JSON has
    reference, limits = slow_task().reference, JOB.limits
    assert order == {
        "assignment": {
            "version": versions()["progevo"],
            "task": reference.task,
            "content": content_id(slow_task()),
            "sha256": None,
            "data": None,
            "options": {},
            "limits": {name: getattr(limits, name) for name in order["assignment"]["limits"]},
            "form": "auto",
        },
        "fingerprint": fingerprint(slow_task(), CONFINEMENT),
        "split": SEARCH,
        "source": program(1),
    }
    assert not any(str(truth) in text for truth in TRUTH.values())
    assert str(QUESTIONS[SEARCH]) not in text


@pytest.mark.parametrize(
    "loss", [BrokenExecutor("x"), CancelledError(), OSError("comm closed"), TimeoutError("late")], ids=repr
)
def test_a_lost_worker_is_the_host_s_fault_and_no_score(loss):
    done = away(Crew([loss])).run(JOB)
    assert done.status == "sandbox_lost"
    assert type(loss).__name__ in done.reason
    assert done.answer is None


def test_what_is_no_loss_of_a_worker_is_not_taken_for_one():
    with pytest.raises(ZeroDivisionError):
        away(Crew([ZeroDivisionError()])).run(JOB)


def test_dask_s_own_words_for_a_lost_worker_are_known(tmp_path):
    distributed = pytest.importorskip("distributed", reason="an extra: pip install 'progevo[dask]'")
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError

    from tests.remote.loopback import loopback

    with loopback(tmp_path, 0, nanny=False) as dask:
        from progevo.remote.cluster import connect

        with closing(connect(dask.word)) as crew:
            killed = distributed.scheduler.KilledWorker("key", None, 3)
            for loss in (killed, CommClosedError("gone"), FutureCancelledError("key", "reason"), BrokenExecutor()):
                assert isinstance(loss, crew.lost), loss
            assert not isinstance(ImportError(), crew.lost)


def test_an_order_is_given_three_times_and_then_its_outcome_is_that_it_was_lost(tmp_path, monkeypatch):
    replies = [answered(0), *[OSError("gone")] * 2, answered(5), *[OSError("gone")] * 3, answered(0), answered(5)]
    crew = Crew(list(replies))
    monkeypatch.setattr("progevo.remote.elsewhere.connect", lambda word: crew)
    script = Scripted([program(5), program(6)])
    run(slow_task(), proposer=script, iterations=2, out=tmp_path / "r", executor="dask://there:1")
    seed, second, third = read_run(tmp_path / "r").nodes
    assert [seed.outcome.status, second.outcome.status, third.outcome.status] == ["ok", "ok", "sandbox_lost"]
    assert third.score == -float("inf")
    assert "OSError: gone" in third.outcome.reason
    assert [order["source"] for order in crew.orders][1:7] == [program(5)] * 3 + [program(6)] * 3
    assert crew.closed


def test_no_order_for_the_test_part_exists_before_the_end_of_the_search(tmp_path, monkeypatch):
    crew = Crew([answered(number) for number in (0, 5, 6, 0, 6)])
    monkeypatch.setattr("progevo.remote.elsewhere.connect", lambda word: crew)
    told: list[int] = []

    class Watch:
        def started(self, plan, record): ...
        def stopping(self, in_flight): ...
        def told(self, node, best):
            told.append(len(crew.orders))

        def testing(self, best):
            assert [order["split"] for order in crew.orders] == [SEARCH] * 3

    script = Scripted([program(5), program(6)])
    run(slow_task(), proposer=script, iterations=2, out=tmp_path / "r", executor="dask://there:1", progress=Watch())
    assert [order["split"] for order in crew.orders] == [SEARCH] * 3 + [TEST] * 2
    assert told == [1, 2, 3]
    sealed, lock = seal(slow_task())
    with pytest.raises(StillSealed):
        job_of(sealed, Program(program(1)), TEST)
    lock.open()
    assert job_of(sealed, Program(program(1)), TEST).split == TEST


def test_a_worker_that_differs_is_refused_with_the_list():
    crew = Crew(greetings={"w1": greeting(), "w2": greeting(**{"version.numpy": "0.9", "data": "other"})})
    with pytest.raises(ConfigError) as refused:
        away(crew)
    words = str(refused.value)
    assert words.startswith("w2 of the crew (w, process 1) would score by something else than this run:\n  data: here ")
    assert "\n  version.numpy: here " in words
    assert ", there 0.9\n" in words
    assert refused.value.exit_code == 2


def test_workers_whose_sandboxes_are_of_different_forms_are_refused():
    with pytest.raises(ConfigError, match=r"sandbox\.rung: here stand-in, there cold"):
        away(Crew(greetings={"w1": greeting(), "w2": greeting(**{"sandbox.rung": "cold"})}))


def test_a_worker_that_comes_later_and_differs_is_refused_before_it_scores():
    with pytest.raises(
        ConfigError, match=r"a worker of the crew \(w, process 1\).*\n  task: here [0-9a-f]+\.\.\., there x"
    ):
        away(Crew([greeting(task="x")])).run(JOB)


@pytest.mark.parametrize(("unconfined", "kind", "code"), [(True, SandboxUnavailable, 3), (False, ConfigError, 2)])
def test_a_worker_that_is_not_fit_ends_the_run_with_its_cause(unconfined, kind, code):
    refusal = Reply(refusal=Refusal(worker="w, process 1", reason="no bwrap here", unconfined=unconfined))
    for start in (lambda: away(Crew(greetings={"w2": refusal})), lambda: away(Crew([refusal])).run(JOB)):
        with pytest.raises(
            kind, match=r"of the crew \(w, process 1\) is not fit for this run: no bwrap here"
        ) as refused:
            start()
        assert refused.value.exit_code == code


def test_when_nobody_is_left_a_run_does_not_wait(monkeypatch):
    monkeypatch.setattr("progevo.remote.elsewhere.LOOK_UP_S", 0.01)
    crew = Crew()
    box = away(crew)
    threading.Timer(0.1, lambda: setattr(crew, "gone", True)).start()
    with pytest.raises(SandboxUnavailable, match="nobody is left"):
        box.run(JOB)


def test_workers_have_to_be_gone_for_a_while_as_it_was_seen(monkeypatch):
    """A run that has not looked for an hour, as its model was slow, does not take that for an hour without workers."""
    clock, there = [0.0], {"w1": 1}
    monkeypatch.setattr(cluster, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    crew = cluster.Cluster.__new__(cluster.Cluster)
    crew.name, crew._lock, crew._counted, crew._alone = "dask://there:1", threading.Lock(), 0.0, None
    crew._client = SimpleNamespace(status="running", nthreads=lambda: there)
    for seconds, workers in [(10, 1), (3600, 0), (3610, 0), (3800, 1), (3900, 0), (4100, 0), (4199, 0)]:
        clock[0], there = float(seconds), {"w1": 1} if workers else {}
        crew.look()
    clock[0] = 4206.0
    with pytest.raises(SandboxUnavailable, match="has had no worker for 300 s"):
        crew.look()


def test_a_run_that_is_given_up_waits_for_nobody():
    crew = Crew()
    box = away(crew)
    threading.Timer(0.1, box.close).start()
    assert box.run(JOB).status == "sandbox_lost"
    assert box.run(JOB).status == "sandbox_lost"
    assert len(crew.orders) == 1


@pytest.mark.parametrize("word", ["dask", "dask://", "dask://host", "dask://host:port", "ray://host:1", "loca", ""])
def test_a_word_that_names_no_executor_is_refused_without_a_trace(tmp_path, word):
    with pytest.raises(ConfigError, match="it is local, or dask://HOST:PORT"):
        run(slow_task(), executor=word, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_without_dask_the_refusal_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"pip install 'progevo\[dask\]'"):
        run(slow_task(), executor="dask://127.0.0.1:8786", out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_what_cannot_go_elsewhere_is_refused():
    with pytest.raises(ConfigError, match="was not found by find_domain"):
        run(plain_task(), executor="dask://there:1")
    with pytest.raises(ConfigError, match="one of your own cannot go there"):
        run(slow_task(), executor="dask://there:1", sandbox=StandIn())
    with ProcessPoolExecutor(1) as pool, pytest.raises(ConfigError, match="was not found by find_domain"):
        run(plain_task(), executor=pool)
    timed = find_domain("algotune")
    with pytest.raises(ConfigError, match="nothing else with them"):
        run(timed, executor="dask://there:1")
    with pytest.raises(ConfigError, match="takes several runs of a candidate"):
        run(replace(timed, exclusive=False), executor="dask://there:1")


def test_a_person_s_own_pool_of_processes_gives_the_same_result(tmp_path):
    """Deadlines, too, are kept by the sandbox, wherever it is."""
    domain = slow_task(stages=1)
    domain = replace(domain, limits=replace(domain.limits, wall_s=4.0))
    script = [program(1), slow_program(2, "pe-pool", 60), program(3)]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        settings = {"iterations": 3, "workers": 2}
        result = run(domain, proposer=Scripted(script), out=tmp_path / "there", executor=pool, **settings)
        assert pool.submit(int, "7").result() == 7
    run(domain, proposer=Scripted(script), out=tmp_path / "here", **settings)
    assert unmeasured(tmp_path / "there") == unmeasured(tmp_path / "here")
    assert (result["counts"]["ok"], result["counts"]["timeout"]) == (3, 1)
    resume(tmp_path / "there", domain, proposer=Scripted([*script, program(4)]), more=1)
    assert len(read_run(tmp_path / "there").nodes) == 5
