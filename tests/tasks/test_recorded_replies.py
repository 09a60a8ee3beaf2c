"""A run of each task on replies as models write them, from a file: every reply ends as what it is, the run in any case.

`replies/TASK.jsonl` was written by hand. Step by step: a change in SEARCH/REPLACE form; a whole program in a fence with
prose around it; a program that was cut off, and drawn again without a fence; one that the gate refuses; a refusal in
words; one whose answer is none; one in JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from progevo import find_domain
from progevo.domain import task_names
from progevo.journal import read_run

REPLIES = Path(__file__).with_name("replies")
FILES = sorted(REPLIES.glob("*.jsonl"))

STATUSES = ["ok", "ok", "ok", "ok", "gate_refused", "no_program", "bad_output", "ok"]
DRAWS = [
    [],
    [("recovered", "", ("search-replace",))],
    [("ok", "", ())],
    [("damaged", "cut", ()), ("ok", "", ())],
    [("ok", "", ())],
    [("damaged", "refusal", ())],
    [("ok", "", ())],
    [("recovered", "", ("json",))],
]
DAMAGE = {
    "drawn": 8,
    "damaged": 2,
    "recovered": 2,
    "by_kind": {"cut": 1, "refusal": 1},
    "by_fault": {"budget": 1, "model": 1},
    "attempts_allowed": 4,
}
#: What refuses the fourth, and what is wrong with the answer of the sixth.
REASONS = {
    "s3e1": ("'os' is not allowed", "shape (4952, 1)"),
    "function_minimization": ("'__closure__'", "two numbers (x, y)"),
    "hyp2f1": ("'mpmath' is not allowed", "one real number, got tuple"),
    "integrals": ("'gc' is not allowed", "one real number, got tuple"),
}


def test_every_file_is_of_a_task():
    assert {path.stem for path in FILES} == set(REASONS)
    assert set(REASONS) <= set(task_names())


def ran(file: Path, iterations: int, out: Path):
    command = [sys.executable, "-m", "progevo", "run", "era", "--task", file.stem, "--proposer", f"recorded:{file}"]
    options = ["--iterations", str(iterations), "--out", str(out)]
    return subprocess.run([*command, *options], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_run_on_recorded_replies(file, tmp_path):
    done = ran(file, 7, tmp_path / "r")
    assert done.returncode == 0, done.stderr
    record = read_run(tmp_path / "r")
    assert [node.outcome.status for node in record.nodes] == STATUSES
    assert [[(draw.verdict, draw.kind, draw.steps) for draw in node.candidate.draws] for node in record.nodes] == DRAWS
    refused, bad = REASONS[file.stem]
    assert refused in record.nodes[4].outcome.reason
    assert bad in record.nodes[6].outcome.reason
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    assert {key: result["reply_damage"][key] for key in DAMAGE} == DAMAGE
    assert {status: count for status, count in result["counts"].items() if count} == {
        "ok": 5, "gate_refused": 1, "no_program": 1, "bad_output": 1,
    }  # fmt: skip
    # The second is the one that its author meant to be best, and what it gains is held out as well.
    assert result["best"]["node"] == 2
    assert find_domain(file.stem).metric.direction == result["metric"]["direction"]
    assert result["gain"]["search"] > 0
    assert result["gain"]["test"] > 0
    assert result["proposer"]["name"] == "recorded"
    assert (tmp_path / "r" / "best.py").read_text() == record.nodes[2].candidate.program.source


def test_past_the_last_reply_the_run_ends_with_what_it_has(tmp_path):
    file = REPLIES / "function_minimization.jsonl"
    done = ran(file, 9, tmp_path / "r")
    assert done.returncode == 4
    assert "end with step 7" in done.stderr
    assert json.loads((tmp_path / "r" / "result.json").read_text())["best"]["node"] == 2
