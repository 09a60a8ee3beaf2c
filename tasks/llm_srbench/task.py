"""LLM-SRBench: equations from samples, one at a time or by one program for many (see docs/llm-srbench.md)."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from string import Template
from typing import TYPE_CHECKING, Any

from progevo.domain import SEARCH, TEST, Domain, Usual
from progevo.errors import TaskError
from progevo.types import MIB, DataSource, GatePolicy, Limits, Metric, Program

if TYPE_CHECKING:
    from progevo.evaluators.equations import Problem, Samples
    from progevo.tasks.llm_srbench.source import Source

NAME = "llm_srbench"
ABOUT = "Equations from samples: equation(inputs..., params), or discover(x, y, spec); scored by digits of NMSE."

HERE = Path(__file__).parent

FORMS = ("equation", "discover")
#: One program for all problems of a group: `together:GROUP`.
TOGETHER = "together:"
#: The part of a group's problems that such a program is tested on.
TESTED = 1 / 3
#: For one problem of the form discover.
PROBLEM_CPU_S = 10.0

STANDARD = frozenset(
    {"__future__", "bisect", "collections", "dataclasses", "functools", "heapq", "itertools", "math", "operator"}
    | {"random", "re", "statistics", "typing", "warnings"}
)
GATES = {
    "equation": GatePolicy(imports=frozenset({"__future__", "math", "numpy", "scipy.special", "typing"})),
    "discover": GatePolicy(
        imports=STANDARD | {"numpy", "scipy"}, refused_modules=frozenset({"scipy.datasets", "scipy.io"})
    ),
}


def problems(which: str | None = None, *, data: Path | None = None) -> Sequence[str]:
    """The ids that a word names: one for a problem or for one program together, all for a group, or for `all`.

    Raises `TaskError` for another word.
    """
    from progevo.tasks.llm_srbench.source import open_source

    groups = open_source(data).groups
    every = [name for names in groups.values() for name in names]
    if which is None:
        return every[:1]
    if which in every:
        return [which]
    if which.startswith(TOGETHER):
        members(groups, which.removeprefix(TOGETHER))
        return [which]
    return members(groups, which)


def members(groups: Mapping[str, Sequence[str]], word: str) -> list[str]:
    """The problems of a group, of `lsr_synth` (all groups but `lsr_transform`), or of all. Raises `TaskError`."""
    synth = [name for group, names in groups.items() if group != "lsr_transform" for name in names]
    whole = {"all": [name for names in groups.values() for name in names], "lsr_synth": synth}
    short = word.removeprefix("lsr_synth_").removeprefix("lsr_synth/")
    found = list(groups.get(word, groups.get(short, whole.get(word, ()))))
    if not found:
        some = ", ".join(
            f"{group} ({', '.join(names[:3])}{', ...' * (len(names) > 3)})" for group, names in groups.items()
        )
        raise TaskError(
            f"the task {NAME} has no problem or group {word!r}; there are {some}, all, and {TOGETHER}GROUP for one"
            " program for a whole group"
        )
    return found


def domain(
    *, data: Path | None = None, problem: str | None = None, form: str = "equation", fit: str | None = None
) -> Domain:
    """The task on one problem, or one program together for several.

    Args:
        data: files of a known layout (`source.open_source`); without, equations of our own.
        problem: an id, or `together:GROUP`.
        form: `equation`, a formula with free parameters, or `discover`, a program that finds formulas.
        fit: of the form equation: `least_squares` from seeded starts, or `bfgs`, the benchmark's own.

    Raises:
        TaskError: there is no such problem, form or fit, or they do not go together.
        DataError: the data cannot be read.
    """
    from progevo.tasks.llm_srbench.source import open_source

    if form not in FORMS:
        raise TaskError(f"the task {NAME} has no form {form!r}; there are {' and '.join(FORMS)}")
    source = open_source(data)
    name, *others = chosen = problems(problem, data=data)
    if others:
        raise TaskError(
            f"{problem} names {len(chosen)} problems, and a run takes one; {TOGETHER}{problem} is one program"
        )
    if name.startswith(TOGETHER):
        if form != "discover":
            raise TaskError(f"{name} means one program for several problems; add --option form=discover")
        chosen = members(source.groups, name.removeprefix(TOGETHER))
    if form == "equation":
        return equation_domain(source, source.load(name), fit or "least_squares")
    if fit is not None:
        raise TaskError("a program of the form discover fits for itself; leave the option fit out")
    return discover_domain(source, name, [source.load(each) for each in chosen])


def equation_domain(source: Source, problem: Problem, fit: str) -> Domain:
    """One equation with free parameters, for one problem."""
    from progevo.evaluators.equations import Equations
    from progevo.tasks.llm_srbench.moves import MOVES

    evaluator = Equations(problem, fit=fit)
    held = evaluator.parts[SEARCH]["held"]
    return Domain(
        name=f"{NAME}/{problem.name}",
        entrypoint="equation",
        seed=Program(linear(problem.inputs)),
        prompt=equation_prompt(problem, fit, evaluator.fitted, len(held)),
        metric=Metric(name="digits", direction="maximize", aggregate="mean"),
        gate=GATES["equation"],
        limits=Limits(wall_s=120.0, cpu_s=60, memory_bytes=1024 * MIB),
        profile="numeric",
        evaluator=evaluator,
        # The way to fit decides what a form is worth: no figure without it.
        data=DataSource(source=f"{source.about}, fit {fit}", sha256=problem.sha256, rows=len(problem.train)),
        moves=MOVES,
        case_ids={SEARCH: held.ids(), TEST: problem.test.ids()},
        usual=USUAL.get(problem.name) if problem.group == "own" and fit == "least_squares" else None,
    )


#: By problem of ours: 20 iterations of the offline mutator, the median of seeds 0 to 3.
USUAL: Mapping[str, Usual] = {"spring": Usual(gain=4.7, test_se=0.04)}


def discover_domain(source: Source, name: str, chosen: Sequence[Problem]) -> Domain:
    """One program for one problem, or for several: then a third of them is kept for the test."""
    from progevo.evaluators.discovery import LOST, SOLVED, Discovery
    from progevo.tasks.llm_srbench.discover_moves import MOVES

    search, test = divided(chosen)
    most = max(len(search), len(test))
    return Domain(
        name=f"{NAME}/{name}",
        entrypoint="discover",
        seed=Program((HERE / "discover.py").read_text("utf-8")),
        prompt=discover_prompt(search),
        metric=Metric(name="digits", direction="maximize", aggregate="mean"),
        gate=GATES["discover"],
        limits=Limits(
            wall_s=60.0 + 2 * most * PROBLEM_CPU_S, cpu_s=30 + int(most * PROBLEM_CPU_S), memory_bytes=1536 * MIB
        ),
        profile="numeric",
        evaluator=Discovery({SEARCH: search, TEST: test}, cpu_s=PROBLEM_CPU_S),
        data=DataSource(
            source=source.about,
            sha256=hashlib.sha256("".join(each.sha256 for each in chosen).encode()).hexdigest(),
            rows=sum(len(each.train) for each in chosen),
        ),
        moves=MOVES,
        right=lambda digits: digits >= SOLVED,
        wrong=lambda digits: digits < LOST,
        case_ids={} if search == test else {SEARCH: [p.name for p in search], TEST: [p.name for p in test]},
    )


def divided(chosen: Sequence[Problem]) -> tuple[list[Problem], list[Problem]]:
    """The problems that the search scores and those that the test does, by a fixed draw; of one problem both."""
    if len(chosen) == 1:
        return list(chosen), list(chosen)
    order = sorted(chosen, key=lambda problem: problem.name)
    random.Random(f"progevo {NAME} together").shuffle(order)
    tested = max(1, round(TESTED * len(order)))
    return order[tested:], order[:tested]


def linear(inputs: Sequence[str]) -> str:
    """The seed for these inputs: the shipped one with other names."""
    text = (HERE / "seed.py").read_text("utf-8")
    head, _, _ = text.partition("def equation(")
    terms = [f"params[{number}] * {name}" for number, name in enumerate(inputs)]
    return f"""{head}def equation({", ".join(inputs)}, params):
    \"\"\"The output for arrays of inputs, with free parameters.\"\"\"
    return {" + ".join([*terms, f"params[{len(inputs)}]"])}
