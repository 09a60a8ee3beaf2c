"""What progevo raises. A bad candidate is never among it: that is an `Outcome`.

ProgevoError                what a person can mend; carries the exit code of the command line
├── ConfigError             2   a setting, option, key or file is not what the rule says
│   ├── TaskError           2   a task cannot be found or is not well formed
│   └── DataError           2   a data file is missing, damaged or not the one that was asked for
├── RunError                2   a run folder cannot be written or read
├── SandboxUnavailable      3   nothing on this host can confine a candidate
└── ProposerError           4   the proposer failed for good
BudgetSpent                 -   raised by a proposer: the next call would pass a budget (ends the run with its name)
BadOutput                   -   raised by a scorer: the answer is not what the contract asks (becomes `bad_output`)
"""

from __future__ import annotations


class ProgevoError(Exception):
    """A refusal with a cause and a cure; `exit_code` is what the command line ends with."""

    exit_code = 2


class ConfigError(ProgevoError):
    """A setting, option, key or file is not what the rule says."""


class TaskError(ConfigError):
    """A task cannot be found or is not well formed."""


class DataError(ConfigError):
    """A data file is missing, damaged or not the one that was asked for."""


class RunError(ProgevoError):
    """A run folder cannot be written or read."""


class SandboxUnavailable(ProgevoError):
    """Nothing on this host can confine a candidate; there is no unconfined mode."""

    exit_code = 3


class ProposerError(ProgevoError):
    """The proposer failed for good: nothing more can be proposed."""

    exit_code = 4


class BudgetSpent(Exception):
    """A proposer's word that its next call would pass a budget; `budget` names it: "calls", "tokens" or "cost_usd"."""

    def __init__(self, budget: str) -> None:
        super().__init__(f"the budget of {budget} is spent")
        self.budget = budget


class BadOutput(Exception):
    """A scorer's word that an answer is not what the contract asks for; it never leaves `evaluate`."""
