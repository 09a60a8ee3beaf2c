"""A black box answers and counts outside; what a candidate does to its end of it changes nothing for anybody else."""

from __future__ import annotations

import math
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.errors import ConfigError
from progevo.sandbox import answerer, blackbox
from progevo.sandbox.answerer import Answerer, program_of
from progevo.sandbox.profile import load_profile
from progevo.types import BlackBox, Inputs, Job, Limits, Program

FUNCTIONS = Path(__file__).with_name("plain_functions.py")
#: Among the parameters, and never in an answer.
NEEDLE = "depth-of-the-beauty"

#: What a candidate can do with its socket, found among its descriptors or in the harness's own object.
HOSTILE = {
    "garbage": "box._channel.sendall(b'\\xff' * 1000)",
    "half a question": "box._channel.sendall(b'\\x00\\x00\\x00')",
    "a question that announces gigabytes": "box._channel.sendall(struct.pack('=II', 0, 2**32 - 1) + bytes(1000))",
    "a question of no points": "box._channel.sendall(struct.pack('=II', 0, 0))",
    "a problem that is not there": "box._channel.sendall(struct.pack('=IIdd', 7, 1, 0.0, 0.0))",
    "closed at once": "box._channel.close()",
    "deaf: questions without end, replies never read": """
    box._channel.settimeout(0.5)
    try:
        while True:
            box._channel.sendall(struct.pack('=IIdd', 0, 1, 0.0, 0.0) * 500)
    except OSError:
        pass""",
    "children that write at once": """
    for _ in range(4):
        if os.fork() == 0:
            try:
                for _ in range(300):
                    box._channel.sendall(struct.pack('=IIdd', 1, 1, 0.0, 0.0))
            finally:
                os._exit(0)
    time.sleep(0.3)""",
    "children that outlive it": """
    if os.fork() == 0:
        os.setsid()
        while True:
            f(0, 0)""",
    "it ends without a word": "f(0, 0); os._exit(0)",
}


def hostile(attack: str) -> str:
    return f"""
import os, struct, time
def solve(box):
    f = box.problem(0)
    {attack.strip()}
    return 'done'
"""


def test_honest_calls_are_answered_and_counted_for_each_problem(arm):
    source = """
def solve(box):
    f, g = box.problem(0), box.problem(1)
    return [f(4.0, 3), f(9, 1.0), g(1.0, 1.0)]
"""
    done = arm.one(source, problems=[100.0, 200.0])
    assert done["value"] == [106.0, 103.0, 201.0]
    assert done["counts"] == [[2, 0], [1, 0]]


def test_one_call_beyond_the_budget_raises_and_ends_nothing_else(arm):
    source = """
def solve(box):
    f, g = box.problem(0), box.problem(1)
    values = [f(1, n) for n in range(5)]
    try:
        f(1, 5)
    except Exception as error:
        values.append(type(error).__name__)
    return [*values, g(1, 7)]
"""
    jobs = [{"source": source, "problems": [0.0, 10.0], "budget": budget} for budget in (5, 6)]
    held, twin = arm.run(*jobs)
    assert held["value"] == [0, 1, 2, 3, 4, "BudgetSpent", 17]
    assert held["counts"] == [[5, 1], [1, 0]]
    assert twin["value"] == [0, 1, 2, 3, 4, 17]


def test_where_a_function_has_no_value_it_is_nan(arm):
    attack = "def solve(box):\n values = [box.problem(0)(x, 1) for x in (-9, -3)]\n return [v != v for v in values]"
    done = arm.one(attack, problems=[0.0])
    assert done["value"] == [True, True]
    assert done["counts"] == [[2, 0]]


def test_each_element_of_an_array_is_a_call(arm):
    source = """
import numpy as np
def solve(box):
    f = box.problem(0)
    grid = np.arange(9000.0).reshape(3, 3000)
    whole = f(grid, 2.0)
    try:
        f(np.ones(1001), 1.0)  # one more than is left
    except Exception as error:
        refused = type(error).__name__
    return [whole.shape == grid.shape, bool((whole == 1 + np.sqrt(grid) * 2).all()), refused, f(np.float64(1), 1)]
"""
    done = arm.one(source, profile="numeric", problems=[1.0], budget=10_000)
    assert done["value"] == [True, True, "BudgetSpent", 2.0]
    assert done["counts"] == [[9001, 1001]]


