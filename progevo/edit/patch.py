"""Edits by parts: SEARCH/REPLACE blocks, unified diffs and apply_patch envelopes, all read into hunks and placed.

Line numbers and counts of a diff are not believed (models invent them): what decides is that the old lines occur in
the parent, exactly or but for white space, in one place only. A stated line, or the line that an apply_patch hunk
names, may only choose among several such places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from progevo.edit.regions import Edited, regions, respects, rewrite

#: How an edit is written; "" for a text that is none.
Form = Literal["search-replace", "unified-diff", "apply-patch", ""]

_SEARCH = re.compile(r"[ \t>]*<{5,9}[ \t]*(?:SEARCH|ORIGINAL)\b", re.IGNORECASE)
_DIVIDER = re.compile(r"[ \t>]*={5,9}[ \t]*$")
_REPLACE = re.compile(r"[ \t>]*>{5,9}[ \t]*(?:REPLACE|UPDATED)\b", re.IGNORECASE)
_PATCH = re.compile(r"\*\*\* (?:Begin Patch|(?P<verb>Update|Add|Delete) File:)")
_HUNK = re.compile(r"@@(?:[ \t]+-(?P<line>\d+)(?:,\d+)?[ \t]+\+\d+(?:,\d+)?[ \t]+@@)?[ \t]*(?P<anchor>.*)$")
_NOISE = re.compile(r"(?:diff --git |index [0-9a-f]|new file mode|\*\*\* End of File|\\ No newline)")
#: More than any honest reply holds; placing a hunk looks at every line of the parent.
MAX_HUNKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Old lines and what shall stand in their place, without line ends."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    #: The line, counted from 1, that a diff states; the line's text that an apply_patch hunk names.
    line: int | None = None
    anchor: str = ""


def recognise(text: str) -> Form:
    """How a text is written as an edit, by its own marks; "" where it has none."""
    lines = _lines(text)
    if any(_SEARCH.match(line) for line in lines):
        return "search-replace"
    if any(_PATCH.match(line) for line in lines):
        return "apply-patch"
    headed = any(a.startswith("--- ") and b.startswith("+++ ") for a, b in pairwise(lines))
    if headed or any(line.startswith("@@ ") and _HUNK.fullmatch(line) for line in lines):
        changes = any(line[:1] in ("+", "-") and not line.startswith(("--- ", "+++ ")) for line in lines)
        return "unified-diff" if changes else ""
    return ""


def apply(parent: str, text: str) -> Edited:
    """The parent with every edit of a text applied in order, or with none: each that fails is named.

    Raises `ConfigError` where the parent's EVOLVE-BLOCK markers do not pair up.
    """
    form = recognise(text)
    if not form:
        problem = "there is no edit in the reply; write <<<<<<< SEARCH, =======, >>>>>>> REPLACE on lines of their own"
        return Edited(source=None, problems=(problem,))
    try:
        hunks = list(_blocks(text) if form == "search-replace" else _diff(text))
    except ValueError as error:
        return Edited(source=None, problems=(str(error),))
    if not hunks or len(hunks) > MAX_HUNKS:
        return Edited(source=None, problems=(f"the edit has {len(hunks) or 'no'} blocks; write 1 to {MAX_HUNKS}",))
    if not any(_trimmed(hunk.old) for hunk in hunks) and form != "search-replace":
        return rewrite(parent, "\n".join(line for hunk in hunks for line in hunk.new).strip("\n") + "\n")  # a new file
    source, problems = parent, []
    for number, hunk in enumerate(hunks, 1):
        placed = _placed(source, hunk)
        if isinstance(placed, Problem):
            problems.append(f"block {number} of {len(hunks)}: {placed.word}")
        else:
            source = placed
    if not problems and not respects(parent, source):
        problems.append("the edit would change EVOLVE-BLOCK markers; leave them as they are")
    return Edited(source=None if problems else source, problems=tuple(problems))


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a hunk has no place."""

    word: str


def _placed(source: str, hunk: Hunk) -> str | Problem:
    """The text with one hunk applied."""
    lines = source.split("\n")
    ends = "\r" if lines[0].endswith("\r") else ""
    bare = [line.rstrip("\r") for line in lines]
    old, new = _trimmed(hunk.old), _trimmed(hunk.new)
    if not old:
        return Problem("its SEARCH part is empty; repeat the lines that shall be replaced")
    places = [at for at in _open_places(source, bare, len(old)) if tuple(bare[at : at + len(old)]) == old]
    exact = bool(places)
    if not exact:
        loose = [_loose(line) for line in old]
        plain = [_loose(line) for line in bare]
        places = [at for at in _open_places(source, bare, len(old)) if plain[at : at + len(old)] == loose]
    if len(places) > 1:
        places = _chosen(places, hunk, bare)
    if len(places) > 1:
        return Problem(f"its old lines occur {len(places)} times in the program; add lines around them")
    if not places:
        inside = "inside the EVOLVE-BLOCK regions of the program" if regions(source) else "in the program"
        return Problem(f"its old lines do not occur {inside} (they begin with {old[0].strip()[:60]!r})")
    at = places[0]
    if not exact:
        new = tuple(_reindented(new, old, bare[at : at + len(old)]))
    # Trailing blank lines of the hunk were left out on both sides, so nothing around its place moves.
    return "\n".join([*lines[:at], *(line + ends for line in new), *lines[at + len(old) :]])


