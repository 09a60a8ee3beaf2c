"""propose.reply against the shared replies: written by others, with the right answer for each."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from progevo.propose.reply import read_reply, read_text

VERDICTS = {"ok": "ok", "recovered": "recoverable", "damaged": "damaged"}


@pytest.fixture(scope="module")
def replies(shared: Path) -> Path:
    return shared / "replies"


@pytest.fixture(scope="module")
def score(replies: Path) -> Any:
    spec = importlib.util.spec_from_file_location("shared_replies_score", replies / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_content_of_the_dev_half_is_right_by_its_own_score(score):
    def extract(text, parent, finish_reason):
        reply = read_text(text, entrypoint="solve", parent=parent, finish_reason=finish_reason)
        return VERDICTS[reply.verdict], reply.source

    verdicts = [verdict for _, verdict in score.score(extract)]
    assert verdicts == ["right"] * 70


def test_every_reply_has_the_class_the_fault_and_the_program_that_are_stated(replies, score):
    expected = json.loads((replies / "expected.json").read_text())
    parent = (replies / expected["parent"]).read_text()
    wrong = []
    for entry in expected["replies"]:
        raw = (replies / entry["file"]).read_bytes()
        if entry["layer"] == "body":
            reply = read_reply(
                raw,
                status=entry["status"],
                content_type=entry["content_type"],
                content_encoding=entry.get("content_encoding", ""),
                entrypoint=expected["entrypoint"],
                parent=parent,
            )
        else:
            text = raw.decode("utf-8", "surrogatepass")
            reply = read_text(text, entrypoint="solve", parent=parent, finish_reason=entry["finish_reason"])
        right = (VERDICTS[reply.verdict], reply.fault) == (entry["class"], entry.get("fault", ""))
        if not right or (reply.source is not None and not score.same(entry, reply.source)):
            wrong.append((entry["file"], reply.verdict, reply.kind, reply.fault, reply.steps))
    assert len(expected["replies"]) == 84
    assert wrong == []
