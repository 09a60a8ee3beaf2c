"""Source text -> `Verdict`: everything in a program that its domain does not let pass, line by line.

The gate is a filter for accidents and cheap refusals, never the boundary; the sandbox is. It saves runs and names
the cause; somebody who wants to get past it will. Files, network, memory, time and whatever a library reaches by
itself are not its business. A false refusal of ordinary code costs more than a miss, so a rule that ordinary code
would trip over is left out, or narrowed (see the comments beside the tables).

The text is parsed, never compiled or run: CPython folds constants and copies `finally` bodies when it compiles, which
a short text can make costly. The caller must compile the very `str` that was checked (for bytes: their UTF-8 reading).
A thread that calls `check` needs 1 MiB of C stack, which is what CPython's parser uses before it gives up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from progevo.gate.entrypoint import entrypoint_findings
from progevo.gate.scan import Scan
from progevo.gate.text import character_findings, cookie_findings, encoded, folding_findings, line_of, parse, too_deep
from progevo.gate.verdict import Finding, Verdict
from progevo.types import GatePolicy

__all__ = ["Finding", "Verdict", "check"]

#: Deepest tree that passes. The deepest of the 3084 files of pandas, scipy and scikit-learn has 33 levels; from about
#: 250 on, `ast.dump` and other things that recurse over a tree overflow.
_MAX_DEPTH = 200


def check(source: str | bytes, policy: GatePolicy, entrypoint: str, others: Sequence[str] = ()) -> Verdict:
    """What `policy` has against a program that must define `entrypoint` at its top level, or one of the `others`.

    Never raises for a text.
    """
    findings = dict.fromkeys(
        _findings(source, policy, entrypoint, others)
    )  # the same thing twice on a line is said once
    return Verdict(findings=tuple(sorted(findings, key=lambda finding: (finding.line, finding.rule, finding.message))))


def _findings(source: str | bytes, policy: GatePolicy, entrypoint: str, others: Sequence[str]) -> Iterator[Finding]:
    """Every finding, in no order. Each stage needs what the one before it has made sure of."""
    if len(source) > policy.max_bytes or len(encoded(source)) > policy.max_bytes:
        yield Finding(line=0, rule="size", message=f"the program is larger than {policy.max_bytes} bytes; shorten it")
        return
    try:
        text = source.decode("utf-8") if isinstance(source, bytes) else source
    except UnicodeDecodeError as error:
        line = line_of(source[: error.start].decode("utf-8"), error.start) if isinstance(source, bytes) else 0
        yield Finding(line=line, rule="encoding", message="the program is not valid UTF-8; write it as UTF-8")
        return
    if found := [*character_findings(text), *cookie_findings(text)]:
        yield from found
        return
    tree = parse(text)
    if isinstance(tree, Finding):
        yield tree
        return
    yield from entrypoint_findings(tree, entrypoint, others)
    if policy.permissive:
        return
    levels = list(_levels(tree))
    if len(levels) > _MAX_DEPTH:
        line = min((line for node in levels[-1] if (line := getattr(node, "lineno", 0))), default=0)
        yield Finding(line=line, rule="syntax", message=too_deep(f"more than {_MAX_DEPTH} levels"))
        return
    yield from folding_findings(text)
    yield from Scan(policy, [node for level in levels for node in level]).findings()


def _levels(tree: ast.AST) -> Iterator[list[ast.AST]]:
    """The nodes of a tree, level by level (no recursion: trees can be deeper than the stack)."""
    level = [tree]
    while level:
        yield level
        level = [child for node in level for child in ast.iter_child_nodes(node)]
