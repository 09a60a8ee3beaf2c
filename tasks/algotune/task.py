"""AlgoTune: programs that solve a problem faster than its reference does (see docs/algotune.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from progevo.domain import SEARCH, TEST, Domain
from progevo.errors import TaskError
from progevo.evaluators.timing import Examiner, Speedup, drawn, large_enough
from progevo.tasks.algotune.checkout import Checkout
from progevo.tasks.algotune.problem import OWN, Problem, own
from progevo.types import MIB, DataSource, GatePolicy, Limits, Metric

NAME = "algotune"
ABOUT = "Faster solvers for a problem with a reference: class Solver, scored by how many times faster it is."

#: Instances of each part.
COUNT = {SEARCH: 5, TEST: 5}
#: What a program may take to be imported and ready, before its call is timed.
READY_S = 10.0
#: The harmonic mean over problems counts no speedup below this one, and a problem without a result as it.
LEAST = 1.0

IMPORTS = frozenset(
    {
        "__future__",
        "abc",
        "array",
        "base64",
        "bisect",
        "cmath",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "decimal",
        "enum",
    }
    | {"fractions", "functools", "gzip", "hashlib", "heapq", "hmac", "itertools", "logging", "math", "numba", "numbers"}
    | {"numpy", "operator", "random", "scipy", "statistics", "string", "struct", "time", "typing", "warnings", "zlib"}
)


def domain(*, data: Path | None = None, problem: str | None = None, n: int | None = None) -> Domain:
    """The task with one problem. Raises `TaskError` for a problem that is not there or cannot be timed.

    Args:
        data: a checkout of AlgoTune, whose problems are meant then; without it those are that are progevo's own.
        problem: which; by default the first.
        n: its size, in place of its usual one, which grows where the reference is too quick to be timed.
    """
    from progevo.tasks.algotune.moves import MOVES  # a listing of the tasks needs none of what these import

    chosen = found(problem, data)
    examiner = Examiner(chosen.loader)
    try:
        size = n if n is not None else large_enough(examiner, chosen.name, chosen.n, chosen.number("size", 0))
        instances = {
            split: drawn(examiner, chosen.name, size, [chosen.number(split, index) for index in range(count)])
            for split, count in COUNT.items()
        }
    finally:
        examiner.close()
    ids = {split: [instance.sha256 for instance in of] for split, of in instances.items()}
    every = hashlib.sha256("".join(each for of in ids.values() for each in of).encode()).hexdigest()
    words = {"n": str(size), "ready": f"{READY_S:g}", "description": chosen.description}
    here = Path(__file__).parent
    return Domain(
        name=f"{NAME}/{chosen.name}",
        entrypoint="Solver",
        seed=chosen.seed,
        prompt=Template((here / "prompt.md").read_text("utf-8")).substitute(words),
        metric=Metric(name="speedup", direction="maximize", unit="x", aggregate="mean"),
        gate=GatePolicy(imports=IMPORTS | chosen.imports),
        # All runs of a candidate together.
        limits=Limits(wall_s=300.0, cpu_s=300, memory_bytes=4096 * MIB),
        profile="timed",
        evaluator=Speedup(loader=chosen.loader, reference=chosen.reference, instances=instances, ready_s=READY_S),
        data=DataSource(source=f"{chosen.origin}, n = {size}", sha256=every, rows=sum(COUNT.values())),
        moves=MOVES,
        noisy=True,
        exclusive=True,
        case_ids=ids,
        sources=(*sorted(here.glob("*.py")), here / "prompt.md", *chosen.sources),
    )


def problems(which: str | None, *, data: Path | None = None) -> Sequence[str]:
    """The ids that a word names: a problem's own; `all`; `runnable`, those whose packages are there; or a category.

    Raises `TaskError` for a word that names none.
    """
    checkout = checkout_of(data)
    names = list(OWN) if checkout is None else checkout.names()
    if which is None:
        return names[:1]
    if which in names:
        return [which]
    groups = {"all": names, "runnable": [name for name in names if checkout is None or not checkout.lacks(name)]}
    for name, category in ({} if checkout is None else checkout.categories()).items():
        groups.setdefault(category, []).append(name)
    if which in groups:
        return groups[which]
    raise TaskError(f"the task {NAME} has no problem {which!r}; {known(names, list(groups))}")


def known(names: Sequence[str], groups: Sequence[str] = ()) -> str:
    """What may be named, in words."""
    words = f"it has {', '.join(names)}"
    return words + (f"; together, {', '.join(groups)}" if groups else "")


def found(name: str | None, data: Path | None) -> Problem:
    """The problem of a name, of a checkout where there is one, else one of our own. Raises `TaskError` for none."""
    checkout = checkout_of(data)
    if checkout is not None:
        return checkout.problem(name or checkout.names()[0])
    if name is not None and name not in OWN:
        raise TaskError(f"the task {NAME} has no problem {name!r}; {known(list(OWN))}")
    return own(name or next(iter(OWN)))


def checkout_of(data: Path | None) -> Checkout | None:
    """The checkout at a path. Raises `DataError` where that is none."""
    return None if data is None else Checkout.at(data)


def summarize(results: Mapping[str, Mapping[str, Any]]) -> Mapping[str, float | int | None]:
    """AlgoTune's own figure: the harmonic mean of the speedups on the test part, none of which counts below 1."""
    speedups = [result["best"]["test"] for result in results.values()]
    counted = [LEAST if speedup is None else max(LEAST, speedup) for speedup in speedups]
    return {
        "harmonic_mean": len(counted) / sum(1 / speedup for speedup in counted) if counted else None,
        "without_a_result": sum(speedup is None for speedup in speedups),
    }
