"""propose.endpoint: what is asked again and what never, how long, and what a 400 teaches."""

from __future__ import annotations

import json
import math
from email.utils import formatdate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo.config import Llm
from progevo.errors import ProposerError
from progevo.prompt import Message
from progevo.propose.endpoint import AGAIN, LONGEST_WAIT_S, Call, Endpoint, Overflow, excerpt
from progevo.propose.models import Model
from progevo.propose.reply import read_reply
from progevo.propose.transport import Response, Unreachable

MESSAGES = (Message("system", "be"), Message("user", "do"))
PROGRAM = "def solve(x):\n    return 1\n"


def good(text=f"```python\n{PROGRAM}```"):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return Response(200, "application/json", json.dumps({"choices": [choice]}).encode())


def error(status, message="no", retry_after="", **facts):
    body = json.dumps({"error": {"message": message, **facts}}).encode()
    return Response(status, "application/json", body, retry_after)


class Scripted:
    """A `Send` that has written its answers down, and a clock that only waiting and sending move."""

    def __init__(self, *answers, takes_s=0.0):
        self.answers, self.takes_s = list(answers), takes_s
        self.sent, self.timeouts, self.waits, self.said = [], [], [], []
        self.now = 1000.0

    def __call__(self, payload, timeout_s):
        self.sent.append(json.loads(payload))
        self.timeouts.append(timeout_s)
        self.now += self.takes_s
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pause(self, seconds):
        self.waits.append(seconds)
        self.now += seconds
        return False


def ask(script, *, llm=None, model=None, reply_tokens=None, seed=None, endpoint=None):
    llm = llm or Llm(model=("m",), base_url="http://h/v1")
    endpoint = endpoint or Endpoint(llm, script, say=script.said.append, clock=lambda: script.now, pause=script.pause)
    call = Call(
        step=1, attempt=1, model=model or Model(name="m"), messages=MESSAGES, reply_tokens=reply_tokens, seed=seed
    )
    return endpoint.ask(
        call,
        lambda response: read_reply(
            response.body, status=response.status, content_type=response.content_type, entrypoint="solve"
        ),
    )


def test_only_what_was_set_is_sent():
    script = Scripted(good())
    arrival = ask(script)
    assert script.sent == [
        {"model": "m", "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "do"}]}
    ]
    assert arrival.request == script.sent[0]
    assert arrival.reply.source == PROGRAM
    llm = Llm(model=("m",), reasoning_effort="low", extra_body={"top_k": 5, "chat_template_kwargs": {"a": [1]}})
    script = Scripted(good())
    ask(script, llm=llm, model=Model(name="m", temperature=0.25), reply_tokens=7, seed=11)
    assert {name: value for name, value in script.sent[0].items() if name not in ("model", "messages")} == {
        "temperature": 0.25, "max_tokens": 7, "seed": 11, "reasoning_effort": "low",
        "top_k": 5, "chat_template_kwargs": {"a": [1]},
    }  # fmt: skip


@pytest.mark.parametrize("status", [100, 204, 301, 302, 307, 400, 401, 402, 403, 404, 405, 422, 501])
def test_what_only_a_person_can_mend_is_asked_once(status):
    script = Scripted(error(status, "you shall not"))
    with pytest.raises(ProposerError, match=f"answered {status}: you shall not; "):
        ask(script)
    assert len(script.sent) == 1
    assert script.waits == []


@pytest.mark.parametrize("status", sorted(AGAIN))
def test_what_may_pass_is_asked_again(status):
    script = Scripted(error(status), error(status), good())
    assert ask(script).reply.source == PROGRAM
    assert len(script.sent) == 3
    assert 0.5 <= script.waits[0] <= 1.0
    assert 1.0 <= script.waits[1] <= 2.0
    assert len(script.said) == 2


def test_a_connection_that_fails_is_tried_again():
    script = Scripted(Unreachable("ConnectError: refused"), Unreachable("ReadTimeout: "), good())
    assert ask(script).reply.source == PROGRAM
    assert len(script.sent) == 3


def test_a_second_try_for_means_that_are_gone_would_not_help():
    script = Scripted(error(429, "You exceeded your current quota", code="insufficient_quota"))
    with pytest.raises(ProposerError, match="no means left"):
        ask(script)
    assert len(script.sent) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Provider returned error", "code": 502}},
        {"error": {"message": "Overloaded", "type": "overloaded_error"}},
        {"error": "busy"},
        {"object": "error", "message": "engine died", "code": 500},
    ],
)
def test_an_error_under_status_200_is_a_provider_s_failure_and_no_reply(body):
    script = Scripted(Response(200, "application/json", json.dumps(body).encode()), good())
    assert ask(script).reply.source == PROGRAM
    assert len(script.sent) == 2


