"""propose.archive and propose.recorded: replies come back byte for byte, and are read as they were the first time."""

from __future__ import annotations

import json
import random
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo import Candidate, Node, Outcome, Program, resume, run
from progevo.config import Llm
from progevo.errors import ConfigError, ProposerError
from progevo.journal import read_run
from progevo.propose.archive import Archive, Recorded, fingerprint, read_recording, to_json
from progevo.propose.open import open_proposer
from progevo.types import Brief
from tests.plain_run import StandIn, program, task, unmeasured
from tests.test_resume import cut, moments

PROGRAM = "def solve(x):\n    return 9\n"


def reply(step=1, attempt=1, body=b"{}", **facts):
    return Recorded(step=step, attempt=attempt, model="m:1", body=body, asked="f" * 64, request={"a": [1]}, **facts)


@given(st.binary(), st.integers(100, 599), st.text())
def test_a_line_of_a_file_gives_the_reply_back(tmp_path_factory, body, status, content_type):
    path = tmp_path_factory.mktemp("lines") / "replies.jsonl"
    told = reply(step=3, attempt=2, body=body, status=status, content_type=content_type, seconds=1.5)
    path.write_bytes(to_json(told) + b"\n" + to_json(reply(step=4)))
    found = read_recording(path)
    assert found[3] == (told,)
    assert list(found) == [3, 4]


def test_a_reply_is_found_again_by_what_was_asked(tmp_path):
    archive = Archive(tmp_path)
    kept = archive.keep(reply(body=b"\xff\x00"))
    assert kept.file == "llm/000001-1.json"
    assert archive.find(1, 1, "f" * 64) == kept
    assert archive.find(1, 1, "e" * 64) is archive.find(1, 2, "f" * 64) is archive.find(2, 1, "f" * 64) is None
    (tmp_path / kept.file).write_bytes((tmp_path / kept.file).read_bytes()[:-40])
    assert archive.find(1, 1, "f" * 64) is None  # cut: it is drawn again
    assert sorted(path.name for path in (tmp_path / "llm").iterdir()) == ["000001-1.json"]


def test_an_archive_that_is_off_keeps_and_finds_nothing():
    archive = Archive(None)
    assert archive.keep(reply()).file is None
    assert archive.find(1, 1, "f" * 64) is None


def test_a_question_is_known_by_its_content():
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1}) != fingerprint({"a": 1, "b": [3]})


def test_a_file_by_hand_needs_no_more_than_contents(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"content": "one"}\n\n{"content": "two", "finish_reason": "length", "model": "x"}\n')
    first, second = read_recording(path)[1][0], read_recording(path)[2][0]
    assert json.loads(first.body)["choices"][0]["message"]["content"] == "one"
    assert json.loads(second.body)["choices"][0]["finish_reason"] == "length"
    assert (second.model, second.attempt, second.status) == ("x", 1, 200)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no recorded reply"),
        ("{", "line 1"),
        ("[]", "line 1"),
        ("{}", "line 1"),
        ('{"content": "a"}\n{"body_base64": "%"}', "line 2"),
        ('{"schema": "progevo.reply/2", "content": "a"}', "its schema is"),
        ('{"step": "x", "content": "a"}', "line 1"),
    ],
)
def test_what_is_no_recording_is_refused_by_line(tmp_path, text, word):
    path = tmp_path / "replies.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=word):
        read_recording(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_recording(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="no recorded reply"):
        read_recording(tmp_path)


def brief(step):
    seed = Candidate(program=Program("def solve(x):\n    return 0\n"), origin="seed")
    node = Node(index=0, step=0, parent=None, candidate=seed, outcome=Outcome(status="ok", score=0.0))
    return Brief(step=step, parent=node, history=(node,), rng=random.Random(0))


def lines(path, *replies):
    path.write_text("".join(json.dumps(facts) + "\n" for facts in replies))
    return f"recorded:{path}"


def test_replies_are_replayed_by_step_and_attempt_with_redraws(tmp_path, toy):
    good = f"```python\n{PROGRAM}```"
    word = lines(
        tmp_path / "r.jsonl",
        {"step": 1, "attempt": 2, "content": good},
        {"step": 1, "attempt": 1, "content": "no"},
        {"step": 1, "attempt": 3, "content": "never read"},
        {"step": 3, "content": "no"},
    )
    proposer = open_proposer(word, toy())
    first = proposer.propose(brief(1))
    assert first.program == Program(PROGRAM)
    assert [draw.verdict for draw in first.draws] == ["damaged", "ok"]
    assert proposer.propose(brief(2)).reason == "no reply was recorded for this step"
    third = proposer.propose(brief(3))
    assert (third.program, len(third.draws)) == (None, 1)
    with pytest.raises(ProposerError, match="end with step 3"):
        proposer.propose(brief(4))
    assert open_proposer(word, toy(), llm=Llm(reply_attempts=1)).propose(brief(1)).program is None


def test_a_run_s_replies_give_the_run_again(tmp_path, toy, serve, served, chat):
    """The same nodes, draws and damage from the folder of a run, and from the folder of its replay."""
    from progevo.propose import close

    def script(number, request):
        return served(
            body=chat("no") if number % 3 == 0 else chat(f"```python\ndef solve(x):\n    return {number}\n```")
        )

    endpoint = serve(script)
    first = open_proposer("llm", toy(), llm=Llm(model=("m",), base_url=endpoint.url), folder=tmp_path / "0")
    results = [run(toy(), proposer=first, iterations=5, seed=4, out=tmp_path / "0")]
    close(first)
    for number in (1, 2):
        again = open_proposer(f"recorded:{tmp_path / str(number - 1)}", toy(), folder=tmp_path / str(number))
        results.append(run(toy(), proposer=again, iterations=5, seed=4, out=tmp_path / str(number)))
    assert len(endpoint.requests) == 8  # five programs, and every third reply is none
    for result in results[1:]:
        for name in ("reply_damage", "counts", "best", "tree"):
            assert result[name] == results[0][name]
    nodes = [[(node.candidate.program, node.candidate.draws) for node in read_run(tmp_path / n).nodes] for n in "012"]
    assert nodes[0] == nodes[1] == nodes[2]


def test_a_reply_that_had_arrived_when_a_run_was_killed_is_counted_and_not_bought_again(tmp_path, serve, served, chat):
    """Killed after every event of the journal; the replies of what was in flight are there already."""

    def script(number, request):
        return served(body=chat("no" if request["seed"] % 3 == 0 else f"```python\n{program(request['seed'] % 7)}```"))

    def asked(url, folder):
        return open_proposer("llm", task(), llm=Llm(model=("m",), base_url=url, model_seed=True), folder=folder)

    endpoint, whole = serve(script), tmp_path / "whole"
    settings = {"iterations": 4, "workers": 2, "schedule": "sync", "seed": 4}
    with closing(asked(endpoint.url, whole)) as proposer:
        result = run(task(), proposer=proposer, sandbox=StandIn(), out=whole, **settings)
    assert len(endpoint.requests) == result["spent"]["calls"] > 4  # some were no program, and drawn again
    for number, length in enumerate(moments(whole)):
        folder, silent = cut(whole, tmp_path / str(number), length), serve(script)
        with closing(asked(silent.url, folder)) as proposer:
            again = resume(folder, task(), proposer=proposer, sandbox=StandIn())
        assert silent.requests == []
        assert again["spent"]["calls"] == result["spent"]["calls"]
        assert again["spent"]["tokens"] == result["spent"]["tokens"]
        assert unmeasured(folder) == unmeasured(whole)
