"""Untrusted text made visible: characters that hide, reorder or break what a reader sees are shown by their number."""

from __future__ import annotations

import html
import re

#: Code points, first and last: controls but tab and line feed, invisible and bidirectional marks, halves of surrogate
#: pairs, tags. The page's script builds its own expression from this table: one rule, two readers.
HIDDEN: tuple[tuple[int, int], ...] = (
    (0x00, 0x08),
    (0x0B, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE01EF),
)

_HIDDEN = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in HIDDEN) + "]")


def visible(text: str) -> str:
    """The text with every hidden character as its escape, `\\u202e`; encodes as UTF-8 whatever it was."""
    return _HIDDEN.sub(lambda found: escape(found[0]), text)


def escape(character: str) -> str:
    """How a hidden character is written: `\\u202e`, with braces where four digits are not enough."""
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\u{{{code:x}}}"


def markup(text: object) -> str:
    """Text as HTML: visible, and nothing in it a tag or the end of an attribute."""
    return html.escape(visible(str(text)))


def shortened(text: str, length: int) -> str:
    """The text, or its beginning and how much is missing."""
    return text if len(text) <= length else f"{text[:length]}… ({len(text) - length:,} more characters)"
