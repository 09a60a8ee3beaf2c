"""What the gate says: a verdict, made of findings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that the policy does not let pass: what it is, the rule, and what to do instead."""

    #: Counted from 1; 0 where the text as a whole is meant.
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate found, ordered by line; a program without findings may run (in the sandbox)."""

    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings


def cut(text: str, length: int = 120) -> str:
    return text if len(text) <= length else text[:length] + "..."


def short(text: str) -> str:
    return repr(cut(text, 60))
