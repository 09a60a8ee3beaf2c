"""What a program may come wrapped in, beside Markdown: JSON, markup, quotation marks."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from progevo.gate.text import parse

#: Deeper or more than this is not searched.
MAX_DEPTH = 8
MAX_LEAVES = 64
#: Names that JSON objects give to programs; a string under one of them is looked at first.
_NAMES = ("code", "program", "source", "solution", "content", "improved", "new_code", "python", "answer", "text")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w:.-]{0,40})(?P<more>[^<>\n]{0,300})>")
_HIGHLIGHT = re.compile(r"</?(?:span|b|i|em|strong|font|a|mark)\b[^<>\n]{0,300}>|<br[ \t]*/?>(?:\n)?")
_CODE_TAGS = ("code", "pre", "program", "python", "solution", "answer", "script", "file")
_QUOTED = re.compile(r"\s*('''|\"\"\"|`{1,2}(?!`))(?:python\d?|py)?[ \t]*(\n?)", re.IGNORECASE)


class Wrapped(NamedTuple):
    """A text out of its wrapping, and whether the wrapping shows that it has ended."""

    text: str
    closed: bool = True


class Wrapping(NamedTuple):
    """One way to wrap: `open` yields what may be inside, likeliest first."""

    name: str
    open: Callable[[str], Iterator[Wrapped]]
    about: str


def quotation_marks(text: str) -> Iterator[Wrapped]:
    begun = _QUOTED.match(text)
    end = text.rstrip()
    if begun and end.endswith(begun[1]) and len(end) - len(begun[1]) >= begun.end():
        yield Wrapped(end[begun.end() : len(end) - len(begun[1])])


def json_values(text: str) -> Iterator[Wrapped]:
    """The strings of the JSON values, or of the one Python literal, in a text."""
    decoder = json.JSONDecoder(strict=False)  # bare line ends within strings are common
    at, tries = 0, 0
    values: list[object] = []
    while tries < 8 and (begin := re.compile(r'[{\[]\s*["{\[]|\A\s*"').search(text, at)):
        tries += 1
        start = begin.start() + len(begin[0]) - len(begin[0].lstrip())
        try:
            value, at = decoder.raw_decode(text, start)
            values.append(value)
        except (ValueError, RecursionError):
            at = begin.end()
    if not values and re.match(r"\s*(?:\w{1,40} = )?[{\[(\"']", text) and len(text) < 100_000:
        tree = parse(text.strip())
        if isinstance(tree, ast.Module) and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr | ast.Assign):
            with contextlib.suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                values.append(ast.literal_eval(tree.body[0].value))
    leaves = [leaf for value in values for leaf in strings(value, "", 0)][:MAX_LEAVES]
    leaves.sort(key=lambda leaf: _NAMES.index(leaf[0]) if leaf[0] in _NAMES else len(_NAMES))
    yield from (Wrapped(leaf) for _, leaf in leaves if len(leaf) > 10 and leaf != text)


def strings(value: object, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """The strings within a value, each with the name that it goes by."""
    if isinstance(value, str):
        yield name, value
    elif depth < MAX_DEPTH and isinstance(value, dict):
        for key, below in value.items():
            yield from strings(below, str(key).lower(), depth + 1)
    elif depth < MAX_DEPTH and isinstance(value, list | tuple):
        if len(value) > 1 and all(isinstance(line, str) for line in value):
            yield name, "\n".join(line.rstrip("\n") for line in value)  # a program as a list of its lines
        for below in value:
            yield from strings(below, name, depth + 1)


def markup(text: str) -> Iterator[Wrapped]:
    """What stands between a tag and its end, innermost first; in CDATA; after a code tag that has no end."""
    at = 0
    while (begin := text.find("<![CDATA[", at)) >= 0:
        end = text.find("]]>", begin)
        yield Wrapped(_first_line_off(text[begin + 9 : end if end >= 0 else len(text)]), end >= 0)
        at = end if end >= 0 else len(text)
    waiting: list[re.Match[str]] = []
    contents: list[Wrapped] = []
    for tag in _TAG.finditer(text):
        if not tag["end"]:
            waiting.append(tag)
            continue
        below = [index for index, other in enumerate(waiting) if other["name"].lower() == tag["name"].lower()]
        if below:
            contents.append(Wrapped(text[waiting[below[-1]].end() : tag.start()]))
            del waiting[below[-1] :]
        if len(waiting) > 500 or len(contents) > 2000:
            return
    contents += [Wrapped(text[tag.end() :], False) for tag in waiting if tag["name"].lower() in _CODE_TAGS]
    for content in sorted(contents, key=lambda content: -len(content.text))[:12]:
        if len(content.text) > 10:
            yield Wrapped(_first_line_off(content.text), content.closed)
            plain = _HIGHLIGHT.sub(lambda mark: "\n" if mark[0].startswith("<br") else "", content.text)
            if plain != content.text:
                yield Wrapped(_first_line_off(plain), content.closed)


def _first_line_off(text: str) -> str:
    """A text without the rest of the line that its opening tag stands on, where that is blank."""
    return re.sub(r"\A[ \t]*\r?\n", "", text)


WRAPPINGS: tuple[Wrapping, ...] = (
    Wrapping("quotation-marks", quotation_marks, "a whole text between `'''`, `\"\"\"` or single backticks"),
    Wrapping("json", json_values, "a string of a JSON value or Python literal, with bare line ends too"),
    Wrapping("markup", markup, "the inside of an HTML or XML tag, or of CDATA"),
)
