"""edit.patch: SEARCH/REPLACE blocks, unified diffs, apply_patch: placed where they belong, or refused with a word."""

from __future__ import annotations

import difflib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.edit import apply, recognise

PARENT = '''\
"""Adds up."""
import math


def order(values):
    return list(values)


def solve(values, limit):
    total = 0.0
    for value in order(values):
        total += math.sqrt(value)
    for value in order(values):
        total += math.sqrt(value)
    return total
'''


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


class TestBlocks:
    def test_an_exact_match_is_replaced_and_nothing_else(self):
        edited = apply(PARENT, block("    return list(values)", "    return sorted(values)"))
        assert edited.source == PARENT.replace("list(values)", "sorted(values)")
        assert edited.problems == ()

    def test_blocks_apply_in_order_prose_and_fences_around_them_aside(self):
        text = "First:\n\n```\n" + block("    total = 0.0", "    total = 1.0") + "```\n\nthen\n\n"
        text += "```python\n" + block("    total = 1.0", "    total = 2.0") + "```\n"
        assert apply(PARENT, text).source == PARENT.replace("0.0", "2.0")

    def test_white_space_may_differ_and_new_lines_move_with_the_old(self):
        edited = apply(PARENT, block("return  list(values)  ", "if values:\n    return sorted(values)\nreturn []"))
        new = "    if values:\n        return sorted(values)\n    return []"
        assert edited.source == PARENT.replace("    return list(values)", new)

    def test_an_exact_match_goes_before_a_loose_one(self):
        parent = "if a:\n    x = 1\nx = 1\n"
        assert apply(parent, block("x = 1", "x = 2")).source == "if a:\n    x = 1\nx = 2\n"

    def test_nothing_may_be_deleted_by_halves_and_lines_can_go(self):
        assert apply(PARENT, block("    total = 0.0\n", "")).source == PARENT.replace("    total = 0.0\n", "")

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            (block("    return tuple(values)", "    return 1"), "do not occur in the program .*return tuple"),
            (block("        total += math.sqrt(value)", "        pass"), "occur 2 times in the program; add lines"),
            (block("", "x = 1"), "SEARCH part is empty"),
            ("<<<<<<< SEARCH\n    total = 0.0\n", "not closed"),
            ("nothing of the kind", "there is no edit"),
        ],
    )
    def test_what_has_no_single_place_is_refused_with_a_word_for_the_model(self, text, word):
        edited = apply(PARENT, text)
        assert edited.source is None
        with pytest.raises(AssertionError, match=word):
            raise AssertionError(edited.problems[0])

    def test_one_bad_block_leaves_everything_as_it_was_and_each_is_named(self):
        text = block("    total = 0.0", "    total = 1.0") + block("no", "yes") + block("nor this", "yes")
        edited = apply(PARENT, text)
        assert edited.source is None
        assert [problem.split(":")[0] for problem in edited.problems] == ["block 2 of 3", "block 3 of 3"]

    def test_line_ends_of_the_parent_stay(self):
        parent = PARENT.replace("\n", "\r\n")
        edited = apply(parent, block("    total = 0.0", "    total = 1.0\n    more = 2"))
        assert edited.source == parent.replace("    total = 0.0", "    total = 1.0\r\n    more = 2")


