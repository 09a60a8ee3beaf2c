"""Naming a damage: what is wrong with a text that holds no program, and whose doing that is taken for.

A judgement, and said to be one: the same wrong character may be a model's slip or a channel's. The rules look at the
text alone, from the surest sign to the weakest, and `finish_reason` only says what a text cannot: that it was cut.
"""

from __future__ import annotations

import re

from progevo.gate.text import parse
from progevo.gate.verdict import Finding
from progevo.propose.reply.blocks import fenced
from progevo.propose.reply.program import MAX_PROGRAM, Judge
from progevo.propose.reply.prose import is_prose
from progevo.propose.reply.reader import Nothing

#: How long the end of a text must repeat itself to be filler, in characters and in turns.
FILLER_CHARACTERS = 200
FILLER_TURNS = 12

_CONFLICT = re.compile(r"^(?:<{7} |>{7} |\|{7} )", re.MULTILINE)
_REFUSAL = re.compile(
    r"\b(?:I(?:'|’| a)m (?:sorry|unable|not able)|I (?:can(?:no|')t|cannot|won't|will not|must decline)|as an AI\b"
    r"|I apologi[sz]e|unable to (?:help|assist|comply)|can(?:no|')t (?:help|assist) with)",
    re.IGNORECASE,
)
_LANGUAGES = re.compile(
    r"^[ \t]*(?:(?:const|let|var)\s+\w+\s*=|(?:export\s+)?(?:async\s+)?function\s+\w+\s*\(|#include\s*<|public\s+\w+"
    r"|package\s+\w+;?$|fn\s+\w+\s*[(<]|func\s+\w+\s*\(|using\s+\w+|import\s+\w[\w.]*;|int\s+main|template\s*<"
    r"|(?:unsigned|std::|double|float|void|int)\s+\w+\s*\()|=>\s*\{|;[ \t]*$(?:\n.*;[ \t]*$){2}",
    re.MULTILINE,
)
_PYTHON2 = re.compile(r"Missing parentheses in call to '(?:print|exec)'|multiple exception types must be parenthesized")
#: Errors that people and models make, in CPython's words (3.11 to 3.13).
_SLIPS = re.compile(
    r"expected ':'|expected an indented block|unindent|unexpected indent|was never closed|forgot a comma"
    r"|Maybe you meant|positional argument follows|cannot assign|cannot delete|does not match|without a default"
    r"|duplicate argument|non-default argument|f-string|inconsistent use of tabs|must be parenthesized"
    r"|expected 'except'|unterminated string|keyword argument repeated|trailing comma not allowed|unmatched",
)
_TOO_DEEP = re.compile("too deeply|too many (?:nested|levels|statically)|dotted name of over")
_LEAK = re.compile(r"[ĠĊ▁]|<0x[0-9A-F]{2}>|<\|[a-z_]{2,30}\|>|<｜")


def named(nothing: Nothing, text: str, judge: Judge, cut: bool) -> tuple[str, str]:
    """The kind of a damage (one of `KINDS`) and a sentence on it. `cut`: the sender says that the text was cut off."""
    finding = nothing.sight.finding if nothing.sight else None
    message = finding.message if finding else ""
    reason = nothing.reason or message
    near = nothing.text
    state = nothing.sight.state if nothing.sight else ""
    if not text.strip():
        return ("filler", "nothing but blanks") if len(text) >= FILLER_CHARACTERS else ("empty", "no text")
    if nothing.kind == "unfinished_reasoning":
        return nothing.kind, reason
    if state == "unread" or len(near) > MAX_PROGRAM:
        if repeats(text):
            return "filler", "the text repeats itself until its end"
        return "too_long", f"the text has {len(near)} characters; a program has at most {MAX_PROGRAM}"
    if state == "broken" and _TOO_DEEP.search(message):
        return "too_deep", reason
    if state == "broken" and re.search("[\x00-\x08\x0e-\x1f\x7f]", near):
        return "control_characters", "control characters in the code"
    if repeats(text):
        return "filler", "the text repeats itself until its end"
    if nothing.kind:
        return nothing.kind, reason or "parts of the program are left out"
    if state == "outside":
        return "outside_region", reason
    if _CONFLICT.search(near):
        return "conflict_markers", "merge conflict markers in the code"
    if cut and not nothing.closed:
        return "cut", "the text was cut off within the program"
    if state == "other":
        return no_program(near, judge)
    return broken(nothing, text, judge, finding)


