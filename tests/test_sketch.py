"""sketch: which cases moved, from a few digits each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from progevo.sketch import CASES, compare, sketch

VALUES = st.floats(allow_nan=False)


@given(st.lists(VALUES, min_size=1, max_size=60), st.sets(st.integers(0, 59)))
def test_the_cases_that_moved_are_those_whose_value_changed(cases, moved):
    after = [value + 1.0 if index in moved and value + 1.0 != value else value for index, value in enumerate(cases)]
    found = compare(sketch(cases), sketch(after))
    truth = tuple(index for index, (old, new) in enumerate(zip(cases, after, strict=True)) if old != new)
    assert found is not None
    assert found.of == len(cases)
    assert set(found.changed) <= set(truth)  # two values share sixteen bits once in 65,536
    assert len(truth) - len(found.changed) <= 1
    assert found.same == found.of - len(found.changed)


def test_known_values():
    assert sketch([]) == ""
    # crc32 of the eight bytes of a little-endian double, its low sixteen bits.
    import struct
    import zlib

    assert sketch([1.5, -0.0]) == "1:" + "".join(
        f"{zlib.crc32(struct.pack('<d', value)) % 65536:04x}" for value in (1.5, 0.0)
    )
    assert compare("1:00010002", "1:00010003") == (1, 2, (1,), 1)


def test_many_cases_are_looked_at_evenly():
    cases = [float(index) for index in range(4952)]
    text = sketch(cases)
    assert len(text) < 4 * CASES + 4
    after = [value + (index in (10, 4950)) for index, value in enumerate(cases)]
    found = compare(text, sketch(after))
    assert found == (494, 496, (10, 4950), 10)


def test_what_cannot_be_compared_is_none():
    for before, after in (("", ""), ("", "1:0001"), ("1:0001", ""), ("1:0001", "1:00010002"), ("1:0001", "2:0001")):
        assert compare(before, after) is None