def test_what_one_candidate_does_to_its_end_reaches_no_other(arm):
    honest = {"source": "def solve(box): return box.problem(0)(1, 2)", "problems": [10.0]}
    jobs = []
    for attack in HOSTILE.values():
        jobs += [{"source": hostile(attack), "problems": [0.0, 0.0], "limits": {"wall_s": 60.0}}, honest]
    executions = arm.run(*jobs)
    for name, attacked, after in zip(HOSTILE, executions[::2], executions[1::2], strict=True):
        assert after["value"] == 12.0, name
        assert after["counts"] == [[1, 0]], name
        expected = "crashed" if name == "it ends without a word" else "ok"
        assert attacked["status"] == expected, (name, attacked["reason"])
        assert attacked["counts"] is None or all(calls <= 100 for calls, _ in attacked["counts"]), name


def test_a_flood_is_counted_to_the_budget_and_no_further(arm):
    deaf = arm.one(hostile(HOSTILE["deaf: questions without end, replies never read"]), problems=[0.0])
    [[calls, refused]] = deaf["counts"]
    assert calls == 100
    assert refused > 0


def test_what_each_problem_cost_is_told_from_outside_whatever_the_candidate_s_clocks_say(arm):
    source = """
import time
now = time.process_time
time.process_time = time.perf_counter = time.monotonic = lambda: 0.0
def solve(box):
    for number, span in enumerate([0.0, 0.5, 0.1]):
        box.problem(number)(1.0, 1.0)
        end = now() + span
        while now() < end:
            pass
        box.hand_in(number, number + 0.5)
    return box.problem(2)(1.0, 1.0)  # the turns are over
"""
    asked = {"problems": [0.0] * 4, "in_turn": True, "limits": {"processes": 1}}
    done = arm.one(source, **asked)
    assert (done["status"], "answers no more" in done["reason"]) == ("crashed", True)
    done = arm.one(source.replace("return box.problem(2)(1.0, 1.0)", "return 'done'"), **asked)
    assert done["counts"] == [[1, 0], [1, 0], [1, 0], [0, 0]]
    values, spent = zip(*done["handed_in"], strict=True)
    assert values == (0.5, 1.5, 2.5, None)
    assert spent[3] is None
    assert 0.45 < spent[1] < 1.5
    assert 0.05 < spent[2] < 0.45
    assert spent[0] < 0.45  # the start of the program with it


def test_the_parameters_are_nowhere_in_reach(arm):
    """The candidate looks through all it can read. Its twin was told the same words in its request, and finds them."""
    attack = """
import os
def solve(box):
    needle = b'ytuaeb-eht-fo-htped'[::-1]  # spelt so that the program does not hold it
    outside = int(box.problem(0)(-1, 0))
    found = [name for name in ('mem', 'fd') if os.path.exists(f'/proc/{outside}/{name}')]
    try:
        os.kill(outside, 0)
        found.append('a signal')
    except ProcessLookupError:
        pass
    memory = open('/proc/self/mem', 'rb')
    for line in open('/proc/self/maps'):
        start, end = (int(place, 16) for place in line.split()[0].split('-'))
        try:
            memory.seek(start)
            found += ['memory'] * (memory.read(end - start).count(needle) > 1)  # its own search holds it once
        except (OSError, ValueError, OverflowError):
            pass
    for top, _, names in (entry for place in ('/progevo', '/inputs', '/tmp') for entry in os.walk(place)):
        for name in names:
            text = open(os.path.join(top, name), 'rb').read()
            found += [name] * (needle in text or b'a secret, and how it shows' in text)
    return found
"""
    told = {"source": attack, "problems": [[0.0, NEEDLE]]}
    held, twin = arm.run(told, told | {"request": {"words": [NEEDLE, f" {NEEDLE}"]}})
    assert held["value"] == []
    assert "memory" in twin["value"]


def test_no_answering_process_is_left_behind(arm):
    pid = arm.one("def solve(box): return box.problem(0)(-1, 0)", problems=[0.0])["value"]
    assert not psutil.pid_exists(int(pid))


# ---- the answering process by itself


@pytest.fixture(scope="module")
def process():
    process = Answerer(program_of(box_of(0.0)), None)
    yield process
    process.close()


def box_of(*problems: float, budget: int = 50) -> BlackBox:
    return BlackBox(file=FUNCTIONS, problems=problems, arity=2, budget=budget)


