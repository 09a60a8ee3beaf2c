"""A scripted endpoint: a real HTTP server that serves what a test says, byte for byte."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(kw_only=True)
class Served:
    """One response, as raw as it goes out."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    #: Bytes that are announced and never come: the connection breaks off.
    missing: int = 0
    delay_s: float = 0.0


#: (number of the request from 0 on, its body) -> what is served.
Script = Callable[[int, dict[str, Any]], Served]


class Endpoint:
    """The server, and every request that it has had."""

    def __init__(self, script: Script) -> None:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with endpoint.lock:
                    number = len(endpoint.requests)
                    endpoint.requests.append(json.loads(body))
                    endpoint.headers.append(dict(self.headers))
                    endpoint.paths.append(self.path)
                    endpoint.clients.add(self.client_address)
                served = script(number, json.loads(body))
                time.sleep(served.delay_s)
                self.send_response(served.status)
                for name, value in {"Content-Type": "application/json", **served.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(served.body) + served.missing))
                self.end_headers()
                self.wfile.write(served.body)
                if served.missing:
                    self.close_connection = True

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None: ...  # a client that hangs up is part of many tests

        self.lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.clients: set[Any] = set()
        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[[Script], Endpoint]]:
    """Starts scripted endpoints, which end with the test."""
    running: list[Endpoint] = []

    def start(script: Script) -> Endpoint:
        running.append(Endpoint(script))
        return running[-1]

    yield start
    for endpoint in running:
        endpoint.close()


@pytest.fixture(scope="session")
def served() -> type[Served]:
    return Served


@pytest.fixture(scope="session")
def chat() -> Callable[..., bytes]:
    """The body of a chat completion."""

    def body(
        content: Any,
        *,
        finish: str = "stop",
        usage: tuple[int, int] | None = (100, 20),
        cost: float | None = None,
        **extra: Any,
    ) -> bytes:
        found: dict[str, Any] = {
            "id": "x",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}],
            **extra,
        }
        if usage is not None:
            found["usage"] = {
                "prompt_tokens": usage[0],
                "completion_tokens": usage[1],
                "total_tokens": sum(usage),
                **({"cost": cost} if cost is not None else {}),
            }
        return json.dumps(found).encode()

    return body
