"""propose.reply by kinds: every way to wrap or damage a program, over programs that careless readers trip over."""

from __future__ import annotations

import ast
import importlib.util
import random
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.propose.reply import KINDS, STEPS, Reply, read_text


def _beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tests_reply_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


corpus = _beside("programs")
PROGRAMS = corpus.PROGRAMS
#: Kinds of replies without a line of code.
NO_CODE = ("empty", "filler", "no_program", "refusal", "question", "prose")
names = pytest.mark.parametrize("name", PROGRAMS)


def read(text: str, finish_reason: str | None = "stop", **more: object) -> Reply:
    return read_text(text, entrypoint="solve", parent=corpus.PARENT, finish_reason=finish_reason, **more)


def same(got: str | None, program: str) -> bool:
    """The text of a program, line ends and blank lines around it aside."""
    return got is not None and got.replace("\r", "\n").strip("\n") == program.strip("\n")


def tree(source: str) -> str | None:
    try:
        return ast.dump(ast.parse(source, "<candidate>"))
    except (SyntaxError, ValueError):
        return None


HEAD, ORDER, SOLVE = re.split(r"(?=^def )", corpus.PARENT, flags=re.MULTILINE)
START, END = "# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n"
#: The parent with the entry point in a region, or beside one; a child of it; what that gives for 4, 9 and 25 up to 9.
MARKED = {
    "inside": (f"{HEAD}{ORDER}{START}{SOLVE}{END}", ("total = 0.0", "total = 0.5"), 5.5),
    "outside": (f"{HEAD}{START}{ORDER.rstrip()}\n{END}\n\n{SOLVE}", ("list(values)", "list(values)[:1]"), 2.0),
}


@pytest.mark.parametrize("where", MARKED)
class TestMarkedParent:
    @pytest.mark.parametrize(
        "kind",
        # What is not read here is not read wrongly either: it is damaged.
        [kind for kind in (*corpus.ENVELOPES, *corpus.WRAPPED) if kind not in ("shell after", "only a closing fence")],
    )
    def test_a_wrapping_is_never_taken_for_what_belongs_inside(self, kind, where):
        """A JSON object, for one, is an expression, and would do as a region's inside if nobody looked."""
        parent, change, right = MARKED[where]
        child = parent.replace(*change)
        make = corpus.ENVELOPES.get(kind) or corpus.WRAPPED[kind]
        reply = read_text(make(child), entrypoint="solve", parent=parent, finish_reason="stop")
        if kind != "carriage returns":  # markers stand on lines that end as Python's do
            assert same(reply.source, child)
        namespace: dict[str, Any] = {}
        exec(compile(reply.source, "<candidate>", "exec"), namespace)
        assert namespace["solve"]([4.0, 9.0, 25.0], 9.0) == right

    @pytest.mark.parametrize("text", [text for text, (kind, _) in corpus.NO_PROGRAM.items() if kind in NO_CODE])
    def test_what_holds_no_code_is_called_the_same(self, text, where):
        reply = read_text(text, entrypoint="solve", parent=MARKED[where][0], finish_reason="stop")
        assert (reply.kind, reply.fault) == corpus.NO_PROGRAM[text]


