"""propose.reply on texts and bodies that are meant to take a reader down: each has its answer, and soon.

No clock is read here: what a reader may not do shows as a test that never ends, or as a process that dies of it.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.propose.reply import read_reply, read_text
from progevo.propose.reply.body import MAX_STREAM
from progevo.propose.reply.program import MAX_PARSED, MAX_PROGRAM, Judge

BROKEN = "def solve(:\n"

TEXTS = {
    "a hundred megabytes": "a" * 100_000_000,
    "a megabyte of statements": "x = 1\n" * 160_000,
    "backticks": "`" * 90_000,
    "fences": "```\n" * 20_000,
    "fenced programs that do not parse": f"```python\n{BROKEN}```\n" * 2_000,
    "escaped quotes": BROKEN + '  a = "' + '\\"' * 45_000,
    "tags": BROKEN + "<a>x</a>" * 12_000,
    "open tags": "<a>" * 30_000 + "solve = ",
    "thinking": "<think>" * 20_000,
    "thoughts ended": f"{BROKEN}</think>\n" * 5_000,
    "braces": "{" * 90_000,
    "json in json": '{"a":' * 20_000 + "solve = 1",
    "json leaves": json.dumps({"a": [BROKEN + "  pass"] * 5_000}),
    "entities": "&lt;" * 25_000 + BROKEN,
    "sentencepiece": "▁" * 90_000 + "solve(:",
    "byte-level": "Ġ" * 90_000 + "solve(:",
    "lone surrogates": "\ud800" * 90_000 + "solve(:",
    "NUL": "\0" * 90_000 + "solve(:",
    "a dotted name": "import " + "a." * 45_000 + "a\ndef solve(): pass",
    "parentheses": "def solve():\n return " + "(" * 45_000,
    "lambdas": "solve = " + "lambda: " * 11_000 + "1",
    "signs": "solve = " + "-" * 90_000 + "1",
    "f-strings": "solve = " + "f'{" * 20_000,
    "indentation": BROKEN + "".join(" " * depth + "if 1:\n" for depth in range(400)),
    "doubled": BROKEN + "ab" * 3_900,
    "line numbers": "".join(f"{number} {BROKEN}" for number in range(6_000)),
    "quotations": f"> {BROKEN}" * 6_000,
    "prompts": f">>> {BROKEN}" * 6_000,
    "tabs": BROKEN + "\tif 1:\n" * 6_000,
    "smart quotes": BROKEN + "“'" * 40_000,
    "mojibake": BROKEN + "Ã©" * 40_000,
    "search blocks": "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n" * 2_000,
    "hunks": "@@ -1,1 +1,1 @@\n-a\n+b\n" * 5_000,
    "turns": f"<|im_end|>\n{BROKEN}" * 5_000,
    "channels": "<|channel|>analysis<|message|>" * 3_000,
    "cdata": "<![CDATA[" * 9_000 + BROKEN,
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("wrap", ["{}", "```python\n{}\n```"])
def test_a_hostile_text_is_damage(name, wrap):
    reply = read_text(wrap.replace("{}", TEXTS[name]), entrypoint="solve", parent="def solve(x):\n    return x\n")
    assert (reply.verdict, reply.source) == ("damaged", None)


BODIES = {
    "nested lists": b"[" * 8_000_000,
    "nested objects": b'{"a":' * 1_500_000,
    "a flat list": b"[" + b"[]," * 500_000 + b"[]]",
    "a long number": b'{"usage":{"prompt_tokens":' + b"9" * 7_000_000 + b"}}",
    "many events": b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * 20_000,
    "empty events": b"data:\n" * 200_000,
    "blank lines": b"data: x\n" + b"\r\n" * 1_000_000,
    "half characters": b'{"choices":[{"message":{"content":"' + b"\\ud800" * 500_000 + b'"}}]}',
    "a page": b"<html><title>" + b"<" * 5_000_000,
    "a body past any reply": b"a" * (MAX_STREAM + 1),
    "a bomb": gzip.compress(b"\0" * (4 * MAX_STREAM)),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_hostile_body_is_damage(name):
    assert read_reply(BODIES[name], entrypoint="solve").verdict == "damaged"


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_no_bytes_raise(body):
    assert read_reply(body, entrypoint="solve").verdict == "damaged"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "text",
                    "error",
                    "usage",
                    "delta",
                    "tool_calls",
                    "function",
                    "arguments",
                    "type",
                    "output",
                    "candidates",
                    "parts",
                    "response",
                    "code",
                    "finish_reason",
                    "prompt_tokens",
                    "cost",
                    "detail",
                    "index",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(JSON)
@settings(max_examples=400, deadline=None)
def test_no_json_of_the_wrong_types_raises(value):
    assert read_reply(json.dumps(value).encode(), entrypoint="solve").source is None


@given(
    st.text(st.characters(), max_size=200)
    | st.text("`~<>|{}[]\\\"'\n\t #:=@&;ĠĊ▁\ud800\x00solve()def thinkPATCH+-*", max_size=200)
)
@settings(max_examples=500, deadline=None)
def test_no_text_raises(text):
    for parent in (
        None,
        "def solve(x):\n    return x\n",
        "# EVOLVE-BLOCK-START\ndef solve(x): 1\n# EVOLVE-BLOCK-END\n",
    ):
        reply = read_text(text, entrypoint="solve", parent=parent)
        assert (reply.source is None) == (reply.verdict == "damaged")


def test_what_is_parsed_for_one_reply_is_bounded():
    judge = Judge(entrypoint="solve")
    length = MAX_PROGRAM - 1_000
    for number in range(100):
        judge.look(f"{number} ".ljust(length, "#"))
    assert sum(sight.tree is not None for sight in judge.seen.values()) == MAX_PARSED // (length + 200)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says in /proc what a process uses, and limits it")
def test_memory_stays_bounded_on_a_bomb():
    """A quarter of a gigabyte of blanks, packed, read with room for half of that beside the interpreter."""
    code = (
        "import gzip, resource\n"
        "from progevo.propose.reply import read_reply\n"
        "bomb = gzip.compress(b' ' * 2**28)\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, used + 2**27))\n"
        "print(read_reply(bomb, entrypoint='solve').kind)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "body_cut"
