"""The offline proposer: small seeded changes to a parent's text. No model, no key, no network.

It knows nothing of what a program is for. What it learns within a run is which of its moves have paid so far.
"""

from __future__ import annotations

import ast
import functools
import random
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

from progevo.edit import respects
from progevo.propose.names import defined, unbound
from progevo.propose.operators import OPERATORS, cross
from progevo.propose.worth import Record
from progevo.rewrite import FILE, UNREADABLE, parse
from progevo.types import Brief, Candidate, Move, Node, Program

#: How often a domain's own moves are drawn where it has some: they know what its programs are made of, while most
#: random edits of a working program break it.
DOMAIN_SHARE = 0.9
#: How often, otherwise, a second node takes part.
CROSSOVER_SHARE = 0.25
#: How many draws one proposal may cost; most end early, a domain's spent moves make the rest.
ATTEMPTS = 60

CROSSOVER = "crossover"

#: A node with the program that it holds.
Mate: TypeAlias = tuple[Node, Program]


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

        Its `origin` names the move; that of a crossover also names the other node. What lies outside the parent's
        EVOLVE-BLOCK regions, where it has any, is kept to the byte.
        """
        parent = nearest_program(brief)
        if parent is None or parse(parent.source) is None:
            return Candidate(program=None, origin=self.name, reason="the parent holds no program that can be rewritten")
        known = {parent.twin, *(program.twin for node in brief.history if (program := readable(node)) is not None)}
        missing = unbound(ast.parse(parent.source, FILE))
        record = Record.of(brief.history, lambda node: node.candidate.origin)
        partners = functools.cache(lambda: mates(parent, brief.history))  # not looked for unless a draw asks for one
        repeat: Candidate | None = None
        for attempt in range(ATTEMPTS):
            # A domain whose moves are spent on this parent leaves the second half to the operators.
            moves = self.moves if attempt < ATTEMPTS // 2 else ()
            origin, source = draw(moves, parent, brief.rng, record, partners)
            if source is None or not stands(source, self.entrypoint, missing) or not respects(parent.source, source):
                continue
            program = Program(source)
            if program.twin not in known:
                return Candidate(program=program, origin=origin)
            repeat = Candidate(program=program, origin=origin)
        reason = f"none of {ATTEMPTS} draws changed the parent into a program that may run"
        return repeat or Candidate(program=None, origin=self.name, reason=reason)


def draw(
    moves: Sequence[Move], parent: Program, rng: random.Random, record: Record, partners: Callable[[], Sequence[Mate]]
) -> tuple[str, str | None]:
    """One change, by a move of the domain's or one of our own: what made it, and the new text if it applied."""
    if moves and rng.random() < DOMAIN_SHARE:
        move = pick(moves, record, rng)
    elif rng.random() < CROSSOVER_SHARE:
        return crossover(parent, partners(), rng)
    else:
        move = pick(OPERATORS, record, rng)
    return move.name, move.rewrite(parent.source, rng)


def pick(moves: Sequence[Move], record: Record, rng: random.Random) -> Move:
    """One move, those that keep paying more often (see `Record.drawn`)."""
    return max(moves, key=lambda move: record.drawn(move.name, rng))


def mates(parent: Program, history: Sequence[Node]) -> Sequence[Mate]:
    """The other programs that a crossover may take a piece of: those that ran, if there are any."""
    others = [(node, program) for node in history if (program := readable(node)) and program.twin != parent.twin]
    return [(node, program) for node, program in others if node.outcome.ok] or others


def crossover(parent: Program, partners: Sequence[Mate], rng: random.Random) -> tuple[str, str | None]:
    """The parent with a piece of another node."""
    if not partners:
        return CROSSOVER, None
    node, program = rng.choice(partners)
    return f"{CROSSOVER} with node {node.index}", cross(parent.source, program.source, rng)


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
