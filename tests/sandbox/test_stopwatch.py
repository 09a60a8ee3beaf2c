"""A stopwatch times outside: whatever a candidate does to clocks or to its end of it, the time is what it was."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from progevo.sandbox import stopwatch
from progevo.sandbox.answerer import Answerer, Found, program_of
from progevo.types import BlackBox, Inputs, Stopwatch

#: What is timed, spelt so that no program holds it.
NEEDLE = "depth-of-the-beauty"
WATCH = {"warm_up": "first", "problem": NEEDLE}

#: Calls the clock as the harness does, and gives back what it was handed.
HONEST = """
def solve(clock):
    clock.ready()
    clock.give([clock.take()])
    clock.give([clock.take(), b'!'])
"""
PATCHED = """
import time
for name in ('perf_counter', 'monotonic', 'time', 'process_time', 'thread_time'):
    setattr(time, name, lambda: 0.0)
    setattr(time, name + '_ns', lambda: 0)
time.clock_gettime = lambda *_: 0.0
def solve(clock):
    clock.ready()
    clock.give([clock.take()])
    problem = clock.take()
    import select
    select.select([], [], [], 0.3)
    clock.give([problem])
"""
#: What a candidate can do with its socket.
HOSTILE = {
    "an answer before the question": "clock.ready(); clock.give([b'x']); clock.give([b'y']); return 0",
    "garbage": "clock._channel.sendall(b'\\xff' * 1000)",
    "closed at once": "clock._channel.close()",
    "it ends without a word": "clock.ready(); os._exit(0)",
    "an output that was never written": """
    clock.ready(); clock.give([clock.take()]); clock.take()
    clock._channel.sendall(struct.pack('=Q', 9) + b'x' * 50)
    return 0""",
    "children that write at once": """
    clock.ready(); clock.give([clock.take()]); clock.take()
    for _ in range(4):
        if os.fork() == 0:
            try:
                for _ in range(300):
                    clock._channel.sendall(bytes(16))
            finally:
                os._exit(0)
    time.sleep(0.3)
    return 0""",
}
#: The outputs that some of these can make it look as if they had given.
BLIND = {
    "an answer before the question": ["y", ""],
    "an output that was never written": ["\0" * 9],
    "children that write at once": [""],
}


def hostile(attack: str) -> str:
    return f"import os, struct, time\ndef solve(clock):\n    {attack.strip()}\n"


def test_the_output_and_its_time_come_from_outside(arm):
    done = arm.one(HONEST, watch=WATCH)
    [[ready_s, warm_up_s, call_s, output]] = done["timings"]
    assert output == NEEDLE + "!"
    assert 0 < ready_s < 10
    assert 0 < warm_up_s < 10
    assert 0 < call_s < 10


def test_a_patched_clock_changes_nothing(arm):
    [[_, _, call_s, _]] = arm.one(PATCHED, watch=WATCH)["timings"]
    assert 0.3 <= call_s < 10


def test_what_is_timed_is_nowhere_inside_before_the_clock_runs(arm):
    """The candidate looks through its memory and files; its twin was handed the same words to warm up with."""
    attack = """
import os
def solve(clock):
    needle = b'ytuaeb-eht-fo-htped'[::-1]
    found = []
    clock.ready()
    kept = clock.take()
    memory = open('/proc/self/mem', 'rb')
    for line in open('/proc/self/maps'):
        start, end = (int(place, 16) for place in line.split()[0].split('-'))
        try:
            memory.seek(start)
            found += ['memory'] * (memory.read(end - start).count(needle) > 1)  # its own search holds it once
        except (OSError, ValueError, OverflowError):
            pass
    for top, _, names in (entry for place in ('/progevo', '/inputs', '/tmp') for entry in os.walk(place)):
        found += [name for name in names if needle in open(os.path.join(top, name), 'rb').read()]
    clock.give([kept])
    clock.take()
    clock.give([str(found).encode()])
