"""The grid: bins, scales and cells by hand, and the diversity of texts."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo.errors import ConfigError
from progevo.search.diversity import Diversity, distance, signature
from progevo.search.grid import Grid, Scale, bins_of
from progevo.testing import node
from progevo.types import Program

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def grid(*dimensions: str, bins: int = 10) -> Grid:
    return Grid(dimensions, [bins] * len(dimensions), Diversity(20))


@pytest.mark.parametrize(
    ("bins", "dimensions", "archive_size", "expected"),
    [
        (10, "ab", 100, (10, 10)),  # 100^(1/2) = 10, and int(10.99) = 10
        (10, "ab", 1000, (32, 32)),  # 31.62 + 0.99 = 32.61
        (10, "abc", 100, (10, 10, 10)),  # 4.64 + 0.99 = 5.63, less than 10
        (3, "a", 50, (50,)),
        (3, "ab", 10, (4, 4)),  # 3.16 + 0.99 = 4.15
        ({"a": 3, "b": 7}, "ab", 10_000, (3, 7)),
        ({"b": 7}, "ab", 10_000, (10, 7)),  # what a table does not name has 10
    ],
)
def test_bins_by_hand(bins, dimensions, archive_size, expected):
    assert bins_of(bins, list(dimensions), archive_size) == expected


def test_a_scale_by_hand():
    scale = Scale()
    shares = []
    for value in (10.0, 30.0, 20.0, 5.0, 12.5):
        scale.learn(value)
        shares.append(scale.share(value))
    # Alone; the largest; halfway from 10 to 30; the new least; (12.5 - 5) / (30 - 5).
    assert shares == [0.5, 1.0, 0.5, 0.0, 0.3]


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_shares_are_between_0_and_1_and_keep_the_order(values):
    scale = Scale()
    for value in values:
        scale.learn(value)
    shares = [scale.share(value) for value in sorted(values)]
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares)


def test_cells_by_hand():
    cells = grid("m", "score")
    measured = [
        cells.measure(node(index, index, None if index == 0 else 0, score, metrics={"m": m}))
        for index, (m, score) in enumerate([(10.0, 1.0), (30.0, 1.0), (20.0, 3.0), (12.0, 2.5)])
    ]
    assert measured == [(10.0, 1.0), (30.0, 1.0), (20.0, 3.0), (12.0, 2.5)]
    # The largest value is in the last bin, of ten. A cell is never looked at again: the first would be (0, 0) by now.
    assert [cells.cell(features) for features in measured] == [(5, 5), (9, 5), (5, 9), (1, 7)]


def test_complexity_is_the_length_of_the_text_and_a_metric_goes_before_it():
    built_in, reported = grid("complexity"), grid("complexity")
    assert built_in.measure(node(0, 0, None, 1.0, source="x = 1\n")) == (6.0,)
    assert reported.measure(node(0, 0, None, 1.0, source="x = 1\n", metrics={"complexity": 2.5})) == (2.5,)
    # What the seed settled stays: a candidate that reports nothing has no value there, not the length of its text.
    assert reported.cell(reported.measure(node(1, 1, 0, 1.0, source="x = 1\n"))) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_a_value_that_is_no_number_has_no_cell_and_teaches_no_scale(value):
    cells = grid("m", "complexity")
    cells.cell(cells.measure(node(0, 0, None, 1.0, source="ab", metrics={"m": 1.0})))
    odd = cells.measure(node(1, 1, 0, 1.0, source="a" * 100, metrics={"m": value}))
    assert cells.cell(odd) is None
    assert cells.cell((1.0, 2.0)) == (5, 5)


def test_a_failed_program_has_no_cell_on_an_axis_that_asks_for_what_it_never_reported():
    cells = grid("complexity", "score")
    assert cells.cell(cells.measure(node(0, 0, None, -math.inf))) is None
    assert grid("complexity").cell((3.0,)) == (5,)


def test_a_dimension_that_nobody_reports_is_an_error_that_lists_what_there_is():
    with pytest.raises(ConfigError, match=r"names speed, .* there are complexity, diversity, score, rmse$"):
        grid("complexity", "speed").measure(node(0, 0, None, 1.0, metrics={"rmse": 1.0}))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20), st.integers(1, 12))
def test_every_cell_is_in_the_grid(values, bins):
    cells = grid("a", "b", bins=bins)
    for pair in values:
        cell = cells.cell(pair)
        assert cell is not None
        assert all(0 <= place < bins for place in cell)


@given(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.integers(0, 1000))
def test_nearby_is_at_most_two_away_and_in_the_grid(cell, seed):
    near = grid("a", "b").nearby(cell, random.Random(seed))
    assert all(abs(one - other) <= 2 and 0 <= one < 10 for one, other in zip(near, cell, strict=True))


# Diversity


def test_a_distance_by_hand():
    # Three characters more, one line more, and c and d only in one: 0.3 + 10 + 1.
    assert distance(signature("ab\n"), signature("abcd\n\n")) == pytest.approx(11.3)
    assert distance(signature("ab"), signature("ba")) == 0.0


def test_diversity_by_hand():
    diversity = Diversity(2)
    assert diversity.measure(Program("ab\n")) is None
    assert diversity.measure(Program("abcd\n\n")) == pytest.approx(11.3)
    # Six characters, one line. To "ab\n": 0.3 + 0 + 1.5 (x, y, z). To the other: 0 + 10 + 2.5 (c, d, x, y, z).
    assert diversity.measure(Program("abxyz\n")) == pytest.approx((1.8 + 12.5) / 2)


@given(st.lists(st.text("abc\n", max_size=6), min_size=1, max_size=12), st.integers(1, 5))
def test_the_same_text_always_has_the_same_diversity(texts, size):
    diversity = Diversity(size)
    measured: dict[str, set[float | None]] = {}
    for text in texts * 2:
        measured.setdefault(text, set()).add(diversity.measure(Program(text)))
    assert all(len(values) == 1 for values in measured.values())


def test_the_first_program_lies_in_the_first_bin_and_no_scale_learns_of_it():
    cells = grid("diversity")
    assert cells.cell(cells.measure(node(0, 0, None, 1.0, source="ab\n"))) == (0,)
    # The first value that a scale learns is alone: the middle.
    assert cells.cell(cells.measure(node(1, 1, 0, 1.0, source="abcd\n\n"))) == (5,)
    assert cells.cell(cells.measure(node(2, 2, 0, 1.0, source="ab\n"))) == (0,)


def test_a_search_by_islands_needs_no_numpy():
    code = "import sys, progevo.search.catalogue; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
