"""The offline proposer: small seeded changes to a parent's text. No model, no key, no network.

It knows nothing of what a program is for. What it learns within a run is which of its moves have paid so far.
"""

from __future__ import annotations

import ast
import builtins
import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from progevo.propose.operators import OPERATORS, cross
from progevo.rewrite import FILE, UNREADABLE, parse
from progevo.types import Brief, Candidate, Move, Node, Program

#: How often a domain's own moves are drawn where it has some: they know what its programs are made of, while most
#: random edits of a working program break it.
DOMAIN_SHARE = 0.9
#: How often, otherwise, a second node takes part.
CROSSOVER_SHARE = 0.25
#: How many draws one proposal may cost; most end early, a domain's spent moves make the rest.
ATTEMPTS = 60

#: What an untried move starts with, where 1 would make it as good as the average one: each is worth trying early.
HOPE = 3.0

CROSSOVER = "crossover"


@dataclass(frozen=True, kw_only=True)
class Mutate:
    """Proposes one small change to the parent, by a domain's moves and by operators that know only Python.

    Attributes:
        entrypoint: the name that every program must go on defining.
        moves: the domain's own moves.
    """

    entrypoint: str
    moves: tuple[Move, ...] = ()

    @property
    def name(self) -> str:
        return "mutate"

    def propose(self, brief: Brief, /) -> Candidate:
        """A program that no node of the history holds, as far as `ATTEMPTS` draws find one.

        Its `origin` names the move; that of a crossover also names the other node.
        """
        parent = nearest_program(brief)
        if parent is None or parse(parent.source) is None:
            return Candidate(program=None, origin=self.name, reason="the parent holds no program that can be rewritten")
        known = {parent.twin, *(program.twin for node in brief.history if (program := readable(node)) is not None)}
        missing = unbound(ast.parse(parent.source, FILE))
        record = Record.of(brief.history)
        repeat: Candidate | None = None
        for attempt in range(ATTEMPTS):
            # A domain whose moves are spent on this parent leaves the second half to the operators.
            moves = self.moves if attempt < ATTEMPTS // 2 else ()
            origin, source = draw(moves, parent, brief, record)
            if source is None or not stands(source, self.entrypoint, missing):
                continue
            program = Program(source)
            if program.twin not in known:
                return Candidate(program=program, origin=origin)
            repeat = Candidate(program=program, origin=origin)
        reason = f"none of {ATTEMPTS} draws changed the parent into a program that may run"
        return repeat or Candidate(program=None, origin=self.name, reason=reason)


def draw(moves: Sequence[Move], parent: Program, brief: Brief, record: Record) -> tuple[str, str | None]:
    """One change, by a move of the domain's or one of our own: what made it, and the new text if it applied."""
    rng = brief.rng
    if moves and rng.random() < DOMAIN_SHARE:
        move = record.choose(moves, rng)
    elif rng.random() < CROSSOVER_SHARE:
        return crossover(parent, brief)
    else:
        move = record.choose(OPERATORS, rng)
    return move.name, move.rewrite(parent.source, rng)


@dataclass(frozen=True)
class Record:
    """What each origin has been worth in a run so far.

    A child is worth the rank of its gain over its parent among all such gains, from 0 for the least to 1 for the
    largest: ranks need no scale, and a failure counts as the least.
    """

    uses: Mapping[str, int]
    worth: Mapping[str, float]

    @classmethod
    def of(cls, history: Sequence[Node]) -> Record:
        gains = [
            (gain(node, history[node.parent]), node.candidate.origin) for node in history if node.parent is not None
        ]
        ordered = sorted(value for value, _ in gains)
        uses, worth = Counter[str](), defaultdict[str, float](float)
        for value, origin in gains:
            below, above = bisect_left(ordered, value), bisect_right(ordered, value)
            uses[origin] += 1
            worth[origin] += (below + above) / (2 * len(ordered))  # equals share their mean rank
        return cls(uses, worth)

    def choose(self, moves: Sequence[Move], rng: random.Random) -> Move:
        """Thompson's rule (Biometrika 25, 1933): draw each move's mean worth from what is known, take the largest.

        Moves not tried yet come early, those that keep paying come often, and none is ever given up.
        """
        return max(moves, key=lambda move: self.drawn(move.name, rng))

    def drawn(self, origin: str, rng: random.Random) -> float:
        uses, worth = self.uses.get(origin, 0), self.worth.get(origin, 0.0)
        return rng.betavariate(HOPE + worth, 1.0 + uses - worth)


def gain(node: Node, parent: Node) -> float:
    """By how much a node is better than its parent; a failed one never is, whatever its parent was."""
    if not node.outcome.ok:
        return -math.inf
    return node.score - parent.score if parent.outcome.ok else 0.0


def crossover(parent: Program, brief: Brief) -> tuple[str, str | None]:
    """The parent with a piece of another node, one that ran if there is any."""
    others = [(node, program) for node in brief.history if (program := readable(node)) and program.twin != parent.twin]
    able = [(node, program) for node, program in others if node.outcome.ok] or others
    if not able:
        return CROSSOVER, None
    node, program = brief.rng.choice(able)
    return f"{CROSSOVER} with node {node.index}", cross(parent.source, program.source, brief.rng)


def readable(node: Node) -> Program | None:
    """A node's program, unless the gate has refused it: some texts cost gigabytes merely to be parsed."""
    return None if node.outcome.status == "gate_refused" else node.candidate.program


def nearest_program(brief: Brief) -> Program | None:
    """The parent's program, or that of its nearest ancestor which has one: a reply without a program is a node too."""
    node = brief.parent
    while (program := readable(node)) is None and node.parent is not None:
        node = brief.history[node.parent]
    return program


def stands(source: str, entrypoint: str, missing: Set[str]) -> bool:
    """Whether a text is worth a run: it parses, defines the entry point, and misses no name that its parent did not.

    It is not compiled here: CPython folds constants as it compiles, which a short text can make costly.
    """
    try:
        tree = ast.parse(source, FILE)
        return (not entrypoint or entrypoint in defined(tree)) and unbound(tree) <= missing
    except UNREADABLE:
        return False


def defined(tree: ast.Module) -> set[str]:
    """The names of a module's own functions, classes and plain variables."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom):
            found |= bindings(node)
    return found


def unbound(tree: ast.AST) -> set[str]:
    """The names that a program reads and binds nowhere, built-in ones aside."""
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return read - bindings(tree) - set(dir(builtins))


def bindings(tree: ast.AST) -> set[str]:
    """The names that are bound anywhere below a node."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=alias):
                found.add(alias or name.partition(".")[0])
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                found.add(name)
    return found