@settings(max_examples=40, deadline=None)
@given(noise=st.lists(st.binary(max_size=60), max_size=6))
def test_whatever_bytes_come_it_counts_no_more_than_the_budget_and_serves_the_next(process, noise):
    with process.serve(box_of(0.0, budget=3)) as channel:
        try:
            for data in noise:
                channel.sendall(data)
        except OSError:
            pass
    [count] = process.found().counts
    assert count.calls <= 3
    with process.serve(box_of(1.0)) as channel:
        assert blackbox.BlackBox(channel, 2).problem(0)(4.0, 5.0) == 11.0
    [count] = process.found().counts
    assert (count.calls, count.refused) == (1, 0)


def test_a_question_in_pieces_is_one_question(process):
    with process.serve(box_of(1.0)) as channel:
        question = struct.pack("=IIdddd", 0, 2, 1.0, 2.0, 4.0, 3.0)
        for byte in question:
            channel.sendall(bytes([byte]))
        assert struct.unpack("=IIdd", channel.recv(24, socket.MSG_WAITALL)) == (0, 2, 3.0, 7.0)
    assert process.found().counts[0].calls == 2


def test_the_process_counts_its_own_time(process):
    with process.serve(box_of(1.0, 2.0, budget=5000)) as channel:
        f = blackbox.BlackBox(channel, 2).problem(1)
        for _ in range(5000):
            f(1.0, 1.0)
    idle, busy = process.found().counts
    assert idle.cpu_s == 0.0
    assert 0.0 < busy.cpu_s < 5.0


def in_turn(process: Answerer, *problems: float, candidate: int | None = None) -> socket.socket:
    """A talk in which problems have their turns, as the host begins it."""
    channel = process.serve(BlackBox(file=FUNCTIONS, problems=problems, arity=2, budget=50, in_turn=True))
    channel.sendall(blackbox.PID.pack(os.getpid() if candidate is None else candidate))
    return channel


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ask", "hand in"]), st.integers(0, 3)), max_size=12))
def test_a_problem_is_answered_in_its_turn_alone(process, steps):
    """Held against a model: the first step out of turn is the end of the talk, and what was handed in stands."""
    turn, values, over = 0, [None] * 3, False
    with in_turn(process, 1.0, 2.0, 3.0) as channel:
        box = blackbox.BlackBox(channel, 2)
        for word, number in steps:
            over = over or number != turn or turn == 3
            try:
                if word == "ask":
                    assert box.problem(number)(4.0, 5.0) == number + 11.0
                else:
                    box.hand_in(number, float(len(values) + turn))
                    values[turn] = float(len(values) + turn)
                    turn += 1
                assert not over
            except OSError:
                assert over
                break
    counts = process.found().counts
    assert [count.value for count in counts] == values
    assert [count.candidate_cpu_s is None for count in counts] == [value is None for value in values]


def test_what_a_problem_cost_the_candidate_is_read_from_outside(process):

    now, spans = time.process_time, [0.0, 0.3, 0.1]
    with in_turn(process, 1.0, 2.0, 3.0) as channel:
        box, used = blackbox.BlackBox(channel, 2), []
        for number, span in enumerate(spans):
            start = now()
            while now() < start + span:
                pass
            box.hand_in(number, 0.0)
            used.append(now() - start)
    found = [count.candidate_cpu_s for count in process.found().counts]
    assert found == pytest.approx(used, abs=0.05)  # the kernel tells hundredths


def test_a_candidate_that_is_gone_hands_nothing_in(process):
    with subprocess.Popen(["true"]) as gone:
        pass
    with in_turn(process, 1.0, candidate=gone.pid) as channel, pytest.raises(ConnectionError):
        blackbox.BlackBox(channel, 2).hand_in(0, 1.0)
    assert process.found().counts[0].value is None


class Ring(BaseException):
    pass


@pytest.mark.parametrize("points", [1, 3000])
def test_a_signal_in_the_middle_of_a_question_leaves_no_part_of_its_reply_behind(process, points):
    with process.serve(box_of(0.0, budget=10**9)) as channel:
        box = blackbox.BlackBox(channel, 2)
        f = box.problem(0)

        def ring(*_):
            if box._lock.locked():  # elsewhere it would tear at the test itself
                box.interrupt(Ring())

        before = signal.signal(signal.SIGALRM, ring)
        rings, number, end = 0, 0, time.monotonic() + 20
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            while rings < 50 and time.monotonic() < end:
                number += 1
                try:
                    if points == 1:
                        assert f(1.0, number) == number
                    else:
                        assert (f(1.0, np.full(points, float(number))) == number).all()
                except Ring:
                    rings += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
    assert rings == 50
    process.found()