class TestDiffs:
    HUNK = " def order(values):\n-    return list(values)\n+    return sorted(values)\n"
    WANT = PARENT.replace("list(values)", "sorted(values)")

    @pytest.mark.parametrize(
        "text",
        [
            f"--- solve.py\n+++ solve.py\n@@ -5,2 +5,2 @@\n{HUNK}",
            f"--- a/solve.py\n+++ b/solve.py\n@@ -40,2 +40,9 @@\n{HUNK}",
            f"```diff\n--- solve.py\n+++ solve.py\n@@ -40,2 +40,9 @@ def x\n{HUNK}```\nThis sorts.",
            "diff --git a/s.py b/s.py\nindex 1..2 100644\n--- a/s.py\n+++ b/s.py\n@@ -5,2 +5,2 @@\n"
            f"{HUNK}\\ No newline at end of file\n",
            f"--- solve.py\n+++ solve.py\n@@ ... @@\n{HUNK}",
            f"--- solve.py\n+++ solve.py\n@@ -5,2 +5,2 @@\n{HUNK.lstrip()}",
            f"*** Begin Patch\n*** Update File: solve.py\n@@ def order(values):\n{HUNK.split(chr(10), 1)[1]}"
            "*** End Patch",
            f"*** Begin Patch\n*** Update File: solve.py\n@@\n{HUNK}*** End Patch",
        ],
    )
    def test_numbers_are_not_believed_and_lines_are(self, text):
        assert apply(PARENT, text).source == self.WANT

    def test_among_several_places_a_stated_line_or_an_anchor_chooses(self):
        change = "-        total += math.sqrt(value)\n+        total -= 1\n"
        lines = PARENT.split("\n")
        first, second = (at for at, line in enumerate(lines) if "sqrt" in line)
        for at in (first, second):
            want = [*lines[:at], "        total -= 1", *lines[at + 1 :]]
            assert apply(PARENT, f"@@ -{at + 1},1 +{at + 1},1 @@\n{change}").source == "\n".join(want)
        patch = f"*** Begin Patch\n*** Update File: s.py\n@@     total = 0.0\n{change}*** End Patch"
        assert apply(PARENT, patch).source == "\n".join([*lines[:first], "        total -= 1", *lines[first + 1 :]])
        assert "2 times" in apply(PARENT, f"@@ -1,1 +1,1 @@\n{change}").problems[0]

    def test_several_files_and_deletions_are_refused(self):
        two = "".join(f"--- {name}\n+++ {name}\n@@ -5,2 +5,2 @@\n{self.HUNK}" for name in ("a.py", "b.py"))
        assert "several files" in apply(PARENT, two).problems[0]
        assert "deletes" in apply(PARENT, "*** Begin Patch\n*** Delete File: solve.py\n*** End Patch").problems[0]

    def test_a_new_file_is_a_rewrite(self):
        added = "".join(f"+{line}\n" for line in self.WANT.splitlines())
        assert apply(PARENT, f"--- /dev/null\n+++ solve.py\n@@ -0,0 +1,20 @@\n{added}").source == self.WANT
        assert apply(PARENT, f"*** Begin Patch\n*** Add File: solve.py\n{added}*** End Patch").source == self.WANT

    @given(st.integers(0, 2**32))
    @settings(max_examples=150, deadline=None)
    def test_a_diff_made_by_difflib_leads_to_where_it_was_made_for(self, seed):
        rng = random.Random(seed)
        lines = [f"line_{rng.randrange(10**6)} = {number}" for number in range(rng.randint(5, 30))]
        after = list(lines)
        for number in range(rng.randint(1, 3)):
            at = rng.randrange(len(after))
            after[at : at + rng.choice([0, 1, 1, 2])] = [f"new_{number} = {seed}"] * rng.choice([0, 1, 2])
        diff = "\n".join(difflib.unified_diff(lines, after, "a/s.py", "b/s.py", lineterm="", n=rng.choice([1, 3])))
        if diff:
            assert apply("\n".join(lines) + "\n", diff).source == "\n".join(after) + "\n"


def test_each_form_is_known_by_its_marks_and_programs_are_none():
    assert recognise(block("a", "b")) == "search-replace"
    assert recognise("--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n") == "unified-diff"
    assert recognise("*** Begin Patch\n*** End Patch") == "apply-patch"
    for text in (PARENT, "", "a << b\n", "x = 1\n--- 2\n", "- a list\n- of points\n", "@@ \n", "--- \n+++ \n"):
        assert recognise(text) == ""
