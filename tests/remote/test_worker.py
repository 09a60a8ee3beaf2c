"""A worker's side, in this process: what it finds for itself, what it refuses, and the sandboxes that it keeps."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from progevo import find_domain
from progevo.dataset import find_data
from progevo.domain import SEARCH
from progevo.errors import SandboxUnavailable
from progevo.fingerprint import fingerprint
from progevo.remote import worker
from progevo.remote.elsewhere import assignment
from progevo.remote.order import Order, Reply, execution, plain, value
from progevo.sandbox import Confinement
from progevo.types import Answer, Execution
from tests.remote.loopback import program, slow_task

CONFINEMENT = Confinement(backend="none", rung="stand-in", version="0", kernel="0", profile="stdlib", limits_refused={})


class Box:
    """A sandbox that says what it was asked."""

    confinement = CONFINEMENT

    def __init__(self) -> None:
        self.jobs: list = []
        self.closed = False

    def run(self, job, /):
        self.jobs.append(job)
        return Execution(status="ok", answer=Answer(value=job.program.source))

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def boxes(monkeypatch):
    """Every sandbox that the worker opens."""
    opened: list[Box] = []

    def open_sandbox(profile, form):
        opened.append(Box())
        return opened[-1]

    monkeypatch.setattr(worker, "open_sandbox", open_sandbox)
    monkeypatch.setattr(worker, "prove", lambda box, profile: {"write": True})
    yield opened
    worker.leave()


def greeted(domain) -> Reply:
    return value(Reply, worker.greet(plain(assignment(domain, "auto"))))


def order(domain, source: str) -> Order:
    expected = fingerprint(domain, CONFINEMENT)
    return Order(assignment=assignment(domain, "auto"), fingerprint=expected, split=SEARCH, source=source)


def test_a_worker_opens_its_sandbox_once_and_keeps_it(boxes):
    domain = slow_task()
    assert greeted(domain).greeting.fingerprint == fingerprint(domain, CONFINEMENT)
    assert greeted(domain).greeting.proof == {"write": True}
    for number in range(3):
        reply = value(Reply, worker.work(plain(order(domain, program(number)))))
        assert execution(reply.ended).answer.value == program(number)
    (box,) = boxes
    assert [job.split for job in box.jobs] == [SEARCH] * 3
    assert box.jobs[0].inputs == domain.evaluator.inputs(SEARCH)
    assert box.jobs[0].limits == domain.limits
    worker.leave()
    assert box.closed


def test_other_limits_options_or_forms_are_another_room_and_the_oldest_one_goes(boxes):
    domains = [replace(slow_task(), limits=replace(slow_task().limits, wall_s=1.0 + number)) for number in range(6)]
    for domain in domains[: worker.ROOMS]:
        greeted(domain)
    greeted(domains[0])  # was used again: the next one is the oldest
    for domain in domains[worker.ROOMS :]:
        greeted(domain)
    assert [box.closed for box in boxes] == [False, True, True, False, False, False]
    assert greeted(slow_task(stages=1)).greeting.fingerprint != greeted(slow_task()).greeting.fingerprint


def test_a_task_that_was_edited_is_found_anew(tmp_path):
    file = tmp_path / "mine.py"
    for number in (1, 2):
        file.write_text(Path(slow_task().reference.task).read_text().replace("7007.0", f"700{number}.0"))
        domain = find_domain(str(file))
        assert greeted(domain).greeting.fingerprint == fingerprint(domain, CONFINEMENT)


def test_limits_of_the_run_hold_there(boxes):
    domain = replace(slow_task(), limits=replace(slow_task().limits, wall_s=3.5))
    value(Reply, worker.work(plain(order(domain, program(1)))))
    assert boxes[0].jobs[0].limits.wall_s == 3.5


def test_a_worker_that_has_something_else_does_not_begin(boxes):
    asked = order(slow_task(), program(1))
    asked = replace(asked, fingerprint={**asked.fingerprint, "version.numpy": "0.1"})
    reply = value(Reply, worker.work(plain(asked)))
    assert reply.ended is None
    assert reply.greeting.fingerprint == fingerprint(slow_task(), CONFINEMENT)
    assert boxes[0].jobs == []


def test_another_progevo_is_refused_before_anything_else(boxes):
    told = replace(assignment(slow_task(), "auto"), version="0.0.1", task="no such task")
    refusal = value(Reply, worker.greet(plain(told))).refusal
    assert "the run's is 0.0.1" in refusal.reason
    assert not refusal.unconfined
    assert boxes == []


def test_a_task_that_is_not_there_is_refused(tmp_path):
    told = replace(assignment(slow_task(), "auto"), task=str(tmp_path / "gone.py"))
    assert "gone.py" in value(Reply, worker.greet(plain(told))).refusal.reason


def test_a_worker_without_a_sandbox_says_so(monkeypatch):
    def no_sandbox(profile, form):
        raise SandboxUnavailable("no bwrap")

    monkeypatch.setattr(worker, "open_sandbox", no_sandbox)
    refusal = greeted(slow_task()).refusal
    assert (refusal.reason, refusal.unconfined) == ("no bwrap", True)
    assert "process" in refusal.worker


def test_a_process_that_was_forked_from_one_with_threads_is_refused(monkeypatch):
    monkeypatch.setattr(worker._fork, "torn", True)
    assert "get_context('spawn')" in greeted(slow_task()).refusal.reason


def test_data_is_found_by_its_hash_in_the_worker_s_own_folder(tmp_path, monkeypatch):
    """Whatever the file is called there, and wherever the run has it."""
    content = b"1,2,3\n"
    sha256 = hashlib.sha256(content).hexdigest()
    monkeypatch.setenv("SLOW_TASK_DATA", sha256)
    monkeypatch.setenv("PROGEVO_DATA", str(tmp_path))
    told = assignment(find_domain(slow_task().reference.task, data=tmp_path / "mine.csv"), "auto")
    assert told.sha256 == sha256
    missing = value(Reply, worker.greet(plain(told))).refusal.reason
    assert sha256 in missing
    assert "$PROGEVO_DATA" in missing
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "other.csv").write_bytes(b"4,5,6\n")
    (tmp_path / "deep" / "theirs.csv").write_bytes(content)
    assert find_data(sha256) == tmp_path / "deep" / "theirs.csv"
    assert value(Reply, worker.greet(plain(told))).greeting is not None


def test_other_data_under_the_same_name_is_refused(monkeypatch):
    monkeypatch.setenv("SLOW_TASK_DATA", "aa" * 32)
    told = assignment(slow_task(), "auto")
    monkeypatch.setenv("SLOW_TASK_DATA", "bb" * 32)
    reason = value(Reply, worker.greet(plain(told))).refusal.reason
    assert "aa" * 32 in reason
    assert "bb" * 32 in reason
