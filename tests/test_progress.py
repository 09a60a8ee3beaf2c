"""What a run shows while it goes on: the panel by hand-computed numbers, and both forms over whole runs."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from datetime import datetime

import pytest
from rich.console import Console

from progevo import Budget, Candidate, Metric, resume, run
from progevo.cli import main
from progevo.errors import ProposerError
from progevo.loop import Silence
from progevo.panel import Panel, amount, spell
from progevo.progress import Lines, Live, open_progress
from tests.plain_run import StandIn, Wanderer, lines, task


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Watched(Silence):
    """Draws the panel once so many nodes are told, each of which took 20 seconds."""

    def __init__(self, at, **doing):
        self.at, self.time, self.drawn, self.doing = at, 0.0, "", doing

    def started(self, plan, record):
        self.panel = Panel(plan, record, clock=lambda: self.time, now=lambda: datetime(2026, 1, 1, 10, 0))
        self.first = drawn(self.panel)

    def told(self, node, best):
        self.time += 20.0
        if node.index == self.at:
            self.drawn = drawn(self.panel)


def drawn(panel):
    """The panel's rows as text, by their names; the title and the count under their own."""
    stream = io.StringIO()
    Console(file=stream, width=120).print(panel)
    title, *rows, _ = stream.getvalue().splitlines()
    cells = [re.split(r"\s{2,}", row.strip("│ "), maxsplit=1) for row in rows]
    return {"title": title.strip("╭─╮ "), "count": cells[0][0], **dict(cells[1:])}


def watched(tmp_path, at=4, **settings):
    progress = Watched(at)
    changes = settings.pop("task", {})
    run(task(**changes), proposer=Wanderer(), sandbox=StandIn(), out=tmp_path / "r", progress=progress, **settings)
    return progress


def test_the_panel_by_hand(tmp_path):
    progress = watched(tmp_path, iterations=40, seed=3)
    shown = progress.drawn
    told = [line for line in lines(tmp_path / "r") if line["event"] == "node"][:5]
    worst, *rest = [-line["outcome"]["score"] for line in told if line["outcome"]["status"] == "ok"]
    best = min(worst, *rest)
    which = next(line["index"] for line in told if line["outcome"]["score"] == -best)
    assert which > 0
    assert shown["title"] == "plain, era, seed 3"
    assert shown["count"] == "4/40"
    assert shown["best on search"].startswith(f"{best:.6g} distance (node {which}); seed {worst:.6g}; ")
    assert shown["rate"] == "3.0 candidates a minute"  # the seed and four more in 100 s
    assert shown["left"] == "36 iterations"
    assert shown["end"] == "about 10:12, in 12 min 00 s, by iterations"  # 36 times 20 s
    assert (progress.first["count"], progress.first["best on search"]) == ("0/40", "scoring the seed")
    assert progress.first["left"] == "40 iterations"
    assert (progress.first["rate"], progress.first["end"]) == ("not known yet", "not known yet")


@pytest.mark.parametrize(
    ("caps", "left", "end"),
    [
        # 100 s of 600 are gone.
        ({"seconds": 600.0}, "36 iterations, 8 min 20 s", "about 10:08, in 8 min 20 s, by seconds"),
        # Four draws at 0.25 USD in 100 s.
        ({"cost_usd": 2.0}, "36 iterations, 1.00 USD", "about 10:01, in 1 min 40 s, by cost_usd"),
        ({"calls": 5}, "36 iterations, 1 call", "about 10:00, in 25 s, by calls"),
        ({"calls": 1_234_567}, "36 iterations, 1,234,563 calls", "about 10:12, in 12 min 00 s, by iterations"),
        # What patience and a target end, no rate foretells.
        ({"target": 0.0}, "36 iterations", "about 10:12, in 12 min 00 s, by iterations"),
    ],
)
def test_the_first_cap_to_be_reached_is_the_end(tmp_path, caps, left, end):
    shown = watched(tmp_path, budget=Budget(iterations=40, **caps)).drawn
    assert (shown["left"], shown["end"]) == (left, end)


