"""progevo: a sandboxed program-evolution toolkit for code genomes."""

from progevo.budget import Budget
from progevo.domain import Domain, Evaluator, find_domain
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
    Candidate,
    GatePolicy,
    Inputs,
    Limits,
    Metric,
    Move,
    Node,
    Outcome,
    Program,
    Score,
)

__all__ = [
    "Answer",
    "BadOutput",
    "Budget",
    "BudgetSpent",
    "Candidate",
    "ConfigError",
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
    "TaskError",
    "evaluate",
    "find_domain",
    "resume",
    "run",
]
