"""propose.transport: raw status, type and bytes; no key comes back; nothing a server does keeps the caller."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time

import pytest

from progevo.errors import ConfigError
from progevo.propose.transport import GivenUp, Http, Unreachable, check_key, hide, parsed, unpacked

KEY = "sk-proj-AbC/123+xyz_0987654321"


def test_status_type_and_bytes_come_back_as_they_were_sent(serve, served):
    body = b'\xff\xfe\x00 not JSON \r\n{"a": 1}'
    headers = {"Content-Type": "text/event-stream; charset=x", "Retry-After": "7"}
    endpoint = serve(lambda number, request: served(body=body, status=529, headers=headers))
    send = Http(endpoint.url, KEY)
    assert send(b'{"x": "y"}', 9.0) == (529, "text/event-stream; charset=x", body, "7")
    assert endpoint.paths == ["/v1/chat/completions"]
    assert endpoint.requests == [{"x": "y"}]
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"
    send.close()


def test_connections_are_kept_up(serve, served):
    endpoint = serve(lambda number, request: served(body=b"{}"))
    send = Http(endpoint.url, None)
    for _ in range(5):
        send(b"{}", 9.0)
    assert len(endpoint.clients) == 1
    assert "Authorization" not in endpoint.headers[0]
    send.close()


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate"])
def test_a_compressed_body_is_unpacked_and_a_cut_one_as_far_as_it_goes(encoding):
    import random
    import zlib

    text = bytes(random.Random(1).choices(b"abcdefgh", k=5000))
    packed = zlib.compress(text) if encoding == "deflate" else gzip.compress(text)
    assert unpacked(packed, encoding) == text
    part = unpacked(packed[: len(packed) // 2], encoding)
    assert 0 < len(part) < len(text)
    assert text.startswith(part)
    assert unpacked(text, encoding) == text  # said to be packed, and is not
    assert unpacked(text, "br") == text


def test_a_body_that_breaks_off_arrives_as_far_as_it_came(serve, served):
    endpoint = serve(lambda number, request: served(body=b'{"choices": [', missing=50))
    send = Http(endpoint.url, None)
    assert send(b"{}", 9.0).body == b'{"choices": ['
    send.close()


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_without_a_byte_of_its_body_never_arrived(serve, served, status):
    endpoint = serve(lambda number, request: served(status=status, missing=50))
    send = Http(endpoint.url, None)
    with pytest.raises(Unreachable):
        send(b"{}", 9.0)
    send.close()


def test_without_the_extra_a_person_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match=r"pip install 'progevo\[llm\]'"):
        Http("http://127.0.0.1:9/v1", None)


def test_nobody_there_is_unreachable():
    send = Http("http://127.0.0.1:9/v1", KEY)
    with pytest.raises(Unreachable, match="ConnectError"):
        send(b"{}", 9.0)
    send.close()


def test_a_slow_server_is_left_at_the_time_out(serve, served):
    release = threading.Event()

    def script(number, request):
        release.wait(30)
        return served(body=b"{}")

    endpoint = serve(script)
    send = Http(endpoint.url, None)
    with pytest.raises(Unreachable, match=r"no whole answer within 0\.3 s"):
        send(b"{}", 0.3)
    release.set()
    send.close()


def test_closing_gives_up_what_is_in_flight_and_all_that_comes(serve, served):
    release, arrived = threading.Event(), threading.Event()

    def script(number, request):
        arrived.set()
        release.wait(30)
        return served(body=b"{}")

    endpoint = serve(script)
    send = Http(endpoint.url, None)
    ended: list[str] = []

    def ask():
        with pytest.raises(GivenUp):
            send(b"{}", 60.0)
        ended.append("given up")

    thread = threading.Thread(target=ask)
    thread.start()
    assert arrived.wait(20)
    send.close()
    thread.join(20)
    assert ended == ["given up"]
    with pytest.raises(GivenUp):
        send(b"{}", 60.0)
    release.set()


def test_proxies_are_not_used_to_reach_this_machine(serve, served, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    endpoint = serve(lambda number, request: served(body=b"{}"))
    send = Http(endpoint.url, None)
    assert send(b"{}", 9.0).status == 200
    send.close()


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"Incorrect API key provided: {KEY}.",
        json.dumps({"error": {"message": f"Bearer {KEY}"}}),
        json.dumps({"error": {"message": KEY}}).replace("/", "\\/"),
        "sk-proj-AbC%2F123%2Bxyz_0987654321",
        "c2stcHJvai1BYkMvMTIzK3h5el8wOTg3NjU0MzIx",  # base64
    ],
)
def test_a_key_that_a_server_quotes_does_not_come_back(serve, served, text):
    endpoint = serve(lambda number, request: served(status=401, body=text.encode()))
    send = Http(endpoint.url, KEY)
    body = send(b"{}", 9.0).body
    send.close()
    assert b"[the key]" in body
    for part in (b"AbC", b"0987654321", b"MTIzK3h5"):
        assert part not in body


def test_a_key_that_a_server_quotes_in_a_header_does_not_come_back(serve, served):
    endpoint = serve(lambda number, request: served(body=b"{}", headers={"Content-Type": f"text/plain; key={KEY}"}))
    send = Http(endpoint.url, KEY)
    assert send(b"{}", 9.0).content_type == "text/plain; key=[the key]"
    send.close()


def test_words_that_local_servers_take_for_a_key_stay_in_replies():
    for word in (None, "", "ollama", "EMPTY", "lm-studio"):
        body = b"def local(ollama): return EMPTY  # lm-studio"
        assert hide(word)(body) == body


def test_any_other_key_is_a_secret():
    for key in ("sk-secret", "hunter22", "correct-horse"):
        assert hide(key)(f"Bearer {key}!".encode()) == b"Bearer [the key]!"


def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_quoted():
    assert check_key(None) is check_key("") is check_key("  ") is None
    assert check_key(f" {KEY}\n") == KEY
    for wrong in ("two words here", "line\nend", "ключ-0123456789", "tab\tin it"):
        with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
            check_key(wrong)
        assert wrong not in str(caught.value)


def test_hostile_json_is_no_json():
    assert parsed(b'{"a": 1}') == {"a": 1}
    for body in (b"", b"\xff", b"[" * 100_000, b'{"a": ', b"<html>"):
        assert parsed(body) is None


def test_a_server_that_drips_is_left_at_the_time_out():
    """The time-out is of the whole answer: one byte now and then does not renew it."""
    import socket

    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def drip():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not done.wait(0.02):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    send = Http(f"http://127.0.0.1:{listener.getsockname()[1]}", None)
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"within 0\.5 s"):
        send(b"{}", 0.5)
    assert time.monotonic() - began < 15
    done.set()
    thread.join(20)
    listener.close()
    send.close()