def test_an_error_under_status_200_that_only_a_person_can_mend_ends_it():
    script = Scripted(error(200, "No auth credentials found", code=401))
    with pytest.raises(ProposerError, match="OPENAI_API_KEY"):
        ask(script)
    assert len(script.sent) == 1


def test_a_page_of_a_proxy_is_a_provider_s_failure():
    page = Response(200, "text/html", b"<!DOCTYPE html><html><body><h1>Bad gateway</h1></body></html>")
    script = Scripted(page, page, good())
    assert ask(script).reply.source == PROGRAM
    assert len(script.waits) == 2


def test_a_reply_that_a_filter_withheld_is_a_reply():
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "content_filter"}
    script = Scripted(Response(200, "application/json", json.dumps({"choices": [choice]}).encode()))
    assert ask(script).reply.kind == "content_filter"
    assert len(script.sent) == 1


def test_a_server_s_own_word_on_when_to_come_back_is_kept():
    soon = formatdate(__import__("time").time() + 30, usegmt=True)
    script = Scripted(
        error(429, retry_after="7.5"), error(503, retry_after=soon), error(429, retry_after="soon"), good()
    )
    ask(script)
    assert script.waits[0] == 7.5
    assert 20 < script.waits[1] <= 30
    assert 2.0 <= script.waits[2] <= 4.0  # a word that is none: our own third wait


def test_a_wait_that_is_longer_than_what_is_left_is_not_begun():
    script = Scripted(error(429, retry_after="3600"))
    with pytest.raises(ProposerError, match="gave no reply within 1800 s"):
        ask(script)
    assert script.waits == []


def test_a_local_server_that_loads_its_model_is_waited_for():
    script = Scripted(*[error(503, "Loading model")] * 40, good())
    assert ask(script).reply.source == PROGRAM
    assert script.waits == [2.0] * 40


@given(st.floats(0.1, 900.0), st.floats(0.0, 700.0), st.integers(0, 99))
def test_the_deadline_holds_whatever_each_try_takes(deadline, takes_s, seed):
    script = Scripted(error(500), takes_s=takes_s)
    llm = Llm(model=("m",), base_url="http://h/v1", call_deadline=deadline, call_timeout=600.0)
    with pytest.raises(ProposerError, match=r"gave no reply within .*the last time it answered 500: no"):
        ask(script, llm=llm)
    # No wait goes beyond it, and no request is given more than what is left.
    assert math.fsum(script.waits) <= deadline + 1e-6
    assert all(0 < wait <= LONGEST_WAIT_S for wait in script.waits)
    left = deadline
    for timeout, wait in zip(script.timeouts, [*script.waits, 0.0], strict=True):
        assert timeout <= min(600.0, max(left, 1.0)) + 1e-6
        left -= takes_s + wait


def test_who_waits_is_woken_when_the_run_ends():
    script = Scripted(error(503))
    llm = Llm(model=("m",), base_url="http://h/v1")
    endpoint = Endpoint(llm, script, clock=lambda: script.now)
    endpoint.close()
    with pytest.raises(ProposerError, match="the run was ended"):
        ask(script, endpoint=endpoint)


REFUSALS = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0.2 with this model.",
    "seed": 'Unknown name "seed": Cannot find field.',
    "reasoning_effort": "reasoning_effort is not a supported parameter",
}


@pytest.mark.parametrize("with_param", [True, False])
@pytest.mark.parametrize("name", REFUSALS)
def test_a_400_that_names_a_parameter_is_learned_from_once_and_for_all(name, with_param):
    facts = {"param": name} if with_param else {}
    script = Scripted(error(400, REFUSALS[name], **facts), good())
    llm = Llm(model=("m",), base_url="http://h/v1", reasoning_effort="low")
    endpoint = Endpoint(llm, script, say=script.said.append, clock=lambda: script.now, pause=script.pause)
    settings = {"model": Model(name="m", temperature=0.2), "reply_tokens": 50, "seed": 3, "endpoint": endpoint}
    ask(script, **settings)
    ask(script, **settings)
    assert len(script.sent) == 3
    assert script.sent[1] == script.sent[2]
    before, after = dict(script.sent[0]), dict(script.sent[1])
    assert before.pop(name) is not None
    if name == "max_tokens":
        assert after.pop("max_completion_tokens") == 50
    assert before == after
    assert len(script.said) == 1
    assert name in script.said[0]


