"""The one seam to the network: a request's bytes go out, raw status, content type and bytes come back.

Everything above it works on any `Send`; only `Http` knows a client library, so that another may take its place.
"""

from __future__ import annotations

import base64
import contextlib
import json
import queue
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from progevo.config import is_loopback
from progevo.errors import ConfigError

#: No reply of a model comes near this; a server that sends more is not answering.
MAX_BODY_BYTES = 32 * 1024 * 1024
CONNECT_S = 10.0
#: Shorter keys, and these, are words that people give to local servers: no secrets, and a program may hold them.
SECRET_LENGTH = 8
PLACEHOLDERS = {"lm-studio", "not-needed", "no-key-required", "sk-no-key-required", "placeholder"}


class Response(NamedTuple):
    """What a server sent: nothing is parsed, nothing believed."""

    status: int
    content_type: str
    body: bytes
    #: The header of that name, as sent.
    retry_after: str = ""


class Unreachable(Exception):
    """No whole answer came: connecting or reading failed, or took too long."""


class GivenUp(Exception):
    """The run that asked is being ended."""


class Send(Protocol):
    """Sends one request and waits for its answer. Raises `Unreachable`, and `GivenUp` once closed."""

    def __call__(self, payload: bytes, timeout_s: float, /) -> Response: ...


class Http:
    """A `Send` to `BASE/chat/completions` over kept-up connections; called from several threads at once.

    Every request runs on a thread of its own that nobody waits for longer than its time-out: whatever a server or a
    resolver does, the caller comes back. Proxies from the environment are used, but never to reach this machine.
    """

    def __init__(self, base_url: str, key: str | None) -> None:
        try:
            import httpx
        except ImportError:
            raise ConfigError("asking a model needs the extra llm: pip install 'progevo[llm]'") from None
        self._httpx = httpx
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._hide = hide(key)
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._client = httpx.Client(headers=headers, trust_env=not is_loopback(urlsplit(base_url).hostname or ""))
        self._waiting: set[queue.SimpleQueue[Response | Exception]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, payload: bytes, timeout_s: float, /) -> Response:
        answer: queue.SimpleQueue[Response | Exception] = queue.SimpleQueue()
        with self._lock:
            if self._closed:
                raise GivenUp
            self._waiting.add(answer)
        try:
            threading.Thread(target=self._post, args=(payload, timeout_s, answer), daemon=True, name="llm").start()
            found = answer.get(timeout=timeout_s)
        except queue.Empty:
            raise Unreachable(f"no whole answer within {timeout_s:g} s") from None
        finally:
            with self._lock:
                self._waiting.discard(answer)
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Gives up what is in flight, and closes the connections."""
        with self._lock:
            self._closed = True
            for answer in self._waiting:
                answer.put(GivenUp())
        with contextlib.suppress(Exception):
            self._client.close()

    def _post(self, payload: bytes, timeout_s: float, answer: queue.SimpleQueue[Response | Exception]) -> None:
        try:
            answer.put(self._exchange(payload, timeout_s))
        except self._httpx.HTTPError as error:
            said = self._hide(str(error).encode("utf-8", "replace")).decode("utf-8", "replace")
            answer.put(Unreachable(f"{type(error).__name__}: {said}"))
        except Exception as error:  # of the client library, such as one for a connection closed under it
            answer.put(Unreachable(type(error).__name__))

    def _exchange(self, payload: bytes, timeout_s: float) -> Response:
        # A little more than the caller waits: what ends then is a thread that nobody listens to.
        until = time.monotonic() + timeout_s + 1.0
        timeout = self._httpx.Timeout(timeout_s + 1.0, connect=min(CONNECT_S, timeout_s))
        with self._client.stream("POST", self._url, content=payload, timeout=timeout) as response:
            body = bytearray()
            try:
                for chunk in response.iter_raw():
                    body += chunk
                    if len(body) > MAX_BODY_BYTES or time.monotonic() > until:
                        break
            except self._httpx.HTTPError:
                # A reply that was cut on its way is one that arrived damaged; without a byte of it nothing arrived.
                if not body or response.status_code != 200:
                    raise
            return Response(
                status=response.status_code,
                content_type=self._hide(response.headers.get("content-type", "").encode()).decode(),
                body=self._hide(unpacked(bytes(body), response.headers.get("content-encoding", ""))),
                retry_after=response.headers.get("retry-after", ""),
            )


def unpacked(body: bytes, encoding: str) -> bytes:
    """A body without its compression, as far as it came: a cut one gives what could be read, a false one itself."""
    if encoding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        return zlib.decompressobj(wbits=47).decompress(body, MAX_BODY_BYTES)
    except zlib.error:
        return body


def check_key(key: str | None) -> str | None:
    """A key that can stand in a header, or `None`. Raises `ConfigError`, which does not quote it."""
    key = (key or "").strip()
    if not key:
        return None
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError("OPENAI_API_KEY holds a character that no key can; set it to the key alone")
    return key


def hide(key: str | None) -> Callable[[bytes], bytes]:
    """Takes a key out of whatever a server sends back, in the forms in which servers quote one."""
    if key is None or len(key) < SECRET_LENGTH or key in PLACEHOLDERS:
        return lambda body: body
    quoted = json.dumps(key)[1:-1]
    spelled = {key, quoted, quoted.replace("/", "\\/"), quote(key), quote(key, safe="")}
    spelled.add(base64.b64encode(key.encode()).decode().rstrip("="))
    forms = sorted((form.encode() for form in spelled), key=len, reverse=True)

    def hidden(body: bytes) -> bytes:
        for form in forms:
            body = body.replace(form, b"[the key]")
        return body

    return hidden


def parsed(body: bytes) -> Any:
    """A body as JSON; `None` where it is none, or is nested too deep to read."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
