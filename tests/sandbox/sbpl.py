"""A small reader of sandbox profiles (SBPL), so that their promises can be checked where there is no macOS.

It knows the rules and filters that `seatbelt.sb` uses, and fails on any other. `allows` holds as macOS is understood
to: of the rules that match, the last one decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

#: A list of expressions, or an atom: a symbol, or a string in quotes, or a regular expression.
Expression: TypeAlias = "list[Expression] | str | Quoted | Pattern"

TOKENS = re.compile(
    r"""\s+|;[^\n]*|(?P<open>\()|(?P<close>\))|\#"(?P<regex>[^"]*)"|"(?P<string>(?:[^"\\]|\\.)*)"|(?P<symbol>[^\s()";]+)"""
)


@dataclass(frozen=True)
class Quoted:
    """A string in quotes."""

    text: str


@dataclass(frozen=True)
class Pattern:
    """A regular expression."""

    text: str


def read(text: str) -> list[list[Any]]:
    """The expressions of a profile. Raises `ValueError` for a text that is no sequence of lists."""
    stack: list[list[Any]] = [[]]
    at = 0
    while at < len(text):
        token = TOKENS.match(text, at)
        if token is None:
            raise ValueError(f"not to be read from here: {text[at : at + 40]!r}")
        at = token.end()
        if token["open"]:
            stack.append([])
        elif token["close"]:
            if len(stack) == 1:
                raise ValueError("a parenthesis too many")
            whole = stack.pop()
            stack[-1].append(whole)
        elif token["regex"] is not None:
            stack[-1].append(Pattern(token["regex"]))
        elif token["string"] is not None:
            stack[-1].append(Quoted(re.sub(r"\\(.)", r"\1", token["string"])))
        elif token["symbol"]:
            stack[-1].append(token["symbol"])
    if len(stack) != 1:
        raise ValueError("a parenthesis is not closed")
    if not all(isinstance(expression, list) and expression for expression in stack[0]):
        raise ValueError("a profile is made of lists")
    return stack[0]


@dataclass(frozen=True)
class Rule:
    """One `allow` or `deny`: for these operations, where one of these filters holds, or always if there is none."""

    allow: bool
    operations: tuple[str, ...]
    filters: tuple[list[Any], ...]


@dataclass(frozen=True)
class Profile:
    """A profile with its parameters, ready to be asked."""

    rules: tuple[Rule, ...]
    parameters: dict[str, str] = field(default_factory=dict)

    def allows(self, operation: str, path: str | None = None, **subject: str) -> bool:
        """Whether an operation is let through; `subject` is its `path`, `target`, `name`, `vnode_type`."""
        subject = subject if path is None else {**subject, "path": path}
        return [rule.allow for rule in self.matching(operation, subject)][-1]

    def allows_by_the_most_specific(self, operation: str, path: str | None = None, **subject: str) -> bool:
        """The same for readers who hold that the rule with the most specific operation decides, and then the last."""
        subject = subject if path is None else {**subject, "path": path}
        found = list(self.matching(operation, subject))
        best = max(_specific(rule, operation) for rule in found)
        return next(rule.allow for rule in reversed(found) if _specific(rule, operation) == best)

    def matching(self, operation: str, subject: dict[str, str]) -> Iterator[Rule]:
        for rule in self.rules:
            if _specific(rule, operation) < 0:
                continue
            if not rule.filters or any(self._holds(each, subject) for each in rule.filters):
                yield rule

    def _holds(self, expression: list[Any], subject: dict[str, str]) -> bool:
        name, *arguments = expression
        if name in ("require-all", "require-any", "require-not"):
            inner = [self._holds(each, subject) for each in arguments]
            return {"require-all": all(inner), "require-any": any(inner), "require-not": not inner[0]}[name]
        kind, test = FILTERS[name]
        (wanted,) = map(self._value, arguments)
        return kind in subject and test(subject[kind], wanted)

    def _value(self, expression: Any) -> str:
        match expression:
            case Quoted(text) | Pattern(text):
                return text
            case ["param", Quoted(name)]:
                return self.parameters[name]
            case str():
                return expression
        raise ValueError(f"not a value: {expression!r}")


#: Filter -> what of the subject it looks at, and when it holds.
FILTERS: dict[str, tuple[str, Callable[[str, str], bool]]] = {
    "literal": ("path", lambda path, wanted: path == wanted),
    "subpath": ("path", lambda path, wanted: path == wanted or path.startswith(wanted.rstrip("/") + "/")),
    "regex": ("path", lambda path, pattern: re.search(pattern, path) is not None),
    "vnode-type": ("vnode_type", lambda kind, wanted: kind == wanted),
    "target": ("target", lambda target, wanted: target == wanted),
    "sysctl-name": ("name", lambda name, wanted: name == wanted),
    "sysctl-name-prefix": ("name", lambda name, wanted: name.startswith(wanted)),
    "global-name": ("name", lambda name, wanted: name == wanted),
    "ipc-posix-name-regex": ("name", lambda name, pattern: re.search(pattern, name) is not None),
}


def _specific(rule: Rule, operation: str) -> int:
    """How closely a rule names an operation; -1 where it does not."""
    lengths = [-1]
    for named in rule.operations:
        if named == "default":
            lengths.append(0)
        elif named == operation or (named.endswith("*") and operation.startswith(named[:-1])):
            lengths.append(len(named))
    return max(lengths)


def profile(text: str, parameters: dict[str, str] | None = None) -> Profile:
    """The rules of a profile. Raises `ValueError` for what this reader does not know."""
    (version, *expressions) = read(text)
    if version != ["version", "1"]:
        raise ValueError("a profile begins with its version")
    rules = []
    for expression in expressions:
        verb, *rest = expression
        if verb not in ("allow", "deny"):
            raise ValueError(f"not a rule: {verb!r}")
        operations = tuple(part for part in rest if isinstance(part, str))
        filters = tuple(part for part in rest if isinstance(part, list))
        if not operations or [*operations, *filters] != rest:
            raise ValueError(f"operations first, then filters: {expression!r}")
        for each in filters:
            _check(each)
        rules.append(Rule(verb == "allow", operations, filters))
    return Profile(tuple(rules), parameters or {})


def _check(expression: list[Any]) -> None:
    name, *arguments = expression
    if name in ("require-all", "require-any", "require-not"):
        for each in arguments:
            _check(each)
    elif name not in FILTERS:
        raise ValueError(f"not a filter: {name!r}")


def parameters_named(text: str) -> set[str]:
    """Every parameter that a profile asks for."""
    found, waiting = set(), list(read(text))
    while waiting:
        expression = waiting.pop()
        if expression[0] == "param":
            found.add(expression[1].text)
        waiting += [part for part in expression if isinstance(part, list)]
    return found