class TestWrapping:
    @names
    @pytest.mark.parametrize("kind", corpus.ENVELOPES)
    def test_an_envelope_comes_off_and_is_no_repair(self, kind, name):
        reply = read(corpus.ENVELOPES[kind](PROGRAMS[name]))
        assert (reply.verdict, reply.steps) == ("ok", ())
        assert same(reply.source, PROGRAMS[name])

    @names
    @pytest.mark.parametrize("kind", corpus.WRAPPED)
    def test_a_wrapping_comes_off_and_is_named(self, kind, name):
        reply = read(corpus.WRAPPED[kind](PROGRAMS[name]))
        if (kind, name) == ("code on the fence line", "comment first"):
            assert tree(reply.source) == tree(PROGRAMS[name])  # a comment there is taken for an attribute of the fence
            return
        assert (reply.verdict, bool(reply.steps)) == ("recovered", True)
        assert same(reply.source, PROGRAMS[name])

    @pytest.mark.parametrize("kind", [kind for kind in corpus.ENVELOPES if kind != "bare"])
    def test_being_cut_off_after_the_program_has_ended_does_no_harm(self, kind):
        program = PROGRAMS["helpers"]
        text = corpus.ENVELOPES[kind](program)
        if text.rstrip().endswith(("`", "~")):
            assert same(read(text + "\n\nThis is bet", "length").source, program)

    def test_the_block_that_needs_an_earlier_one_gets_it(self):
        first, second = PROGRAMS["helpers"].split("\n\n\ndef solve")
        text = corpus.fence(first + "\n") + "\n\nand then\n\n" + corpus.fence("def solve" + second)
        assert same(read(text).source, PROGRAMS["helpers"])
        assert read(text).steps == ("joined-blocks",)

    def test_a_program_broken_off_in_a_body_and_continued_is_put_together(self):
        program = PROGRAMS["plain"]
        at = program.index("            rest.append")
        reply = read(corpus.fence(program[:at]) + "\n\ncontinued:\n\n" + corpus.fence(program[at:]))
        assert same(reply.source, program)

    def test_a_fence_in_a_docstring_at_the_margin_does_not_end_the_program(self):
        program = (
            'def solve(values, limit):\n    """Sums.\n\n```python\nsolve([1], 2)\n```\n    """\n    return values\n'
        )
        reply = read(corpus.BEFORE + corpus.fence(program) + corpus.AFTER)
        assert same(reply.source, program)

    def test_a_broken_answer_is_not_replaced_by_an_earlier_block_or_a_later_turn(self):
        good, broken = (
            corpus.fence(PROGRAMS["plain"]),
            corpus.fence("def solve(values, limit):\n    return val9.3192\n"),
        )
        assert read(f"Draft:\n\n{good}\n\nFinal:\n\n{broken}").verdict == "damaged"
        assert read(f"{broken}<|im_end|>\n<|im_start|>assistant\n{good}").verdict == "damaged"
        parent = corpus.fence(corpus.PARENT)
        assert read(f"Original:\n\n{parent}\n\nImproved:\n\n{broken}").verdict == "damaged"

    def test_smart_quotes_in_strings_stay_and_those_around_strings_become_straight(self):
        text = "def solve(values, limit):\n    # “so”\n"
        text += "    label = “first” if values else ‘one’\n    return label, 'a “b” c'\n"
        want = text.replace("“first”", '"first"').replace("‘one’", "'one'")
        assert read(corpus.fence(text)).source == want

    def test_a_draft_with_the_same_name_in_reasoning_is_never_the_answer(self):
        reply = read(
            "<think>\n" + corpus.fence(PROGRAMS["plain"]) + "\nNo, better not.\n</think>\n\nI have no answer yet."
        )
        assert (reply.verdict, reply.kind) == ("damaged", "prose")


class TestNoOp:
    def test_the_parent_again_is_marked_whatever_it_is_wrapped_in(self):
        for make in (*corpus.ENVELOPES.values(), *(corpus.WRAPPED[kind] for kind in ("json", "tags", "in a list"))):
            text = make(corpus.PARENT)
            if "def solve(v, l)" not in text:
                reply = read(text)
                assert reply.no_op
                assert tree(reply.source) == tree(corpus.PARENT)

    def test_comments_and_layout_make_no_other_program(self):
        assert read(corpus.fence("# better\n" + corpus.PARENT.replace("0.0", "0.0  # from nought"))).no_op

    def test_a_change_is_no_no_op(self):
        assert not read(corpus.fence(corpus.PARENT.replace("0.0", "0.5"))).no_op


