"""propose.mutate: what it proposes follows from the brief, parses, is new, and changes one thing."""

from __future__ import annotations

import ast
import difflib
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.propose import Proposer
from progevo.propose.mutate import ATTEMPTS, CROSSOVER, Mutate, pick, stands
from progevo.propose.names import unbound
from progevo.propose.operators import OPERATORS, another_float, another_integer, cross
from progevo.propose.worth import Record, gain
from progevo.rewrite import MAX_CHARACTERS, TreeRewrite, parse
from progevo.types import Brief, Candidate, Move, Node, Outcome, Program, Status

SEED = '''\
"""Adds up what is near."""

import math

LIMIT = 10  # how far to look


def weight(x):
    # The nearer, the heavier.
    return 1.0 / (1.0 + x * x)


def solve(values):
    """The weighted sum."""
    total = 0.0
    for value in values:
        if value < LIMIT and value != 3:
            total += weight(value)   # odd   spacing stays
    total = total * 2
    return math.sqrt(total)
'''
OTHER = SEED.replace("total = total * 2", "total = min(total, 5)\n    total -= 1").replace("1.0 / (", "2.0 / (")

ODD = {
    "empty": "",
    "only a comment": "# nothing here\n",
    "no Python": "def solve(:\n",
    "a class only": "class Solve:\n    pass\n",
    "one line": "solve = lambda values: 0",
    "NUL": "x = 1\0",
    "lone surrogate": "x = '\ud800'",
    "deep brackets": "x = " + "(" * 5000 + "1" + ")" * 5000,
    "long sum": "x = " + "+".join(["1"] * 900),
    "longer sum": "x = " + "+".join(["1"] * 50_000),
    "many signs": "x = " + "-" * 5000 + "1",
    "too long": "x = 1\n" * (MAX_CHARACTERS // 6 + 1),
    "form feed": "\x0cx = 1\n",
    "byte order mark": "\ufeffx = 1\n",
    "no newline at the end": "def solve(values):\n    return 1",
    "tabs": "def solve(values):\n\tx = 1\n\treturn x + 1\n",
    "carriage returns": "def solve(values):\r\n    x = 1\r\n    return x + 1\r\n",
    "numbers without end": f"x = 1e999 + 1e308 + 0x{'f' * 9000}\n",
    "bad escape": "def solve(values):\n    return '\\d' + 1\n",
}


def node(source: str | None, index: int, parent: int | None = 0, score: float = 1.0, status: Status = "ok") -> Node:
    return Node(
        index=index,
        step=index,
        parent=None if index == 0 else parent,
        candidate=Candidate(program=None if source is None else Program(source), origin=f"origin{index}"),
        outcome=Outcome(status="ok", score=score) if status == "ok" else Outcome(status=status, reason="bad"),
    )


def brief(history: Sequence[Node], parent: int = 0, seed: object = 0) -> Brief:
    return Brief(step=1, parent=history[parent], history=tuple(history), rng=random.Random(f"test {seed}"))


def lines_of(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines that a change took out, and those that it put in."""
    changed = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    return [s[2:] for s in changed if s.startswith("- ")], [s[2:] for s in changed if s.startswith("+ ")]


MUTATE = Mutate(entrypoint="solve")
SEED_ONLY = (node(SEED, 0),)
FAMILY = (node(SEED, 0), node(OTHER, 1, score=2.0), node("def solve(", 2, status="gate_refused"), node(None, 3))


class TestPropose:
    def test_it_is_a_proposer_that_nobody_takes_for_a_model(self) -> None:
        proposer: Proposer = MUTATE
        assert proposer.name == "mutate"

    @given(st.integers())
    @settings(max_examples=60, deadline=None)
    def test_the_same_brief_gives_the_same_candidate(self, seed: int) -> None:
        assert MUTATE.propose(brief(FAMILY, seed=seed)) == MUTATE.propose(brief(FAMILY, seed=seed))

    @given(st.integers(), st.integers(0, 1))
    @settings(max_examples=150, deadline=None)
    def test_what_it_proposes_parses_defines_the_entry_point_and_is_new(self, seed: int, parent: int) -> None:
        candidate = MUTATE.propose(brief(FAMILY, parent, seed))
        assert candidate.program is not None
        tree = ast.parse(candidate.program.source)
        assert "solve" in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
        assert candidate.program.twin not in {Program(SEED).twin, Program(OTHER).twin}
        assert not unbound(tree)

    @given(st.integers())
    @settings(max_examples=100, deadline=None)
    def test_other_lines_stay_as_they_were_comments_with_them(self, seed: int) -> None:
        candidate = MUTATE.propose(brief(SEED_ONLY, seed=seed))
        assert candidate.program is not None
        out, put = lines_of(SEED, candidate.program.source)
        assert out or put
        if candidate.origin != "delete-statement":  # a deleted statement takes its lines along
            assert len(out) <= 1
        assert len(put) <= 4
        comments = {line for line in SEED.splitlines() if "#" in line} - set(out)
        assert comments <= set(candidate.program.source.splitlines())

    def test_different_steps_propose_different_things(self) -> None:
        drawn = {MUTATE.propose(brief(SEED_ONLY, seed=seed)).program for seed in range(40)}
        assert len(drawn) > 20

    def test_a_move_of_the_domain_is_drawn_most_of_the_time(self) -> None:
        line = iter(range(10_000))
        move = Move(name="mark", rewrite=lambda source, rng: f"{source}MARK = {next(line)}\n", about="")
        proposer = Mutate(entrypoint="solve", moves=(move,))
        origins = [proposer.propose(brief(SEED_ONLY, seed=seed)).origin for seed in range(100)]
        assert 75 <= origins.count("mark") < 100

    def test_what_is_known_is_proposed_only_when_nothing_else_is_left(self) -> None:
        history = (node("def solve():\n    return 1\n", 0), node("def solve():\n    return 2\n", 1))
        move = Move(name="two", rewrite=lambda source, rng: history[1].candidate.program.source, about="")
        seen = {Mutate(entrypoint="solve", moves=(move,)).propose(brief(history, seed=s)).program for s in range(30)}
        assert history[1].candidate.program not in seen

        lone = "def solve():\n    return []\n"  # no number, no operator, nothing to delete or to run twice
        copy = Move(name="copy", rewrite=lambda source, rng: f"{lone}# again\n", about="")
        repeat = Mutate(entrypoint="solve", moves=(copy,)).propose(brief((node(lone, 0),)))
        assert repeat.program is not None
        assert repeat.program.twin == Program(lone).twin

    def test_a_parent_that_cannot_be_changed_is_a_reason_and_no_exception(self) -> None:
        candidate = MUTATE.propose(brief((node("def solve():\n    return []\n", 0),)))
        assert candidate.program is None
        assert str(ATTEMPTS) in candidate.reason

    def test_moves_that_break_a_program_never_leave_the_house(self) -> None:
        broken = ("def solve(:\n", "def other():\n    return 1\n", "def solve():\n    return unheard_of\n")
        moves = tuple(
            Move(name=f"b{i}", rewrite=lambda s, r, text=text: text, about="") for i, text in enumerate(broken)
        )
        for seed in range(20):
            candidate = Mutate(entrypoint="solve", moves=moves).propose(brief(SEED_ONLY, seed=seed))
            assert candidate.program is None or candidate.program.source not in broken

    @pytest.mark.parametrize("source", ODD.values(), ids=ODD.keys())
    def test_odd_parents(self, source: str) -> None:
        candidate = MUTATE.propose(brief((node(source, 0),)))
        assert candidate.program is None or ast.parse(candidate.program.source)

    def test_a_child_of_a_reply_without_a_program_comes_from_the_nearest_ancestor_with_one(self) -> None:
        history = (*FAMILY, node("(" * 300, 4, parent=3, status="gate_refused"))
        candidate = MUTATE.propose(brief(history, parent=4))
        assert candidate.program is not None
        assert "def weight" in candidate.program.source

    def test_no_program_anywhere(self) -> None:
        candidate = MUTATE.propose(brief((node(None, 0, status="no_program"),)))
        assert candidate.program is None
        assert candidate.reason


class TestRecord:
    def test_worth_is_the_rank_of_the_gain(self) -> None:
        history = [
            node(SEED, 0, score=1.0),
            node("a", 1, score=3.0),
            node("b", 2, score=1.0),
            node("c", 3, status="crashed"),
        ]
        record = Record.of(history, lambda node: node.candidate.origin)
        assert record.worth == pytest.approx({"origin1": 5 / 6, "origin2": 3 / 6, "origin3": 1 / 6})
        assert record.uses == {"origin1": 1, "origin2": 1, "origin3": 1}

    def test_a_failure_is_the_least_of_all_gains(self) -> None:
        assert gain(node("a", 1, status="timeout"), node(SEED, 0)) == -math.inf
        assert gain(node("a", 1, status="timeout"), node(SEED, 0, status="timeout")) == -math.inf
        assert gain(node("a", 1), node(SEED, 0, status="timeout")) == 0.0

    def test_what_pays_is_drawn_more_often_and_nothing_is_given_up(self) -> None:
        moves = [Move(name=name, rewrite=lambda s, r: None, about="") for name in ("good", "bad")]
        record = Record({"good": 20, "bad": 20}, {"good": 11.0, "bad": 9.0})
        rng = random.Random(0)
        drawn = [pick(moves, record, rng).name for _ in range(1000)]
        assert 600 < drawn.count("good") < 950


class TestOperators:
    @pytest.mark.parametrize("move", OPERATORS, ids=lambda move: move.name)
    @given(seed=st.integers())
    @settings(max_examples=40, deadline=None)
    def test_each_changes_the_program_into_one_that_parses(self, move: Move, seed: int) -> None:
        changed = move.rewrite(SEED, random.Random(seed))
        assert changed is not None
        assert Program(changed).twin != Program(SEED).twin
        ast.parse(changed)

    @pytest.mark.parametrize("move", OPERATORS, ids=lambda move: move.name)
    @pytest.mark.parametrize("source", ODD.values(), ids=ODD.keys())
    def test_none_where_there_is_nothing_to_change(self, move: Move, source: str) -> None:
        for seed in range(3):
            changed = move.rewrite(source, random.Random(seed))
            assert changed is None or (changed != source and parse(changed) is not None)

    @pytest.mark.parametrize("argument", ["trees=", ""], ids=["by keyword", "by position"])
    def test_a_budget_handed_to_a_call_never_grows(self, argument: str) -> None:
        change = next(move for move in OPERATORS if move.name == "change-number")
        source = f"def solve(f):\n    return f({argument}50)\n"
        values = set()
        for seed in range(50):
            changed = change.rewrite(source, random.Random(seed))
            assert changed is not None
            values.add(int(changed.rpartition(f"({argument}")[2].partition(")")[0]))
        assert values == {5, 25, 49}

    def test_deletion_spares_imports_docstrings_definitions_and_the_last_return(self) -> None:
        delete = next(move for move in OPERATORS if move.name == "delete-statement")
        for seed in range(60):
            changed = delete.rewrite(SEED, random.Random(seed))
            assert changed is not None
            for kept in (
                "import math",
                '"""The weighted sum."""',
                "def weight",
                "def solve",
                "return math.sqrt(total)",
            ):
                assert kept in changed

    def test_a_copy_that_could_change_nothing_is_not_made(self) -> None:
        duplicate = next(move for move in OPERATORS if move.name == "duplicate-statement")
        assert duplicate.rewrite("x = 1\ny = x + 2\nz.w = y\n", random.Random(0)) is None
        assert duplicate.rewrite("x = x + 1\n", random.Random(0)) == "x = x + 1\nx = x + 1\n"

    @given(st.integers(0, 10**9), st.booleans(), st.integers())
    def test_another_integer(self, value: int, capped: bool, seed: int) -> None:
        drawn = another_integer(value, capped, random.Random(seed))
        assert drawn >= 0
        assert drawn != value or (capped and value == 0)
        assert not (capped and drawn > value)

    @given(st.floats(1e-200, 1e200), st.integers())
    def test_another_float(self, value: float, seed: int) -> None:
        drawn = another_float(value, random.Random(seed))
        assert drawn > 0
        assert math.isfinite(drawn)


class TestCrossover:
    def test_it_takes_from_another_node_that_ran(self) -> None:
        origins = set()
        for seed in range(300):
            candidate = MUTATE.propose(brief(FAMILY, seed=seed))
            if candidate.origin.startswith(CROSSOVER):
                origins.add(candidate.origin)
                assert candidate.program is not None
                _, put = lines_of(SEED, candidate.program.source)
                assert put
                assert set(put) <= set(OTHER.splitlines())
        assert origins == {f"{CROSSOVER} with node 1"}

    def test_a_statement_replaces_the_one_that_assigns_the_same_and_brings_its_imports(self) -> None:
        own = "def solve():\n    # why\n    model = 1\n    return model\n"
        other = "from math import pi\n\n\ndef solve():\n    model = pi\n    return model\n"
        expected = "from math import pi\ndef solve():\n    model = pi\n    return model\n"
        assert cross(own, other, random.Random(0)) == expected

    def test_a_new_statement_goes_behind_what_it_stood_behind(self) -> None:
        own = "def solve(a):\n    b = a\n    c = b\n    return c\n"
        other = "def solve(a):\n    b = a\n    b += 1\n    return b\n"
        drawn = {cross(own, other, random.Random(seed)) for seed in range(20)}
        assert "def solve(a):\n    b = a\n    b += 1\n    c = b\n    return c\n" in drawn

    def test_nothing_to_take(self) -> None:
        assert cross(SEED, SEED, random.Random(0)) is None
        assert cross(SEED, "def solve(", random.Random(0)) is None
        assert cross(SEED, "def elsewhere():\n    return 1\n", random.Random(0)) is None


class TestRewrite:
    @given(st.text(max_size=200))
    @settings(max_examples=200, deadline=None)
    def test_any_text_is_a_tree_of_the_same_bytes_or_none(self, text: str) -> None:
        tree = parse(text)
        assert tree is None or tree.code == text

    def test_a_change_that_changes_nothing_is_none(self) -> None:
        assert TreeRewrite(lambda tree, rng: tree)(SEED, random.Random(0)) is None

    @pytest.mark.parametrize("source", ODD.values(), ids=ODD.keys())
    def test_standing_is_decided_without_an_exception(self, source: str) -> None:
        assert stands(source, "solve", frozenset()) in (True, False)


class TestRegions:
    MARKED = (
        SEED.replace("def solve", "# EVOLVE-BLOCK-START\ndef solve").rstrip() + "\n# EVOLVE-BLOCK-END\n\n\nAFTER = 7\n"
    )

    @given(st.integers())
    @settings(max_examples=60, deadline=None)
    def test_what_lies_outside_of_a_parent_s_regions_stays_to_the_byte(self, seed: int) -> None:
        history = (
            node(self.MARKED, 0),
            node(self.MARKED.replace("total * 2", "total - 1").replace("7", "8"), 1, score=2.0),
        )
        program = MUTATE.propose(brief(history, seed=seed)).program
        assert program is not None
        before, after = self.MARKED.split("# EVOLVE-BLOCK-START\n")[0], self.MARKED.split("# EVOLVE-BLOCK-END\n")[1]
        assert program.source != self.MARKED
        assert program.source.startswith(before + "# EVOLVE-BLOCK-START\n")
        assert program.source.endswith("# EVOLVE-BLOCK-END\n" + after)

    def test_without_markers_the_same_parent_is_changed_there_too(self) -> None:
        bare = self.MARKED.replace("# EVOLVE-BLOCK-START\n", "").replace("# EVOLVE-BLOCK-END\n", "")
        sources = [MUTATE.propose(brief((node(bare, 0),), seed=seed)).program for seed in range(30)]
        assert any(program is not None and not program.source.endswith("AFTER = 7\n") for program in sources)
