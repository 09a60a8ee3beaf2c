"""Runs without a real sandbox: a stand-in that reads what a program would answer, so that thousands of runs are quick.

The boundary has its own tests; these serve what is above it. A program is `def solve(x): return NUMBER`, with words in
a comment that make it fail as a real one would.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from progevo import Candidate, Domain, GatePolicy, Inputs, Metric, Program, Score
from progevo.domain import SEARCH
from progevo.errors import BadOutput
from progevo.journal import FILE
from progevo.sandbox import Confinement
from progevo.types import Answer, Draw, Execution, Tokens, Usage

CONFINEMENT = Confinement(backend="none", rung="stand-in", version="0", kernel="0", profile="stdlib", limits_refused={})


def program(number: float, *, word: str = "", comment: str = "") -> str:
    head = f"# {comment}\n" if comment else ""
    tail = f'\nWORD = "{word}"\n' if word else "\n"
    return f"{head}def solve(x):\n    return {number}{tail}"


@dataclass
class StandIn:
    """A sandbox that runs nothing: the answer is the number in the text, or the failure that its word names."""

    #: Gaussian noise on every answer, drawn anew at each run.
    noise: random.Random | None = None
    #: The longest that one run takes.
    delay_s: float = 0.0
    confinement = CONFINEMENT
    runs: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, job, /):
        with self.lock:
            self.runs += 1
            wobble = self.noise.gauss(0.0, 1.0) if self.noise else 0.0
        source = job.program.source
        if self.delay_s:
            time.sleep(self.delay_s * (hash(source) % 7) / 7)
        word = re.search(r'WORD = "(.*)"', source)
        usage = Usage(wall_s=time.time() % 1, cpu_s=0.5, max_rss_bytes=1 << 20)
        log = f"said at {time.time()}" if word else ""
        match word and word[1]:
            case "crash":
                return Execution(status="crashed", reason="ZeroDivisionError (line 2)", log_tail=log, usage=usage)
            case "slow":
                return Execution(status="timeout", reason="no answer within 1 s", log_tail=log, usage=usage)
            case "bad":
                return Execution(status="ok", answer=Answer(value="nothing"), log_tail=log, usage=usage)
        number = float(re.search(r"return (\S+)", source)[1])
        return Execution(status="ok", answer=Answer(arrays=((number, wobble),)), log_tail=log, usage=usage)

    def close(self):
        pass


@dataclass
class Number:
    """Scores an answer by its distance to a target, one value a case."""

    harness: Path = Path(__file__)
    target: float = 10.0
    count: int = 4

    def inputs(self, split, /):
        return Inputs(request={"split": split})

    def score(self, split, answer, /):
        if not answer.arrays:
            raise BadOutput("no number")
        number, wobble = answer.arrays[0]
        distance = abs(number - self.target - (split != SEARCH)) + wobble
        cases = tuple(distance + 0.01 * case for case in range(self.count))
        return Score(score=-sum(cases) / self.count, cases=cases, metrics={"distance": distance})


def task(**changes) -> Domain:
    domain = {
        "name": "plain",
        "entrypoint": "solve",
        "seed": Program(program(0)),
        "metric": Metric(name="distance", direction="minimize", aggregate="mean"),
        "gate": GatePolicy(imports=frozenset()),
        "evaluator": Number(),
        "profile": "stdlib",
    }
    return Domain(**{**domain, **changes})


@dataclass
class Wanderer:
    """A proposer that does everything a proposer may: moves on, repeats itself, fails, and looks at all it is shown."""

    name: str = "wanderer"
    asked: list[int] = field(default_factory=list)

    def propose(self, brief):
        self.asked.append(brief.step)
        rng, parent = brief.rng, brief.parent.candidate.program
        seen = len(brief.history) + sum(len(node.outcome.log_tail) > 0 for node in brief.history)
        draw = Draw(model="none", verdict="ok", tokens=Tokens(prompt=seen), cost_usd=0.25, seconds=time.time() % 1)
        kind = rng.choice(["move", "move", "move", "copy", "old", "crash", "slow", "bad", "none", "refused", "same"])
        base = float(re.search(r"return (\S+)", parent.source)[1]) if parent else 1.0
        step = float(rng.choice([-1, 1, 2]))
        source = {
            "move": program(base + step, comment=f"seen {seen}"),
            "copy": f"# again {brief.step}\n{parent.source if parent else program(0)}",
            "old": program(rng.choice([1.0, 2.0]), comment=f"old {seen}"),
            "crash": program(base, word="crash"),
            "slow": program(base, word="slow"),
            "bad": program(base, word="bad"),
            "none": None,
            "refused": f"import os\n{program(rng.choice([1.0, 2.0]))}",
            "same": program(base, word="x") + f"UNUSED = {brief.step}\n",
        }[kind]
        made = Program(source) if source is not None else None
        return Candidate(program=made, origin=kind, reason="" if made else "no \ud800 program", draws=(draw,))


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def unmeasured(folder: Path) -> list[dict]:
    return [{key: value for key, value in event.items() if key != "measured"} for event in lines(folder)]