def test_patience_is_what_is_left_of_it(tmp_path):
    progress = watched(tmp_path, budget=Budget(iterations=40, patience=30))
    spent = re.fullmatch(r"36 iterations, (\d+) more without a new best", progress.drawn["left"])
    which = re.search(r"\((?:node (\d+)|the seed)\)", progress.drawn["best on search"])
    assert spent is not None
    assert which is not None
    assert int(spent[1]) == 30 - (4 - int(which[1] or 0))


def test_an_unknown_price_is_not_taken_for_none(tmp_path):
    class Unpriced(Watched):
        def started(self, plan, record):
            super().started(plan, record)
            record.spent.unknown_cost = True

    progress = Unpriced(4)
    budget = Budget(iterations=40, cost_usd=20.0)
    run(task(), proposer=Wanderer(), sandbox=StandIn(), out=tmp_path / "r", progress=progress, budget=budget)
    assert progress.drawn["left"] == "36 iterations, at most 19.00 USD"


def test_a_resumed_run_knows_what_was_before_and_its_rate_is_its_own(tmp_path):
    run(task(), proposer=Wanderer(), sandbox=StandIn(), iterations=20, out=tmp_path / "r")
    failed = sum(line["event"] == "node" and line["outcome"]["status"] != "ok" for line in lines(tmp_path / "r"))
    progress = Watched(24)
    resume(tmp_path / "r", task(), proposer=Wanderer(), sandbox=StandIn(), more=20, progress=progress)
    assert progress.first["count"] == "20/40"
    assert progress.first["failed"].startswith(f"{failed} of 21: ")
    assert progress.first["left"] == "20 iterations"
    assert progress.first["end"] == "not known yet"
    assert progress.drawn["rate"] == "3.0 candidates a minute"  # four in 80 s
    assert progress.drawn["end"] == "about 10:05, in 5 min 20 s, by iterations"


def test_names_are_text_and_never_mark_up(tmp_path):
    named = {
        "name": "[red]x[/red]",
        "metric": Metric(name="[bold]d", direction="minimize", unit="[/]", aggregate="mean"),
    }
    shown = watched(tmp_path, iterations=5, task=named).drawn
    assert shown["title"] == "[red]x[/red], era, seed 0"
    assert " [bold]d in [/] (" in shown["best on search"]


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def test_a_terminal_gets_one_panel_with_new_bests_above_it(tmp_path, terminal):
    progress = Live(terminal)
    result = run(
        task(), proposer=Wanderer(), sandbox=StandIn(), iterations=30, out=tmp_path / "r", progress=progress, seed=1
    )
    progress.close()
    progress.done("iterations")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    last = text[text.rindex("╭") :]
    assert "30/30" in last
    assert f"{result['best']['search']:.6g} distance (node {result['best']['node']})" in last
    for status, count in result["counts"].items():
        assert (f"{count} {status}" in last) == (count > 0 and status != "ok")
    assert "stopped by iterations" in last
    assert f"page      {tmp_path / 'r' / 'report.html'} " in last
    assert f"resume    progevo resume {tmp_path / 'r'} --iterations +30" in last
    bests, best = [], float("inf")
    for line in lines(tmp_path / "r"):
        if line["event"] == "node" and line["outcome"]["status"] == "ok" and -line["outcome"]["score"] < best:
            best = -line["outcome"]["score"]
            bests.append(line["index"])
    assert [int(found) for found in re.findall(r"\[ *(\d+)/30\]", text)] == bests
    assert terminal.getvalue().endswith("\n")
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1  # the cursor is back