def no_program(text: str, judge: Judge) -> tuple[str, str]:
    """The word for Python that parses and is no program."""
    tree = judge.look(text).tree
    if tree is None or not any(
        re.match(r"(?:async def|def|class|import|from|for|if|\w+\s*=)", line) for line in text.split("\n")
    ):
        return ("refusal" if _REFUSAL.search(text) else "no_program"), "the reply defines nothing"
    return "no_entrypoint", f"the reply does not define {judge.entrypoint}"


def broken(nothing: Nothing, text: str, judge: Judge, finding: Finding | None) -> tuple[str, str]:
    """The word for a text that does not parse."""
    near = nothing.text
    message = finding.message if finding else ""
    lines = [line for line in near.split("\n") if line.strip() and not line.lstrip().startswith(("```", "~~~"))]
    indented = sum(line[0].isspace() for line in lines)
    sentences = sum(is_prose(line) for line in lines)
    blocks = fenced(text)
    if blocks and not any(block.text.strip() for block in blocks):
        return "empty", "a code block without code"
    if not judge.names(near) and sentences >= max(1, len(lines) - indented) * 0.5 and not indented:
        if _REFUSAL.search(text):
            return "refusal", "the model declines"
        return ("question", "the model asks back") if text.rstrip().endswith(("?", "？")) else ("prose", "no code")
    if _REFUSAL.search(text) and not judge.names(near):
        return "refusal", "the model declines"
    if _PYTHON2.search(message):
        return "python2", message
    if _LANGUAGES.search(near) and not re.search(rf"^\s*(?:async )?def {re.escape(judge.entrypoint)}\b", near, re.M):
        return "other_language", message
    if not judge.names(near) and not whole_but_for(near, finding):
        return ("question", "the model asks back") if text.rstrip().endswith("?") else ("pseudocode", message)
    if not nothing.closed and ends_open(near, finding):
        return "cut", "the text ends within the program"
    if "\ufffd" in near or re.search("[\ud800-\udfff]", near):
        return "replacement_characters", message
    if _LEAK.search(near):
        return "token_leak", message
    if doubled(near, judge):
        return "doubled_chunk", message
    if _SLIPS.search(message):
        return "syntax", message
    return ("splice" if whole_but_for(near, finding) else "syntax"), message


def ends_open(text: str, finding: Finding | None) -> bool:
    """Whether a text fails at its very end, or in something that was opened and runs to its end."""
    if finding is None:
        return False
    last = len(text.rstrip().split("\n"))
    opened = re.search(
        r"was never closed|unterminated triple|unexpected EOF|expected an indented block", finding.message
    )
    return (
        finding.line >= last
        or (opened is not None and "triple" in finding.message)
        or "never closed" in finding.message
    )


def repeats(text: str) -> bool:
    """Whether a text ends with the same few characters over and over."""
    tail = text.rstrip()[-3000:]
    for period in range(1, 120):
        length = 0
        while length + period < len(tail) and tail[-1 - length] == tail[-1 - length - period]:
            length += 1
        if length >= max(FILLER_CHARACTERS, FILLER_TURNS * period) and len(set(tail[-period:])) + period > 2:
            return True
    return False


def doubled(text: str, judge: Judge) -> bool:
    """Whether leaving out one of two equal pieces that follow each other makes the text parse."""
    if len(text) > 8_000:
        return False
    pieces = [(match.start(), len(match[1])) for match in re.finditer(r"(?=(.{3,60})\1)", text, re.DOTALL)]
    for start, length in pieces[:40]:
        if judge.look(text[:start] + text[start + length :]).state in ("program", "no_op"):
            return True
    return False


def whole_but_for(text: str, finding: Finding | None) -> bool:
    """Whether a text parses once the one line that its error stands on does nothing."""
    lines = text.split("\n")
    if finding is None or not 1 <= finding.line <= len(lines) or len(text) > MAX_PROGRAM:
        return False
    line = lines[finding.line - 1]
    margin = line[: len(line) - len(line.lstrip())]
    for stand_in in ("pass", "if True:"):
        lines[finding.line - 1] = margin + stand_in
        if not isinstance(parse("\n".join(lines)), Finding):
            return True
    return False
