"""propose.reply on bodies: every protocol's shape, whole and streamed, and what else servers send."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest

from progevo.propose.reply import Reply, read_reply
from progevo.types import Tokens

PROGRAM = "def solve(x):\n    # größer ≥\n    return x + 1\n"
TEXT = f"Sure.\n\n```python\n{PROGRAM}```"
USAGE = {
    "prompt_tokens": 210,
    "completion_tokens": 160,
    "completion_tokens_details": {"reasoning_tokens": 20},
    "prompt_tokens_details": {"cached_tokens": 128},
    "cost": 0.0012,
}


def read(body: object, **more: object) -> Reply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_reply(raw, entrypoint="solve", **more)


def chat(content: object = TEXT, finish_reason: object = "stop", **message: object) -> dict:
    choice = {
        "index": 0,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": content, **message},
    }
    return {"id": "c", "object": "chat.completion", "model": "m-2", "choices": [choice], "usage": USAGE}


def events(*values: object, end: str = "\n\n", space: str = " ", done: bool = True) -> bytes:
    lines = [f"data:{space}{json.dumps(value)}" for value in values] + ["data: [DONE]"] * done
    return end.join([*lines, ""]).encode()


def delta(content: object, finish_reason: object = None, **more: object) -> dict:
    return {
        "model": "m-2",
        "choices": [{"index": 0, "delta": {"content": content, **more}, "finish_reason": finish_reason}],
    }


def deltas(text: str = TEXT, finish_reason: object = "stop") -> list[dict]:
    return [delta(None), *(delta(text[at : at + 7]) for at in range(0, len(text), 7)), delta("", finish_reason)]


class TestWhole:
    def test_what_the_provider_reports_comes_with_the_program(self):
        reply = read(chat())
        assert (reply.verdict, reply.source, reply.text) == ("ok", PROGRAM, TEXT)
        assert reply.tokens == Tokens(prompt=210, completion=160, reasoning=20, cached=128)
        assert (reply.model, reply.finish_reason, reply.cost_usd) == ("m-2", "stop", 0.0012)

    def test_what_is_not_reported_is_unknown_and_never_nought(self):
        body = chat()
        del body["usage"], body["model"]
        reply = read(body)
        assert (reply.tokens, reply.model, reply.cost_usd) == (Tokens(), None, None)
        usages: tuple[object, ...] = (
            None,
            [],
            "many",
            {"prompt_tokens": "9", "completion_tokens": -1, "cost": "free"},
            {"cost": True},
        )
        for usage in usages:
            reply = read(chat() | {"usage": usage})
            assert (reply.source, reply.tokens, reply.cost_usd) == (PROGRAM, Tokens(), None)

    def test_a_count_of_nought_is_nought(self):
        assert read(chat() | {"usage": {"prompt_tokens": 0, "completion_tokens": 0}}).tokens == Tokens(
            prompt=0, completion=0
        )

    @pytest.mark.parametrize(
        "content",
        [
            [{"type": "text", "text": TEXT}],
            [{"type": "thinking", "thinking": "def solve(): 0"}, {"type": "text", "text": TEXT}],
            [{"type": "text", "text": TEXT[:30]}, {"type": "text", "text": TEXT[30:]}],
            [TEXT],
        ],
    )
    def test_content_in_parts_is_one_text_without_the_thoughts(self, content):
        assert read(chat(content)).source == PROGRAM

    def test_reasoning_is_never_the_answer(self):
        for name in ("reasoning", "reasoning_content"):
            reply = read(chat(None, **{name: TEXT}))
            assert (reply.source, reply.kind, reply.fault) == (None, "unfinished_reasoning", "model")
            assert read(chat("", "length", **{name: TEXT})).fault == "budget"
            assert read(chat(TEXT, **{name: "def solve(): 0"})).verdict == "ok"

    @pytest.mark.parametrize("arguments", [json.dumps({"code": PROGRAM}), {"code": PROGRAM}])
    def test_a_tool_call_in_place_of_text_is_read(self, arguments):
        call = {"id": "t", "type": "function", "function": {"name": "submit", "arguments": arguments}}
        reply = read(chat(None, "tool_calls", tool_calls=[call]))
        assert (reply.source, reply.steps) == (PROGRAM, ("tool-call", "json"))

    @pytest.mark.parametrize(
        ("body", "step"),
        [
            ({"choices": [{"text": TEXT, "finish_reason": "stop"}]}, "text-completion-body"),
            (
                {"type": "message", "content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn"},
                "anthropic-body",
            ),
            (
                {
                    "output": [
                        {"type": "reasoning"},
                        {"type": "message", "content": [{"type": "output_text", "text": TEXT}]},
                    ]
                },
                "responses-body",
            ),
            ({"candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": "STOP"}]}, "gemini-body"),
            ({"message": {"role": "assistant", "content": TEXT}, "done": True, "done_reason": "stop"}, "ollama-body"),
            ({"response": TEXT, "done": True}, "ollama-body"),
        ],
    )
    def test_another_protocol_is_read_and_named(self, body, step):
        reply = read(body)
        assert (reply.source, reply.steps) == (PROGRAM, (step,))

    def test_tokens_are_read_in_each_protocol_s_own_words(self):
        anthropic = {
            "type": "message",
            "content": [{"type": "text", "text": TEXT}],
            "usage": {"input_tokens": 3, "output_tokens": 4},
        }
        ollama = {"message": {"content": TEXT}, "done": True, "prompt_eval_count": 3, "eval_count": 4}
        gemini = {
            "candidates": [{"content": {"parts": [{"text": TEXT}]}}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4},
        }
        for body in (anthropic, ollama, gemini):
            assert read(body).tokens == Tokens(prompt=3, completion=4)

    @pytest.mark.parametrize(
        "before", [b"\n\n   \n", b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n", b"\xef\xbb\xbf"]
    )
    def test_what_keeps_a_line_open_does_no_harm(self, before):
        assert read(before + json.dumps(chat()).encode()).source == PROGRAM

    @pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
    def test_packed_bytes_are_unpacked_and_cut_ones_named(self, pack):
        packed = pack(json.dumps(chat()).encode())
        encoding = "gzip" if pack is gzip.compress else "deflate"
        assert read(packed, content_encoding=encoding).source == PROGRAM
        for end in range(20, len(packed) - 8, 40):
            reply = read(packed[:end], content_encoding=encoding)
            assert (reply.kind, reply.fault) == ("body_cut", "channel")

    def test_json_cut_anywhere_is_the_channel_s_fault(self):
        raw = json.dumps(chat()).encode()
        for end in range(1, len(raw)):
            reply = read(raw[:end])
            assert (reply.kind, reply.fault) == ("body_cut", "channel")

    def test_a_program_that_ran_out_of_room_is_cut(self):
        assert read(chat(TEXT.removesuffix("```"), "length")).kind == "cut"
        assert read(chat(TEXT.removesuffix("```"), "stop")).verdict == "recovered"
        assert read(chat(TEXT, "length")).verdict == "ok"

    def test_surrogates_written_by_halves_are_one_character(self):
        body = json.dumps(chat(TEXT.replace("größer", "\U0001f600"))).encode()
        assert b"\\ud83d\\ude00" in body
        assert "\U0001f600" in read(body).source


class TestNoReply:
    @pytest.mark.parametrize(
        ("body", "status", "kind", "code"),
        [
            ({"error": {"message": "Rate limited", "code": 429}}, 200, "error_body", 429),
            ({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503, "error_body", 503),
            ({"error": "model not found"}, 404, "error_body", 404),
            ({"error": {"message": "Overloaded", "type": "overloaded_error"}, "type": "error"}, 529, "error_body", 529),
            ({"object": "error", "message": "too long", "code": 400}, 400, "error_body", 400),
            ({"detail": "Not Found"}, 404, "error_body", 404),
            (
                {"choices": [{"error": {"message": "upstream", "code": 502}, "message": {"content": ""}}]},
                200,
                "error_body",
                502,
            ),
            (chat("", "error"), 200, "error_body", None),
            (chat(TEXT), 500, "http_status", 500),
            ({"choices": []}, 200, "no_choices", None),
            ({"choices": None}, 200, "no_choices", None),
            ({"id": "c"}, 200, "no_choices", None),
            ({}, 200, "no_choices", None),
            (chat("", "content_filter"), 200, "content_filter", None),
            (chat(TEXT, "content_filter"), 200, "content_filter", None),
            ({"candidates": [{"finishReason": "SAFETY"}]}, 200, "content_filter", None),
            ({"promptFeedback": {"blockReason": "SAFETY"}}, 200, "content_filter", None),
            (b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head></html>", 200, "html_page", None),
            (b"<html><body><h1>Login</h1></body></html>", 200, "html_page", None),
            (b"upstream connect error", 200, "not_json", None),
            (b"null", 200, "not_json", None),
            (b"", 200, "empty_body", None),
            (b" \n\n ", 200, "empty_body", None),
            (b": keep-alive\n\n", 200, "empty_body", None),
        ],
    )
    def test_it_is_the_provider_s_fault_and_says_how(self, body, status, kind, code):
        reply = read(body, status=status)
        assert (reply.verdict, reply.source, reply.kind, reply.fault, reply.error_code) == (
            "damaged",
            None,
            kind,
            "provider",
            code,
        )
        assert reply.reason

    def test_empty_text_and_refusals_are_the_model_s(self):
        assert (read(chat("")).kind, read(chat(None)).kind, read(chat([])).kind) == ("empty",) * 3
        assert read(chat(None, refusal="I can't do that.")).kind == "refusal"

    @pytest.mark.parametrize(
        "body", [b"\xff\xfe\x00", b"\x1f\x8b", b"[1, 2", b"data: {", b"{" * 100_000, b"[" * 100_000, b'"text"']
    )
    def test_any_other_bytes_are_damage(self, body):
        assert read(body).verdict == "damaged"


class TestStream:
    @pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\n", "\r\r"])
    @pytest.mark.parametrize("space", ["", " "])
    @pytest.mark.parametrize("done", [True, False])
    def test_pieces_make_a_whole_however_the_lines_end(self, end, space, done):
        reply = read(events(*deltas(), end=end, space=space, done=done))
        assert (reply.verdict, reply.source, reply.model, reply.finish_reason) == ("ok", PROGRAM, "m-2", "stop")

    def test_a_late_chunk_of_usage_is_read(self):
        reply = read(events(*deltas(), {"choices": [], "usage": USAGE}))
        assert reply.tokens == Tokens(prompt=210, completion=160, reasoning=20, cached=128)
        assert reply.cost_usd == 0.0012

    def test_comments_between_events_do_no_harm(self):
        assert read(b": PROCESSING\n\n" + events(*deltas()).replace(b"\n\n", b"\n\n: ping\n\n")).source == PROGRAM

    def test_reasoning_in_pieces_is_no_answer(self):
        thought = [delta(None, reasoning_content=piece) for piece in ("```python\n", "def solve(x): return 0\n", "```")]
        assert read(events(*thought, *deltas())).source == PROGRAM
        assert read(events(*thought, delta(None, "length"))).fault == "budget"

    def test_an_error_in_the_middle_is_the_provider_s(self):
        reply = read(events(*deltas()[:4], {"error": {"message": "died", "code": 500}}, done=False))
        assert (reply.kind, reply.fault, reply.error_code) == ("error_body", "provider", 500)

    def test_a_stream_cut_at_any_byte_yields_its_program_whole_or_not_at_all(self):
        raw = events(*deltas())
        for end in range(len(raw)):
            reply = read(raw[:end])
            assert reply.source in (None, PROGRAM)
            if reply.source is None:
                assert reply.fault in ("channel", "provider")

    def test_a_character_may_be_split_over_pieces(self):
        halves = [
            delta("```python\ndef solve(x):\n    # \ud83d"),
            delta("\ude00\n    return x\n```"),
            delta("", "stop"),
        ]
        reply = read(events(*halves))
        assert (reply.verdict, reply.source) == ("ok", "def solve(x):\n    # \U0001f600\n    return x\n")

    def test_other_protocols_stream_too(self):
        anthropic = [
            {"type": "message_start", "message": {"model": "m-2", "usage": {"input_tokens": 3}}},
            {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
            *(
                {"type": "content_block_delta", "delta": {"type": "text_delta", "text": TEXT[at : at + 9]}}
                for at in range(0, len(TEXT), 9)
            ),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ]
        reply = read(events(*anthropic, done=False).replace(b"data:", b"event: x\ndata:"))
        assert (reply.source, reply.steps, reply.tokens) == (
            PROGRAM,
            ("anthropic-body",),
            Tokens(prompt=3, completion=4),
        )
        lines = [{"message": {"content": TEXT[at : at + 9]}, "done": False} for at in range(0, len(TEXT), 9)]
        ended = {"message": {"content": ""}, "done": True, "done_reason": "stop", "eval_count": 4}
        reply = read("\n".join(json.dumps(line) for line in [*lines, ended]).encode())
        assert (reply.source, reply.steps, reply.tokens.completion) == (PROGRAM, ("ollama-body",), 4)
