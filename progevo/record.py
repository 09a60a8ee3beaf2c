"""Record: everything that follows from a journal's lines, kept up to date line by line.

The loop and a reader feed it the same events, so a resumed run knows what the uninterrupted one would know: which
questions are open and what each may see, the best, the copies, what has been spent, what has been tested.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import overload

from progevo.budget import Budget, Spent
from progevo.errors import RunError
from progevo.events import Asked, Confirmed, Drift, Ended, Event, HeldOut, Resumed, Started, Told, node_of, outcome_of
from progevo.twins import Twins
from progevo.types import Ask, Node, Outcome, Program

#: Best only by its mean score, or only if it also gets no case wrong that the seed had right.
ACCEPTANCES = ("mean", "no_regression")


class Prefix(Sequence[Node]):
    """The first `length` nodes of a list that goes on growing."""

    def __init__(self, nodes: list[Node], length: int) -> None:
        self._nodes, self._length = nodes, length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> list[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | list[Node]:
        if isinstance(index, slice):
            return [self._nodes[place] for place in range(*index.indices(self._length))]
        return self._nodes[range(self._length)[index]]

    def __iter__(self) -> Iterator[Node]:
        return islice(iter(self._nodes), self._length)


@dataclass(frozen=True, slots=True)
class Question:
    """An ask, and how many nodes had been told when it was put: its candidate sees those and no others."""

    ask: Ask
    told: int


@dataclass(kw_only=True)
class Record:
    """What a journal holds. `apply` takes its events in order; everything else is for reading."""

    folder: Path
    start: Started | None = None
    #: The budget that holds now, the last resume's if it changed it.
    budget: Budget = Budget()
    #: Candidates in flight at a time, now.
    workers: int = 1
    nodes: list[Node] = field(default_factory=list)
    #: Every question, in the order of asking.
    questions: list[Question] = field(default_factory=list)
    #: By step: those without an answer, in the order of asking.
    open: dict[int, Question] = field(default_factory=dict)
    #: Whether nothing has been told since the last question was put.
    filling: bool = False
    #: The best so far, and the score that made it so: that of its confirmation, where one was asked for.
    best: int = 0
    best_score: float = -math.inf
    #: A node that is to be run again before it may be called best.
    claimant: int | None = None
    #: By node index: how it scored when it was run again.
    confirmed: dict[int, Outcome] = field(default_factory=dict)
    #: By node index: its runs on the held-out part.
    tested: dict[int, tuple[Outcome, ...]] = field(default_factory=dict)
    #: By node index: which held-out cases were right, run by run, where the task knows.
    right: dict[int, tuple[str | None, ...]] = field(default_factory=dict)
    #: How often the held-out part was opened: once, unless a run was resumed after that.
    looks: int = 0
    looking: bool = False
    #: Why it ended; `None` while it goes on.
    stop_reason: str | None = None
    ended: str | None = None
    drift: list[Drift] = field(default_factory=list)
    #: By node index: path of the log inside the run folder.
    logs: dict[int, str] = field(default_factory=dict)
    twins: Twins = field(default_factory=Twins)
    spent: Spent = field(default_factory=Spent)
    #: Which search cases the seed had right, where acceptance asks.
    _seed_right: str | None = None

    def apply(self, event: Event, node: Node | None = None) -> None:
        """Takes the next event; with a `Told`, the node it tells of.

        Raises `RunError` where it cannot follow the events before it.
        """
        if self.start is None and not isinstance(event, Started):
            raise RunError(f"the journal of {self.folder} does not begin with how the run was started")
        if not isinstance(event, Ended):
            self.stop_reason = None
        match event:
            case Started():
                self.start, self.budget, self.workers = event, event.budget, event.workers
            case Asked():
                question = Question(Ask(event.step, event.parent, event.inspirations), len(self.nodes))
                self.questions.append(question)
                self.open[event.step] = question
                self.filling = True
                self.looking = False
                self.spent.asked += 1
            case Told():
                assert node is not None
                self._tell(event, node)
            case Confirmed():
                self._confirm(event)
            case HeldOut():
                self._test(event)
            case Resumed():
                self.budget = event.budget
                self.workers = event.workers or self.workers
                self.drift += event.drift
            case Ended():
                self.stop_reason, self.ended = event.stop_reason, event.measured.ended
                self.looking = False
                self.spent.seconds = max(self.spent.seconds, event.measured.elapsed_s)

    def history(self, question: Question) -> Prefix:
        """What the candidate of a question may see."""
        return Prefix(self.nodes, question.told)

    def fingerprint(self) -> dict[str, str]:
        """What the scores of this run mean: as it was started, and as a resume was allowed to change it."""
        assert self.start is not None
        found: dict[str, str | None] = {**self.start.fingerprint, **{each.name: each.now for each in self.drift}}
        return {name: value for name, value in found.items() if value is not None}

    def best_node(self) -> Node:
        """The best so far. Raises `RunError` before anything was scored."""
        if not self.nodes:
            raise RunError(f"{self.folder} holds no scored program yet")
        return self.nodes[self.best]

    def ranked(self, count: int) -> list[Node]:
        """The best and the next `count - 1` by search score, each program once, without failures."""
        rest = sorted(
            (node for node in self.nodes if node.outcome.ok and node.twin_of is None and node.index != self.best),
            key=lambda node: (-node.score, node.index),
        )
        return [self.nodes[self.best], *rest][:count]

    def _tell(self, event: Told, node: Node) -> None:
        if event.index != len(self.nodes) or (event.index > 0 and event.step not in self.open):
            raise RunError(
                f"the journal of {self.folder} tells node {event.index}, step {event.step}, out of turn:"
                f" {len(self.nodes)} nodes are told, and the open steps are {list(self.open)}"
            )
        same = self.twins.same_answer(node)
        if same is not None:
            node = replace(node, same_answer_as=same)
        self.open.pop(event.step, None)
        self.nodes.append(node)
        self.twins.add(node)
        self.filling = False
        if event.measured.log is not None:
            self.logs[event.index] = event.measured.log
        spent = self.spent
        spent.told += event.index > 0
        spent.evaluations += event.evaluations
        spent.seconds = max(spent.seconds, event.measured.elapsed_s)
        spent.since_best += event.index > 0
        for draw in node.candidate.draws:
            spent.draw(draw)
        if event.index == 0:
            self.best_score, self._seed_right = node.score, event.right
        elif node.score > self.best_score and self._acceptable(event):
            assert self.start is not None
            if self.start.confirm:
                self.claimant = event.index
            else:
                self._crown(event.index, node.score)

    def _acceptable(self, event: Told) -> bool:
        """Whether a node with the largest score may be called best. A copy never may: its program has had its turn."""
        assert self.start is not None
        if event.twin_of is not None:
            return False
        if self.start.acceptance == "no_regression":
            return lost_cases(self._seed_right, event.right) == 0
        return True

    def _confirm(self, event: Confirmed) -> None:
        outcome = outcome_of(event.outcome, event.measured)
        self.confirmed[event.index] = outcome
        self.claimant = None
        self.spent.evaluations += event.evaluations
        if outcome.ok and outcome.score > self.best_score:
            self._crown(event.index, outcome.score)

    def _crown(self, index: int, score: float) -> None:
        self.best, self.best_score, self.spent.since_best = index, score, 0

    def _test(self, event: HeldOut) -> None:
        if not self.looking:
            self.looking = True
            self.looks += 1
        self.tested[event.index] = tuple(outcome_of(run.outcome, event.measured, cases=run.cases) for run in event.runs)
        self.right[event.index] = tuple(run.right for run in event.runs)
        self.spent.held_out += len(event.runs)


def lost_cases(before: str | None, after: str | None) -> int | None:
    """How many cases were right and are now wrong (altogether, `Domain.wrong`); `None` where nobody knows."""
    return _turned(before, after, "1", "0")


def changed_cases(before: str | None, after: str | None) -> tuple[int | None, int | None]:
    """How many cases are right and were not, and how many were right and are not; `None` where nobody knows."""
    return _turned(before, after, "0~", "1"), _turned(before, after, "1", "0~")


def _turned(before: str | None, after: str | None, old: str, new: str) -> int | None:
    if before is None or after is None or len(before) != len(after):
        return None
    return sum(one in old and other in new for one, other in zip(before, after, strict=True))


class StoredProgram(Program):
    """A program in a run folder, read when somebody looks at its text; its `id` and `twin` are known without."""

    def __init__(self, folder: Path, id: str, twin: str | None) -> None:
        # Where the parent's cached properties would keep them; a frozen value has no other way in.
        object.__setattr__(self, "_folder", folder)
        object.__setattr__(self, "id", id)
        if twin is not None:
            object.__setattr__(self, "twin", twin)

    def __getattr__(self, name: str) -> str:
        if name != "source":
            raise AttributeError(name)
        path: Path = object.__getattribute__(self, "_folder") / "programs" / f"{self.id}.py"
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RunError(f"the journal names {path}, which cannot be read: {error.strerror}") from None
        if hashlib.sha256(content).hexdigest() != self.id:
            raise RunError(f"{path} is not the program that was run: the file was changed or lost its content")
        source = content.decode("utf-8", "surrogatepass")
        object.__setattr__(self, "source", source)
        return source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.id == other.id

    def __hash__(self) -> int:
        return hash((self.source,))

    def __repr__(self) -> str:
        return f"StoredProgram({self.id})"


def stored(line: Told, folder: Path, log_tail: str = "") -> Node:
    """The node of a line, its program left in the run folder."""
    program = StoredProgram(folder, line.program, line.twin) if line.program is not None else None
    return node_of(line, program, log_tail)