def test_a_reply_that_was_not_read_to_its_end_is_the_last_one(process):
    """Whatever tore its reader away: what is left of it is nobody's answer."""
    with process.serve(box_of(1.0)) as channel:

        class Torn(socket.socket):
            def recv(self, size, flags=0):
                super().recv(5, flags)
                raise MemoryError

        f = blackbox.BlackBox(Torn(fileno=channel.detach()), 2).problem(0)
        with pytest.raises(MemoryError):
            f(4.0, 5.0)
        with pytest.raises(ConnectionError, match="not read to its end"):
            f(9.0, 5.0)
    process.found()


def test_a_process_that_died_is_an_error():
    process = Answerer(program_of(box_of(0.0)), None)
    with process.serve(box_of(1.0)):
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(OSError, match=r"died|reset"):
        process.found()
    process.close()


@pytest.mark.skipif(sys.platform != "linux", reason="Darwin has no such flags")
def test_it_cannot_be_looked_into(process):
    with process.serve(box_of(1.0)) as channel:
        blackbox.BlackBox(channel, 2).problem(0)(1.0, 1.0)
        facts = os.stat(f"/proc/{process.pid}/environ")
        assert facts.st_uid == 0  # what is not dumpable belongs to root, whoever runs it


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends by its socket, when it next looks")
def test_it_dies_with_its_host_even_while_it_computes():
    host = f"""
import sys, time
from pathlib import Path
from progevo.sandbox import blackbox
from progevo.sandbox.answerer import Answerer, program_of
from progevo.types import BlackBox
box = BlackBox(file=Path({str(FUNCTIONS)!r}), problems=(0.0,), arity=2, budget=9)
process = Answerer(program_of(box), None)
channel = process.serve(box)
blackbox.BlackBox(channel, 2).problem(0)(1.0, 1.0)
print(process.pid, flush=True)
blackbox.BlackBox(channel, 2).problem(0)(-2.0, 600.0)
"""
    with subprocess.Popen([sys.executable, "-c", host], stdout=subprocess.PIPE) as started:
        pid = int(started.stdout.readline())
        assert psutil.pid_exists(pid)
        started.kill()
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_run_without_a_black_box_starts_no_process(monkeypatch):
    monkeypatch.setattr(answerer, "Answerer", None)
    job = type("Job", (), {"inputs": Inputs()})
    with answerer.Answerers().asked(job) as talk:
        talk.end()
    assert talk.found == answerer.Found()


def test_problems_in_turn_need_a_candidate_of_one_process():
    """Another one's CPU would be on nobody's account."""
    box = BlackBox(file=FUNCTIONS, problems=(1.0,), arity=2, budget=9, in_turn=True)
    one = Job(
        program=Program("def solve(x): return 1"), entrypoint="solve", harness=FUNCTIONS, inputs=Inputs(black_box=box),
        limits=Limits(processes=1),
    )  # fmt: skip
    load_profile("stdlib").check(one)
    with pytest.raises(ConfigError, match="processes is 2; it must be 1"):
        load_profile("stdlib").check(replace(one, limits=Limits(processes=2)))


@pytest.mark.parametrize("error", [IndexError, KeyError, RecursionError, RuntimeError, ZeroDivisionError, ValueError])
def test_whatever_a_function_raises_is_no_value_and_ends_nothing(error):
    def f(x):
        raise error("at this point")

    problem = blackbox.Problem(f, 9)
    reply = problem.answer([(1.0,), (2.0,)])
    assert struct.unpack("=II2d", reply)[:2] == (blackbox.ANSWERED, 2)
    assert all(math.isnan(value) for value in struct.unpack("=II2d", reply)[2:])
    assert problem.calls == 2


def test_for_whoever_is_gone_nothing_more_is_computed():
    asked = []

    def f(x):
        asked.append(x)
        return 1.0

    problem = blackbox.Problem(f, 5000)
    with pytest.raises(OSError, match="nobody waits"):
        problem.answer([(float(n),) for n in range(4096)], lambda: len(asked) >= 100)
    assert 100 <= problem.calls == len(asked) < 100 + blackbox.GLANCE
