"""Texts: programs and logs as the page carries them. Every distinct line stands once, every distinct program once.

A program is a list of numbers of lines, so that children which share most of their parent's lines cost little, and so
that the page can compare two programs by comparing numbers. The whole is deflated and written in base 64.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from progevo.errors import RunError
from progevo.types import Json, Node

#: The most that is shown of one program or one line, in characters; the run folder has the whole.
PROGRAM = 100_000
LINE = 2_000
#: The most that is shown of one log, its end, and of all of them together, in bytes.
LOG_BYTES = 8_000
LOGS_BYTES = 2_000_000
#: The most that all distinct lines together may weigh, in characters: a page must stay one that opens.
LINES = 12_000_000


class Texts:
    """Grows as programs are added."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._weight = 0
        self._programs: dict[str, int] = {}
        self._bodies: list[Json] = []

    def number(self, node: Node) -> int | None:
        """The number of a node's program in the page; `None` where it has none."""
        program = node.candidate.program
        if program is None:
            return None
        if program.id not in self._programs:
            self._programs[program.id] = len(self._bodies)
            try:
                source: str | None = program.source
            except RunError:  # the page still says everything else of a run whose program file is lost
                source = None
            self._bodies.append(self._body(program.id, source))
        return self._programs[program.id]

    def packed(self, logs: Mapping[int, str]) -> str:
        """`{"lines": [...], "programs": [...], "logs": {node: text}}`, deflated (zlib), in base 64."""
        content = {"lines": list(self._lines), "programs": self._bodies, "logs": logs}
        written = json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
        return base64.b64encode(zlib.compress(written, 9)).decode("ascii")

    def _body(self, id: str, source: str | None) -> Json:
        """`{"id", "lines": [numbers]}`, with `"cut"`: how many characters of it are not shown."""
        if source is None:
            return {"id": id, "lines": [], "cut": None}
        kept = source[:PROGRAM]
        lines = [line if len(line) <= LINE else line[:LINE] for line in kept.split("\n")]
        new = sum(len(line) for line in set(lines) if line not in self._lines)
        if self._weight + new > LINES:
            return {"id": id, "lines": [], "cut": len(source)}
        self._weight += new
        numbers: list[Json] = [self._lines.setdefault(line, len(self._lines)) for line in lines]
        cut = len(source) - sum(map(len, lines)) - (len(lines) - 1)
        return {"id": id, "lines": numbers, "cut": cut} if cut else {"id": id, "lines": numbers}


def read_logs(folder: Path, logs: Mapping[int, str], first: Iterable[int]) -> dict[int, str]:
    """The ends of the candidates' logs by node, those in `first` before others, as far as there is room for them."""
    found: dict[int, str] = {}
    weight = 0
    for index in dict.fromkeys((*(index for index in first if index in logs), *logs)):
        if weight >= LOGS_BYTES:
            break
        text = _end(folder / logs[index])
        if text.strip():
            found[index] = text
            weight += len(text)
    return found


def _end(path: Path) -> str:
    """The end of a file, without reading what stands before it."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_BYTES))
            content = file.read(LOG_BYTES)
    except OSError:
        return ""
    text = content.decode("utf-8", "replace")
    return text if size <= LOG_BYTES else f"… {size - LOG_BYTES:,} bytes before this are left out here\n{text}"
