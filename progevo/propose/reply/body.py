"""Bytes -> message: what a server sent, whole or streamed, packed or cut, under whatever status and content type.

The bytes are looked at, not the header: servers label streams as JSON and error pages as nothing. Everything is bounded
before it is read: the bytes, what compressed bytes may grow to, and the JSON that is held in memory at once.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from progevo.propose.reply.message import Message, Stream, read_message

#: A whole JSON body; with the longest replies of today, reasoning included, it has some 2 MB.
MAX_JSON = 8_000_000
#: A stream, which spends some 300 bytes on every token.
MAX_STREAM = 64_000_000

_FIELD = re.compile(rb"[ \t]*(?:data|event|id|retry):|:")
_LINE = re.compile(rb"([^\r\n]*+)(?:\r\n|\r|\n|\Z)")
_PAGE = re.compile(rb"\s*<(?:!doctype|html|head|body|\?xml|h\d|center|title)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What a body holds: a message, or the kind of damage that kept it from being one."""

    message: Message = Message()
    kind: str = ""
    reason: str = ""
    #: A stream that ended without a word of being finished.
    open_ended: bool = False


def read_body(body: bytes, content_type: str = "", content_encoding: str = "") -> Body:
    """The message in a body; never raises for what the bytes are."""
    if len(body) > MAX_STREAM:
        return Body(kind="body_too_large", reason=f"the body has {len(body)} bytes")
    if body[:2] == b"\x1f\x8b" or content_encoding.lower().strip() in ("gzip", "x-gzip", "deflate"):
        unpacked = inflated(body)
        if unpacked is None:
            return Body(kind="body_cut", reason="the compressed body is cut, damaged, or grows without end")
        body = unpacked
    body = body.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not body:
        return Body(kind="empty_body", reason="the body is empty")
    if _PAGE.match(body) or (content_type.lower().startswith("text/html") and body[:1] == b"<"):
        return Body(kind="html_page", reason=f"a web page: {title(body)}")
    if _FIELD.match(body):
        rest = re.sub(rb"^:[^\n]*\n?", b"", body, flags=re.MULTILINE).lstrip()  # comments to keep a line open
        return read_events(body) if not rest or _FIELD.match(rest) else read_json(rest)
    return read_json(body)


def inflated(body: bytes) -> bytes | None:
    """Compressed bytes as what they were; `None` where they end too early, do not decode, or grow past any body."""
    for window in (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS):
        unpack = zlib.decompressobj(window)
        try:
            plain = unpack.decompress(body, MAX_STREAM)
        except zlib.error:
            continue
        return plain if unpack.eof else None
    return None


def read_json(body: bytes) -> Body:
    """A body of one JSON value, or of one a line (a stream of Ollama's)."""
    if len(body) > MAX_JSON and b"\n{" not in body[:MAX_JSON]:
        return Body(kind="body_too_large", reason=f"the body has {len(body)} bytes")
    if body[:1] not in b"{[":
        return Body(kind="not_json", reason=f"the body begins with {body[:60].decode('utf-8', 'replace')!r}")
    value = parsed(body) if len(body) <= MAX_JSON else None
    if value is None:
        return read_lines(body)
    message = read_message(value)
    if message.error is None and not message.replied and message.finish_reason is None:
        return Body(message=message, kind="no_choices", reason="the body holds no reply")
    return Body(message=whole(message))


def read_lines(body: bytes) -> Body:
    """JSON line by line; a body that is one broken value is a cut one."""
    stream = Stream()
    lines = [line for line in body.splitlines() if line.strip()]
    for line in lines:
        value = parsed(line)
        if value is None:
            break
        stream.add(value)
    message = whole(stream.message())
    if message.error is not None or (stream.pieces and len(stream.pieces) == len(lines) and message.replied):
        return Body(message=message, open_ended=message.finish_reason is None)
    return Body(message=message, kind="body_cut", reason="the JSON of the body ends too early or is damaged")


def read_events(body: bytes) -> Body:
    """A stream of server-sent events (the HTML standard, section 9.2), however its lines end."""
    stream = Stream()
    broken = False
    for lines in events(body):
        # Servers that end an event with a single line end put several into one: a line that is JSON is an event.
        joint = parsed(b"\n".join(lines)) if len(lines) > 1 else None
        for data in [] if joint is not None else lines:
            if data.strip() == b"[DONE]":
                stream.ended = True
            elif data.strip() and (value := parsed(data)) is not None:
                stream.add(value)
            elif data.strip():
                broken = True
        if joint is not None:
            stream.add(joint)
    message = whole(stream.message())
    if not stream.pieces and not stream.ended:
        return Body(kind="stream_cut" if broken else "empty_body", reason="the stream holds no whole event")
    if message.error is None and not message.replied and message.finish_reason is None:
        return Body(message=message, kind="no_choices", reason="the stream holds no reply")
    ended = (message.finish_reason is not None or stream.ended) and not broken
    return Body(message=message, open_ended=not ended)


def events(body: bytes) -> Iterator[list[bytes]]:
    """The data lines of each event of a stream."""
    lines: list[bytes] = []
    for line in _LINE.finditer(body):
        if line[1].startswith(b"data:"):
            lines.append(line[1][5:].removeprefix(b" "))
        elif not line[1] and lines:
            yield lines
            lines = []
    if lines:
        yield lines


def parsed(text: bytes) -> object | None:
    """A JSON value; `None` for anything else, `null` included. Bytes that are no UTF-8 become U+FFFD."""
    try:
        value: object = json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError, MemoryError):
        return None
    return value


def whole(message: Message) -> Message:
    """A message whose surrogate pairs, written by halves in two events, are one character again."""
    text = message.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return replace(message, text=text)


def title(page: bytes) -> str:
    """What a web page says about itself, for a person to read."""
    found = re.search(rb"<title[^>]{0,200}>([^<]{0,200})", page[:20_000], re.IGNORECASE) or re.search(
        rb"<h1[^>]{0,200}>([^<]{0,200})", page[:20_000], re.IGNORECASE
    )
    return " ".join(found[1].decode("utf-8", "replace").split()) if found else "without a title"
