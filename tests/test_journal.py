"""The journal: what was appended comes back, what was cut is left out, what is damaged is refused, one writes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from progevo.budget import Budget
from progevo.domain import SEARCH, TEST
from progevo.errors import RunError
from progevo.events import (
    SCHEMA,
    Asked,
    Confined,
    Confirmed,
    Drift,
    Ended,
    EndMeasured,
    HeldOut,
    HeldOutRun,
    Judgement,
    Measured,
    Resumed,
    Started,
    StartMeasured,
    printable,
)
from progevo.journal import FILE, Journal, read_events, read_run
from progevo.types import Candidate, DataSource, Draw, Limits, Metric, Node, Outcome, Program, Tokens, Usage

GOLDEN = Path(__file__).parent / "golden" / "journal.jsonl"

START = Started(
    schema=SCHEMA,
    task="toy",
    metric=Metric(name="RMSE", direction="minimize", unit="USD", aggregate="root_mean"),
    data=DataSource(source="built-in", sha256=None, rows=3),
    limits=Limits(),
    splits=(SEARCH, TEST),
    trust="host_scored",
    search="era",
    constants={"c_puct": 1.0},
    proposer="mutate",
    seed=7,
    schedule="sync",
    workers=4,
    repeats=1,
    confirm=False,
    acceptance="mean",
    top=1,
    budget=Budget(iterations=2, target=0.5),
    sandbox=Confined(
        backend="bwrap", rung="warm", version="0.11", kernel="6.1", profile="stdlib", limits_refused={"file_bytes": "x"}
    ),
    versions={"python": "3.11.7"},
    fingerprint={"task": "ab", "limit.wall_s": "60.0"},
    settings={"task": "toy"},
    measured=StartMeasured(started="2026-11-30T12:00:00+00:00", proof={"write": True, "seconds": 0.5}),
)
END = Ended(stop_reason="iterations", measured=EndMeasured(ended="2026-11-30T12:00:09+00:00", elapsed_s=9.0))

text = st.text(max_size=40)
usage = st.builds(Usage, wall_s=st.none() | st.floats(0, 100), cpu_s=st.none() | st.floats(0, 100))
good = st.builds(
    Outcome,
    status=st.just("ok"),
    score=st.floats(allow_nan=False, allow_infinity=False),
    metrics=st.dictionaries(text, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    log_tail=text,
    usage=usage,
    answer_id=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
)
bad = st.builds(Outcome, status=st.just("crashed"), reason=text.filter(bool), log_tail=text, usage=usage)
source = st.none() | text.map(lambda body: f"# {body!r}\nx = '\udc80'\n")
tokens = st.builds(Tokens, prompt=st.none() | st.integers(0, 10**9), cached=st.none() | st.integers(0, 9))
draw = st.builds(
    Draw,
    model=text,
    verdict=st.sampled_from(["ok", "recovered", "damaged"]),
    kind=text,
    fault=st.sampled_from(["model", "channel", "budget", "provider", ""]),
    steps=st.lists(text, max_size=2).map(tuple),
    tokens=tokens,
    cost_usd=st.none() | st.floats(0, 9),
    seconds=st.floats(0, 9),
    file=st.none() | text,
)
draws = st.lists(draw, max_size=2)


def write_nodes(folder, told):
    nodes = [
        Node(
            index=index,
            step=index,
            parent=index - 1 if index else None,
            candidate=Candidate(program=Program(program) if program else None, origin=word, draws=tuple(draws)),
            outcome=outcome,
        )
        for index, (outcome, program, word, draws) in enumerate(told)
    ]
    journal = Journal(folder)
    journal.append(START)
    for node in nodes:
        if node.index:
            journal.append(Asked(step=node.step, parent=node.index - 1, inspirations=(0,)))
        journal.node(node, evaluations=1, elapsed_s=node.index)
    return journal, nodes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(good | bad, source, text | st.just("\ud800"), st.lists(draw, max_size=2)), min_size=1, max_size=5
    )
)
def test_what_was_told_comes_back(tmp_path_factory, told):
    folder = tmp_path_factory.mktemp("run") / "r"
    journal, nodes = write_nodes(folder, told)
    journal.append(END)
    journal.close()
    record = read_run(folder, logs=True)
    assert record.start == START
    assert record.stop_reason == "iterations"
    assert [question.ask.step for question in record.questions] == list(range(1, len(nodes)))
    assert record.spent.calls == sum(len(node.candidate.draws) for node in nodes)
    for found, node in zip(record.nodes, nodes, strict=True):
        assert found.candidate.program == node.candidate.program
        assert found.candidate.origin == printable(node.candidate.origin)
        assert found.candidate.draws == node.candidate.draws
        assert (found.outcome.status, found.outcome.answer_id) == (node.outcome.status, node.outcome.answer_id)
        assert found.score == node.score
        assert found.outcome.metrics == node.outcome.metrics
        assert found.outcome.usage == node.outcome.usage
        assert found.outcome.log_tail == node.outcome.log_tail.replace("\r\n", "\n").replace("\r", "\n")


def test_the_format_is_the_golden_file_s(tmp_path):
    """Whoever reads journals reads these lines. A change of them is a change of the schema's version."""
    journal = Journal(tmp_path / "r")
    journal.append(START)
    outcome = Outcome(
        status="ok", score=-1.5, metrics={"rmse": 1.5, "odd": math.nan}, usage=Usage(wall_s=0.25), answer_id="aa"
    )
    seed = Candidate(program=Program("x = 1\n"), origin="seed")
    journal.node(Node(index=0, step=0, parent=None, candidate=seed, outcome=outcome), evaluations=1, elapsed_s=0.5)
    journal.append(Asked(step=1, parent=0, inspirations=(0,)))
    drawn = Draw(model="m", verdict="recovered", kind="fence", steps=("unfence",), tokens=Tokens(prompt=9), seconds=1.5)
    failed = Outcome(status="crashed", reason='ZeroDivisionError: "é"', log_tail="the end\n")
    child = Candidate(program=Program("x = 2\n"), origin="m", draws=(drawn,))
    journal.node(
        Node(index=1, step=1, parent=0, candidate=child, outcome=failed), evaluations=1, elapsed_s=1.0, right="101"
    )
    judged = Judgement(status="ok", score=-1.25, metrics={}, reason="")
    measured = Measured(wall_s=None, cpu_s=None, max_rss_bytes=None, elapsed_s=2.0)
    journal.append(Confirmed(index=0, evaluations=2, outcome=judged, measured=measured))
    journal.append(
        HeldOut(index=0, runs=(HeldOutRun(outcome=judged, cases=(1.0, 2.5), right="10"),), measured=measured)
    )
    journal.append(END)
    journal.append(Resumed(budget=Budget(iterations=5), drift=(Drift(name="data", was="ab", now=None),)))
    journal.close()
    expected = GOLDEN.read_text()
    for number, made in enumerate((seed, child)):  # how Python prints a tree depends on its version
        expected = expected.replace(f"TWIN {number}", made.program.twin)
    assert (tmp_path / "r" / FILE).read_text() == expected
    assert len(list(read_events(tmp_path / "r"))) == 8


