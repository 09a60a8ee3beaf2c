"""EVOLVE-BLOCK regions: where they are, whether a child kept what lies outside, and rewrites of the inside alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from progevo.errors import ConfigError

_MARKER = re.compile(r"^[ \t]*#[ \t]*EVOLVE-BLOCK-(START|END)\b[^\r\n]*(?:\r?\n|\Z)", re.MULTILINE)
#: What a top-level line defines; enough to see that a text repeats what lies outside a region.
_DEFINES = re.compile(r"^(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)


class Region(NamedTuple):
    """The inside of one pair of markers: from the line after START up to the line of END, as offsets in the text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What became of an edit: the new text, or what was wrong with it, in words that a model can act on.

    `problems` is empty if and only if `source` is there; an edit is applied as a whole or not at all.
    """

    source: str | None
    problems: tuple[str, ...] = ()
    #: The text had changed what lies outside the regions; that part of it was not taken.
    restored: bool = False


def regions(source: str) -> tuple[Region, ...]:
    """The regions of a program, in order; none where it has no markers.

    Raises `ConfigError` where the markers are not pairs of START and END, one pair after the other.
    """
    found: list[Region] = []
    open_at: int | None = None
    for marker in _MARKER.finditer(source):
        if (marker[1] == "START") != (open_at is None):
            break
        if open_at is None:
            open_at = marker.end()
        else:
            found.append(Region(open_at, marker.start()))
            open_at = None
    else:
        if open_at is None:
            return tuple(found)
    line = 1 + source.count("\n", 0, open_at or 0)
    raise ConfigError(
        f"the EVOLVE-BLOCK markers do not pair up (near line {line}); write # EVOLVE-BLOCK-START and"
        " # EVOLVE-BLOCK-END on lines of their own, one pair after the other, none inside another"
    )


def frame(source: str) -> tuple[str, ...]:
    """What lies outside the regions, marker lines included: one piece more than there are regions."""
    spans = regions(source)
    starts = [0, *(region.end for region in spans)]
    ends = [*(region.start for region in spans), len(source)]
    return tuple(source[start:end] for start, end in zip(starts, ends, strict=True))


def respects(parent: str, child: str) -> bool:
    """Whether a child has kept, to the byte, what lies outside its parent's regions; true where there are none.

    Raises `ConfigError` where the parent's own markers do not pair up.
    """
    if not regions(parent):
        return True
    try:
        return frame(child) == frame(parent)
    except ConfigError:
        return False


def rewrite(parent: str, text: str) -> Edited:
    """A full rewrite of a parent: `text` itself, or where the parent has regions its inside in the parent's outside.

    With regions, `text` may be the whole program with its markers, the whole program without them, or (for one
    region) only what belongs inside. Raises `ConfigError` where the parent's markers do not pair up.
    """
    if not regions(parent):
        return Edited(source=text)
    outside = frame(parent)
    inside = _marked(text, len(outside) - 1)
    # A text that has only its regions and their markers leaves the rest out; that changes nothing.
    marked = inside is not None and any(_MARKER.sub("", piece).strip() for piece in frame(text))
    if inside is None:
        bare = _MARKER.sub("", text)
        inside = _between(outside, bare)
        if inside is None and len(outside) == 2:
            if repeated := set(_DEFINES.findall(bare)) & set(_DEFINES.findall("".join(outside))):
                names = ", ".join(sorted(repeated))
                problem = f"the text defines {names} again, which lies outside the EVOLVE-BLOCK and must stay as it is"
                return Edited(source=None, problems=(f"{problem}; return the whole file with its markers",))
            inside = [bare]
    if inside is None:
        problem = f"the program has {len(outside) - 1} EVOLVE-BLOCK regions and the text does not show which is which"
        return Edited(source=None, problems=(f"{problem}; return the whole file with its markers",))
    source = _fill(outside, inside)
    if not respects(parent, source):
        return Edited(source=None, problems=("the text holds EVOLVE-BLOCK markers of its own; leave them out",))
    return Edited(source=source, restored=marked and "".join(frame(text)).split() != "".join(outside).split())


def _marked(text: str, count: int) -> list[str] | None:
    """The insides of a text that has its own `count` pairs of markers."""
    try:
        spans = regions(text)
    except ConfigError:
        return None
    return [text[start:end] for start, end in spans] if len(spans) == count else None


def _between(outside: Sequence[str], text: str) -> list[str] | None:
    """The insides of a text that repeats everything outside, markers aside; `None` where it cannot be told."""
    pieces = [_MARKER.sub("", piece).strip() for piece in outside]
    middle = pieces[1:-1]
    if not any(pieces) or not all(middle) or any(text.count(piece) != 1 for piece in pieces if piece):
        return None
    if not text.lstrip().startswith(pieces[0]) or not text.rstrip().endswith(pieces[-1]):
        return None
    start, end = text.index(pieces[0]) + len(pieces[0]), text.rindex(pieces[-1]) if pieces[-1] else len(text)
    inside, rest = [], text[start:end]
    for piece in middle:
        before, found, rest = rest.partition(piece)
        if not found:
            return None
        inside.append(before)
    return [*inside, rest]


def _fill(outside: Sequence[str], inside: Sequence[str]) -> str:
    """The outside with these insides, each ended by a line end and, where a region is indented, indented with it."""
    parts = [outside[0]]
    for before, text, after in zip(outside, inside, outside[1:], strict=False):
        marker = before.splitlines(keepends=True)[-1]
        newline = "\r\n" if marker.endswith("\r\n") else "\n"
        body = text.strip("\r\n") if text.strip() else ""
        margin = marker[: len(marker) - len(marker.lstrip())]
        first = next((line for line in body.split("\n") if line.strip()), "")
        if margin and first and not first[0].isspace():
            body = "\n".join(margin + line if line.strip() else line for line in body.split("\n"))
        parts += [body + newline if body else "", after]
    return "".join(parts)
