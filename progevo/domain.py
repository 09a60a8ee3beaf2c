"""Domain: everything that defines a task, and finding one by name, path or entry point."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from progevo.errors import ProgevoError, TaskError
from progevo.options import Options, typed
from progevo.types import Answer, DataSource, Execution, GatePolicy, Inputs, Job, Limits, Metric, Move, Program, Score

#: What the search ranks on, and what is scored once at the end for the seed and for the best.
SEARCH, TEST = "search", "test"

Trust = Literal["host_scored", "self_reported"]


class Evaluator(Protocol):
    """Splits the work of judging: `harness` runs inside with the candidate, everything else on the host.

    `harness` is a Python file that defines `run(entry, request, inputs)`: `entry` is the candidate's entry point,
    `request` the JSON of `Inputs.request`, `inputs` the folder with `Inputs.files`. It returns
    `(value, arrays)`: plain JSON data and a list of flat sequences of floats. It never sees the truth.
    """

    @property
    def harness(self) -> Path:
        """The file that runs inside the sandbox."""
        ...

    def inputs(self, split: str, /) -> Inputs:
        """What the candidate is given for a split: nothing of it is secret."""
        ...

    def score(self, split: str, answer: Answer, /) -> Score:
        """What the answer is worth. Raises `BadOutput` where it is not what the contract asks for."""
        ...


#: One run in the sandbox, asked for again where the host has lost it.
Run: TypeAlias = Callable[[Job], Execution]


@runtime_checkable
class Trial(Protocol):
    """An `Evaluator` that needs more than one run of a candidate: several, or those of another program beside it."""

    def trial(self, split: str, job: Job, run: Run, /) -> Execution:
        """What became of a candidate, whose one run `job` would be: the answer that `score` is given, or its failure.

        The usage is that of the candidate's runs together, which keep within `job.limits` together.
        """
        ...


def try_out(evaluator: Evaluator, split: str, job: Job, run: Run) -> Execution:
    """What became of a candidate by an evaluator's own trial, or by one run."""
    return evaluator.trial(split, job, run) if isinstance(evaluator, Trial) else run(job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What runs of a task have shown, in its metric: what lets a plan say whether the test part can tell a gain."""

    #: The gain of the best over the seed on the test part.
    gain: float
    #: The standard error of that gain.
    test_se: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A split that is scored before the search part, and what a candidate has to reach on it to go on.

    `threshold` is a value of the domain's metric: at most that where the metric is minimized, else at least that.
    """

    split: str
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What `find_domain` was asked for, so that another process can ask for the same. Paths are absolute."""

    task: str
    data: str | None = None
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Domain:
    """A task: what to evolve, how it is confined, and how it is scored.

    Attributes:
        name: what people call it, also in results.
        entrypoint: the name that every program must define; none where the harness gets the text and runs it itself.
        other_entrypoints: names that a program may define in its place.
        seed: the program that the search starts from.
        prompt: what a model is told about the task.
        ask: the template of the question that a model is asked about a program (`progevo.prompt`); its own by default.
        metric: what people see; the search sees scores (larger is better).
        gate: what the gate lets pass.
        limits: what one candidate may use.
        profile: the name or path of a sandbox profile (`progevo.sandbox_profiles`).
        evaluator: makes inputs for the sandbox and scores answers on the host.
        splits: `("search", "test")`, or `("search",)` for a task without a held-out part.
        data: where the cases come from.
        moves: small rewrites that the offline mutator may use beside its own.
        noisy: whether one program scores differently from run to run; then a program is run again before it is
            called best.
        exclusive: whether a candidate must run beside nothing else, since it is timed; such a task takes one worker.
        right: whether a case's value means that the case was got right, for tasks that have such a notion.
        wrong: whether it means that the case was got wrong altogether; without it, whatever is not right is wrong.
        case_ids: for each split what identifies its cases; a case in both parts is refused before a run.
        usual: what runs have shown so far.
        sources: the files that define the task; `find_domain` fills them in.
        reference: how another process finds it; `find_domain` fills it in.
        stages: splits that come before the search part, cheap ones first. A candidate ends at the first whose threshold
            it misses, as `stage_failed`, which ranks as a failure: only what has been scored in full can be the best.
            The seed is scored in full whatever it reaches, and no threshold is held above that.
        trust: who computes scores. `"self_reported"`: code that ran in one process with the candidate.
    """

    name: str
    entrypoint: str
    seed: Program
    metric: Metric
    gate: GatePolicy
    evaluator: Evaluator
    prompt: str = ""
    ask: str = ""
    limits: Limits = Limits()
    profile: str = "tabular"
    splits: tuple[str, ...] = (SEARCH, TEST)
    data: DataSource = DataSource(source="built-in")
    moves: tuple[Move, ...] = ()
    noisy: bool = False
    exclusive: bool = False
    right: Callable[[float], bool] | None = None
    wrong: Callable[[float], bool] | None = None
    case_ids: Mapping[str, Collection[Hashable]] = field(default_factory=dict)
    usual: Usual | None = None
    other_entrypoints: tuple[str, ...] = ()
    sources: tuple[Path, ...] = ()
    reference: Reference | None = None
    stages: tuple[Stage, ...] = ()
    trust: Trust = "host_scored"

    @property
    def mark(self) -> str:
        """The name by which a text is known for a program of this task: the entry point, else the seed's last function.

        Empty where there is neither.
        """
        if self.entrypoint:
            return self.entrypoint
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return next((node.name for node in reversed(ast.parse(self.seed.source).body) if isinstance(node, kinds)), "")

    def __post_init__(self) -> None:
        names = [stage.split for stage in self.stages]
        if len(set(names)) < len(names) or {SEARCH, TEST} & set(names):
            raise TaskError(
                f"the stages of the task {self.name!r} are {', '.join(names)}; each must be a split of its own,"
                f" and neither {SEARCH!r} nor {TEST!r}"
            )


def find_domain(name: str, *, data: Path | None = None, options: Options = MappingProxyType({})) -> Domain:
    """The domain called `name`: a built-in task, a folder or Python file, or an installed entry point, in that order.

    A task's module defines `domain(*, data=None) -> Domain` (in a folder, `task.py` does), and what else that takes are
    its options (`progevo.options`). Raises `TaskError` when there is none of that name, it is not well formed or has no
    such option, and what the task raises about its data (`DataError`).
    """
    module = load_task(name)
    make = getattr(module, "domain", None)
    if not callable(make):
        raise TaskError(
            f"the task {name!r} defines no function domain(*, data=None) -> Domain;"
            " progevo new-task NAME writes a task that does, to begin with"
        )
    try:
        made = make(data=data, **typed(name, make, options))
    except ProgevoError:
        raise
    except Exception as error:
        raise TaskError(f"domain() of the task {name!r} raised {type(error).__name__}: {error}") from error
    if not isinstance(made, Domain):
        raise TaskError(
            f"domain() of the task {name!r} must return a progevo.Domain; it returned {type(made).__name__}"
        )
    where = os.path.abspath(data) if data is not None else None
    reference = Reference(task=_lasting(name), data=where, options=dict(options))
    return replace(made, sources=made.sources or _sources(module), reference=reference)


def task_names() -> dict[str, str]:
    """Every task that can be named, with one line about it."""
    names = {}
    for name in (*_built_in(), *sorted(entry.name for entry in entry_points(group="progevo.tasks"))):
        names[name] = str(getattr(load_task(name), "ABOUT", "")).strip()
    return names


def _built_in() -> list[str]:
    folder = resources.files("progevo.tasks")
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and (entry / "task.py").is_file())


def load_task(name: str) -> ModuleType:
    """The module that defines a task. Raises `TaskError` when there is none of that name."""
    if name in _built_in():
        return importlib.import_module(f"progevo.tasks.{name}.task")
    if _is_path(name):
        path = Path(name)
        return _load_file(path / "task.py" if os.path.isdir(path) else path)
    for entry in entry_points(group="progevo.tasks", name=name):
        loaded = entry.load()
        return loaded if isinstance(loaded, ModuleType) else sys.modules[loaded.__module__]
    raise TaskError(
        f"there is no task {name!r}; built in are {', '.join(_built_in())};"
        " a folder with a task.py, a .py file or the name of an installed progevo.tasks entry point will do as well"
    )


def _lasting(name: str) -> str:
    """The name, or the path that it is, so that it holds in any folder."""
    return name if name in _built_in() or not _is_path(name) else os.path.abspath(name)


def is_task(name: str) -> bool:
    """Whether a word is a built-in task, or the path of a file or folder that could be one."""
    return name in _built_in() or name.endswith(".py") or os.path.isfile(Path(name) / "task.py")


def _is_path(name: str) -> bool:
    return os.path.isdir(name) or name.endswith(".py")


def _sources(module: ModuleType) -> tuple[Path, ...]:
    """The file of a task, or all Python, Markdown and JSON files of its folder."""
    if module.__file__ is None:
        return ()
    path = Path(module.__file__)
    if path.name != "task.py":
        return (path,)
    return tuple(sorted(found for found in path.parent.iterdir() if found.suffix in (".py", ".md", ".json")))


def _load_file(path: Path) -> ModuleType:
    """The module of a task's file; that of a folder is `task` in a package of the folder, so that `.moves` is found."""
    if not os.path.isfile(path):
        raise TaskError(
            f"the task {path} is not there, or cannot be read; a task is a .py file or a folder with a task.py"
        )
    place = path.resolve()
    # Two folders may have the same name.
    name = f"progevo_task_{place.parent.name}_{hashlib.sha256(os.fsencode(place)).hexdigest()[:8]}"
    if path.name == "task.py":
        # What an earlier load of this folder left behind may have been edited since.
        for known in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[known]
        package = ModuleType(name)
        package.__path__ = [str(place.parent)]
        sys.modules[name] = package
        name = f"{name}.task"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TaskError(f"the task {path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module