def write(folder, *lines: bytes, end: bytes = b"\n"):
    folder.mkdir()
    (folder / FILE).write_bytes(b"\n".join(lines) + end)


def golden() -> list[bytes]:
    return GOLDEN.read_bytes().splitlines()


def test_a_last_line_that_was_cut_never_happened(tmp_path):
    start, end = golden()[0], golden()[6]
    for number, cut in enumerate([end[:20], end]):
        write(tmp_path / str(number), start, cut, end=b"")
        assert read_run(tmp_path / str(number)).stop_reason is None
    write(tmp_path / "whole", start, end)
    assert read_run(tmp_path / "whole").stop_reason == "iterations"


def test_a_damaged_line_is_named(tmp_path):
    write(tmp_path / "r", golden()[0], b"{nonsense", golden()[6])
    with pytest.raises(RunError, match="line 2, is damaged"):
        read_run(tmp_path / "r")


def test_a_journal_of_another_schema_is_refused(tmp_path):
    write(tmp_path / "r", golden()[0].replace(b"journal/1", b"journal/2"))
    with pytest.raises(RunError, match=r"progevo\.journal/2"):
        read_run(tmp_path / "r")


@pytest.mark.parametrize(
    "line", [b'{"event":"danced"}', b'{"event":"asked","step":1,"parent":0,"inspirations":[],"new":1}']
)
def test_what_this_version_does_not_know_is_refused(tmp_path, line):
    write(tmp_path / "r", golden()[0], line)
    with pytest.raises(RunError, match=r"line 2, says what this version of progevo does not know"):
        read_run(tmp_path / "r")


def test_a_line_out_of_turn_is_refused(tmp_path):
    write(tmp_path / "r", golden()[0], golden()[3])
    with pytest.raises(RunError, match="tells node 1, step 1, out of turn"):
        read_run(tmp_path / "r")


def test_a_folder_without_a_journal_is_no_run(tmp_path):
    with pytest.raises(RunError, match="not a run folder: it holds no journal"):
        read_run(tmp_path)
    write(tmp_path / "r", b"", end=b"")
    with pytest.raises(RunError, match="without a start"):
        read_run(tmp_path / "r")


