"""The journal: what was appended comes back, what was cut is left out, what is damaged is refused."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from progevo.errors import RunError
from progevo.journal import FILE, Journal, read_run
from progevo.types import Ask, Candidate, Node, Outcome, Program, Usage

text = st.text(max_size=40)
usage = st.builds(Usage, wall_s=st.none() | st.floats(0, 100), cpu_s=st.none() | st.floats(0, 100))
good = st.builds(
    Outcome,
    status=st.just("ok"),
    score=st.floats(allow_nan=False, allow_infinity=False),
    metrics=st.dictionaries(text, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    log_tail=text,
    usage=usage,
)
bad = st.builds(Outcome, status=st.just("crashed"), reason=text.filter(bool), log_tail=text, usage=usage)
source = st.none() | text.map(lambda body: f"# {body!r}\nx = '\udc80'\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.lists(st.tuples(good | bad, source, text), min_size=1, max_size=6))
def test_what_was_told_comes_back(tmp_path_factory, told):
    folder = tmp_path_factory.mktemp("run") / "r"
    nodes = [
        Node(
            index=index,
            step=index,
            parent=index - 1 if index else None,
            candidate=Candidate(program=Program(program) if program else None, origin=word),
            outcome=outcome,
        )
        for index, (outcome, program, word) in enumerate(told)
    ]
    journal = Journal(folder)
    journal.started(task="toy")
    for node in nodes:
        if node.index:
            journal.asked(Ask(node.step, node.index - 1))
        journal.node(node)
    journal.tested(0, nodes[0].outcome)
    journal.ended("iterations")
    journal.close()
    record = read_run(folder)
    assert record.stop_reason == "iterations"
    assert record.started["task"] == "toy"
    for found, node in zip(record.nodes, nodes, strict=True):
        assert found.candidate == node.candidate
        assert found.outcome.status == node.outcome.status
        assert found.score == node.score
        assert found.outcome.usage == node.outcome.usage
    assert record.tested[0].score == nodes[0].score


def write(folder, *lines: str, end: str = "\n"):
    folder.mkdir()
    (folder / FILE).write_text("\n".join(lines) + end)


START = '{"event":"started","schema":"progevo.journal/1"}'
END = '{"event":"ended","stop_reason":"iterations"}'


def test_a_last_line_that_was_cut_never_happened(tmp_path):
    for number, cut in enumerate([END[:20], END]):
        write(tmp_path / str(number), START, cut, end="")
        assert read_run(tmp_path / str(number)).stop_reason is None


def test_a_damaged_line_is_named(tmp_path):
    write(tmp_path / "r", START, "{nonsense", END)
    with pytest.raises(RunError, match="line 2, is damaged"):
        read_run(tmp_path / "r")


def test_a_journal_of_another_schema_is_refused(tmp_path):
    write(tmp_path / "r", START.replace("/1", "/2"))
    with pytest.raises(RunError, match=r"progevo\.journal/2"):
        read_run(tmp_path / "r")


def test_an_unknown_event_is_refused(tmp_path):
    write(tmp_path / "r", START, '{"event":"danced"}')
    with pytest.raises(RunError, match="danced"):
        read_run(tmp_path / "r")


def test_a_folder_without_a_journal_is_no_run(tmp_path):
    with pytest.raises(RunError, match="not a run folder"):
        read_run(tmp_path)


def test_a_program_that_is_gone_is_named(tmp_path):
    journal = Journal(tmp_path / "r")
    journal.started()
    program = Program("x = 1")
    outcome = Outcome(status="ok", score=1.0)
    journal.node(
        Node(index=0, step=0, parent=None, candidate=Candidate(program=program, origin="seed"), outcome=outcome)
    )
    journal.close()
    (tmp_path / "r" / "programs" / f"{program.id}.py").unlink()
    with pytest.raises(RunError, match=program.id):
        read_run(tmp_path / "r")


def test_a_folder_is_written_by_one_run(tmp_path):
    first = Journal(tmp_path / "r")
    with pytest.raises(RunError, match="not empty"):
        Journal(tmp_path / "r")
    first.close()


def test_every_line_is_strict_json(tmp_path):
    journal = Journal(tmp_path / "r")
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append({"event": "started", "value": math.inf})
    failed = Outcome(status="crashed", reason="a \x00 b", metrics={"rmse": math.nan})
    journal.node(Node(index=0, step=0, parent=None, candidate=Candidate(program=None, origin="x"), outcome=failed))
    journal.close()
    (line,) = (tmp_path / "r" / FILE).read_text().splitlines()

    def refuse(word):
        raise AssertionError(word)

    event = json.loads(line, parse_constant=refuse)
    assert event["outcome"] == {"status": "crashed", "score": None, "metrics": {"rmse": None}, "reason": "a \x00 b"}
