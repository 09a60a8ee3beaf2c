"""Code blocks of a Markdown text: those that CommonMark sees, and every stretch between two marks that may be meant.

CommonMark 0.31, section 4.5 (fenced code blocks), with two liberties: an opening fence may stand at any indentation
or in a quotation, and its closing fence may stand up to three columns further in than it does.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from progevo.propose.reply.prose import is_prose

#: Lines, each with its end; Python's own idea of a line end.
LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
_OPEN = re.compile(
    r"(?P<quote>(?: {0,3}> ?)*+)(?P<margin>[ \t]*+(?P<item>(?:\d{1,3}[.)]|[-*+])[ \t]+)?+)"
    r"(?P<run>`{3,}+|~{3,}+)(?P<info>[^\r\n]*+)"
)
_RUN = re.compile(r"`{3,}+|^[ \t>]*+~{3,}+", re.MULTILINE)
#: What a fence's first line may say beside code: one word of language or file name, attributes.
LANGUAGE = re.compile(
    r"[ \t]*+(?:i?python[\d.]*+|py\d?|pycon|text|txt|code|none|plaintext|sage|cython)"
    r"(?:(?=(?:import|from|def|class) )|(?![^\W\d])(?::\S*+)?)",
    re.I,
)
#: Blank to the eye.
BLANK = " \t\r\n\u200b\u200c\u200d\u2060\ufeff\u00a0"
#: What code may begin with on a fence's own line, and attributes do not.
_CODE = re.compile(r"(?:import|from|def|class|async def) \w|@\w|[bfru]?[\"']|\w+ = ")
#: Marks past this count are not paired freely; no honest reply has as many.
MAX_MARKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One stretch of a text that may hold the program."""

    text: str
    #: Where it begins in the text that it was found in.
    start: int
    #: Something after it shows that it has ended, so it was not cut off there.
    closed: bool
    #: What had to be done to it that a plain fence does not need.
    steps: tuple[str, ...] = ()


def fenced(text: str) -> list[Block]:
    """The fenced blocks of a text, in order; the last one may be open."""
    blocks: list[Block] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    start = 0
    inner = False
    for line in LINE.finditer(text):
        if opening is None:
            opening = _OPEN.match(line[0])
            if opening and opening["run"][0] == "`" and "`" in opening["info"]:
                opening = None  # code between backticks on one line
            lines, start, inner = [], line.end(), False
            continue
        body = line[0]
        if opening["quote"]:
            body = re.sub(r"^(?: {0,3}> ?)*+", "", body, count=opening["quote"].count(">"))
        bare = body.strip(BLANK)
        if bare and set(bare) == {opening["run"][0]} and len(bare) >= len(opening["run"]):
            if columns(body) < columns(opening["margin"] + "x") + 4:
                blocks.append(_block(lines, opening, start, closed=True, inner=inner))
                opening = None
                continue
            inner = True
        lines.append(body)
    if opening is not None:
        # A closing fence that was itself cut off still shows that the program had ended.
        whole = [line for line in lines if line]
        if whole and (rest := whole[-1].strip()) and rest in opening["run"][:2]:
            blocks.append(_block(whole[:-1], opening, start, closed=True, inner=False, steps=("half-fence",)))
            return blocks
        ended = whole and whole[-1].rstrip(BLANK).endswith(opening["run"])  # at the end of the last line of code
        if ended:
            whole[-1] = whole[-1].rstrip(BLANK).removesuffix(opening["run"])
        blocks.append(_block(whole, opening, start, closed=bool(ended), inner=False))
    return blocks


def columns(line: str) -> int:
    """How far in a line begins."""
    expanded = line[:400].expandtabs(4)
    return len(expanded) - len(expanded.lstrip(" "))


def _block(
    lines: list[str], opening: re.Match[str], start: int, *, closed: bool, inner: bool, steps: tuple[str, ...] = ()
) -> Block:
    margin = len(opening["margin"])
    done = [*steps, "unquote"] if opening["quote"] else [*steps]
    label = LANGUAGE.match(opening["info"])
    head = opening["info"][label.end() if label else 0 :].strip()
    if margin:
        done.append("unindent")
        if opening["item"]:
            lines = textwrap.dedent("".join(lines)).splitlines(keepends=True)
        else:
            lines = [line[min(margin, len(line) - len(line.lstrip(" \t"))) :] for line in lines]
    if _CODE.match(head):
        done.append("code-on-fence-line")
        lines = [head + "\n", *lines]
    if inner:
        done.append("inner-fence")
    if not closed:
        done.append("unclosed-fence")
    return Block(text="".join(lines), start=start, closed=closed, steps=tuple(done))


def stretches(text: str, start: int = 0) -> Iterator[Block]:
    """Every stretch between two fence marks, wherever they stand in a line: latest opening first, longest first.

    The text's own ends serve as marks too: an answer may begin within a block, or end within one. A mark within a
    line opens only what begins on the next line (or is code after the language's name), and closes only what it ends.
    """
    marks = list(_RUN.finditer(text, start))
    if not marks or len(marks) > MAX_MARKS:
        return
    closings = [mark for mark in marks if closes(text, mark)]
    for opening in reversed(marks):
        after = text[opening.end() :]
        first = LINE.match(after)
        assert first is not None
        label = LANGUAGE.match(first[0])
        head = first[0][label.end() if label else 0 :].strip()
        in_line = text[: opening.start()].rpartition("\n")[2].strip() != ""
        if _CODE.match(head):
            begin, how = opening.end() + after.index(head), "code-on-fence-line"
        elif in_line and head:
            continue
        else:
            begin, how = opening.end() + first.end(), "glued-fence"
        yield Block(text=text[begin:], start=begin, closed=False, steps=("unclosed-fence",))
        for closing in reversed([mark for mark in closings if mark.start() >= begin]):
            # A closing mark at the end of the last line of code is a fence all the same.
            plain = how == "glued-fence" and opening is marks[0] and not in_line and not glued(text, closing)
            yield Block(text=text[begin : closing.start()], start=begin, closed=True, steps=() if plain else (how,))
    if start == 0:
        for closing in reversed(closings):
            yield Block(text=text[: closing.start()], start=0, closed=True, steps=("unopened-fence",))


def closes(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark can close: it ends a line, or begins one and words of prose or a token follow."""
    after = text[mark.end() : mark.end() + 200].partition("\n")[0]
    begins = not text[: mark.start()].rpartition("\n")[2].strip()
    return not after.strip(BLANK) or (begins and (after[0] in " \t<`~" or is_prose(after)))


def glued(text: str, mark: re.Match[str]) -> bool:
    """Whether words follow a mark on its line."""
    return text[mark.end() :].partition("\n")[0].strip(BLANK) != ""


def joined(blocks: list[Block]) -> Iterator[Block]:
    """Blocks put together in order: one that begins further in goes on where the one before it broke off."""
    closed = [block for block in blocks if block.closed and block.text.strip()]
    if 2 <= len(closed) <= 8:
        text = ""
        for block in closed:
            part = block.text.strip("\r\n") + "\n"
            text += part if not text or part[0] in " \t" else "\n\n" + part
        steps = (*(step for block in closed for step in block.steps), "joined-blocks")
        yield Block(text=text, start=closed[0].start, closed=True, steps=steps)
