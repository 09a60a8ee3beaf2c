"""progevo: a sandboxed program-evolution toolkit for code genomes."""

from progevo.budget import Budget
from progevo.domain import Domain, Evaluator, Stage, find_domain
from progevo.errors import (
    BadOutput,
    BudgetSpent,
    ConfigError,
    DataError,
    ProgevoError,
    ProposerError,
    RunError,
    SandboxUnavailable,
    TaskError,
)
from progevo.evaluate import evaluate
from progevo.run import resume, run
from progevo.types import (
    Answer,
    BlackBox,
    Candidate,
    Count,
    GatePolicy,
    Inputs,
    Limits,
    Metric,
    Move,
    Node,
    Outcome,
    Program,
    Score,
    Stopwatch,
    Timing,
)

__all__ = [
    "Answer",
    "BadOutput",
    "BlackBox",
    "Budget",
    "BudgetSpent",
    "Candidate",
    "ConfigError",
    "Count",
    "DataError",
    "Domain",
    "Evaluator",
    "GatePolicy",
    "Inputs",
    "Limits",
    "Metric",
    "Move",
    "Node",
    "Outcome",
    "ProgevoError",
    "Program",
    "ProposerError",
    "RunError",
    "SandboxUnavailable",
    "Score",
    "Stage",
    "Stopwatch",
    "TaskError",
    "Timing",
    "evaluate",
    "find_domain",
    "resume",
    "run",
]
