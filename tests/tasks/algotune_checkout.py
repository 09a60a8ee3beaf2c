"""A folder laid out as a checkout of AlgoTune is, with small tasks of our own that have what makes those difficult."""

from __future__ import annotations

import json
from pathlib import Path

HEAD = """
import logging
import math
import time
from typing import Any

import numpy as np

from AlgoTuneTasks.base import register_task, Task

PAUSE = 0.02
UNUSED = 3

"""

#: Sleeps, so that how fast it is depends on nothing. Its check lets NaN pass, and looks at every row.
NAP = (
    HEAD
    + '''
def squares(values):
    """What is to be computed."""
    return [value * value for value in values]


@register_task("nap")
class Nap(Task):
    def __init__(self, **kwargs):
        """Says what the task is about."""
        super().__init__(**kwargs)
        self.offset = 1.0

    def generate_problem(self, n: int, random_seed: int = 1) -> dict[str, Any]:
        rng = np.random.default_rng(random_seed)
        return {"values": rng.standard_normal(n).tolist(), "shape": (n, 1), "order": [3, 1, 2]}

    def _helper(self, value: float) -> float:
        # stays
        return value + self.offset

    def solve(self, problem: dict[str, Any]) -> dict[str, list[float]]:
        time.sleep(PAUSE)
        return {"squares": [self._helper(value) for value in squares(problem["values"])]}

    def is_solution(self, problem: dict[str, Any], solution: dict[str, list[float]]) -> bool:
        if len(solution["squares"]) != len(problem["values"]) or problem["order"] != [3, 1, 2]:
            logging.error("another length")
            return False
        for value, found in zip(problem["values"], solution["squares"], strict=True):
            if abs(value * value + self.offset - found) > 1e-9:
                return False
        return True
'''
)
#: Registered under another name than its folder's; what it is given and gives is nothing that JSON knows.
RICH = (
    HEAD.replace("import numpy as np", "import numpy as np\nimport scipy.sparse")
    + """
@register_task("another_name")
class Rich(Task):
    def generate_problem(self, n: int, random_seed: int) -> Any:
        np.random.seed(random_seed)
        matrix = scipy.sparse.random(n, n, density=0.5, format="csc", random_state=random_seed)
        return (matrix, b"\\x00\\xff" + bytes([random_seed % 256]), {(1, 2): np.float32(1.5)}, np.random.rand(n) + 1j)

    def solve(self, problem: Any) -> Any:
        time.sleep(PAUSE)
        matrix, text, table, vector = problem
        return [(matrix @ vector, text[::-1]), {"inf": math.inf, "table": dict(table)}]

    def is_solution(self, problem: Any, solution: Any) -> bool:
        matrix, text, table, vector = problem
        (product, reverse), rest = solution
        exact = isinstance(solution[0], tuple) and type(rest["table"][(1, 2)]) is np.float32
        return exact and bool(np.allclose(product, matrix @ vector)) and reverse == text[::-1]
"""
)
BROKEN = (
    HEAD
    + """
@register_task("broken")
class Broken(Task):
    def generate_problem(self, n: int, random_seed: int = 1) -> int:
        return random_seed

    def solve(self, problem: int) -> int:
        return problem + 1

    def is_solution(self, problem: int, solution: int) -> bool:
        return solution == problem
"""
)
LACKING = (
    "import nothing_of_this_name\nimport sklearn_of_mars as s\n"
    + HEAD
    + "\n@register_task('lacking')\nclass A(Task):\n    pass\n"
)
#: Draws from the global generator whatever the seed, and from the system.
RESTLESS = (
    HEAD.replace("import math", "import math\nimport os")
    + """
@register_task("restless")
class Restless(Task):
    def generate_problem(self, n: int, random_seed: int = 1) -> dict[str, Any]:
        return {"values": np.random.rand(n), "salt": os.urandom(8)}

    def solve(self, problem: dict[str, Any]) -> dict[str, Any]:
        time.sleep(PAUSE)
        return {"sum": float(problem["values"].sum()), "salt": problem["salt"]}

    def is_solution(self, problem: dict[str, Any], solution: dict[str, Any]) -> bool:
        return solution == self.solve(problem)
"""
)
TASKS = {
    "nap": (NAP, "matrix_operations"),
    "rich": (RICH, "graph"),
    "broken": (BROKEN, "graph"),
    "lacking": (LACKING, "misc"),
    "restless": (RESTLESS, "misc"),
}


def checkout(root: Path) -> Path:
    """Writes the folder."""
    tasks = root / "AlgoTuneTasks"
    tasks.mkdir(parents=True)
    (tasks / "base.py").write_text("raise ImportError('the real one needs its framework')\n")
    (tasks / "__init__.py").write_text("raise ImportError('the real one needs its framework')\n")
    for name, (text, category) in TASKS.items():
        (tasks / name).mkdir()
        (tasks / name / f"{name}.py").write_text(text)
        (tasks / name / "description.txt").write_text(f"What {name} asks for.\n\nCategory: {category}\n")
    (root / "reports").mkdir()
    sizes = {name: {"n": 4, "target_time_ms": 100, "dataset_size": 100} for name in TASKS}
    (root / "reports" / "generation.json").write_text(json.dumps(sizes))
    return root
