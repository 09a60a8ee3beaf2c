"""Replies as they arrived, with what was asked: one JSON object each, in a run's `llm/` or as lines of a file.

    {"schema": "progevo.reply/1", "step": 3, "attempt": 1, "model": "NAME", "asked": "<sha256>", "request": {...},
     "status": 200, "content_type": "application/json", "body": "...", "seconds": 1.25}

`body` is the text of the response; `body_base64` stands in its place where the bytes are no UTF-8. A file of
recorded replies may leave out all but the body, and give `content`, the text of a reply, in place of it
(`docs/recorded-replies.md`).

A reply is written before anything is made of it. So a run that was killed finds the replies again that it had paid
for, when it is resumed and asks the same.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from progevo.errors import ConfigError, RunError
from progevo.types import Json

SCHEMA = "progevo.reply/1"
FOLDER = "llm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One reply as it arrived."""

    step: int
    #: 1 for the first draw of a candidate, more for redraws.
    attempt: int
    model: str
    status: int = 200
    content_type: str = "application/json"
    body: bytes
    seconds: float = 0.0
    #: sha256 of what was asked, and the request as it was sent; empty where a file does not tell.
    asked: str = ""
    request: Mapping[str, Json] | None = None
    #: Where it lies in the run folder.
    file: str | None = None


class Archive:
    """The folder `llm/` of a run; `None` keeps nothing."""

    def __init__(self, run_folder: Path | None) -> None:
        self._run_folder = run_folder

    def find(self, step: int, attempt: int, asked: str) -> Recorded | None:
        """The reply that an earlier process of this run drew for exactly this question, if it did."""
        if self._run_folder is None:
            return None
        path = self._run_folder / _file(step, attempt)
        try:
            found = _read(path.read_bytes(), step, str(path))
        except FileNotFoundError:
            return None
        except (OSError, ConfigError):  # cut by a crash: it is drawn again
            return None
        return _placed(found, _file(step, attempt)) if found.asked == asked else None

    def keep(self, reply: Recorded) -> Recorded:
        """Writes a reply and returns it with its place. Raises `RunError` where the disk does not take it."""
        if self._run_folder is None:
            return reply
        name = _file(reply.step, reply.attempt)
        path = self._run_folder / name
        try:
            path.parent.mkdir(exist_ok=True)
            part = path.with_name(f".{path.name}.part")
            with open(part, "wb") as file:
                file.write(to_json(reply))
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror}") from None
        return _placed(reply, name)


def to_json(reply: Recorded) -> bytes:
    """One line of JSON, with its line end."""
    try:
        body: dict[str, Json] = {"body": reply.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(reply.body).decode()}
    facts = {
        "schema": SCHEMA,
        "step": reply.step,
        "attempt": reply.attempt,
        "model": reply.model,
        "asked": reply.asked,
        "request": dict(reply.request) if reply.request is not None else None,
        "status": reply.status,
        "content_type": reply.content_type,
        **body,
        "seconds": round(reply.seconds, 3),
    }
    return json.dumps(facts, allow_nan=False).encode() + b"\n"


def read_recording(path: Path) -> dict[int, tuple[Recorded, ...]]:
    """Recorded replies by step, in the order of their attempts: of a run folder, or of a file with one a line.

    Raises `ConfigError` for what is neither, and for a reply that is not well formed.
    """
    found: dict[int, list[Recorded]] = {}
    for reply in _replies(path):
        found.setdefault(reply.step, []).append(reply)
    if not found:
        raise ConfigError(f"{path} holds no recorded reply; a run keeps them under {FOLDER}/ unless it is told not to")
    return {step: tuple(sorted(replies, key=lambda reply: reply.attempt)) for step, replies in found.items()}


def _replies(path: Path) -> Iterator[Recorded]:
    try:
        if path.is_dir():
            for file in sorted((path / FOLDER).glob("*.json")):
                yield _placed(_read(file.read_bytes(), None, str(file)), f"{FOLDER}/{file.name}")
            return
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"the recorded replies {path} cannot be read: {error.strerror}") from None
    step = 0
    for number, line in enumerate(lines, start=1):
        if line.strip():
            step += 1
            yield _read(line, step, f"{path}, line {number}")


def _read(text: bytes, step: int | None, where: str) -> Recorded:
    """A reply; `step` is what it has where it names none."""
    try:
        facts: Any = json.loads(text)
        if facts.get("schema", SCHEMA) != SCHEMA:
            raise ConfigError(f"{where}: its schema is {facts['schema']!r}; this version reads {SCHEMA!r}")
        return Recorded(
            step=int(facts.get("step", step)),
            attempt=int(facts.get("attempt", 1)),
            model=str(facts.get("model", "recorded")),
            status=int(facts.get("status", 200)),
            content_type=str(facts.get("content_type", "application/json")),
            body=_body(facts),
            seconds=float(facts.get("seconds", 0.0)),
            asked=str(facts.get("asked", "")),
            request=facts.get("request"),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{where}: no recorded reply ({type(error).__name__}: {error}); a line of such a file is like"
            ' {"content": "the text of a reply"} (docs/recorded-replies.md)'
        ) from None


def _body(facts: Mapping[str, Any]) -> bytes:
    if "body_base64" in facts:
        return base64.b64decode(facts["body_base64"], validate=True)
    if "body" in facts:
        return str(facts["body"]).encode("utf-8", "surrogatepass")
    message = {"role": "assistant", "content": facts["content"]}
    finish = facts.get("finish_reason", "stop")
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}]}).encode()


def fingerprint(question: Mapping[str, Json]) -> str:
    """sha256 (hex) of what is asked, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def _file(step: int, attempt: int) -> str:
    return f"{FOLDER}/{step:06d}-{attempt}.json"


def _placed(reply: Recorded, file: str) -> Recorded:
    return replace(reply, file=file)