class TestDamage:
    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            (kind, name)
            for kind, damage in corpus.DAMAGED.items()
            for name in corpus.SIMPLE
            if damage(PROGRAMS[name]) != PROGRAMS[name]
        ],
    )
    @pytest.mark.parametrize("wrap", [corpus.fence, lambda p: corpus.BEFORE + corpus.fence(p) + corpus.AFTER, str])
    def test_damage_to_characters_is_undone_to_the_byte(self, wrap, kind, name):
        program = PROGRAMS[name]
        reply = read(wrap(corpus.DAMAGED[kind](program)))
        assert reply.verdict == "recovered"
        assert same(reply.source, program)

    @pytest.mark.parametrize("name", corpus.SIMPLE)
    @pytest.mark.parametrize("kind", corpus.THROUGHOUT)
    def test_damage_throughout_a_reply_is_undone_before_its_fences_are_read(self, kind, name):
        for text in (corpus.BEFORE + corpus.fence(PROGRAMS[name]), PROGRAMS[name]):
            reply = read(corpus.THROUGHOUT[kind](text))
            assert reply.verdict == "recovered"
            assert same(reply.source, PROGRAMS[name])

    @pytest.mark.parametrize("text", corpus.NO_PROGRAM, ids=lambda text: repr(text[:40]))
    def test_what_holds_no_program_has_its_name_and_fault(self, text):
        reply = read(text)
        assert (reply.verdict, reply.source) == ("damaged", None)
        assert (reply.kind, reply.fault) == corpus.NO_PROGRAM[text]
        assert reply.reason

    @names
    def test_a_program_that_was_cut_anywhere_is_never_taken(self, name):
        program = PROGRAMS[name]
        for before, mark in (("", ""), (corpus.BEFORE, "```python\n"), ("", "```\n")):
            for end in range(len(program) - 1):
                reply = read(before + mark + program[:end], "length")
                assert (reply.verdict, reply.fault) == (
                    "damaged",
                    "budget" if (mark + program[:end]).strip() else "model",
                )

    def test_a_fence_left_open_is_a_cut_where_the_entry_point_gives_nothing_back(self):
        start = "def solve(values, limit):\n    kept = []\n    for value in values:\n        kept.append(value)\n"
        assert read("```python\n" + start).kind == "cut"
        assert read("```python\n" + start + "    return kept\n").steps == ("unclosed-fence",)

    @given(st.integers(0, 2**32))
    @settings(max_examples=400, deadline=None)
    def test_a_text_spliced_into_a_program_never_makes_another_one(self, seed):
        """Pieces that are no part of any escape or mark: what is there is not Python, and nothing may be guessed."""
        rng = random.Random(seed)
        program = rng.choice(list(PROGRAMS.values()))
        at = rng.randrange(len(program))
        end = min(len(program), at + rng.choice([0, 0, 1, 5, 12]))
        piece = rng.choice(
            [
                "9",
                "$",
                "?",
                "’",
                "val",
                "</br>",
                "proceed",
                "self.",
                "0x",
                "(",
                ")",
                "\n",
                "return",
                "é",
                program[at : at + 9],
            ]
        )
        spliced = program[:at] + piece + program[end:]
        reply = read(rng.choice([corpus.fence, lambda p: corpus.BEFORE + corpus.fence(p) + corpus.AFTER, str])(spliced))
        if tree(spliced) is None:
            assert reply.source is None or tree(reply.source) == tree(program)
        elif reply.source is not None:
            assert tree(reply.source) == tree(spliced)
        else:
            assert reply.kind in ("no_entrypoint", "no_program", "elided")

    @given(st.integers(0, 2**32))
    @settings(max_examples=400, deadline=None)
    def test_what_is_not_ok_is_what_no_longer_parses(self, seed):
        """What a run's counts mean: ASCII junk, or a piece of another program, anywhere in a fenced program."""
        rng = random.Random(seed)
        program, donor = rng.choice(list(PROGRAMS.values())), rng.choice(list(PROGRAMS.values()))
        at, start = rng.randrange(len(program)), rng.randrange(len(donor))
        junk = "".join(chr(rng.randrange(32, 127)) for _ in range(rng.randint(1, 8)))
        junk = rng.choice([junk, donor[start : start + 10]])
        end = at + rng.choice([0, len(junk)])
        spliced = program[:at] + rng.choice([junk, ""]) + program[end:]
        reply = read(rng.choice([corpus.fence(spliced), corpus.BEFORE + corpus.fence(spliced) + corpus.AFTER]))
        if reply.kind not in ("no_entrypoint", "no_program", "elided"):
            assert (reply.verdict == "ok") == (tree(spliced) is not None)


class TestUntouched:
    @given(corpus.programs())
    @settings(max_examples=200, deadline=None)
    def test_a_text_that_is_a_program_comes_back_to_the_byte(self, program):
        assert tree(program) is not None
        reply = read(program)
        assert (reply.verdict, reply.source, reply.steps) == ("ok", program, ())

    @given(corpus.programs(), st.sampled_from(["prose around", "fence py", "tildes", "four backticks", "reasoning"]))
    @settings(max_examples=200, deadline=None)
    def test_nor_is_one_in_an_envelope_changed(self, program, kind):
        reply = read(corpus.ENVELOPES[kind](program))
        assert (reply.verdict, reply.source, reply.steps) == ("ok", program, ())

    @given(corpus.programs(), st.sampled_from(sorted(set(corpus.WRAPPED) - {"carriage returns", "line separators"})))
    @settings(max_examples=300, deadline=None)
    def test_a_wrapping_is_taken_off_without_loss_or_not_at_all(self, program, kind):
        reply = read(corpus.WRAPPED[kind](program))
        assert reply.source is None or tree(reply.source) == tree(program)


def test_every_kind_of_damage_has_a_fault_and_a_meaning():
    assert {kind.fault for kind in KINDS.values()} == {"model", "channel", "budget", "provider"}
    assert all(kind.about for kind in KINDS.values())


def test_every_kind_and_every_step_is_in_the_docs_with_its_meaning(repo):
    page = (repo / "docs" / "replies.md").read_text()
    for name, kind in KINDS.items():
        assert f"| `{name}` | {kind.fault} | {kind.about} |" in page
    for name, about in STEPS.items():
        assert f"| `{name}` | {about} |" in page


def test_every_step_that_is_named_is_a_known_one():
    made = [
        make(program) for make in (*corpus.WRAPPED.values(), *corpus.DAMAGED.values()) for program in PROGRAMS.values()
    ]
    named = {step for text in made for step in read(text).steps}
    assert named <= set(STEPS)
    assert len(named) > 25
