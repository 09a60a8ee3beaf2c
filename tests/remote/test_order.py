"""What passes between a run and its workers: plain data, and the same at the other end, bit for bit."""

from __future__ import annotations

import math
import pickle
import struct
from array import array

from hypothesis import given
from hypothesis import strategies as st

from progevo.remote.order import Assignment, Order, Reply, ended, execution, plain, value
from progevo.types import Answer, Count, Execution, Limits, Usage

#: Lone surrogates and all: a program's text, and what it answers, may be any.
TEXTS = st.text(st.characters())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)
SECONDS = st.none() | st.floats(0, 1e6)
USAGES = st.builds(Usage, wall_s=SECONDS, cpu_s=SECONDS, max_rss_bytes=st.none() | st.integers(0, 2**50))
PLAIN = st.builds(Count, calls=st.integers(0, 10**9), refused=st.integers(0, 9), cpu_s=st.floats(0, 1e3))
IN_TURN = st.builds(
    Count,
    calls=st.integers(0, 10**9),
    refused=st.integers(0, 9),
    cpu_s=st.floats(0, 1e3),
    candidate_cpu_s=st.floats(0, 1e3),
    value=st.floats(),
)
COUNTS = PLAIN | IN_TURN
ARRAYS = st.lists(st.lists(st.floats(), max_size=5).map(lambda numbers: array("d", numbers)), max_size=3)
ANSWERS = st.builds(Answer, value=JSON, arrays=ARRAYS.map(tuple), counts=st.lists(COUNTS, max_size=2).map(tuple))
EXECUTIONS = st.builds(Execution, status=st.just("ok"), answer=ANSWERS, log_tail=TEXTS, usage=USAGES) | st.builds(
    Execution,
    status=st.sampled_from(["crashed", "timeout", "sandbox_lost"]),
    reason=TEXTS,
    log_tail=TEXTS,
    usage=USAGES,
)


def is_plain(sent: object) -> bool:
    if isinstance(sent, dict):
        return all(type(name) is str and is_plain(each) for name, each in sent.items())
    if isinstance(sent, list):
        return all(map(is_plain, sent))
    return sent is None or type(sent) in (bool, int, float, str, bytes)


def bits(answer: Answer) -> list[bytes]:
    return [struct.pack(f"{len(numbers)}d", *numbers) for numbers in answer.arrays]


@given(EXECUTIONS)
def test_how_a_run_ended_comes_back_as_it_was(before):
    sent = plain(Reply(ended=ended(before)))
    assert is_plain(sent)
    reply = value(Reply, pickle.loads(pickle.dumps(sent)))
    after = execution(reply.ended)
    assert (after.status, after.reason, after.log_tail, after.usage) == (
        before.status,
        before.reason,
        before.log_tail,
        before.usage,
    )
    if before.answer is None:
        assert after.answer is None
        return
    assert after.answer.value == before.answer.value
    assert repr(after.answer.counts) == repr(before.answer.counts)  # NaN, too
    assert bits(after.answer) == bits(before.answer)  # NaN, infinities and -0.0, too


@given(TEXTS, st.dictionaries(st.sampled_from(["problem", "n", "fit"]), TEXTS | st.integers() | st.floats(-1, 1)))
def test_an_order_comes_as_it_was_sent(source, options):
    order = Order(
        assignment=Assignment(
            version="1.0",
            task="s3e1",
            content="0f",
            sha256=None,
            data=None,
            options=options,
            limits=Limits(wall_s=math.pi),
            form="auto",
        ),
        fingerprint={"task": "00"},
        split="search",
        source=source,
    )
    sent = plain(order)
    assert is_plain(sent)
    assert value(Order, pickle.loads(pickle.dumps(sent))) == order
