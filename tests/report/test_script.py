"""The page's script, as far as it needs no browser: run by node where there is one, and compared with Python."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess

import pytest

from progevo.report.page import SCRIPTS, part, piece
from progevo.visible import HIDDEN, visible

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no node on this machine: the page's script cannot be run here")


def javascript(files, expression, given):
    """What an expression over `given` is worth, with these files of the script before it."""
    assert NODE is not None
    source = "".join(part(name) for name in files)
    code = f"const given = JSON.parse(require('fs').readFileSync(0, 'utf-8'));\n{source}\n"
    code += f"process.stdout.write(JSON.stringify({expression}));"
    done = subprocess.run([NODE, "-e", code], input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_file_is_part_of_the_page_and_short(repo):
    folder = repo / "progevo" / "report" / "browser"
    assert {path.name for path in folder.iterdir()} == {*SCRIPTS, "page.html", "page.css"}
    for path in folder.iterdir():
        assert len(path.read_text().splitlines()) < 400, path.name


@needs_node
def test_it_is_a_script(tmp_path):
    assert NODE is not None
    (tmp_path / "whole.js").write_text(piece("script"))
    done = subprocess.run([NODE, "--check", str(tmp_path / "whole.js")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def common(before, after):
    """The length of the longest common subsequence, by the plain table."""
    row = [0] * (len(after) + 1)
    for one in before:
        above, row = row, [0]
        for place, other in enumerate(after):
            row.append(above[place] + 1 if one == other else max(above[place + 1], row[-1]))
    return row[-1]


@needs_node
def test_differences_are_right_and_the_fewest():
    rng = random.Random(1)
    pairs = [[[rng.randrange(6) for _ in range(rng.randrange(14))] for _ in range(2)] for _ in range(400)]
    pairs += [[[], []], [[1], []], [[], [1]], [[1, 2, 3], [1, 2, 3]]]
    found = javascript(["diff.js"], "given.map(([a, b]) => differences(a, b))", pairs)
    for (before, after), rows in zip(pairs, found, strict=True):
        assert [before[row["a"]] for row in rows if row["kind"] != "new"] == before
        assert [after[row["b"]] for row in rows if row["kind"] != "gone"] == after
        assert all(before[row["a"]] == after[row["b"]] for row in rows if row["kind"] == "same")
        assert sum(row["kind"] == "same" for row in rows) == common(before, after)


@needs_node
def test_two_programs_with_nothing_in_common_are_shown_as_replaced():
    expression = "differences(given[0], given[1]).map((row) => row.kind)"
    kinds = javascript(["diff.js"], expression, [list(range(3000)), list(range(3000, 6000))])
    assert kinds == ["gone"] * 3000 + ["new"] * 3000


@needs_node
def test_folding_keeps_every_row():
    rng = random.Random(2)
    lists = [
        [{"kind": rng.choice(["same"] * 12 + ["gone", "new"]), "a": n, "b": n} for n in range(80)] for _ in range(30)
    ]
    for rows, found in zip(lists, javascript(["diff.js"], "given.map((rows) => folded(rows))", lists), strict=True):
        flat = [row for each in found for row in (each["rows"] if each["kind"] == "folded" else [each])]
        assert flat == rows
        assert all(row["kind"] == "same" for each in found if each["kind"] == "folded" for row in each["rows"])


def tree(rng, count, *, deep):
    """Parents by index; deep ones grow at their newest nodes."""
    return [None, *(rng.randrange(max(0, index - 3) if deep else 0, index) for index in range(1, count))]


@needs_node
def test_no_two_nodes_of_a_tree_lie_on_one_another():
    rng = random.Random(3)
    trees = [tree(rng, rng.choice([1, 2, 5, 40, 300]), deep=rng.random() < 0.5) for _ in range(40)]
    trees += [[None] + [0] * 200, [None, *range(400)]]
    expression = """given.map((parents) => {
      const children = parents.map(() => []);
      parents.forEach((parent, index) => { if (parent !== null) children[parent].push(index); });
      const placed = layOut({ count: parents.length, children }, new Set());
      return { ...placed, x: [...placed.x], y: [...placed.y] };
    })"""
    for parents, placed in zip(trees, javascript(["layout.js"], expression, trees), strict=True):
        assert sorted(placed["shown"]) == list(range(len(parents)))
        for index, parent in enumerate(parents):
            assert parent is None or placed["y"][index] >= placed["y"][parent] + 1 - 1e-5
            assert 0 <= placed["x"][index] <= placed["width"]
        spots = sorted((round(y, 3), x) for x, y in zip(placed["x"], placed["y"], strict=True))
        for (y, x), (below, right) in itertools.pairwise(spots):
            assert y != below or right - x > 0.99


@needs_node
def test_a_folded_node_hides_what_is_below_it():
    expression = """(() => {
      const placed = layOut({ count: 6, children: [[1, 2], [3, 4], [], [5], [], []] }, new Set([1]));
      return placed.shown;
    })()"""
    assert sorted(javascript(["layout.js"], expression, None)) == [0, 1, 2]


@needs_node
def test_hidden_characters_are_the_same_with_and_without_script():
    edges = {code for first, last in HIDDEN for code in (first - 1, first, last, last + 1) if code >= 0}
    texts = [f"a{chr(code)}b" for code in sorted(edges) if not 0xD800 <= code <= 0xDFFF]
    texts += ["half \ud800 pair", "\udfff", "whole \U0001f600 pair", "\U000e0041", "plain é 日本 \t\n"]
    assert javascript(["words.js"], "(hide(given[0]), given[1].map(visible))", [HIDDEN, texts]) == [
        visible(text) for text in texts
    ]


@needs_node
def test_colouring_changes_no_text_and_knows_strings_that_span_lines():
    rng = random.Random(4)
    bits = ['"""', "'''", "'", '"', "#", "\\", "def", " f", "x", "1.5e3", " ", "return"]
    programs = [["".join(rng.choice(bits) for _ in range(rng.randrange(9))) for _ in range(6)] for _ in range(200)]
    known = ['x = """a', "def b", '""" + 1  # c']
    files = ["words.js", "code.js"]
    found = javascript(files, "given.map(pieces)", [*programs, known])
    for lines, parts in zip([*programs, known], found, strict=True):
        assert ["".join(text for _, text in line) for line in parts] == lines
    assert [[each for each in line if each[1]] for line in found[-1]] == [
        [["", "x = "], ["string", '"""'], ["string", "a"]],
        [["string", "def b"]],
        [["string", '"""'], ["", " + "], ["digits", "1"], ["", "  "], ["comment", "# c"]],
    ]
