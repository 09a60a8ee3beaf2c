"""The journal: one line of strict JSON for every event of a run, appended, flushed to disk, never rewritten.

    {"event": "started", "schema": "progevo.journal/1", ...}
    {"event": "asked", "step": 1, "parent": 0, "inspirations": []}
    {"event": "node", "index": 1, "step": 1, "parent": 0, ..., "outcome": {...}, "measured": {...}}
    {"event": "tested", "index": 1, "outcome": {...}, "measured": {...}}
    {"event": "ended", "stop_reason": "iterations"}

Every value that was measured (times, sizes, process ids, log files) stands under the one key `measured`, so that
two runs with one seed can be compared by dropping it. The programs themselves lie beside the journal, in `programs/`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from progevo.errors import RunError
from progevo.types import Ask, Candidate, Node, Outcome, Program, Usage

SCHEMA = "progevo.journal/1"
FILE = "journal.jsonl"

Event = dict[str, Any]


class Journal:
    """The one writer of a run folder: its journal, the programs and the logs. Raises `RunError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise RunError(f"the run folder {folder} is not empty; name one that is not there yet (--out)")
            for name in ("programs", "logs"):
                (folder / name).mkdir()
            self._file: TextIO = open(folder / FILE, "x", encoding="ascii")  # noqa: SIM115  (closed by close)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunError(f"the run folder {folder} cannot be written: {error}") from None

    def append(self, event: Event) -> None:
        """Writes one event and returns when it is on disk. Raises `RunError` where the disk does not take it."""
        line = json.dumps(event, allow_nan=False, separators=(",", ":")) + "\n"
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunError(f"the journal of {self.folder} cannot be written: {error.strerror}") from None

    def started(self, **facts: Any) -> None:
        self.append({"event": "started", "schema": SCHEMA, **facts})

    def asked(self, ask: Ask) -> None:
        self.append({"event": "asked", "step": ask.step, "parent": ask.parent, "inspirations": list(ask.inspirations)})

    def node(self, node: Node) -> None:
        """Writes a node; its program and its log come first, so that a line never names a file that is not there."""
        program, log = node.candidate.program, None
        if program is not None:
            path = self.folder / "programs" / f"{program.id}.py"
            if not path.exists():
                write_file(path, program.source.encode("utf-8", "surrogatepass"))
        if node.outcome.log_tail and node.twin_of is None:
            log = f"logs/{node.index:06d}.txt"
            write_file(self.folder / log, node.outcome.log_tail.encode())
        self.append(
            {
                "event": "node",
                "index": node.index,
                "step": node.step,
                "parent": node.parent,
                "program": program.id if program is not None else None,
                "origin": node.candidate.origin,
                "remark": node.candidate.reason,
                "twin_of": node.twin_of,
                "outcome": _outcome_to_json(node.outcome),
                "measured": {**dataclasses.asdict(node.outcome.usage), "log": log},
            }
        )

    def tested(self, index: int, outcome: Outcome) -> None:
        """Writes what a node is worth on the held-out part; happens once, at the end."""
        measured = dataclasses.asdict(outcome.usage)
        self.append({"event": "tested", "index": index, "outcome": _outcome_to_json(outcome), "measured": measured})

    def ended(self, stop_reason: str) -> None:
        self.append({"event": "ended", "stop_reason": stop_reason})

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written has been said already
            self._file.close()


@dataclass(kw_only=True)
class Record:
    """What a journal holds, read back."""

    folder: Path
    started: Event = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    #: By node index.
    tested: dict[int, Outcome] = field(default_factory=dict)
    stop_reason: str | None = None
    #: By node index: path of the log inside the run folder.
    logs: dict[int, str] = field(default_factory=dict)


def read_run(folder: Path) -> Record:
    """The record of a run folder, finished or not.

    A last line that was cut by a crash is left out. Raises `RunError` for a folder that holds no run, for a journal
    of a newer schema and for a line that is damaged.
    """
    record = Record(folder=folder)
    for event in _events(folder / FILE):
        kind = event.get("event")
        if kind == "started":
            record.started = event
        elif kind == "node":
            record.nodes.append(_node_from_json(event, folder))
            if event["measured"].get("log"):
                record.logs[event["index"]] = event["measured"]["log"]
        elif kind == "tested":
            record.tested[event["index"]] = _outcome_from_json(event)
        elif kind == "ended":
            record.stop_reason = event["stop_reason"]
        elif kind != "asked":
            raise RunError(f"{folder / FILE} holds an event {kind!r}, which this version of progevo does not know")
    return record


def _events(path: Path) -> Iterator[Event]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"{path.parent} is not a run folder: its {FILE} cannot be read ({error.strerror})") from None
    # A complete journal ends with a line end: what follows the last one was cut short, and never happened.
    for number, line in enumerate(lines[:-1], start=1):
        try:
            event = json.loads(line)
        except ValueError:
            raise RunError(f"{path}, line {number}, is damaged: it is not JSON") from None
        if number == 1 and event.get("schema") != SCHEMA:
            raise RunError(f"{path} has the schema {event.get('schema')!r}; this version of progevo reads {SCHEMA!r}")
        yield event


def write_file(path: Path, content: bytes) -> None:
    """Writes a whole file or nothing of it. Raises `RunError` where the disk does not take it."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise RunError(f"{path} cannot be written: {error.strerror}") from None


def _outcome_to_json(outcome: Outcome) -> Event:
    """Without the per-case values, whose number would make the journal grow past what anyone reads."""
    return {
        "status": outcome.status,
        "score": outcome.score if outcome.ok else None,
        "metrics": {name: value if math.isfinite(value) else None for name, value in outcome.metrics.items()},
        "reason": outcome.reason,
        **({"stage": outcome.stage} if outcome.stage else {}),
    }


def _outcome_from_json(event: Event) -> Outcome:
    found = event["outcome"]
    usage = {name: event["measured"].get(name) for name in ("wall_s", "cpu_s", "max_rss_bytes")}
    return Outcome(
        status=found["status"],
        score=-math.inf if found["score"] is None else found["score"],
        metrics=found["metrics"],
        reason=found["reason"],
        stage=found.get("stage", ""),
        usage=Usage(**usage),
    )


def _node_from_json(event: Event, folder: Path) -> Node:
    program = None
    if event["program"] is not None:
        path = folder / "programs" / f"{event['program']}.py"
        try:
            program = Program(path.read_bytes().decode("utf-8", "surrogatepass"))
        except OSError as error:
            raise RunError(f"the journal names {path}, which cannot be read: {error.strerror}") from None
    return Node(
        index=event["index"],
        step=event["step"],
        parent=event["parent"],
        candidate=Candidate(program=program, origin=event["origin"], reason=event["remark"]),
        outcome=_outcome_from_json(event),
        twin_of=event["twin_of"],
    )
