"""Any contract of your own: `harness` calls the program inside the sandbox, `score` judges its outputs on the host."""

from progevo.evaluators.calls.score import Calls, numbers

__all__ = ["Calls", "numbers"]
