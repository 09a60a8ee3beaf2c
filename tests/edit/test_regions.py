"""edit.regions: what lies outside the markers is the parent's, to the byte, whatever a rewrite holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.edit import apply, regions, respects, rewrite
from progevo.errors import ConfigError

ONE = '''\
"""A task."""
import math

# EVOLVE-BLOCK-START keep the names


def order(values):
    return list(values)


# EVOLVE-BLOCK-END


def solve(values, limit):
    return order(values)[:limit]
'''
TWO = """\
# EVOLVE-BLOCK-START
A = 1
# EVOLVE-BLOCK-END
def between(): return 2
# EVOLVE-BLOCK-START
B = 1
# EVOLVE-BLOCK-END
def solve(x): return A + B + between()
"""
METHOD = """\
class Walk:
    def step(self):
        # EVOLVE-BLOCK-START
        x = 1
        return x
        # EVOLVE-BLOCK-END


def solve(a):
    return Walk().step()
"""
NEW = "def order(values):\n    return sorted(values)\n"


def without_markers(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if "EVOLVE-BLOCK" not in line)


class TestRegions:
    def test_the_inside_is_what_lies_between_the_marker_lines(self):
        assert [ONE[start:end] for start, end in regions(ONE)] == [
            "\n\ndef order(values):\n    return list(values)\n\n\n"
        ]
        assert [TWO[start:end] for start, end in regions(TWO)] == ["A = 1\n", "B = 1\n"]
        assert regions("def solve(): pass\n") == ()

    @pytest.mark.parametrize(
        "text",
        [
            "# EVOLVE-BLOCK-START\n",
            "# EVOLVE-BLOCK-END\n",
            "# EVOLVE-BLOCK-END\n# EVOLVE-BLOCK-START\n",
            "# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-END\n# EVOLVE-BLOCK-END\n",
        ],
    )
    def test_markers_that_do_not_pair_up_are_refused_with_the_rule(self, text):
        with pytest.raises(ConfigError, match=r"do not pair up .* one pair after the other"):
            regions(text)
        assert not respects(ONE, text)

    def test_a_mark_within_a_line_of_code_is_none(self):
        assert regions('x = "# EVOLVE-BLOCK-START"\n') == ()

    def test_respect_is_of_bytes(self):
        assert respects(ONE, ONE.replace("list(values)", "values"))
        for old, new in (
            ("math", "os"),
            ("[:limit]", ""),
            ("keep the names", "any"),
            ('"""A task."""', '"""A task.""" '),
        ):
            assert not respects(ONE, ONE.replace(old, new))
        assert respects("def solve(): pass\n", "anything")


class TestRewrite:
    WANT = ONE.replace("\n\ndef order(values):\n    return list(values)\n\n\n", NEW)

    @pytest.mark.parametrize(
        ("text", "restored"),
        [
            (NEW, False),
            (f"\n\n{NEW}\n\n", False),
            (ONE.replace("list(values)", "sorted(values)"), False),
            (without_markers(ONE.replace("list(values)", "sorted(values)")), False),
            (f"# EVOLVE-BLOCK-START\n{NEW}# EVOLVE-BLOCK-END\n", False),
            (ONE.replace("list(values)", "sorted(values)").replace("# EVOLVE-BLOCK-END\n", ""), False),
            (ONE.replace("list(values)", "sorted(values)").replace("[:limit]", "").replace("math", "os"), True),
        ],
    )
    def test_the_inside_alone_and_the_whole_with_or_without_markers_come_to_the_same(self, text, restored):
        edited = rewrite(ONE, text)
        assert edited.source is not None
        assert respects(ONE, edited.source)
        assert "".join(edited.source.split()) == "".join(self.WANT.split())
        assert (edited.problems, edited.restored) == ((), restored)

    def test_a_whole_file_is_never_pasted_into_its_own_block(self):
        changed = without_markers(ONE.replace("list(values)", "sorted(values)").replace("[:limit]", ""))
        edited = rewrite(ONE, changed)
        assert edited.source is None
        assert "defines solve again" in edited.problems[0]

    def test_several_regions_are_told_apart_by_markers_or_by_what_lies_between(self):
        want = TWO.replace("A = 1", "A = 5").replace("B = 1", "B = 6")
        assert rewrite(TWO, want).source == want
        assert rewrite(TWO, without_markers(want)).source == want
        assert "2 EVOLVE-BLOCK regions" in rewrite(TWO, "A = 5\n").problems[0]

    def test_the_inside_of_an_indented_region_is_indented_with_it(self):
        for text in ("x = 2\nreturn x\n", "        x = 2\n        return x\n"):
            assert rewrite(METHOD, text).source == METHOD.replace("x = 1", "x = 2")

    def test_line_ends_are_the_parent_s(self):
        parent = ONE.replace("\n", "\r\n")
        edited = rewrite(parent, "X = 1")
        assert edited.source is not None
        assert respects(parent, edited.source)
        assert "X = 1\r\n# EVOLVE-BLOCK-END\r\n" in edited.source

    def test_without_regions_a_rewrite_is_the_text(self):
        assert rewrite("def solve(): pass\n", "anything at all").source == "anything at all"

    @given(st.text(max_size=60) | st.sampled_from([ONE, TWO, METHOD, NEW]), st.sampled_from([ONE, TWO, METHOD]))
    @settings(max_examples=300, deadline=None)
    def test_whatever_a_rewrite_or_an_edit_holds_the_outside_stays(self, text, parent):
        block = f"<<<<<<< SEARCH\n{text[:20]}\n=======\n{text}\n>>>>>>> REPLACE\n"
        for edited in (rewrite(parent, text), apply(parent, block)):
            assert (edited.source is None) == bool(edited.problems)
            if edited.source is not None:
                assert respects(parent, edited.source)
