"""The gate against the shared battery of hostile, faulty and honest programs, where it is at hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from progevo.gate import check
from progevo.types import GatePolicy

BATTERY = Path(__file__).resolve().parents[2] / "shared" / "battery" / "cases"
NUMERIC = GatePolicy(
    imports=frozenset(
        [
            "atexit",
            "collections",
            "dataclasses",
            "functools",
            "itertools",
            "math",
            "numpy",
            "pandas",
            "random",
            "scipy",
            "sklearn",
            "statistics",
            "threading",
            "time",
            "typing",
            "warnings",
        ]
    )
)
PERMISSIVE = GatePolicy(imports=frozenset(), permissive=True)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One program of the battery and what its header says about it."""

    name: str
    source: bytes
    header: str

    @property
    def oracle(self) -> str:
        return self._field(r"^# oracle: (\S+)")

    @property
    def catch(self) -> str:
        return self._field(r"catch: (\w+)")

    def _field(self, pattern: str) -> str:
        match = re.search(pattern, self.header, re.MULTILINE)
        return match[1] if match else ""


def _cases() -> list[Case]:
    """Every case; none where the battery is not there (each test then skips and says so)."""
    cases = []
    for path in sorted(BATTERY.glob("*.py")):
        source = path.read_bytes()
        beside = path.with_suffix(".meta")
        header = beside.read_text("utf-8") if beside.exists() else source.decode("utf-8", "replace")
        cases.append(Case(name=path.stem, source=source, header=header))
    return cases


CASES = _cases()
pytestmark = pytest.mark.skipif(not CASES, reason=f"no battery at {BATTERY}")


GATE_CASES = [case for case in CASES if case.name.startswith("gate_")]
OTHER_CASES = [case for case in CASES if case not in GATE_CASES]


def _name(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", GATE_CASES, ids=_name)
def test_what_the_gate_is_to_catch_is_refused_with_a_message(case: Case) -> None:
    verdict = check(case.source, NUMERIC, "solve")
    assert case.catch in {"gate", "clean", "sandbox", "limit"}
    if case.catch in {"gate", "clean"}:
        assert not verdict.ok
    assert all(finding.message and finding.rule for finding in verdict.findings)


@pytest.mark.parametrize("case", OTHER_CASES, ids=_name)
def test_everything_else_reaches_the_sandbox_under_a_permissive_policy(case: Case) -> None:
    verdict = check(case.source, PERMISSIVE, "solve")
    assert {finding.rule for finding in verdict.findings} <= {"size", "encoding", "syntax", "entrypoint"}


def test_no_honest_program_is_refused() -> None:
    honest = [case for case in CASES if case.name.startswith("ok_") and case.oracle == "right"]
    refused = {case.name: check(case.source, NUMERIC, "solve").findings for case in honest}
    by_more_than_import = {name for name, found in refused.items() if any(f.rule != "import" for f in found)}
    assert not by_more_than_import
    # The policy for numeric work does not let these import os, sys, tempfile or locale.
    assert {name for name, found in refused.items() if found} <= {"ok_chdir", "ok_non_utf8", "ok_pandas"}
    assert len(honest) > 5
