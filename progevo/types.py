"""The values that pass between the rooms: frozen, typed, and free of any other part of progevo."""

from __future__ import annotations

import ast
import functools
import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"

Direction = Literal["minimize", "maximize"]

Status = Literal[
    "ok",
    "no_program",
    "gate_refused",
    "crashed",
    "timeout",
    "cpu_limit",
    "memory_limit",
    "output_limit",
    "bad_output",
    "stage_failed",
    "sandbox_lost",
]

#: What the mean of per-case values means for a metric (see `Metric.of_cases`).
Aggregate = Literal["mean", "root_mean"]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What people read: a named number with a direction and a unit.

    The search sees a *score* instead, which is always larger-is-better. `aggregate` says how the metric
    follows from per-case values (`"root_mean"`: an RMSE from squared errors), which is what lets a result
    state the standard error of a difference; `None` means that it does not follow from them.
    """

    name: str
    direction: Direction
    unit: str = ""
    aggregate: Aggregate | None = None

    def __post_init__(self) -> None:
        if self.direction not in get_args(Direction):
            raise ValueError(f"a metric's direction is minimize or maximize (got {self.direction!r})")
        if self.aggregate not in (None, *get_args(Aggregate)):
            raise ValueError(f"a metric's aggregate is mean, root_mean or None (got {self.aggregate!r})")

    def value(self, score: float) -> float:
        """The metric's value for a search score (negated where smaller is better)."""
        return -score if self.direction == "minimize" else score

    def score(self, value: float) -> float:
        """The search score for a metric value; its own inverse."""
        return -value if self.direction == "minimize" else value


