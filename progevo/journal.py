"""The journal: one line of strict JSON for every event of a run, appended, flushed to disk, never rewritten.

What the lines say is in `progevo.events`, what follows from them in `progevo.record`. The programs themselves lie
beside the journal, in `programs/`, and the ends of their output in `logs/`. One process at a time writes a run.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from progevo import complaint
from progevo.errors import RunError
from progevo.events import SCHEMA, Event, Told, plain, told
from progevo.files import write_file
from progevo.record import Record, stored
from progevo.types import Node

FILE = "journal.jsonl"

_DECODER = msgspec.json.Decoder(Event)


class Journal:
    """The one writer of a run folder: its journal, the programs and the logs. Raises `RunError`."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder, new or empty."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise RunError(
                    f"the run folder {folder} is not empty; name one that is not there yet (--out),"
                    " or go on with the run that it holds (progevo resume)"
                )
            for name in ("programs", "logs"):
                (folder / name).mkdir()
            self._file: BinaryIO = open(folder / FILE, "xb", buffering=0)  # noqa: SIM115  (closed by close)
        except OSError as error:
            blocked = complaint.blocking(folder)
            wrong = f"{blocked} is no folder" if blocked is not None else error.strerror
            raise RunError(f"the run folder {folder} cannot be written: {wrong}; name another one with --out") from None
        self._lock()

    @classmethod
    def reopen(cls, folder: Path) -> Journal:
        """The journal of a run that goes on. A last line that was cut by a crash never happened, and is cut off.

        Raises `RunError` where another process is writing it, and for a folder that holds no run.
        """
        journal = cls.__new__(cls)
        journal.folder = folder
        try:
            journal._file = open(folder / FILE, "r+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise RunError(f"{folder} is not a run folder: its {FILE} cannot be written ({error.strerror})") from None
        journal._lock()
        whole = journal._file.seek(0, os.SEEK_END)
        kept = _last_line_end(journal._file, whole)
        if kept < whole:
            journal._file.truncate(kept)
            journal.note(f"cut off a last line of {whole - kept} bytes that had no end")
        journal._file.seek(kept)
        return journal

    def append(self, event: Event) -> None:
        """Writes one event and returns when it is on disk. Raises `RunError` where the disk does not take it."""
        begin, line = self._file.tell(), memoryview(msgspec.json.encode(event) + b"\n")
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):  # half a line must not stand before the next one
                self._file.truncate(begin)
                self._file.seek(begin)
            raise RunError(f"the journal of {self.folder} cannot be written: {error.strerror}") from None

    def node(self, node: Node, *, evaluations: int, elapsed_s: float, right: str | None = None) -> tuple[Told, Node]:
        """Writes a node, and gives it back as the journal holds it.

        Its program and its log come first, so that a line never names a file that is not there.
        """
        program, log = node.candidate.program, None
        if program is not None:
            path = self.folder / "programs" / f"{program.id}.py"
            if not path.exists():
                write_file(path, program.source.encode("utf-8", "surrogatepass"), sync=True)
        if node.outcome.log_tail and node.twin_of is None:
            log = f"logs/{node.index:06d}.txt"
            write_file(self.folder / log, node.outcome.log_tail.encode("utf-8", "backslashreplace"))
        node = plain(node)
        line = told(node, evaluations=evaluations, elapsed_s=elapsed_s, log=log, right=right)
        self.append(line)
        return line, node

    def note(self, text: str) -> None:
        """A line in `logs/resume.txt`: what happened to the run that is no event of it."""
        with contextlib.suppress(OSError), open(self.folder / "logs" / "resume.txt", "a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written has been said already
            self._file.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise RunError(
                f"another process is writing the run {self.folder}; a run has one writer: wait for it or stop it"
            ) from None


def read_run(folder: Path, *, logs: bool = False) -> Record:
    """The record of a run folder, finished or not; with `logs`, the end of each candidate's output as well.

    A last line that was cut by a crash is left out. Raises `RunError` for a folder that holds no run, for a journal
    of a newer schema and for a line that is damaged.
    """
    record = Record(folder=folder)
    tails: dict[int, str] = {}
    for event in _uncollected(read_events(folder)):
        if not isinstance(event, Told):
            record.apply(event)
            continue
        tail = ""
        if logs:
            source = event.twin_of if event.twin_of is not None else event.index
            if event.measured.log is not None:
                tails[source] = _log(folder / event.measured.log)
            tail = tails.get(source, "")
        record.apply(event, stored(event, folder, tail))
    if record.start is None:
        raise RunError(f"{folder} holds a journal without a start: nothing was run there; remove it and run again")
    return record


def read_events(folder: Path) -> Iterator[Event]:
    """The events of a journal, in order. Raises `RunError` as `read_run` does."""
    path = folder / FILE
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                # A complete line ends with a line end: what follows the last one was cut short, and never happened.
                if line.endswith(b"\n"):
                    yield _event(path, number, line)
    except OSError as error:
        inside = sorted(str(run.parent) for run in folder.glob(f"*/{FILE}"))
        if inside:
            hint = f"; it holds the runs {', '.join(inside[:5])}{' and more' * (len(inside) > 5)}: name one"
        elif os.path.isfile(folder) and os.path.exists(folder.parent / FILE):
            hint = f"; it is a file of the run {folder.parent}: name that folder"
        elif (meant := Path("runs") / folder.name / FILE).exists():
            hint = f"; {meant.parent} is one"
        else:
            hint = "; a run says at its start which folder it makes, by default one under runs/"
        if not os.path.exists(folder):
            why = "it does not exist"
        elif isinstance(error, FileNotFoundError):
            why = f"it holds no {FILE}"
        else:
            why = f"its {FILE} cannot be read ({error.strerror})"
        raise RunError(f"{folder} is not a run folder: {why}{hint}") from None


def _uncollected(events: Iterator[Event]) -> Iterator[Event]:
    """The events, with the cyclic garbage collector at rest: it would walk through all nodes again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield from events
    finally:
        if was:
            gc.enable()


def _event(path: Path, number: int, line: bytes) -> Event:
    try:
        if number == 1:
            schema = _schema(json.loads(line))
            if schema != SCHEMA:
                raise RunError(
                    f"{path} has the schema {schema!r}; this version of progevo reads {SCHEMA!r};"
                    " read it with the version that wrote it (the run's config.toml names it)"
                )
        event: Event = _DECODER.decode(line)
        return event
    except msgspec.ValidationError as error:
        raise RunError(f"{path}, line {number}, says what this version of progevo does not know: {error}") from None
    except ValueError:
        raise RunError(
            f"{path}, line {number}, is damaged: it is not JSON; in a copy of the folder, cut the file off before that"
            " line, and progevo resume goes on from there"
        ) from None


def _schema(first: object) -> object:
    return first.get("schema") if isinstance(first, dict) else None


def _log(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _last_line_end(file: BinaryIO, size: int) -> int:
    """Where the last complete line ends."""
    block = 1 << 16
    end = size
    while end > 0:
        begin = max(0, end - block)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
