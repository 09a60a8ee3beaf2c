"""What a body says, whoever's protocol it speaks: the reply's text, and what the provider reports about it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from progevo.types import Tokens

#: Parts of a content list that are not the answer.
_THOUGHT = ("thinking", "reasoning", "redacted_thinking", "reasoning_text", "summary_text")
#: Words for "there was no more room", over the protocols.
LENGTH = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "incomplete")
FILTERED = ("content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One reply as its provider gives it; in a stream, one piece of it."""

    text: str = ""
    #: The model has reasoned in a field of its own (which is never the answer).
    reasoned: bool = False
    #: What a tool was called with, where that stands in for text.
    arguments: str = ""
    refusal: str = ""
    finish_reason: str | None = None
    model: str | None = None
    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    error: str | None = None
    error_code: int | None = None
    #: Whose protocol it is where that is not chat completions: "text-completion", "anthropic", ...
    protocol: str = ""
    #: There was a place for a reply, though it may be empty.
    replied: bool = False


def read_message(value: object) -> Message:
    """The message in one JSON value; an empty one where it holds none. Believes no type."""
    if isinstance(value, list) and value:
        value = value[0]  # some gateways answer with a list of one
    if not isinstance(value, Mapping):
        return Message()
    common = _reported(value)
    if (error := _error(value)) is not None:
        return Message(**common, error=error[0], error_code=error[1])
    for read in (_chat, _anthropic, _responses, _gemini, _ollama):
        if (found := read(value)) is not None:
            return Message(**common | found)
    return Message(**common)


def _error(value: Mapping[str, Any]) -> tuple[str, int | None] | None:
    """What an error object says, and the number in it."""
    error = value.get("error")
    if not error and value.get("choices") and isinstance(value["choices"], list):
        first = value["choices"][0]
        error = first.get("error") if isinstance(first, Mapping) else None
    bare = value.get("object") == "error" or value.get("type") == "error"
    if not error and (
        bare or not any(key in value for key in ("choices", "content", "output", "candidates", "response"))
    ):
        error = value if bare or ("message" in value and isinstance(value["message"], str)) else value.get("detail")
    if not error:
        return None
    if not isinstance(error, Mapping):
        return str(error)[:500], None
    codes = [str(error.get(key)) for key in ("code", "status", "status_code", "type") if error.get(key)]
    number = next((int(code) for code in codes if re.fullmatch("[0-9]{1,4}", code)), None)
    said = error.get("message") or error.get("detail") or "an error without a message"
    words = ", ".join(dict.fromkeys(code[:60] for code in codes))
    return f"{str(said)[:500]}{f' ({words})' if words else ''}", number


def _reported(value: Mapping[str, Any]) -> dict[str, Any]:
    """Model, tokens and cost as reported; absent is `None`."""
    usage = _mapping(value.get("usage")) or _mapping(value.get("usageMetadata"))
    usage = usage or _mapping(_mapping(value.get("message")).get("usage"))
    into = _mapping(usage.get("completion_tokens_details")) | _mapping(usage.get("output_tokens_details"))
    out_of = _mapping(usage.get("prompt_tokens_details")) | _mapping(usage.get("input_tokens_details"))
    counts = dict(value) | usage | out_of | into
    tokens = Tokens(
        prompt=_count(counts, "prompt_tokens", "input_tokens", "promptTokenCount", "prompt_eval_count"),
        completion=_count(counts, "completion_tokens", "output_tokens", "candidatesTokenCount", "eval_count"),
        reasoning=_count(counts, "reasoning_tokens", "thoughtsTokenCount"),
        cached=_count(
            counts, "cached_tokens", "cache_read_input_tokens", "cachedContentTokenCount", "prompt_cache_hit_tokens"
        ),
    )
    cost = usage.get("cost")
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and math.isfinite(cost) and cost >= 0
    model = value.get("model") or value.get("modelVersion") or _mapping(value.get("message")).get("model")
    return {
        "model": model if isinstance(model, str) else None,
        "tokens": tokens,
        "cost_usd": float(cost) if known and cost is not None else None,
    }


