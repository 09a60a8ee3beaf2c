"""The page on the command line: written by every session, rebuilt by `report`, live by `view`."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import sys
import webbrowser

import pytest
from click.testing import CliRunner

from progevo.cli import main
from tests.report.conftest import parse


@pytest.fixture
def copy(wandered, tmp_path):
    """A finished run of its own."""
    shutil.copytree(wandered(), tmp_path / "run")
    return tmp_path / "run"


def test_report_writes_the_page_and_opens_it_when_asked(copy, monkeypatch):
    opened: list[str] = []

    def opens(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", opens)
    found = CliRunner().invoke(main, ["report", str(copy)])
    assert (found.exit_code, opened) == (0, [])
    assert f"page      {copy / 'report.html'}" in found.output
    assert parse((copy / "report.html").read_text()).block["schema"] == "progevo.page/1"
    found = CliRunner().invoke(main, ["report", str(copy), "--open", "--json"])
    assert json.loads(found.output) == json.loads((copy / "result.json").read_text())
    assert opened == [(copy / "report.html").resolve().as_uri()]


TASK = """
from progevo import Domain, GatePolicy, Metric, Program
from progevo.evaluators.calls import Calls

def domain(*, data=None):
    return Domain(
        name="mine",
        entrypoint="solve",
        seed=Program("def solve(x):\\n    return 20 + 1\\n"),
        metric=Metric(name="error", direction="minimize"),
        gate=GatePolicy(imports=frozenset()),
        evaluator=Calls(cases={"search": [0], "test": [1]}, score=lambda split, found: -abs(found[0] - 30.0)),
        profile="stdlib",
    )
"""


@pytest.mark.parametrize("ending", ["whole", "proposer_failed"])
def test_a_session_leaves_its_page_however_it_ends(tmp_path, monkeypatch, ending):
    from progevo.errors import ProposerError
    from progevo.propose.mutate import Mutate

    (tmp_path / "mine.py").write_text(TASK)
    propose, failing = Mutate.propose, ending == "proposer_failed"

    def failed(self, brief):
        if brief.step == 3:
            raise ProposerError("nothing more")
        return propose(self, brief)

    if failing:
        monkeypatch.setattr(Mutate, "propose", failed)
    folder = tmp_path / "run"
    options = ["--task", str(tmp_path / "mine.py"), "--iterations", "4", "--sandbox", "cold", "--out", str(folder)]
    done = CliRunner().invoke(main, ["run", "era", *options])
    assert done.exit_code == (4 if failing else 0), done.output
    block = parse((folder / "report.html").read_text()).block
    assert block["state"] == "ended"
    assert len(block["nodes"]["parent"]) == (3 if failing else 5)
    assert block["header"][0]["text"] == ("ended: proposer_failed" if failing else "ended: iterations")
    assert ("report.html" in done.output) == (not failing)


def test_view_prints_where_it_is_and_ends_with_an_interrupt(copy):
    process = subprocess.Popen(
        [sys.executable, "-m", "progevo.cli", "view", str(copy), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        # Whoever starts these tests in the background of a shell may have told them to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        address = process.stdout.readline().split()[0]
        connection = http.client.HTTPConnection("127.0.0.1", int(address.rstrip("/").rsplit(":", 1)[1]), timeout=180)
        connection.request("GET", "/runs/run/")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=180) == 0
    finally:
        process.kill()
        process.communicate()


def test_what_a_node_changed_of_its_parent(wandered):
    from progevo.journal import read_run

    folder = wandered()
    record = read_run(folder)
    node = next(node for node in record.nodes if node.outcome.ok and node.parent and node.candidate.origin == "move")
    shown = CliRunner().invoke(main, ["show", str(folder), str(node.index), "--diff"])
    before, after = (each.candidate.program.source.split("\n") for each in (record.nodes[node.parent], node))
    lines = shown.output.splitlines()
    assert lines[:2] == [f"--- node {node.parent}", f"+++ node {node.index}"]
    assert [line[1:] for line in lines[3:] if line[0] in " -"] == before
    assert [line[1:] for line in lines[3:] if line[0] in " +"] == after
    assert "\x1b" not in shown.output  # no terminal, no colours
    coloured = CliRunner().invoke(main, ["show", str(folder), str(node.index), "--diff"], color=True)
    assert "\x1b[32m+" in coloured.output
    as_json = json.loads(CliRunner().invoke(main, ["show", str(folder), str(node.index), "--diff", "--json"]).output)
    assert as_json["lines"] == lines


def test_a_difference_that_is_none_says_why(wandered):
    folder = wandered()
    seed = CliRunner().invoke(main, ["show", str(folder), "0", "--diff"])
    assert (seed.exit_code, "node 0 is the seed" in seed.output) == (2, True)
    none = CliRunner().invoke(main, ["show", str(folder), "--diff"])
    assert (none.exit_code, "name the node" in none.output) == (2, True)


def test_view_of_nothing_is_refused(tmp_path):
    found = CliRunner().invoke(main, ["view", str(tmp_path)])
    assert found.exit_code == 2
    assert "holds no run" in found.output
