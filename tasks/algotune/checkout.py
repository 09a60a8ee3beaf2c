"""Checkout: the tasks of somebody's own copy of AlgoTune, as problems (github.com/oripress/AlgoTune, MIT).

Nothing of it is part of progevo. Read are `AlgoTuneTasks/<name>/<name>.py`, `description.txt` beside it, and the
sizes that its authors publish, `reports/generation.json`. Code of it is only run by `standin`, in processes of its
own.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from progevo.errors import DataError, TaskError
from progevo.evaluators.timing import Loader, Reference
from progevo.tasks.algotune import standin
from progevo.tasks.algotune.excerpt import solver
from progevo.tasks.algotune.problem import Problem
from progevo.types import Program

TASKS, SIZES = "AlgoTuneTasks", Path("reports") / "generation.json"
#: What the packages are called that modules come in, where that is another name.
PACKAGES = {
    "cv2": "opencv-python",
    "faiss": "faiss-cpu",
    "ot": "POT",
    "pysat": "python-sat",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
}
STANDIN = Path(standin.__file__).resolve()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A folder that holds a copy of AlgoTune."""

    root: Path

    @classmethod
    def at(cls, root: Path) -> Checkout:
        """Raises `DataError` where a folder is none."""
        if not (root / TASKS).is_dir():
            raise DataError(
                f"{root} is no checkout of AlgoTune: it has no folder {TASKS}; give the folder that has one"
            )
        return cls(root=root)

    def names(self) -> list[str]:
        """Every task in it."""
        return sorted(file.stem for file in (self.root / TASKS).glob("*/*.py") if file.stem == file.parent.name)

    def categories(self) -> dict[str, str]:
        """name -> what kind of task its description says it is."""
        return {name: self._description(name)[1] for name in self.names()}

    def lacks(self, name: str) -> list[str]:
        """The packages that a task imports anywhere, and that are not installed here."""
        missing = [module for module in self._modules(name) if importlib.util.find_spec(module) is None]
        return sorted(PACKAGES.get(module, module) for module in missing)

    def problem(self, name: str) -> Problem:
        """A task as a problem. Raises `TaskError` for one that is not there or lacks a package."""
        file = self._file(name)
        missing = self.lacks(name)
        if missing:
            raise TaskError(
                f"{name} needs {', '.join(missing)}, which is not installed here: pip install {' '.join(missing)}"
            )
        source = file.read_text("utf-8")
        n = self._sizes().get(name)
        if n is None:
            raise TaskError(f"{self.root / SIZES} has no size for {name}: give one with --n")
        return Problem(
            name=name,
            description=self._description(name)[0],
            n=n,
            loader=Loader(file=STANDIN, argument=[str(file.resolve()), name], name=name),
            reference=Reference(program=_reference(name, source), entrypoint="solve"),
            seed=Program(solver(source)),
            imports=frozenset(self._modules(name)) - {"os", "sys"},
            sources=(file,),
            origin=f"AlgoTune, {name}",
        )

    def _file(self, name: str) -> Path:
        file = self.root / TASKS / name / f"{name}.py"
        if name not in self.names():
            raise TaskError(f"{self.root} has no task {name!r}; it has {', '.join(self.names()) or 'none'}")
        return file

    def _modules(self, name: str) -> list[str]:
        """The modules of others that a task imports, wherever in its text."""
        tree = ast.parse(self._file(name).read_text("utf-8"))
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
        return sorted(found - sys.stdlib_module_names - {TASKS})

    def _description(self, name: str) -> tuple[str, str]:
        """What its authors say about a task, and its category."""
        file = self.root / TASKS / name / "description.txt"
        text = file.read_text("utf-8") if file.is_file() else ""
        found = re.search(r"^Category:\s*(\S+)", text, re.MULTILINE)
        return re.sub(r"^Category:.*$", "", text, flags=re.MULTILINE).strip(), found[1] if found else "none"

    def _sizes(self) -> dict[str, int]:
        """name -> the published n."""
        try:
            told = json.loads((self.root / SIZES).read_text("utf-8"))
            return {name: int(facts["n"]) for name, facts in told.items() if facts.get("n")}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise DataError(f"the published sizes, {self.root / SIZES}, cannot be read: {error}") from None


def put_away(source: Path, target: Path) -> Path:
    """Copies what is needed of a checkout. Raises `DataError` where it is none or cannot be copied."""
    checkout = Checkout.at(source)
    names = checkout.names()
    if not names:
        raise DataError(f"{source} is no checkout of AlgoTune: there is not a single task in its {TASKS}")
    checkout._sizes()
    try:
        if target.exists() and target.samefile(source):
            return target
        shutil.rmtree(target, ignore_errors=True)
        for name in names:
            for file in (source / TASKS / name).iterdir():
                if file.suffix in (".py", ".txt") and file.is_file():
                    place = target / TASKS / name / file.name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, place)
        (target / SIZES).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / SIZES, target / SIZES)
    except OSError as error:
        raise DataError(
            f"{target} cannot be written: {error.strerror or error}; set PROGEVO_DATA to another folder"
        ) from error
    return target


def _reference(name: str, source: str) -> Program:
    """A task's own solver as a program: the stand-in, and the task's text behind it."""
    text = STANDIN.read_text("utf-8")
    return Program(f"{text}\n\nrun({source!r}, 'task.py')\nsolve = chosen({name!r})().solve\n")
