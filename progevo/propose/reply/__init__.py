"""What arrived: bytes or text -> `Reply`, a program and how it was got at, or what was wrong and whose doing it was.

Three rules hold whatever arrives. A text that parses and defines the entry point is taken to the byte. A repair is
applied only where the text does not parse and the result both parses and defines the entry point. And nothing that
arrives ends the process: lengths, nesting, growth and the sum of all that is parsed are bounded.

Bytes pass through `body` (and `message`, which knows the protocols), their text through `turns` (whose words),
`reader` (where the program is: `blocks`, `wrappings`, `repairs`, `prose`, judged by `program`) and, where there is
none, through `damage` (what to call it).
"""

from __future__ import annotations

from dataclasses import replace

from progevo.propose.reply.body import read_body
from progevo.propose.reply.damage import named, repeats
from progevo.propose.reply.message import FILTERED, LENGTH
from progevo.propose.reply.program import Judge
from progevo.propose.reply.reader import Found, read
from progevo.propose.reply.steps import STEPS
from progevo.propose.reply.verdict import KINDS, Fault, Kind, Reply, Verdict

__all__ = ["KINDS", "STEPS", "Fault", "Kind", "Reply", "Verdict", "read_reply", "read_text"]

#: A longer text is not searched: ten times the longest program.
MAX_TEXT = 1_000_000


def read_reply(
    body: bytes,
    *,
    status: int = 200,
    content_type: str = "",
    content_encoding: str = "",
    entrypoint: str,
    parent: str | None = None,
    edit: bool = False,
) -> Reply:
    """What a server's answer to one request holds.

    `body` may still be packed (`content_encoding`), or have been unpacked by the client. `parent` is the program that
    the model was asked to change; with `edit` it was asked for SEARCH/REPLACE blocks or a diff, so that applying one
    is no repair. Never raises for what the bytes are; raises `ConfigError` where the parent's own EVOLVE-BLOCK
    markers do not pair up.
    """
    read = read_body(body, content_type, content_encoding)
    message = read.message
    error_code = message.error_code if message.error_code is not None else (status if not 200 <= status < 300 else None)

    def reply(found: Reply) -> Reply:
        return replace(
            found,
            text=message.text,
            tokens=message.tokens,
            model=message.model,
            finish_reason=message.finish_reason,
            cost_usd=message.cost_usd,
            error_code=error_code,
        )

    if message.error is not None:
        return reply(damaged("error_body", message.error))
    if not 200 <= status < 300:
        return reply(damaged("http_status", f"HTTP status {status}{f': {read.reason}' if read.reason else ''}"))
    if read.kind:
        return reply(damaged(read.kind, read.reason))
    finish = (message.finish_reason or "").lower()
    if finish == "error":
        return reply(damaged("error_body", "the provider ended the reply with an error"))
    if finish in FILTERED:
        return reply(damaged("content_filter", f"the provider withheld the reply ({message.finish_reason})"))
    if not message.text.strip() and message.arguments:
        found = read_text(message.arguments, entrypoint=entrypoint, parent=parent, finish_reason=finish, edit=edit)
        if found.source is not None:
            found = replace(found, verdict="recovered", steps=("tool-call", *found.steps))
        return reply(found)
    if not message.text.strip() and (message.refusal or finish == "refusal"):
        return reply(damaged("refusal", message.refusal[:500] or "the model declines"))
    if not message.text.strip() and message.reasoned:
        fault: Fault = "budget" if finish in LENGTH else "model"
        return reply(damaged("unfinished_reasoning", "the model reasoned and did not answer", fault))
    cut = "stream" if read.open_ended else finish
    found = read_text(message.text, entrypoint=entrypoint, parent=parent, finish_reason=cut, edit=edit)
    if found.source is not None and message.protocol:
        found = replace(found, verdict="recovered", steps=(f"{message.protocol}-body", *found.steps))
    return reply(found)


def read_text(
    text: str,
    *,
    entrypoint: str,
    parent: str | None = None,
    finish_reason: str | None = None,
    edit: bool = False,
) -> Reply:
    """What a reply's text holds; `finish_reason` is a hint only ("length" and its like: the text was cut off).

    `"stream"` stands for a stream that ended without a word of being finished. See `read_reply`.
    """
    finish = (finish_reason or "").lower()
    cut = finish in LENGTH or finish == "stream"
    judge = Judge(entrypoint=entrypoint, parent=parent)
    if len(text) > MAX_TEXT:
        return replace(damaged("too_long", f"the text has {len(text)} characters"), text=text)
    found = read(text, judge)
    open_fence = isinstance(found, Found) and not found.closed and "unclosed-fence" in found.steps
    if open_fence and repeats(text):
        found_reply = damaged("filler", "the text repeats itself until its end")
    elif isinstance(found, Found) and not found.closed and (cut or (open_fence and judge.stops_short(found.source))):
        kind, reason = named(found.as_nothing(judge), text, judge, cut)
        found_reply = damaged(kind, reason)
    elif isinstance(found, Found):
        steps = tuple(step for step in found.steps if not (edit and step in EDITS))
        verdict: Verdict = "recovered" if steps else "ok"
        found_reply = Reply(verdict=verdict, source=found.source, steps=steps, no_op=found.no_op)
    else:
        found_reply = damaged(*named(found, text, judge, cut))
    if finish == "stream" and found_reply.kind not in ("", "filler"):
        found_reply = damaged("stream_cut", "the stream ended before the reply did")
    if found_reply.kind == "unfinished_reasoning" and not cut:
        found_reply = replace(found_reply, fault="model")
    return replace(found_reply, text=text)


#: The steps that an edit is, where an edit was asked for.
EDITS = ("search-replace", "unified-diff", "apply-patch")


def damaged(kind: str, reason: str, fault: Fault | None = None) -> Reply:
    return Reply(verdict="damaged", kind=kind, fault=fault or KINDS[kind].fault, reason=reason)