@dataclass(frozen=True)
class Program:
    """The source text of one candidate."""

    source: str

    @functools.cached_property
    def id(self) -> str:
        """sha256 (hex) of the text as UTF-8; the program's file name in a run folder."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()

    @functools.cached_property
    def twin(self) -> str:
        """sha256 (hex) of the normalised syntax tree: equal for copies that differ in comments or layout.

        A text that does not parse has no tree; its twin is its own `id`. For programs that the gate has passed:
        there are texts whose mere parsing takes gigabytes.
        """
        try:
            tree = ast.dump(ast.parse(self.source, filename="<candidate>"))
        except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
            return self.id
        return hashlib.sha256(tree.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one candidate may use. Every field is a cap on the candidate's own sandbox."""

    wall_s: float = 60.0
    #: CPU seconds of one process, all its threads together.
    cpu_s: int = 60
    #: Address space of one process (RLIMIT_AS); the numpy, pandas, scikit-learn stack needs about 400 MiB.
    memory_bytes: int = 2048 * MIB
    file_bytes: int = 64 * MIB
    scratch_bytes: int = 64 * MIB
    open_files: int = 64
    #: Processes and threads together, of this sandbox alone.
    processes: int = 32
    #: What the answer may weigh on the wire.
    answer_bytes: int = 16 * MIB
    #: What stdout and stderr together may carry before the candidate is stopped.
    output_bytes: int = 32 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """What the gate lets pass for one domain (see `progevo.gate`).

    `imports` lists the dotted names that may be imported; each allows itself and its public submodules.
    The three `refused_*` sets add to the gate's own lists, `allowed_names` takes single names out of them.
    """

    imports: frozenset[str]
    #: What it is called in `config.toml`.
    name: str = "task"
    refused_modules: frozenset[str] = frozenset()
    refused_names: frozenset[str] = frozenset()
    refused_attributes: frozenset[str] = frozenset()
    allowed_names: frozenset[str] = frozenset()
    max_bytes: int = 100_000
    #: Only the text itself is checked (size, encoding, syntax, entry point): for trusted-enough tests of the sandbox.
    permissive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackBox:
    """Functions that a candidate may call and never look into: a process outside the sandbox answers, and counts.

    `file` is a trusted Python file, standing alone, that defines `function(parameters)`, which returns `f`; the call
    `f(*point)`, of `arity` floats, returns a float. There is one function for each of `problems`, which hold its
    parameters, as JSON; neither they nor the file ever enter the sandbox. Where `f` raises, its value is NaN.
    """

    file: Path
    problems: tuple[Json, ...]
    arity: int
    #: Calls of each function; one more raises in the candidate and ends nothing else.
    budget: int
    #: The problems are asked about one after the other. The harness hands in the candidate's value of each
    #: (`black_box.hand_in(number, value)`): only then is the next one answered, and this one no more. So the time that
    #: a problem takes can be told from that of the others (`Count.candidate_cpu_s`), whatever the candidate does.
    in_turn: bool = False

    def __post_init__(self) -> None:
        if self.arity < 1 or self.budget < 1 or not self.problems:
            raise ValueError("a black box has problems, and an arity and a budget of at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What a black box has counted for one problem, outside the candidate's process."""

    calls: int
    #: Calls that were refused because the budget was spent.
    refused: int
    #: CPU seconds of the answering process.
    cpu_s: float
    #: Where problems are asked about in turn, CPU seconds of the candidate's process (its threads, not its children)
    #: between handing in the problem before and handing in this one, read from outside; `None` if that never came.
    candidate_cpu_s: float | None = None
    #: The value that was handed in.
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopwatch:
    """One call of a program, timed by a process outside the sandbox, which hands out what it is called on.

    The clock is not the candidate's, and `problem` is nowhere inside before it runs: the program is imported, says that
    it is ready, answers `warm_up`, and only then is given the problem. The clock stops when the whole output is out.
    Whoever takes longer than a cap below is ended, as `timeout`.
    """

    warm_up: bytes
    problem: bytes
    #: Until the program is ready: its import, and its constructor if it has one.
    ready_s: float
    warm_up_s: float
    call_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What a stopwatch has measured, outside the candidate's process. Only `output` is a claim."""

    ready_s: float
    warm_up_s: float
    call_s: float
    output: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a candidate is given. Nothing in here may be secret, for it all becomes readable inside the sandbox; but for
    what a black box or a stopwatch holds.

    `request` reaches the harness as JSON; every file of `files` appears read-only as `/inputs/<name>`. With a
    `black_box` the harness gets a fourth argument: `black_box.problem(number)` is the function of that problem. With a
    `stopwatch` it gets one too: what `progevo.sandbox.stopwatch.Stopwatch` can do. There is one of the two at most.
    """

    request: Mapping[str, Json] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    black_box: BlackBox | None = None
    stopwatch: Stopwatch | None = None

    def __post_init__(self) -> None:
        if self.black_box is not None and self.stopwatch is not None:
            raise ValueError("a job has a black box or a stopwatch, not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back over the wire: a claim of the candidate's, not yet believed."""

    value: Json = None
    #: Flat float64 arrays, in the order in which the harness packed them.
    arrays: tuple[Sequence[float], ...] = ()
    #: No claim, but what the black box itself has counted, one entry a problem.
    counts: tuple[Count, ...] = ()
    #: What the stopwatch of each run has measured; one run has one.
    timings: tuple[Timing, ...] = ()
    #: No claim either: the text of the program that answered.
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What the host made of an answer: `score` is larger-is-better and finite."""

    score: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    #: One value per case, in the metric's own terms (squared errors for an RMSE).
    cases: tuple[float, ...] = ()
    #: In a few words, why a metric is missing (NaN), where one is.
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run in the sandbox: which program, what it is given, and what it may use."""

    program: Program
    entrypoint: str
    #: The file that calls the entry point and packs its answer (see `progevo.domain.Evaluator`).
    harness: Path
    inputs: Inputs
    limits: Limits
    #: Of a task's program: the split that the inputs are of.
    split: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a candidate cost, as measured outside its own process; `None` where nothing could be measured."""

    wall_s: float | None = None
    cpu_s: float | None = None
    max_rss_bytes: int | None = None

    @staticmethod
    def together(usages: Sequence[Usage]) -> Usage:
        """What several runs cost: times add up, memory does not; unknown where one of them is."""
        wall = [usage.wall_s for usage in usages]
        cpu = [usage.cpu_s for usage in usages]
        memory = [usage.max_rss_bytes for usage in usages]
        return Usage(
            wall_s=None if None in wall else sum(filter(None, wall)),
            cpu_s=None if None in cpu else sum(filter(None, cpu)),
            max_rss_bytes=None if None in memory else max(filter(None, memory), default=0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How one run in the sandbox ended. `answer` is there if and only if `status` is `"ok"`."""

    status: Status
    answer: Answer | None = None
    reason: str = ""
    log_tail: str = ""
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one candidate. A bad candidate is an outcome with a cause, never an exception."""

    status: Status
    score: float = -math.inf
    metrics: Mapping[str, float] = field(default_factory=dict)
    cases: tuple[float, ...] = ()
    reason: str = ""
    log_tail: str = ""
    usage: Usage = Usage()
    #: What is kept of `cases` once a node has been told (`progevo.sketch`).
    sketch: str = ""
    #: sha256 (hex) of what it answered, case by case; equal answers have equal ones. `None` without an answer.
    answer_id: str | None = None
    #: The last split that it ran on, where the domain has stages; the metrics are of that one.
    stage: str = ""
    #: Of the seed: its score on each stage.
    stage_scores: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status == "ok" and not math.isfinite(self.score):
            raise ValueError(f"an outcome that is ok has a finite score (got {self.score})")
        if self.status != "ok" and self.score != -math.inf:
            raise ValueError(f"an outcome that is {self.status} scores negative infinity (got {self.score})")
        if self.status != "ok" and not self.reason:
            raise ValueError(f"an outcome that is {self.status} names its cause")

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What one call to a model counted, as its provider reports it; `None` where it reports nothing."""

    prompt: int | None = None
    completion: int | None = None
    #: The parts of the two above that were thought, and that came from a cache.
    reasoning: int | None = None
    cached: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One reply drawn from a model: what arrived, and what it cost.

    `kind` and `fault` say what was wrong with a damaged one (`progevo.propose.reply`), `steps` name the repairs of
    a recovered one. `cost_usd` is `None` where no price is known. `file` is where the raw reply lies in the run folder.
    """

    model: str
    verdict: Literal["ok", "recovered", "damaged"]
    kind: str = ""
    fault: Literal["model", "channel", "budget", "provider", ""] = ""
    steps: tuple[str, ...] = ()
    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    seconds: float = 0.0
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a proposer made of a parent: a program, or the word why there is none."""

    program: Program | None
    #: Who or what wrote it, in few words: "seed", the name of a move, the name of a model.
    origin: str
    reason: str = ""
    #: The replies that were drawn for it, in order; the last one holds the program, if there is one.
    draws: tuple[Draw, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One scored candidate in a search. Index 0 is the seed; indexes follow the order of telling."""

    index: int
    #: Which ask led to it (0 for the seed).
    step: int
    parent: int | None
    candidate: Candidate
    outcome: Outcome
    #: The node whose normalised program this one repeats, if any; its outcome was taken over.
    twin_of: int | None = None
    #: The first node that gave the same answer to every case by another program, if any.
    same_answer_as: int | None = None

    @property
    def score(self) -> float:
        return self.outcome.score


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What a proposer may know when it is asked for one candidate."""

    step: int
    parent: Node
    #: All nodes told before this step was asked, in order; `history[i].index == i`.
    history: Sequence[Node]
    #: A generator of this step's own, derived from (seed, step).
    rng: random.Random
    #: Other nodes worth learning from, where the search names any.
    inspirations: tuple[Node, ...] = ()


class Ask(NamedTuple):
    """What a search wants next: a child of node `parent`; `step` identifies the question (1, 2, ...)."""

    step: int
    parent: int
    inspirations: tuple[int, ...] = ()


class Rewrite(Protocol):
    """One small change to a program text; `None` where it does not apply."""

    def __call__(self, source: str, rng: random.Random, /) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A named rewrite that changes one thing, with one line on what it does."""

    name: str
    rewrite: Rewrite
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """Where a domain's cases come from, as written into results."""

    source: str
    sha256: str | None = None
    rows: int | None = None