def test_calls_that_were_under_way_when_another_learned_it_are_asked_once_more():
    """Two calls go out with max_tokens; the second is answered when the first has learned better."""
    script = Scripted(good())
    llm = Llm(model=("m",), base_url="http://h/v1")
    inner = []

    def send(payload, timeout_s):
        request = json.loads(payload)
        script.sent.append(request)
        if len(script.sent) == 1:
            inner.append(ask(script, reply_tokens=50, endpoint=endpoint))  # learns, while the first is under way
        return error(400, REFUSALS["max_tokens"]) if "max_tokens" in request else good()

    endpoint = Endpoint(llm, send, say=script.said.append, clock=lambda: script.now, pause=script.pause)
    arrival = ask(script, reply_tokens=50, endpoint=endpoint)
    assert arrival.request["max_completion_tokens"] == inner[0].request["max_completion_tokens"] == 50
    assert len(script.sent) == 4
    assert len(script.said) == 1


def test_another_model_is_not_affected_by_what_one_refuses():
    script = Scripted(error(400, REFUSALS["temperature"]), good())
    llm = Llm(model=("m", "n"), base_url="http://h/v1")
    endpoint = Endpoint(llm, script, clock=lambda: script.now, pause=script.pause)
    ask(script, model=Model(name="m", temperature=0.2), endpoint=endpoint)
    ask(script, model=Model(name="n", temperature=0.2), endpoint=endpoint)
    assert ["temperature" in request for request in script.sent] == [True, False, True]


def test_a_400_that_names_the_same_again_ends_it():
    script = Scripted(error(400, REFUSALS["max_tokens"]), error(400, "max_completion_tokens: not permitted"))
    with pytest.raises(ProposerError, match="answered 400: max_completion_tokens"):
        ask(script, reply_tokens=50)
    assert [sorted(set(request) - {"model", "messages"}) for request in script.sent] == [
        ["max_tokens"], ["max_completion_tokens"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "facts", "status"),
    [
        ("Request Entity Too Large", {}, 413),
        (
            "the request exceeds the available context size, try increasing it",
            {"type": "exceed_context_size_error"},
            400,
        ),
        ("This model's maximum context length is 8192 tokens; max_tokens is too large", {}, 400),
        ("Please reduce the length of the messages", {"code": "context_length_exceeded"}, 400),
        ("prompt is too long: 210000 tokens > 200000 maximum", {}, 400),
    ],
)
def test_a_prompt_beyond_the_context_is_told_apart_from_a_refused_parameter(message, facts, status):
    script = Scripted(error(status, message, **facts))
    with pytest.raises(Overflow, match=message[:20]):
        ask(script, reply_tokens=50)
    assert len(script.sent) == 1


@given(st.binary(max_size=3000))
def test_an_excerpt_of_anything_is_one_short_printable_line(body):
    line = excerpt(body)
    assert 0 < len(line) <= 300
    assert line.isprintable() or "\ufffd" in line
    assert "\n" not in line


def test_an_excerpt_is_the_message_of_an_error():
    assert excerpt(b'{"error": {"message": " too\\n many "}}') == "too many"
    assert excerpt(b'{"error": "busy"}') == "busy"
    assert excerpt(b"<html>\n<b>502</b>") == "<html> <b>502</b>"
    assert excerpt(b"") == "(nothing)"


def test_waits_are_spread_by_chance_and_the_same_each_time():
    def waits(step):
        script = Scripted(*[error(500)] * 6, good())
        llm = Llm(model=("m",), base_url="http://h/v1")
        endpoint = Endpoint(llm, script, clock=lambda: script.now, pause=script.pause)
        call = Call(step=step, attempt=1, model=Model(name="m"), messages=MESSAGES, reply_tokens=None, seed=None)
        endpoint.ask(call, lambda response: read_reply(response.body, status=response.status, entrypoint="solve"))
        return script.waits

    assert waits(1) == waits(1) != waits(2)
    rng = Random("progevo wait 1 1")
    assert waits(1) == [2.0**tries * rng.uniform(0.5, 1.0) for tries in range(6)]
