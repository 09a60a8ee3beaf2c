"""Telling sentences from code, line by line: only what can be no line of Python at the top level is a sentence."""

from __future__ import annotations

import keyword
import re

_BULLET = re.compile(r"(?:[-*•+>]|\d{1,3}[.)])[ \t]+")
_FIRST = re.compile(r"[^\W\d_][\w'’-]*")
#: What follows the first word in code, and not in a sentence.
_CODE_AFTER = re.compile(r"[ \t]*(?:\(|\[|\.\w|=|[-+*/%&|^@<>]=|:[ \t]*\w+[ \t]*=)")
_WORDS = re.compile(r"[^\W\d_][^\W\d_'’-]*[^\W\d_]")
_KEYWORDS = frozenset({*keyword.kwlist, "match", "case", "print"})


def is_prose(line: str) -> bool:
    """Whether a line is a sentence, a heading in bold, a rule: nothing that a program has at its left margin."""
    if not line.strip() or line[0].isspace():
        return False
    body = line[:2000].rstrip()
    if body.startswith(("```", "~~~")):
        return False  # not for this to see
    if re.fullmatch(r"[-*_=]{3,}", body) or body.startswith(("**", "`", "•")):
        return True
    bullet = _BULLET.match(body)
    body = body[bullet.end() :] if bullet else body
    if not body or body[0] in "#\"'@(":
        return False
    if body[0] > "\u2e7f" and not re.search(r"[=(\[]", body):
        return True  # Chinese, Japanese, Korean: no blanks between words
    first = _FIRST.match(body)
    if first is None or first[0] in _KEYWORDS or _CODE_AFTER.match(body, first.end()):
        return False
    if first[0][0].isupper() and re.search(r"[.!?:…]$", body) and not re.search(r"[=(\[{]", body):
        return True
    words = _WORDS.findall(body)
    plain = [word for word in words if word not in _KEYWORDS]
    if len(plain) < 2:
        return first[0][0].isupper() and bool(re.search(r"[.!?:…]$", body)) and " = " not in body
    pairs = re.findall(r"(?=\b([^\W\d_]{2,}),? ([^\W\d_]{2,})\b)", body)
    adjacent = sum(a not in _KEYWORDS and b not in _KEYWORDS for a, b in pairs)
    return adjacent > (1 if "=" in body or body.endswith((";", "{", "}")) else 0)


def without_prose_before(text: str) -> str | None:
    """The text without the sentences that it begins with; comments after the last of them stay."""
    lines = text.split("\n")
    last = -1
    for at, line in enumerate(lines):
        if is_prose(line):
            last = at
        elif line.strip() and not line.startswith("#"):
            break
    return "\n".join(lines[last + 1 :]) if last >= 0 and ends_well(lines[last]) else None


def without_prose_after(text: str) -> str | None:
    """The text without the sentences that it ends with; comments before the first of them stay."""
    lines = text.split("\n")
    first = len(lines)
    for at in range(len(lines) - 1, -1, -1):
        if is_prose(lines[at]):
            first = at
        elif lines[at].strip() and not lines[at].startswith("#"):
            break
    paragraph = "\n".join(lines[first:]).split("\n\n", 1)[0].rstrip()
    apart = 0 < first < len(lines) and not lines[first - 1].strip()
    return "\n".join(lines[:first]) + "\n" if apart and ends_well(paragraph) else None


def ends_well(prose: str) -> bool:
    """Whether prose ends as sentences and headings do; a line of code that lost a letter does not."""
    return prose.rstrip().endswith((*".:!?…。：！？)*`", "---", "===", "___"))
