"""Problem: what a program can be asked to solve faster, wherever it comes from; and those of our own."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from progevo.evaluators.timing import Loader, Reference
from progevo.types import Program

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a problem is made of: all that is the same, whoever wrote it."""

    name: str
    #: What a model is told about it.
    description: str
    #: Its usual size.
    n: int
    loader: Loader
    reference: Reference
    seed: Program
    #: What programs may import beside what all may.
    imports: frozenset[str] = frozenset()
    #: The files that define it.
    sources: tuple[Path, ...] = ()
    #: Where it comes from, in a few words.
    origin: str

    def number(self, split: str, index: int) -> int:
        """The generator's seed of one instance.

        It follows from the problem's own text, reference and check included: a program that only knows the problem's
        name, and its generator by heart, cannot run through seeds until it finds this one.
        """
        text = "".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in self.sources)
        digest = hashlib.sha256(f"progevo algotune {self.name} {split} {index} {text}".encode()).digest()
        return int.from_bytes(digest[:4], "big") >> 1  # some generators take 31 bits


#: Problems of our own, the usual one first, and n: so that the reference takes 25 to 50 ms.
OWN: Mapping[str, int] = {
    "code_lengths": 2_000,
    "farthest_nodes": 400,
    "lag_correlation": 22_000,
    "pendulum_chain": 24,
    "shifted_systems": 200,
}


def own(name: str) -> Problem:
    """A problem of our own, by one of the names in `OWN`."""
    file, seed = HERE / "problems" / f"{name}.py", HERE / "seeds" / f"{name}.py"
    text = file.read_text("utf-8")
    return Problem(
        name=name,
        description=ast.get_docstring(ast.parse(text)) or "",
        n=OWN[name],
        loader=Loader(file=file, name=name),
        reference=Reference(program=Program(text), entrypoint="solve"),
        seed=Program(seed.read_text("utf-8")),
        sources=(file,),
        origin="progevo's own",
    )