def _chat(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """OpenAI's chat completions, whole or one chunk of a stream, and the older text completions."""
    choices = value.get("choices")
    if not isinstance(choices, list):
        return None
    first = _mapping(next((choice for choice in choices if _mapping(choice).get("index", 0) == 0), None))
    message = _mapping(first.get("message")) or _mapping(first.get("delta"))
    found = {"finish_reason": _word(first.get("finish_reason")), "replied": bool(message) or "text" in first}
    if not message and isinstance(first.get("text"), str):
        return found | {"text": first["text"], "protocol": "text-completion"}
    reasoned = message.get("reasoning_content") or message.get("reasoning") or message.get("reasoning_details")
    calls = message.get("tool_calls")
    called = (
        [_mapping(_mapping(call).get("function")).get("arguments") for call in calls if isinstance(calls, list)]
        if calls
        else []
    )
    called.append(_mapping(message.get("function_call")).get("arguments"))
    return found | {
        "text": content(message.get("content")),
        "reasoned": bool(reasoned),
        "arguments": "".join(_text(arguments) for arguments in called if arguments),
        "refusal": _text(message.get("refusal")),
    }


def _anthropic(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Anthropic's messages, whole or one event of a stream."""
    kind = value.get("type")
    if kind == "message" and isinstance(value.get("content"), list):
        calls = [part.get("input") for part in map(_mapping, value["content"]) if part.get("type") == "tool_use"]
        return {
            "text": content(value["content"]),
            "reasoned": any(_mapping(part).get("type") in _THOUGHT for part in value["content"]),
            "arguments": "".join(_text(call) for call in calls),
            "finish_reason": _word(value.get("stop_reason")),
            "protocol": "anthropic",
            "replied": True,
        }
    if kind in ("message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "ping"):
        delta = _mapping(value.get("delta"))
        return {
            "text": _text(delta.get("text")),
            "reasoned": "thinking" in delta,
            "arguments": _text(delta.get("partial_json")),
            "finish_reason": _word(delta.get("stop_reason")),
            "protocol": "anthropic",
            "replied": kind == "content_block_delta",
        }
    return None


def _responses(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """OpenAI's responses, whole or one event of a stream."""
    kind = _text(value.get("type"))
    if kind.startswith("response."):
        if kind.endswith((".completed", ".incomplete", ".failed")):
            whole = _responses(_mapping(value.get("response"))) or {}
            return {"finish_reason": whole.get("finish_reason"), "protocol": "responses"}
        text = _text(value.get("delta")) if kind == "response.output_text.delta" else ""
        return {"text": text, "protocol": "responses", "replied": bool(text)}
    output = value.get("output")
    if not isinstance(output, list):
        return None
    why = _mapping(value.get("incomplete_details")).get("reason")
    messages = [part for part in map(_mapping, output) if part.get("type", "message") == "message"]
    return {
        "text": "".join(content(part.get("content")) for part in messages),
        "reasoned": any(_mapping(part).get("type") == "reasoning" for part in output),
        "finish_reason": _word(why) or _word(value.get("status")),
        "protocol": "responses",
        "replied": bool(messages),
    }


def _gemini(value: Mapping[str, Any]) -> dict[str, Any] | None:
    candidates = value.get("candidates")
    if not isinstance(candidates, list):
        blocked = _mapping(value.get("promptFeedback")).get("blockReason")
        return {"finish_reason": "content_filter", "protocol": "gemini"} if blocked else None
    first = _mapping(candidates[0]) if candidates else {}
    parts = _mapping(first.get("content")).get("parts")
    answer = [part for part in map(_mapping, parts if isinstance(parts, list) else []) if not part.get("thought")]
    return {
        "text": "".join(_text(part.get("text")) for part in answer),
        "finish_reason": _word(first.get("finishReason")),
        "protocol": "gemini",
        "replied": bool(first),
    }


def _ollama(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Ollama's own chat and generate calls, whole or one line of a stream."""
    message = _mapping(value.get("message"))
    if not message and not isinstance(value.get("response"), str):
        return None
    return {
        "text": _text(message.get("content")) if message else value["response"],
        "reasoned": bool(message.get("thinking") or value.get("thinking")),
        "finish_reason": _word(value.get("done_reason")) or ("stop" if value.get("done") is True else None),
        "protocol": "ollama",
        "replied": True,
    }


def content(value: object) -> str:
    """A message's content as one text: a string, or the text parts of a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, Sequence):
        return ""
    texts = []
    for part in value:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and part.get("type") not in _THOUGHT and not part.get("thought"):
            inner = part.get("text")
            texts.append(_text(inner.get("value")) if isinstance(inner, Mapping) else _text(inner))
    return "".join(texts)


@dataclass(kw_only=True)
class Stream:
    """The pieces of a streamed reply, put together in order."""

    pieces: list[Message] = field(default_factory=list)
    #: The stream's own word that it is over.
    ended: bool = False

    def add(self, value: object) -> None:
        self.pieces.append(read_message(value))

    def message(self) -> Message:
        """The whole: texts joined, of everything else the last that was reported, of errors the first."""
        reported = Tokens(
            **{
                name: next(
                    (n for piece in reversed(self.pieces) if (n := getattr(piece.tokens, name)) is not None), None
                )
                for name in ("prompt", "completion", "reasoning", "cached")
            }
        )
        wrong = next((piece for piece in self.pieces if piece.error is not None), None)
        return Message(
            text="".join(piece.text for piece in self.pieces),
            reasoned=any(piece.reasoned for piece in self.pieces),
            arguments="".join(piece.arguments for piece in self.pieces),
            refusal="".join(piece.refusal for piece in self.pieces),
            finish_reason=next((piece.finish_reason for piece in reversed(self.pieces) if piece.finish_reason), None),
            model=next((piece.model for piece in self.pieces if piece.model), None),
            tokens=reported,
            cost_usd=next((piece.cost_usd for piece in reversed(self.pieces) if piece.cost_usd is not None), None),
            error=wrong.error if wrong else None,
            error_code=wrong.error_code if wrong else None,
            protocol=next((piece.protocol for piece in self.pieces if piece.protocol), ""),
            replied=any(piece.replied for piece in self.pieces),
        )


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        try:
            return json.dumps(value)  # arguments that were given as an object, not as its text
        except (ValueError, RecursionError):
            return ""
    return ""


def _word(value: object) -> str | None:
    return value[:60] if isinstance(value, str) and value else None


def _count(values: Mapping[str, Any], *names: str) -> int | None:
    """The first of some names that holds a count."""
    for name in names:
        number = values.get(name)
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 10**12:
            return number
    return None
