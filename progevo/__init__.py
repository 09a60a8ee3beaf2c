"""progevo: a sandboxed program-evolution toolkit for code genomes."""

from progevo.domain import Domain, Evaluator, find_domain
from progevo.errors import (
    BadOutput,
    ConfigError,
    DataError,
    ProgevoError,
    ProposerError,
    RunError,
    SandboxUnavailable,
    TaskError,
)
from progevo.evaluate import evaluate
from progevo.run import run
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
)

__all__ = [
    "Answer",
    "BadOutput",
    "BlackBox",
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
    "TaskError",
    "evaluate",
    "find_domain",
    "run",
]