def test_the_panel_leaves_the_terminal_whole_when_a_run_fails(tmp_path, terminal):
    class Failing(Wanderer):
        def propose(self, brief):
            raise ProposerError("nothing more")

    progress = Live(terminal)
    with pytest.raises(ProposerError, match="nothing more"):
        run(task(), proposer=Failing(), sandbox=StandIn(), iterations=9, out=tmp_path / "a b", progress=progress)
    progress.close()
    progress.unfinished()
    assert terminal.getvalue().count("\x1b[?25h") == 1
    assert terminal.getvalue().endswith(f"progevo resume '{tmp_path / 'a b'}' goes on with it\n")


def test_closing_before_anything_began_is_nothing(terminal):
    progress = Live(terminal)
    progress.close()
    progress.unfinished()
    assert terminal.getvalue() == ""


def test_lines_where_it_is_piped(tmp_path):
    stream = io.StringIO()
    progress = Lines(stream)
    run(task(), proposer=Wanderer(), sandbox=StandIn(), iterations=30, out=tmp_path / "r", progress=progress)
    progress.close()
    progress.done(None)
    found = stream.getvalue()
    assert found.endswith(f"progevo resume {tmp_path / 'r'} goes on with it\n")
    assert [int(index) for index in re.findall(r"^\[ *(\d+)/30\]", found, re.MULTILINE)] == list(range(31))
    assert "\x1b" not in found
    assert "report.html" in found


@pytest.mark.parametrize(
    ("budget", "stopped_by", "hint"),
    [
        ({"iterations": 3}, "iterations", "--iterations +3"),
        ({"iterations": 0}, "iterations", "--iterations +40"),
        ({"seconds": 30}, "seconds", "--max-minutes 1"),
        ({"evaluations": 6}, "evaluations", "--max-evaluations 12"),
        ({"patience": 4}, "patience", "--patience 8"),
        ({"calls": 5}, "calls", "--max-calls 10"),
        ({"tokens": 1000}, "tokens", "--max-tokens 2000"),
        ({"cost_usd": 0.25}, "cost_usd", "--max-cost 0.5"),
        ({"target": 0.5}, "target", "--target VALUE (a better one)"),
    ],
)
def test_the_way_to_go_on_raises_what_has_ended_the_run(tmp_path, budget, stopped_by, hint):
    progress = Lines(stream := io.StringIO())
    limited = Budget(**{"iterations": 0, **budget})
    run(task(), proposer=Wanderer(), sandbox=StandIn(), budget=limited, out=tmp_path / "r", progress=progress)
    progress.done(stopped_by)
    assert stream.getvalue().endswith(f"resume    progevo resume {tmp_path / 'r'} {hint}\n")
    assert hint.split()[0] in {word for parameter in main.commands["resume"].params for word in parameter.opts}


def test_a_run_goes_on_when_nobody_reads_its_lines_any_more(tmp_path):
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w", buffering=1)
    result = run(
        task(), proposer=Wanderer(), sandbox=StandIn(), iterations=3, out=tmp_path / "r", progress=Lines(stream)
    )
    assert result["stop_reason"] == "iterations"
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def test_a_reason_stays_on_its_line_and_commands_no_terminal(tmp_path):
    class Rude(Wanderer):
        def propose(self, brief):
            return Candidate(program=None, origin="rude", reason="one\ntwo \x1b[2J\udcff \u202e")

    stream = io.StringIO()
    run(task(), proposer=Rude(), sandbox=StandIn(), iterations=1, out=tmp_path / "r", progress=Lines(stream))
    (line,) = [line for line in stream.getvalue().split("\n") if "1/1]" in line]
    assert "no_program: one two \\u001b[2J\\udcff \\u202e" in line
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(
    ("stream", "term", "form"),
    [(Terminal, "xterm", Live), (Terminal, "dumb", Lines), (Terminal, None, Lines), (io.StringIO, "xterm", Lines)],
)
def test_which_form(monkeypatch, stream, term, form):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    assert type(open_progress()) is form


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (90061, "25 h 01 min"),
    ],
)
def test_times_in_words(seconds, words):
    assert spell(seconds) == words
    assert amount(seconds, "seconds") == words
