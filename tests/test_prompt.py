"""prompt: golden texts, and what no candidate's text can do to them.

`python -m pytest tests/test_prompt.py` compares with tests/golden/*.md; PROGEVO_WRITE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo import Candidate, Node, Outcome, Program, find_domain
from progevo.errors import TaskError
from progevo.prompt import OTHER_LENGTH, PARENT_LENGTH, cut, fill, first, render, untrusted, with_feedback
from progevo.sketch import sketch
from progevo.types import Brief

SEED = "def solve(x):\n    return 0\n"


def node(index, source, *, parent=0, score=None, status="ok", reason="", log="", cases=(), metrics=None):
    outcome = (
        Outcome(status="ok", score=score, sketch=sketch(cases), metrics=metrics or {})
        if status == "ok"
        else Outcome(status=status, reason=reason, log_tail=log)
    )
    program = Program(source) if source is not None else None
    return Node(
        index=index,
        step=index,
        parent=parent if index else None,
        candidate=Candidate(program=program, origin="m", reason=reason),
        outcome=outcome,
    )


def brief(nodes, parent=-1, inspirations=()):
    return Brief(
        step=9,
        parent=nodes[parent],
        history=tuple(nodes),
        rng=random.Random(0),
        inspirations=tuple(nodes[index] for index in inspirations),
    )


def program(number):
    return f"def solve(x):\n    return {number}\n"


ROOT = node(0, SEED, score=-10.0, cases=(1.0, 2.0, 3.0))
GOLDEN = {
    "seed": brief([ROOT]),
    "better": brief([ROOT, node(1, program(1), score=-4.0, cases=(1.0, 0.5, 3.0), metrics={"hits": 2.0})]),
    "without_effect": brief(
        [ROOT, node(1, program(2), score=-4.0), node(2, program("0 * 1"), score=-10.0, cases=(1.0, 2.0, 3.0))]
    ),
    "crashed": brief(
        [
            ROOT,
            node(1, program(7), score=-2.5),
            node(
                2, program("1 / 0"), parent=1, status="crashed",
                reason="ZeroDivisionError: division by zero (line 2)", log="loading\n" * 3 + "about to divide\n",
            ),
        ]
    ),
    "no_program": brief([ROOT, node(1, None, status="no_program", reason="damaged (refusal, model): it declines")]),
    "inspirations": brief(
        [
            ROOT, node(1, program(1), score=-3.0), node(2, program(2), score=-1.0),
            node(3, program(3), status="timeout", reason="no answer within 10 s of wall time (limit wall_s)"),
        ],
        parent=1,
        inspirations=(0, 1, 2, 3),
    ),
}  # fmt: skip


def text_of(messages):
    return "\n".join(f"---- {message.role}\n\n{message.content}" for message in messages)


def compare(path, text):
    if os.environ.get("PROGEVO_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_prompt_is_the_golden_text(repo, toy, name):
    domain = toy(prompt="Find the number.\n")
    compare(repo / "tests" / "golden" / f"prompt_{name}.md", text_of(render(domain, GOLDEN[name])))


def test_the_prompt_of_edits_and_that_of_regions_are_the_golden_texts(repo, toy):
    regions = f"X = 1\n# EVOLVE-BLOCK-START\n{SEED}# EVOLVE-BLOCK-END\n"
    domain = toy(prompt="Find the number.\n", seed=Program(regions))
    first_node = node(0, regions, score=-1.0)
    messages = render(domain, brief([first_node]), edit="diff")
    asked_again = with_feedback(messages, "<<<<<<< SEARCH\nno\n>>>>>>> REPLACE", "block 1 does not occur")
    compare(repo / "tests" / "golden" / "prompt_edit_again.md", text_of(asked_again))


def test_the_prompt_of_s3e1_is_the_golden_text(repo):
    domain = find_domain("s3e1")
    compare(repo / "tests" / "golden" / "prompt_s3e1.md", text_of(first(domain)))


def test_what_is_asked_first_is_what_a_run_asks_first_but_for_the_score(toy):
    domain = toy()
    shown, asked = (messages[1].content for messages in (first(domain), render(domain, brief([ROOT]))))
    differing = [(a, b) for a, b in zip(shown.splitlines(), asked.splitlines(), strict=True) if a != b]
    assert len(differing) == 1
    assert "error 10" in differing[0][1]


def test_a_lean_prompt_holds_the_parent_and_what_became_of_it_alone(toy):
    whole, lean = (render(toy(), GOLDEN["crashed"], lean=lean)[1].content for lean in (False, True))
    assert "1 / 0" in lean
    assert "ZeroDivisionError" in lean
    assert "about to divide" in whole
    assert "about to divide" not in lean
    assert "return 7" in whole
    assert "return 7" not in lean
    assert "return 2" not in render(toy(), GOLDEN["inspirations"], lean=True)[1].content


HOSTILE = st.text(st.sampled_from("`~#\n $<>{}|=-\x1b\u202e\ud800ab\\\"'"), max_size=300)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_text_of_a_candidate_leaves_its_fence(toy, source, reason, log):
    """Whatever stands in a program, a reason or a log: every fence closes where we close it."""
    failed = node(1, source, status="crashed", reason=reason or "x", log=log)
    best = node(2, f"{source}\n# best", score=5.0)
    content = render(toy(), brief([ROOT, failed, best], parent=1))[1].content
    outside, fence = [], None
    for line in content.split("\n"):
        if fence is None and re.fullmatch(r"`{3,}(python)?", line):
            fence = line.removesuffix("python")
        elif fence == line:
            fence = None
        elif fence is None:
            outside.append(line)
    assert fence is None
    plain = render(
        toy(), brief([ROOT, node(1, "a", status="crashed", reason="r", log="l" if log.strip() else ""), best], parent=1)
    )
    allowed = set(plain[1].content.split("\n"))
    assert set(outside) <= allowed | {"The end of what it printed (untrusted):"}
    content.encode()


@given(st.text(max_size=500), st.integers(2, 100), st.sampled_from(["head", "end", "both"]))
def test_a_cut_text_keeps_its_ends_and_says_what_is_missing(text, length, keep):
    shown = cut(text, length, keep)
    if len(text) <= length:
        assert shown == text
        return
    assert f"{len(text) - length} characters left out" in shown
    assert len(shown) <= length + 60
    if keep in ("head", "both"):
        assert shown.startswith(text[: length // 2])
    if keep in ("end", "both"):
        assert shown.endswith(text[-(length // 2) :])


def test_long_programs_are_cut_and_others_sooner(toy):
    nodes = [
        ROOT,
        node(1, f"# {'p' * 2 * PARENT_LENGTH}", score=-5.0),
        node(2, f"# {'b' * 2 * OTHER_LENGTH}", score=0.0),
    ]
    content = render(toy(), brief(nodes, parent=1))[1].content
    assert content.count("p" * 1000) > 0
    assert len(content) < PARENT_LENGTH + OTHER_LENGTH + 3000
    assert "```" in untrusted("x", 10)


def test_a_program_is_shown_to_the_character(toy):
    """Nothing is tidied in a program: a model that edits it has to find its text."""
    source = "X = 0xdeadbeef  # \u200b\x0c\ttail  \ndef solve(x):\n    return '\\x1b[0m'\n"
    content = render(toy(), brief([node(0, source, score=0.0)]))[1].content
    assert source.rstrip("\n") in content


@pytest.mark.parametrize(
    "ask",
    [
        "no parent here",
        "$parent only",
        "$answer only",
        "$parent $answer $price",
        "$parent $answer 5$ more",
        "${parent} $answer $",
    ],
)
def test_a_template_that_could_not_be_filled_is_the_task_s_fault(toy, ask):
    with pytest.raises(TaskError, match="question template"):
        first(toy(ask=ask))


def test_a_template_of_a_task_s_own_is_used(toy):
    content = first(toy(ask="$parent\n\n$failure\n\n\n$worth costs $$5.\n$answer"))[1].content
    assert content.count("\n\n\n") == 0
    assert "measured. costs $5." in content


@given(st.dictionaries(st.sampled_from(["parent", "answer", "best"]), st.text(max_size=40), min_size=3))
def test_what_is_filled_in_is_not_read_as_a_template(parts):
    found = fill(Template("A $parent B\n\n$best\n\nC ${answer}"), parts)
    for text in parts.values():
        assert text in found


def test_the_seed_s_regions_are_asked_for(toy):
    domain = toy()
    marked = replace(domain, seed=Program(f"# EVOLVE-BLOCK-START\n{SEED}# EVOLVE-BLOCK-END\n"))
    assert "EVOLVE-BLOCK" in first(marked)[1].content
    assert "EVOLVE-BLOCK" not in first(domain)[1].content
