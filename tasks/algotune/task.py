"""AlgoTune: programs that solve a problem faster than its reference does (see docs/algotune.md)."""

from __future__ import annotations

import difflib
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from progevo.dataset import data_folder
from progevo.domain import SEARCH, TEST, Domain
from progevo.errors import TaskError
from progevo.evaluators.timing import Examiner, Size, Speedup, drawn, large_enough
from progevo.tasks.algotune.checkout import TASKS, Checkout, put_away
from progevo.tasks.algotune.problem import OWN, Problem, own
from progevo.types import MIB, DataSource, GatePolicy, Limits, Metric

NAME = "algotune"
ABOUT = "Faster solvers for a problem with a reference: class Solver, scored by how many times faster it is."

#: Instances of each part.
COUNT = {SEARCH: 5, TEST: 5}
#: What a program may take to be imported and ready, before its call is timed.
READY_S = 10.0
#: What a solution may weigh in any case.
ROOM_MIB = 16
#: The harmonic mean over problems counts no speedup below this one, and a problem without a result as it.
LEAST = 1.0
#: So many names are shown to somebody who gives a wrong one.
SHOWN = 8

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
    """The task with one problem. Raises `TaskError` for one that is not there, lacks a package or fails its own check.

    Args:
        data: a checkout of AlgoTune, whose problems are meant then; without it those are that are progevo's own.
        problem: which; by default the first.
        n: its size, as it is. The usual one grows where the reference is too quick for what it is handed over the wire.
    """
    from progevo.tasks.algotune.moves import MOVES  # a listing of the tasks needs none of what these import

    if n is not None and n < 1:
        raise TaskError(f"n is {n}; the size of a problem is at least 1")
    chosen = found(problem, data)
    examiner = Examiner(chosen.loader)
    try:
        size = Size(chosen.n if n is None else n, math.inf)
        if n is None:
            size = large_enough(examiner, chosen.name, chosen.n, chosen.number("size", 0))
        instances = {
            split: drawn(examiner, chosen.name, size.n, [chosen.number(split, index) for index in range(count)])
            for split, count in COUNT.items()
        }
    finally:
        examiner.close()
    answer = max(ROOM_MIB * MIB, 4 * max(len(instance.solution) for of in instances.values() for instance in of))
    ids = {split: [instance.sha256 for instance in of] for split, of in instances.items()}
    every = hashlib.sha256("".join(each for of in ids.values() for each in of).encode()).hexdigest()
    words = {"n": str(size.n), "ready": f"{READY_S:g}", "description": chosen.description}
    here = Path(__file__).parent
    return Domain(
        name=f"{NAME}/{chosen.name}",
        entrypoint="Solver",
        other_entrypoints=("solve",),
        seed=chosen.seed,
        prompt=Template((here / "prompt.md").read_text("utf-8")).substitute(words),
        metric=Metric(name="speedup", direction="maximize", unit="x", aggregate="mean"),
        # Solvers call their variables `vars`; what the function of that name shows is the program's own affair.
        gate=GatePolicy(imports=IMPORTS | chosen.imports, allowed_names=frozenset({"vars"})),
        # All runs of a candidate together; a solution may weigh more than the reference's, to a point.
        limits=Limits(wall_s=300.0, cpu_s=300, memory_bytes=4096 * MIB, answer_bytes=answer, file_bytes=answer),
        profile="timed",
        evaluator=Speedup(loader=chosen.loader, reference=chosen.reference, instances=instances, ready_s=READY_S),
        data=DataSource(source=f"{chosen.origin}, {_said(size)}", sha256=every, rows=sum(COUNT.values())),
        moves=MOVES,
        noisy=True,
        exclusive=True,
        case_ids=ids,
        sources=(*sorted(here.glob("*.py")), here / "prompt.md", *chosen.sources),
    )


def _said(size: Size) -> str:
    """The size in words, and a warning where its reference is too quick for what it is handed over the wire."""
    return f"n = {size.n}, coarse" if size.coarse else f"n = {size.n}"


def problems(which: str | None, *, data: Path | None = None) -> Sequence[str]:
    """The ids that a word names: a problem, or a group of them.

    Groups are `own`, those of ours; and of a checkout, given or put away, `all` of it, `runnable`, those whose packages
    are installed here, and the categories of its authors. Raises `TaskError` for a word that names none.
    """
    checkout = checkout_of(data) or installed()
    theirs = checkout.names() if checkout is not None else []
    names = [*(OWN if data is None else ()), *theirs]
    if which is None:
        return names[:1]
    if which in names:
        return [which]
    groups = {"all": theirs or names}
    if data is None:
        groups["own"] = list(OWN)
    if checkout is not None:
        groups["runnable"] = [name for name in theirs if not checkout.lacks(name)]
        for name, category in checkout.categories().items():
            groups.setdefault(category, []).append(name)
    if which in groups:
        return groups[which]
    near = difflib.get_close_matches(which, [*names, *groups], SHOWN) or names
    shown = ", ".join(near[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(near) > SHOWN else "")
    raise TaskError(f"the task {NAME} has no problem {which!r}; it has {shown}; by one word, {', '.join(groups)}")


def found(name: str | None, data: Path | None) -> Problem:
    """The problem of a name: of a checkout that is given, else one of ours or of one put away. Raises `TaskError`."""
    named = problems(name, data=data)
    if len(named) > 1:
        raise TaskError(f"{name} names {len(named)} problems of the task {NAME}, {', '.join(named[:3])} and so on")
    name = named[0]
    if data is None and name in OWN:
        return own(name)
    checkout = checkout_of(data) or installed()
    assert checkout is not None
    return checkout.problem(name)


def checkout_of(data: Path | None) -> Checkout | None:
    """The checkout at a path. Raises `DataError` where that is none."""
    return None if data is None else Checkout.at(data)


def installed() -> Checkout | None:
    """What `progevo data get algotune` has put away, if it has."""
    folder = data_folder() / NAME
    return Checkout(root=folder) if os.path.isdir(folder / TASKS) else None


def install(source: Path) -> Path:
    """Puts a checkout away, where it is found without being named. Raises `DataError`."""
    return put_away(source, data_folder() / NAME)


def summarize(results: Mapping[str, Mapping[str, Any]]) -> Mapping[str, float | int | None]:
    """AlgoTune's own figure: the harmonic mean of the speedups on the test part, none of which counts below 1."""
    speedups = [result["best"]["test"] for result in results.values()]
    counted = [LEAST if speedup is None else max(LEAST, speedup) for speedup in speedups]
    return {
        "harmonic_mean": len(counted) / sum(1 / speedup for speedup in counted) if counted else None,
        "without_a_result": sum(speedup is None for speedup in speedups),
    }