"""
    held, twin = arm.run(*({"source": attack, "watch": {**WATCH, "warm_up": words}} for words in ("first", NEEDLE * 2)))
    assert held["timings"][0][3] == "[]"
    assert "memory" in twin["timings"][0][3]


@pytest.mark.parametrize(
    ("attack", "word"),
    [
        ("time.sleep(60)", "its import took more than 0.5 s"),
        ("clock.ready(); time.sleep(60)", "its warm-up took more than 0.5 s"),
        ("clock.ready(); clock.give([clock.take()]); time.sleep(60)", "its timed call took more than 0.5 s"),
    ],
    ids=["import", "warm-up", "call"],
)
def test_whoever_is_too_slow_is_ended_at_once(arm, attack, word):
    caps = {"ready_s": 0.5, "warm_up_s": 0.5, "call_s": 0.5}
    # In the first case that is a program that has not finished its import: it does not say that it is ready.
    done = arm.one(hostile(attack), watch={**WATCH, **caps}, limits={"wall_s": 50.0})
    assert (done["status"], done["reason"]) == ("timeout", word)
    assert done["wall_s"] < 20


def test_an_output_that_is_too_long_is_refused_before_it_is_read(arm):
    attack = (
        "clock.ready(); clock.give([clock.take()]); clock.take(); clock._channel.sendall(struct.pack('=Q', 1 << 50))"
    )
    done = arm.one(hostile(f"{attack}; time.sleep(60)"), watch=WATCH, limits={"answer_bytes": 1000})
    assert done["status"] == "output_limit"
    assert f"{1 << 50} bytes; at most 1000" in done["reason"]


def test_what_one_candidate_does_to_its_end_reaches_no_other(arm):
    jobs = []
    for attack in HOSTILE.values():
        jobs += [{"source": hostile(attack), "watch": {**WATCH, "call_s": 2.0}}, {"source": HONEST, "watch": WATCH}]
    executions = arm.run(*jobs)
    for name, attacked, after in zip(HOSTILE, executions[::2], executions[1::2], strict=True):
        assert after["timings"][0][3] == NEEDLE + "!", name
        outputs = [output for _, _, _, output in attacked["timings"] or ()]
        # What was sent without having seen the problem may come in time, and be judged for what it is.
        assert outputs in ([], *([sent] for sent in BLIND.get(name, []))), name


# ---- the process by itself


@pytest.fixture(scope="module")
def process():
    process = Answerer(program_of(watch_of()), None)
    yield process
    process.close()


def watch_of(problem: bytes = b"second", **caps: float) -> Stopwatch:
    return Stopwatch(**{"warm_up": b"first", "problem": problem, "ready_s": 5, "warm_up_s": 5, "call_s": 5, **caps})


def honest(channel: socket.socket, answer: bytes = b"") -> list:
    """The inside of an honest call; what it was handed."""
    clock = stopwatch.Stopwatch(channel)
    clock.ready()
    seen = []
    for _ in range(2):
        seen.append(clock.take())
        clock.give([answer or bytes(seen[-1])])
    return seen


def test_megabytes_go_both_ways(process):
    problem = bytes(range(256)) * 20_000
    with process.serve(watch_of(problem)) as channel:
        assert list(map(bytes, honest(channel))) == [b"first", problem]
    [timing] = process.found().timings
    assert timing.output == problem


def test_the_time_runs_from_the_problem_to_the_last_byte_of_the_output(process):
    with process.serve(watch_of()) as channel:
        clock = stopwatch.Stopwatch(channel)
        time.sleep(0.1)
        clock.ready()
        clock.take()
        time.sleep(0.2)
        clock.give([b"1"])
        clock.take()
        os.write(clock._room, b"123")
        time.sleep(0.4)
        clock.give([b"4"])
        time.sleep(0.1)
    [timing] = process.found().timings
    assert timing.ready_s >= 0.09
    assert timing.warm_up_s >= 0.19
    assert timing.call_s >= 0.39
    assert timing.output == b"1"  # the length that was told


def test_what_has_been_handed_over_can_no_longer_be_changed(process):
    """The clock stops only when the memory of the output is sealed."""
    with process.serve(watch_of()) as channel:
        clock = stopwatch.Stopwatch(channel)
        clock.ready()
        clock.take()
        clock.give([b"1"])
        clock.take()
        kept = os.dup(clock._room)
        clock.give([b"early"])
        deadline = time.monotonic() + 10
        with contextlib.suppress(PermissionError):
            while time.monotonic() < deadline:  # until it is sealed
                os.pwrite(kept, b"early", 0)
        assert time.monotonic() < deadline
        os.close(kept)
    assert process.found().timings[0].output == b"early"


def test_an_output_that_stays_open_to_be_changed_is_refused(process):
    with process.serve(watch_of()) as channel:
        clock = stopwatch.Stopwatch(channel)
        clock.ready()
        clock.take()
        clock.give([b"1"])
        clock.take()
        with mmap.mmap(clock._room, 100) as shared:
            clock.give([b"early"])
            found = process.found()
            shared[:5] = b"later"
    assert found.stopped == ("bad_output", "its timed call has left its output open to be changed later")


def test_no_more_can_be_written_than_is_taken(process):
    with process.serve(watch_of(), 1000) as channel:
        clock = stopwatch.Stopwatch(channel)
        clock.ready()
        clock.take()
        with pytest.raises(PermissionError):
            clock.give([bytes(1001)])
    assert process.found() == Found()


@pytest.mark.parametrize("by_memory", [True, False])
def test_where_there_is_no_such_memory_it_goes_by_the_socket(monkeypatch, by_memory):
    monkeypatch.setattr(stopwatch, "BY_MEMORY", by_memory)
    stages = [stopwatch.Stage(name, 5.0) for name in ("import", "warm-up", "call")]
    problem, seconds = bytes(range(256)) * 4000, list[float]()
    parcels = [stopwatch.Parcel(data, 1 << 22) for data in (b"first", problem)]
    ours, theirs = socket.socketpair()
    seen: list = []
    with ours, theirs:
        inside = threading.Thread(target=lambda: seen.extend(map(bytes, honest(theirs))))
        inside.start()
        output = stopwatch.timed(ours, stages, parcels, seconds)
        inside.join()
    for parcel in parcels:
        parcel.close()
    assert seen == [b"first", problem]
    assert output == problem
    assert len(seconds) == 3


@pytest.mark.parametrize("by_memory", [True, False])
def test_one_whose_output_never_ends_is_stopped(monkeypatch, by_memory):
    monkeypatch.setattr(stopwatch, "BY_MEMORY", by_memory)
    parcel = stopwatch.Parcel(b"problem", 1 << 22)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(stopwatch.SIZE.pack(9)[:4] if by_memory else stopwatch.SIZE.pack(9) + b"xxx")
        with pytest.raises(TimeoutError):
            parcel.output(ours, stopwatch.Stage("call", 0.2), time.perf_counter() + 0.2, [], time.perf_counter())
    parcel.close()


def test_a_candidate_that_ends_early_has_no_time(process):
    with process.serve(watch_of()) as channel:
        stopwatch.Stopwatch(channel).ready()
    assert process.found() == Found()
    with process.serve(watch_of()) as channel:
        honest(channel)
    assert len(process.found().timings) == 1


def test_one_that_never_reads_is_stopped_too(process):
    problem = bytes(8_000_000)
    with process.serve(watch_of(problem, call_s=0.3)) as channel:
        clock = stopwatch.Stopwatch(channel)
        clock.ready()
        clock.take()
        clock.give([b""])
        assert process.found().stopped == ("timeout", "its timed call took more than 0.3 s")


def test_there_is_a_stopwatch_or_a_black_box():
    box = BlackBox(file=Path(__file__), problems=(1,), arity=1, budget=1)
    with pytest.raises(ValueError, match="not both"):
        Inputs(stopwatch=watch_of(), black_box=box)


def test_calls_from_several_threads_do_not_mix(process):
    other = Answerer(program_of(watch_of()), None)
    try:
        found: dict = {}

        def one(answerer: Answerer, word: bytes) -> None:
            for _ in range(20):
                with answerer.serve(watch_of(word)) as channel:
                    honest(channel)
                found.setdefault(word, set()).add(answerer.found().timings[0].output)

        threads = [threading.Thread(target=one, args=pair) for pair in ((process, b"one"), (other, b"two"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {b"one": {b"one"}, b"two": {b"two"}}
    finally:
        other.close()
