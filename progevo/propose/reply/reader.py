"""The search for the program in a text: one order of looking, the same for every reply.

What the order rests on: a text that is a program as it stands is taken as it stands. The answer is the model's first
turn, and in it the last block that defines the entry point and is not the parent again. A last block that means to
define it and does not parse is repaired or the reply is damaged; an earlier block never stands in for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from progevo.edit import apply, recognise
from progevo.propose.names import bindings, defined, unbound
from progevo.propose.reply.blocks import Block, fenced, joined, stretches
from progevo.propose.reply.program import MAX_PROGRAM, Judge, Sight
from progevo.propose.reply.repairs import HUSKS, OMISSIONS, REPAIRS
from progevo.propose.reply.turns import speech
from progevo.propose.reply.wrappings import WRAPPINGS

#: Repairs, wrappings and texts within texts are followed this far; every text counts once.
MAX_STEPS = 3
MAX_TEXTS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A program and how it was got at."""

    source: str
    steps: tuple[str, ...] = ()
    closed: bool = True
    no_op: bool = False
    #: The entry point is defined, not imported.
    defined: bool = True

    def as_nothing(self, judge: Judge) -> Nothing:
        """The same where it may not be taken: a program that nothing shows to have ended, in a text that was cut."""
        return Nothing(
            text=self.source, kind="cut", reason="the text was cut off, and nothing shows that the program had ended"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No program: the stretch that comes nearest to one, for whoever names the damage."""

    text: str
    sight: Sight | None = None
    closed: bool = False
    #: The kind, where the search itself has seen it, and the sentence that goes with it.
    kind: str = ""
    reason: str = ""


class Reading(NamedTuple):
    """A text to read, and what was done to it so far."""

    text: str
    steps: tuple[str, ...]
    closed: bool
    #: One of the steps rests on so little that a program which lacks a name is not believed.
    doubtful: bool


def read(text: str, judge: Judge) -> Found | Nothing:
    """The program in a text, or what is there in its place."""
    first: Nothing | None = None
    no_op: Found | None = None
    waiting = [Reading(text, (), False, False)]
    seen = {text}
    for reading in waiting:
        result = read_plainly(reading.text, judge)
        if isinstance(result, Found) and reading.doubtful and lacking(result, judge):
            continue
        if isinstance(result, Found):
            steps = reading.steps + result.steps
            result = replace(result, steps=steps, closed=result.closed or reading.closed)
            if not result.no_op:
                return result
            no_op = no_op or result
        elif first is None or (reading.closed and first.sight is None and result.sight is not None):
            first = result  # what a wrapping holds says more than the wrapping
        if len(reading.steps) < MAX_STEPS and not (
            isinstance(result, Nothing) and result.kind == "unfinished_reasoning"
        ):
            for inner in unwrapped(reading):
                if inner.text not in seen and len(seen) < MAX_TEXTS and inner.text.strip():
                    seen.add(inner.text)
                    waiting.append(inner)
    return no_op or first or Nothing(text=text)


def unwrapped(reading: Reading) -> Iterator[Reading]:
    """The texts that a text may be a wrapping of, or that it was before its damage."""
    answers = speech(reading.text).answers
    for text in (reading.text,) if len(answers) != 1 else answers:
        for wrapping in WRAPPINGS:
            for inner in wrapping.open(text):
                yield Reading(
                    inner.text, (*reading.steps, wrapping.name), reading.closed or inner.closed, reading.doubtful
                )
        for repair in REPAIRS:
            if repair.anywhere and (plain := repair.mend(text)) is not None:
                yield Reading(
                    plain, (*reading.steps, repair.name), reading.closed, reading.doubtful or repair.doubtful(text)
                )


def read_plainly(text: str, judge: Judge) -> Found | Nothing:
    """The program in a text that is wrapped in nothing but Markdown, prose and turns."""
    if whole := taken(judge, Block(text=text, start=0, closed=False)):
        return whole
    spoken = speech(text)
    no_op: Found | None = None
    nothing: Nothing | None = None
    for answer in spoken.answers:
        result = read_answer(answer, judge)
        if isinstance(result, Found) and not result.no_op:
            return replace(result, steps=spoken.steps + result.steps)
        if isinstance(result, Found):
            no_op = no_op or replace(result, steps=spoken.steps + result.steps)
        else:
            nothing = nothing or result
            if result.sight is not None and result.sight.state == "broken" and judge.mentions(result.text):
                return result  # the answer itself; what follows in other turns is made up
    if spoken.unfinished and no_op is None:
        return Nothing(text=text, kind="unfinished_reasoning", reason="the reply ends within the model's reasoning")
    return no_op or nothing or Nothing(text=text)


def read_answer(text: str, judge: Judge) -> Found | Nothing:
    """The program in one answer."""
    if whole := taken(judge, Block(text=text, start=0, closed=False)):
        return whole
    blocks = fenced(text)
    found: list[Found] = []
    target: Block | None = None
    elided: Block | None = None
    other: Block | None = None
    for block in reversed(blocks):
        state = judge.look(block.text).state
        if program := taken(judge, block):
            found.append(with_needed(program, block, blocks, judge))
        elif state == "elided":
            elided = elided or block
        elif state in ("broken", "outside") and judge.mentions(block.text) and not recognise(block.text):
            target = target or block
        elif state == "other" and judge.look(block.text).source.strip():
            other = other or block
        if target and not found:
            break
    if (chosen := choice(found)) and (not chosen.no_op or target is None):
        return chosen
    result = (between_marks(text, judge, target) or mended(longer(text, target), judge)) if target else None
    if result is None and (form := recognise(text)):
        return edited(text, form, judge)
    if result is None and elided and target is None and choice(found) is None:
        return Nothing(text=elided.text, sight=judge.look(elided.text), closed=True, kind="elided")
    if result is None and target is None:
        result = between_marks(text, judge, target) or mended([Block(text=text, start=0, closed=False)], judge)
    if result is None and not found:
        result = first_program(joined(blocks), judge)
    if isinstance(result, Found):
        return result
    nearest = result.text if result else (target or other or elided or Block(text=text, start=0, closed=False)).text
    closed = (target or other or Block(text=text, start=0, closed=False)).closed
    return result or Nothing(text=nearest, sight=judge.look(nearest), closed=closed)


def taken(judge: Judge, block: Block) -> Found | None:
    """A block that is a program, as it stands."""
    sight = judge.look(block.text)
    if sight.state not in ("program", "no_op"):
        return None
    for husk in HUSKS:
        inner = husk.mend(block.text)
        if inner is not None and judge.look(inner).state in ("program", "no_op"):
            return taken(judge, replace(block, text=inner, closed=True, steps=(*block.steps, husk.name)))
    return Found(
        source=sight.source,
        steps=(*block.steps, "outside-restored") if sight.restored else block.steps,
        closed=block.closed,
        no_op=sight.state == "no_op",
        defined=sight.defined,
    )


def choice(found: list[Found]) -> Found | None:
    """Of several programs, last one first: the first that is new and defines what it should by itself."""
    if not found:
        return None
    own = [one for one in found if one.defined] or found  # not tests that import the entry point
    fresh = [one for one in own if not one.no_op]
    best = (fresh or own)[0]
    passed = ("parent-passed-over",) if fresh and len(fresh) < len(own) else ()
    several = ("last-of-several",) if len(fresh) > 1 else ()
    return replace(best, steps=best.steps + passed + several)


def with_needed(found: Found, block: Block, blocks: list[Block], judge: Judge) -> Found:
    """A program with the blocks before it that bind names which it reads and does not bind: one program in parts."""
    tree = judge.look(block.text).tree
    if tree is None or judge.confined:
        return found
    parts = [block]
    missing = unbound(tree)
    for earlier in reversed(blocks[: blocks.index(block)]):
        sight = judge.look(earlier.text)
        if sight.state == "other" and sight.tree is not None and missing & defined(sight.tree):
            parts.insert(0, earlier)
            missing |= unbound(sight.tree)
            missing -= defined(sight.tree)
    if len(parts) == 1:
        return found
    joint = first_program(joined(parts), judge)
    return joint if joint and not joint.no_op else found


def edited(text: str, form: str, judge: Judge) -> Found | Nothing:
    """What an edit makes of the parent."""
    if judge.parent is None:
        return Nothing(text=text, kind="edit_failed", reason=f"the reply is an edit ({form}) and there is no parent")
    result = apply(judge.parent, text)
    if result.source is None:
        return Nothing(text=text, kind="edit_failed", reason="; ".join(result.problems))
    if program := taken(judge, Block(text=result.source, start=0, closed=True, steps=(form,))):
        return program
    return Nothing(text=result.source, sight=judge.look(result.source), closed=True)


def between_marks(text: str, judge: Judge, target: Block | None) -> Found | None:
    """A program between two fence marks that CommonMark does not pair; not before the block that is meant."""
    start = opening_of(text, target) if target else 0
    found = [
        program
        for block in stretches(text, start)
        if (program := taken_if_meant(judge, block)) and complete(program, text.replace(block.text, ""), judge)
    ]
    fresh = [program for program in found if not program.no_op]
    best = [program for program in fresh if program.closed] or fresh or found
    return best[0] if best else None


def opening_of(text: str, block: Block) -> int:
    """Where the line begins that opens a block."""
    return max(0, text.rfind("\n", 0, max(0, block.start - 1)))


def taken_if_meant(judge: Judge, block: Block) -> Found | None:
    return taken(judge, block) if judge.mentions(block.text) else None


def left_out_of(plain: str, text: str) -> str:
    """The lines of a text that a shorter one has not."""
    kept = set(plain.split("\n"))
    return "\n".join(line for line in text.split("\n") if line not in kept)


def complete(found: Found, left: str, judge: Judge) -> bool:
    """Whether a program needs nothing of the text around it that was left out: names that it reads and lacks."""
    return not lacking(found, judge) & set(re.findall(r"\w+", left))


def lacking(found: Found, judge: Judge) -> set[str]:
    """The names that a program reads and binds nowhere; none where it imports all that a module has."""
    tree = judge.tree(found.source)
    if not isinstance(tree, ast.Module) or "*" in bindings(tree):
        return set()
    return {name for name in unbound(tree) if not name.startswith("__")}


def first_program(blocks: Iterable[Block], judge: Judge) -> Found | None:
    return next((program for block in blocks if (program := taken(judge, block))), None)


def longer(text: str, target: Block) -> list[Block]:
    """A block that does not parse, and the longest stretch that it may be the beginning of (a fence in a docstring)."""
    ways = stretches(text, opening_of(text, target))
    return [target, *[block for block in ways if block.start == target.start and block.closed][:1]]


def mended(blocks: Iterable[Block], judge: Judge) -> Found | Nothing | None:
    """The first of some blocks that a few repairs make a program, after the fewest of them; `None` where none do."""
    for block in blocks:
        if len(block.text) <= MAX_PROGRAM and judge.mentions(block.text) and (result := repaired(block, judge)):
            return result
    return None


def repaired(block: Block, judge: Judge) -> Found | Nothing | None:
    waiting: list[tuple[str, tuple[str, ...]]] = [(block.text, ())]
    seen = {block.text}
    for text, steps in waiting:
        for repair in REPAIRS if len(steps) < MAX_STEPS else ():
            plain = repair.mend(text)
            if plain is None or plain in seen or len(seen) > MAX_TEXTS:
                continue
            seen.add(plain)
            done = (*steps, repair.name)
            sight = judge.look(plain)
            if sight.state == "elided":
                return Nothing(text=plain, sight=sight, closed=True, kind="elided")
            closed = block.closed or "prose-after" in done
            program = taken(judge, Block(text=plain, start=0, closed=closed, steps=block.steps + done))
            if program and (repair not in OMISSIONS or complete(program, left_out_of(plain, text), judge)):
                return None if repair.doubtful(text) and lacking(program, judge) else program
            if sight.state == "broken" or (sight.state == "outside" and judge.confined):
                waiting.append((plain, done))
    return None