"""


def equation_prompt(problem: Problem, fit: str, fitted: Samples, held: int) -> str:
    """What a model is told about one problem: of its samples no more than what programs are fitted to."""
    from progevo.evaluators.equations.score import PARAMETERS

    how = {
        "least_squares": " by nonlinear least squares, from several starting points",
        "bfgs": " by one run of BFGS that starts with every parameter at 1.0",
    }[fit]
    words = [f"    {name}: {problem.about.get(name, 'not said')}" for name in (problem.output, *problem.inputs)]
    ends = [
        f"    {name}: {column.min():.6g} to {column.max():.6g}"
        for name, column in (
            *zip(problem.inputs, fitted.inputs, strict=True),
            (problem.output, fitted.target),
        )
    ]
    return Template((HERE / "prompt.md").read_text("utf-8")).substitute(
        signature=f"equation({', '.join(problem.inputs)}, params)",
        parameters=PARAMETERS,
        output=problem.output,
        about="\n".join(words),
        fitted=f"{len(fitted):,}",
        held=f"{held:,}",
        how=how,
        ranges="\n".join(ends),
    )


def discover_prompt(search: Sequence[Problem]) -> str:
    """What a model is told about many problems."""
    from progevo.evaluators.equations.expression import FUNCTIONS

    operators = {"add", "subtract", "multiply", "divide", "power", "negative"}
    return Template((HERE / "prompt_discover.md").read_text("utf-8")).substitute(
        functions=", ".join(sorted(set(FUNCTIONS) - operators)),
        search=len(search),
        rows=f"{len(search[0].train):,}",
        seconds=f"{PROBLEM_CPU_S:g}",
    )


def summarize(results: Mapping[str, Mapping[str, Any]]) -> Mapping[str, float | int | None]:
    """Figures over the problems of a group, from the test part of seeds and best programs, as in its tables.

    A problem without a figure, for its best program has failed on the test part, counts as not right in every share,
    and as infinitely wrong in a median; a median that is infinite, or of nothing, is `None`.
    """
    best = [result["best"].get("test_metrics") or {} for result in results.values()]
    seed = [result["seed_program"].get("test_metrics") or {} for result in results.values()]
    figures: dict[str, float | int | None] = {}
    for part in ("id", "ood"):
        there = [
            f"acc_0.1_{part}" in before or f"acc_0.1_{part}" in after for before, after in zip(seed, best, strict=True)
        ]
        for word, found in (("seed", seed), ("best", best)):
            rows = [metrics for metrics, known in zip(found, there, strict=True) if known]
            figures[f"{word}_acc_0.1_{part}"] = _share([row.get(f"acc_0.1_{part}") for row in rows])
            figures[f"{word}_median_nmse_{part}"] = _median([row.get(f"nmse_{part}") for row in rows])
    judged = [metrics.get("symbolic") for metrics in best]
    figures["best_symbolic"] = sum(value == 1.0 for value in judged)
    figures["best_symbolic_unknown"] = sum(value is None for value in judged)
    return figures


def _share(values: Sequence[float | None]) -> float | None:
    return sum(value or 0.0 for value in values) / len(values) if values else None


def _median(values: Sequence[float | None]) -> float | None:
    """The median, unknown values being infinite."""
    middle = median([math.inf if value is None else value for value in values]) if values else math.inf
    return middle if math.isfinite(middle) else None
