"""The block: what the page's script reads follows from the journal, and stays small."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.journal import read_run
from progevo.report.block import build_block, to_text
from progevo.report.reading import read
from progevo.report.shape import pucts
from progevo.report.texts import LINE, PROGRAM, Texts
from progevo.search.flat_puct import FlatPuct
from progevo.search.islands import IslandConstants, Islands
from progevo.testing import drive, node
from progevo.types import Candidate, Node, Outcome, Program
from tests.report.conftest import parse  # noqa: F401  (the fixtures live there)


def test_columns_say_what_the_nodes_say(wandered):
    folder = wandered()
    block: Any = build_block(read(folder))
    record = read_run(folder)
    columns = block["nodes"]
    assert {len(column) for column in columns.values()} == {len(record.nodes)}
    for place, told in enumerate(record.nodes):
        assert columns["parent"][place] == told.parent
        assert block["statuses"][columns["status"][place]] == told.outcome.status
        assert columns["value"][place] == (-told.score if told.outcome.ok else None)
        assert columns["twin_of"][place] == told.twin_of
        assert (columns["reason"][place] is None) == (told.outcome.reason == "")
        before = record.nodes[told.parent].outcome if told.parent is not None else None
        if before is not None and before.ok and told.outcome.ok:
            # every case of this task moves where the answer does
            count = 0 if before.score == told.score else 4
            assert columns["moved"][place] == [count, 4, 1, [0, 1, 2, 3][:count]]
        else:
            assert columns["moved"][place] is None
    assert {"crashed", "timeout", "bad_output", "no_program", "gate_refused"} <= {
        node.outcome.status for node in record.nodes
    }
    assert any(columns["no_op"])
    assert any(each is not None for each in columns["twin_of"])
    assert block["result"] == json.loads((folder / "result.json").read_text())
    assert block["state"] == "ended"
    assert sorted(block["tested"]) == sorted(str(index) for index in record.tested)
    assert len(block["draws"]) == len(record.nodes) - 1


def test_new_bests_are_those_that_the_run_crowned(wandered):
    reading = read(wandered())
    nodes = reading.record.nodes
    crowned, best = [], -math.inf
    for told in nodes:
        if told.outcome.ok and told.twin_of is None and told.score > best:
            best = told.score
            crowned.append((told.index + 1, told.index))
    assert list(reading.bests) == crowned
    assert len(crowned) > 2


@pytest.mark.parametrize("seed", range(8))
def test_the_largest_puct_is_the_one_that_is_asked_for_next(seed):
    rng = random.Random(seed)
    scores = [-rng.random() if rng.random() < 0.8 else -math.inf for _ in range(40)]
    scores[0] = -1.0
    for count in (2, 3, 7, 40):
        search = FlatPuct(1.0)
        drive(search, scores[:count])
        found = pucts(scores[:count], [search.visits(index) for index in range(count)], 1.0)
        assert max(found) - found[search.ask().parent] <= 1e-6  # they are written with six digits


def test_puct_by_hand():
    """Three nodes, visits 3, 1, 1: ranks 1, 0 and 1/2; each bonus is 1/3 * sqrt(5) / (1 + visits)."""
    assert pucts([-1.0, -3.0, -2.0], [3, 1, 1], 1.0) == [
        pytest.approx(1 + math.sqrt(5) / 12, abs=1e-6),
        pytest.approx(math.sqrt(5) / 6, abs=1e-6),
        pytest.approx(0.5 + math.sqrt(5) / 6, abs=1e-6),
    ]


def test_islands_are_as_the_search_has_them(wandered):
    reading = read(wandered("openevolve"))
    block: Any = build_block(reading)
    islands, search = block["islands"], reading.search
    assert isinstance(search, Islands)
    assert islands["dimensions"] == ["complexity", "diversity"]
    assert islands["bins"] == [10, 10]
    assert islands["homes"][:5] == [0, 0, 1, 2, 0]
    copies = 0
    for grid, island, shape in zip(
        islands["grids"], search.population.islands, block["result"]["islands"], strict=True
    ):
        owned = {tuple(cell): index for index, cell, owner, _ in grid["members"] if owner}
        assert owned == {cell: member.node for cell, member in island.cells.items()}
        assert len(grid["members"]) == shape["programs"]
        copies += sum(copy for *_, copy in grid["members"])
    assert copies == sum(shape["copies"] for shape in block["result"]["islands"]) > 0
    assert "visits" not in block["nodes"]


def test_bins_follow_a_table_by_name():
    search = Islands(IslandConstants(feature_dimensions=("score", "complexity"), feature_bins={"score": 4}))
    search.tell(node(0, 0, None, -1.0))
    from progevo.report.shape import shape_of

    assert shape_of(search, [node(0, 0, None, -1.0)])["islands"]["bins"] == [4, 10]


@given(st.dictionaries(st.text(), st.text() | st.none() | st.floats(allow_nan=False, allow_infinity=False)))
@settings(deadline=None, max_examples=100)
def test_a_block_as_text_cannot_leave_its_element_and_reads_back(value):
    written = to_text(value)
    assert not set(written) & set("<>&\u2028\u2029\n")
    assert written.isascii()
    assert json.loads(written) == value


def test_a_number_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_text({"value": math.nan})


def holding(source: str) -> Node:
    program = Program(source)
    outcome = Outcome(status="crashed", reason="made to fail")
    return Node(index=0, step=0, parent=None, candidate=Candidate(program=program, origin="x"), outcome=outcome)


def unpack(texts: Texts):
    import base64
    import zlib

    return json.loads(zlib.decompress(base64.b64decode(texts.packed({}))))


@given(st.lists(st.text(alphabet=st.characters() | st.sampled_from("\n\r\ud800")), max_size=8))
@settings(deadline=None, max_examples=100)
def test_programs_come_back_letter_by_letter_each_once(sources):
    texts = Texts()
    numbers = [texts.number(holding(source)) for source in sources]
    content = unpack(texts)
    assert len(content["lines"]) == len(set(content["lines"]))
    assert len(content["programs"]) == len(set(sources))
    for number, source in zip(numbers, sources, strict=True):
        body = content["programs"][number]
        assert "\n".join(content["lines"][line] for line in body["lines"]) == source
        assert body["id"] == Program(source).id
        assert "cut" not in body


def test_what_is_too_long_is_cut_and_says_so():
    texts = Texts()
    long_line, long_text = "x" * (LINE + 5), "y\n" * PROGRAM
    for source in (long_line, long_text):
        texts.number(holding(source))
    one, two = unpack(texts)["programs"]
    assert one["cut"] == 5
    assert two["cut"] == PROGRAM


def test_a_thousand_programs_of_two_hundred_lines_stay_under_two_megabytes():
    rng, texts = random.Random(0), Texts()
    lines = [f"    value_{number} = x * {number}  # what the seed says here" for number in range(200)]
    for step in range(1000):
        lines[rng.randrange(200)] = f"    value = x * {rng.random()}  # changed at {step}"
        texts.number(holding("\n".join(lines)))
    assert len(texts.packed({})) < 1_000_000


def test_a_lost_program_file_costs_its_text_alone(wandered, tmp_path):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(wandered(), folder)
    record = read_run(folder)
    lost = next(node for node in record.nodes if node.outcome.ok and node.index not in (0, record.best))
    twins = [
        each
        for each in record.nodes
        if each.candidate.program and each.candidate.program.id == lost.candidate.program.id
    ]
    (folder / "programs" / f"{lost.candidate.program.id}.py").unlink()
    block = build_block(read(folder))
    assert len({block["nodes"]["program"][each.index] for each in twins}) == 1
    assert block["nodes"]["value"][lost.index] == -lost.score