def test_a_program_that_is_gone_is_named(tmp_path):
    journal, _ = write_nodes(tmp_path / "r", [(Outcome(status="ok", score=1.0), "x = 1", "seed", [])])
    journal.close()
    program = read_run(tmp_path / "r").nodes[0].candidate.program
    (tmp_path / "r" / "programs" / f"{program.id}.py").unlink()
    with pytest.raises(RunError, match=program.id):
        program.source  # noqa: B018


def test_a_program_that_was_changed_is_not_taken_for_what_was_run(tmp_path):
    journal, _ = write_nodes(tmp_path / "r", [(Outcome(status="ok", score=1.0), "x = 1", "seed", [])])
    journal.close()
    program = read_run(tmp_path / "r").nodes[0].candidate.program
    (tmp_path / "r" / "programs" / f"{program.id}.py").write_text("")  # as a lost machine may leave it
    with pytest.raises(RunError, match="changed or lost its content"):
        program.source  # noqa: B018


def test_a_new_run_needs_a_folder_of_its_own(tmp_path):
    first = Journal(tmp_path / "r")
    with pytest.raises(RunError, match="not empty"):
        Journal(tmp_path / "r")
    first.close()


def test_one_process_writes_a_run(tmp_path):
    journal, _ = write_nodes(tmp_path / "r", [(Outcome(status="ok", score=1.0), "x = 1", "seed", [])])
    before = (tmp_path / "r" / FILE).read_bytes()
    code = (
        f"from pathlib import Path; from progevo.journal import Journal; Journal.reopen(Path({str(tmp_path / 'r')!r}))"
    )
    tried = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "another process is writing the run" in tried.stderr
    with pytest.raises(RunError, match="one writer"):
        Journal.reopen(tmp_path / "r")
    assert (tmp_path / "r" / FILE).read_bytes() == before
    journal.close()
    Journal.reopen(tmp_path / "r").close()


def test_every_event_is_on_disk_before_append_returns(tmp_path, monkeypatch):
    synced = []
    journal = Journal(tmp_path / "r")
    monkeypatch.setattr("progevo.journal.os.fsync", lambda number: synced.append(os.fstat(number).st_size))
    for event in (START, END):
        journal.append(event)
        assert synced[-1] == (tmp_path / "r" / FILE).stat().st_size
    journal.close()
    assert len(synced) == 2


def test_a_disk_that_takes_half_a_line_leaves_no_half_line(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "r")
    journal.append(START)
    before = (tmp_path / "r" / FILE).read_bytes()

    class Full:
        """The file of a journal on a disk that is full after ten bytes."""

        def __init__(self, file):
            self._file, self._left = file, 10

        def write(self, content):
            if not self._left:
                raise OSError(28, "No space left on device")
            self._left = 0
            return self._file.write(content[:10])

        def __getattr__(self, name):
            return getattr(self._file, name)

    whole = journal._file
    monkeypatch.setattr(journal, "_file", Full(whole))
    with pytest.raises(RunError, match="No space left"):
        journal.append(END)
    assert (tmp_path / "r" / FILE).read_bytes() == before
    monkeypatch.setattr(journal, "_file", whole)
    journal.append(END)
    journal.close()
    assert read_run(tmp_path / "r").stop_reason == "iterations"


def test_every_line_is_strict_json(tmp_path):
    journal = Journal(tmp_path / "r")
    failed = Outcome(status="crashed", reason="a \x00 b \ud800", metrics={"rmse": math.nan, "big": math.inf})
    journal.node(
        Node(index=0, step=0, parent=None, candidate=Candidate(program=None, origin="x"), outcome=failed),
        evaluations=1,
        elapsed_s=0.0,
    )
    journal.close()
    (line,) = (tmp_path / "r" / FILE).read_text().splitlines()

    def refuse(word):
        raise AssertionError(word)

    event = json.loads(line, parse_constant=refuse)
    assert event["outcome"] == {
        "status": "crashed", "score": None, "metrics": {"rmse": None, "big": None}, "reason": "a \x00 b \\ud800",
    }  # fmt: skip


def test_a_refused_text_is_not_parsed_for_the_journal(tmp_path, monkeypatch):
    monkeypatch.setattr("progevo.types.ast.parse", lambda *a, **k: pytest.fail("parsed"))
    refused = Outcome(status="gate_refused", reason="line 1: no")
    journal, _ = write_nodes(tmp_path / "r", [(refused, "x = 1", "seed", [])])
    journal.close()
    assert read_run(tmp_path / "r").nodes[0].candidate.program.source == "x = 1"
