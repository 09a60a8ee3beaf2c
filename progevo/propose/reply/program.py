"""Whether a text is a program: it parses, defines the entry point, is whole, and is not the parent again.

Texts come from outside. Parsing goes through the gate's `parse`, which survives what is known to end a parser, and
both the length of a text and the sum of all that is parsed for one reply are bounded.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass, field
from typing import Literal

from progevo.edit import regions, rewrite
from progevo.errors import ConfigError
from progevo.gate.entrypoint import last_binding
from progevo.gate.text import parse
from progevo.gate.verdict import Finding
from progevo.propose.names import bindings

State = Literal["program", "no_op", "elided", "other", "broken", "outside", "unread"]

#: No gate lets a longer program pass by default; parsing one of this size takes up to a second and 160 MB.
MAX_PROGRAM = 100_000
#: What is parsed for one reply, all attempts together: some seconds at the very worst.
MAX_PARSED = 2_000_000

_DOTS = re.compile(r"\.{3}|\u2026")
#: A comment that stands for code which was left out: nothing but the phrase, or dots and a word of it.
_LEFT_OUT = re.compile(
    r"""(?:the\ |all\ |your\ |my\ )*+(?:
      (?:rest|remainder)(?:\ of\ (?:the\ |your\ |this\ )?(?:\w+\ )?
        (?:code|file|function|program|class|implementation|body|module|script|logic|method|methods|functions))
        (?:\ (?:stays?|remains?|is|are|goes|as|the|same|unchanged|before|here|below|omitted))*
      | existing\ (?:code|implementation|logic|body)(?:\ (?:here|stays?|remains?|unchanged|above|below|goes))*
      | (?:rest|remainder|everything\ else|everything|(?:\w+\ )?(?:code|implementation|logic|body|functions?|imports))
        \ (?:stays?|remains?|is|are|goes|omitted|unchanged|same|as\ before|here)
        (?:\ (?:the|as|same|unchanged|before|here|identical|above|below|for|brevity))*
    )
    | (?:code\ )?omitted\ for\ brevity
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WITH_DOTS = re.compile(
    r"\b(?:rest|existing|remaining|remainder|unchanged|same|previous|omitted|other code|as before)\b", re.I
)
_COMMENT = re.compile(r"^[ \t]*#([^\r\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one text is. `source` is the program that it makes: the text, or with regions the text in its place."""

    state: State
    source: str
    finding: Finding | None = None
    #: The entry point is defined here, not imported from elsewhere.
    defined: bool = False
    #: What it changed outside the parent's regions was not taken.
    restored: bool = False
    tree: ast.Module | None = None


@dataclass(kw_only=True)
class Judge:
    """Judges texts against one entry point and one parent; remembers what it has seen, and stops at a budget."""

    entrypoint: str
    parent: str | None = None
    left: int = MAX_PARSED
    seen: dict[str, Sight] = field(default_factory=dict)
    #: Whether the parent marks what may change, and its tree: both known once.
    confined: bool = field(init=False)
    shape: str | None = field(init=False)
    #: The names that the parent's regions bind.
    inside: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.confined = self.parent is not None and bool(regions(self.parent))
        self.shape = shape(self.tree(self.parent)) if self.parent is not None else None
        self.inside = frozenset()
        if self.parent is not None and self.confined:
            bodies = [textwrap.dedent(self.parent[start:end]) for start, end in regions(self.parent)]
            trees = [tree for body in bodies if isinstance(tree := self.tree(body), ast.Module)]
            self.inside = frozenset(name for tree in trees for name in bindings(tree))

    def mentions(self, text: str) -> bool:
        """Whether a text speaks of the entry point as something defined (with regions: whether it may be meant)."""
        return self.confined or self.names(text)

    def names(self, text: str) -> bool:
        """Whether a text speaks of the entry point, or of what the parent's regions bind, as something defined."""
        names = "|".join(map(re.escape, sorted({self.entrypoint, *self.inside})))
        return re.search(rf"(?<![^\W\d_])(?:{names})\s*[(（=:]", text) is not None

    def look(self, text: str) -> Sight:
        """What a text is."""
        if text not in self.seen:
            self.seen[text] = self._look(text)
        return self.seen[text]

    def _look(self, text: str) -> Sight:
        source, restored = text, False
        if self.confined:
            assert self.parent is not None
            edited = rewrite(self.parent, text)
            if edited.source is None:
                return Sight(state="outside", source=text, finding=Finding(line=0, rule="", message=edited.problems[0]))
            source, restored = edited.source, edited.restored
            if restored and isinstance(own := self.tree(text), Finding):
                return Sight(state="broken", source=text, finding=own)  # fences and prose are no outside
            if not self.fits(text):
                return Sight(state="other", source=text)
        tree = self.tree(source)
        if tree is None:
            return Sight(state="unread", source=source)
        if isinstance(tree, Finding):
            return Sight(state="broken", source=source, finding=tree)
        binding = last_binding(tree, self.entrypoint)
        defined = binding is not None and not isinstance(binding, ast.Import | ast.ImportFrom)
        state: State = "program"
        if binding is None:
            state = "other"
        elif left_out(text, tree, binding):
            state = "elided"
        elif self.shape is not None and shape(tree) == self.shape:
            state = "no_op"
        return Sight(state=state, source=source, defined=defined, restored=restored, tree=tree)

    def fits(self, text: str) -> bool:
        """Whether a text without markers can be a region's inside: it binds a name that the parent's inside binds.

        Without this a usage example, or a word that parses, would do.
        """
        try:
            if regions(text):
                return True
        except ConfigError:  # markers of its own, if not in pairs
            return True
        tree = self.tree(textwrap.dedent(text))
        return not isinstance(tree, ast.Module) or not self.inside or bool(bindings(tree) & self.inside)

    def stops_short(self, source: str) -> bool:
        """Whether the entry point gives back nothing where the parent's does: a text that is not closed was cut."""
        trees = [self.look(source).tree, self.tree(self.parent) if self.parent else None]
        gives = [gives_back(tree, self.entrypoint) for tree in trees if isinstance(tree, ast.Module)]
        return gives == [False, True]

    def tree(self, text: str) -> ast.Module | Finding | None:
        """A text's tree or what is wrong with it; `None` for one that is too long, or past the budget."""
        if len(text) > MAX_PROGRAM or len(text) > self.left:
            return None
        self.left -= len(text) + 200  # short texts are not free either
        return parse(text)


def shape(tree: ast.Module | Finding | None) -> str | None:
    """A tree's own text, comments and layout aside; `None` where there is no tree that can be walked."""
    if not isinstance(tree, ast.Module):
        return None
    try:
        return ast.dump(tree)
    except (RecursionError, MemoryError, ValueError):  # ValueError: integers of thousands of digits have no text
        return None


def left_out(text: str, tree: ast.Module, entry: ast.stmt) -> bool:
    """Whether a text that parses only sketches a program: a bare `...` for a body, or a comment that says so."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and not statement.decorator_list:
            dots = [line for line in statement.body if is_dots(line)]
            rest = [line for line in statement.body if not is_dots(line) and not is_text(line)]
            if dots and (statement is entry or not rest):
                return True
    if any(is_dots(statement) for statement in tree.body):
        return True
    return any(says_left_out(match[1]) for match in _COMMENT.finditer(text))


def says_left_out(comment: str) -> bool:
    words = " ".join(re.findall(r"\w+", comment[:200]))
    if _DOTS.search(comment):
        return not words or _WITH_DOTS.search(words) is not None
    return _LEFT_OUT.fullmatch(words) is not None and len(words.split()) > 1


def gives_back(tree: ast.Module, name: str) -> bool:
    """Whether a function returns or yields something; anything else than a function counts as doing so."""
    function = last_binding(tree, name)
    if not isinstance(function, ast.FunctionDef):
        return True
    return any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value for node in ast.walk(function))


def is_dots(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and statement.value.value is ...
    )


def is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