def _open_places(source: str, lines: Sequence[str], length: int) -> Iterator[int]:
    """The line numbers, from 0, at which `length` lines may be replaced: all, or those inside a region."""
    spans = [(source.count("\n", 0, start), source.count("\n", 0, end)) for start, end in regions(source)]
    for first, last in spans or [(0, len(lines))]:
        yield from range(first, last - length + 1)


def _chosen(places: list[int], hunk: Hunk, lines: Sequence[str]) -> list[int]:
    """Of several places those that the hunk itself names: by its line, or as the first below its anchor."""
    if hunk.line is not None and hunk.line - 1 in places:
        return [hunk.line - 1]
    anchors = [at for at, line in enumerate(lines) if hunk.anchor.strip() and _loose(line) == _loose(hunk.anchor)]
    if len(anchors) == 1:
        return [at for at in places if at >= anchors[0]][:1]
    return places


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def _loose(line: str) -> str:
    return " ".join(line.split())


def _trimmed(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines without blank ones at either end."""
    kept = [at for at, line in enumerate(lines) if line.strip()]
    return tuple(lines[kept[0] : kept[-1] + 1]) if kept else ()


def _reindented(new: Sequence[str], old: Sequence[str], found: Sequence[str]) -> Iterator[str]:
    """New lines moved as far as the found lines stand from where the edit thought they did."""
    written, real = _margin(old[0]), _margin(found[0])
    for line in new:
        if line.startswith(written) and line.strip():
            yield real + line[len(written) :]
        else:
            yield line


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _blocks(text: str) -> Iterator[Hunk]:
    """The SEARCH/REPLACE blocks of a text. Raises `ValueError` for one that is not closed."""
    old: list[str] | None = None
    new: list[str] | None = None
    for line in _lines(text):
        if _SEARCH.match(line):
            if old is not None:
                break
            old, new = [], None
        elif old is not None and new is None and _DIVIDER.match(line):
            new = []
        elif old is not None and new is not None and _REPLACE.match(line):
            yield Hunk(old=tuple(old), new=tuple(new))
            old = new = None
        elif new is not None:
            new.append(line)
        elif old is not None:
            old.append(line)
    if old is not None:
        raise ValueError("a SEARCH block is not closed; each ends with ======= , its new lines, and >>>>>>> REPLACE")


def _diff(text: str) -> Iterator[Hunk]:
    """The hunks of a unified diff or an apply_patch envelope. Raises `ValueError` where it is about several files."""
    files, inside = 0, False
    old: list[str] = []
    new: list[str] = []
    line_number: int | None = None
    anchor = ""
    lines = _lines(text)
    for at, line in enumerate(lines):
        following = lines[at + 1] if at + 1 < len(lines) else ""
        header = line.startswith("--- ") and following.startswith("+++ ")
        verb = _PATCH.match(line)
        mark = _HUNK.fullmatch(line) if line.startswith("@@") else None
        if header or verb or mark or line.startswith(("*** End Patch", "```", "~~~")):
            if old or new:
                yield Hunk(old=tuple(old), new=tuple(new), line=line_number, anchor=anchor)
            old, new, line_number, anchor = [], [], None, ""
            files += header or bool(verb and verb["verb"])
            if files > 1:
                raise ValueError("the edit is about several files; there is one program, edit only that")
            if verb and verb["verb"] == "Delete":
                raise ValueError("the edit deletes the program; change it instead")
            if mark:
                line_number, anchor = int(mark["line"]) if mark["line"] else None, mark["anchor"]
            inside = bool(header or verb or mark)
        elif inside and not (line.startswith("+++ ") and lines[at - 1].startswith("--- ")) and not _NOISE.match(line):
            kind, rest = (line[0], line[1:]) if line[:1] in (" ", "+", "-") else (" ", line)
            if kind != "+":
                old.append(rest)
            if kind != "-":
                new.append(rest)
    if old or new:
        yield Hunk(old=tuple(old), new=tuple(new), line=line_number, anchor=anchor)
