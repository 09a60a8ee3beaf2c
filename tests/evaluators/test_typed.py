"""evaluators.timing.typed: what goes over the wire comes out as it was, and nothing else ever comes out of it."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from progevo.evaluators.timing import typed

SIMPLE = st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
ARRAYS = hnp.arrays(
    st.sampled_from(["<f8", "<f4", "<i4", "|u1", "|b1", "<c16", "<U3", "|S2", ">f8"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
KEYS = st.booleans() | st.integers() | st.text() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    SIMPLE | ARRAYS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner) | st.frozensets(KEYS),
    max_leaves=20,
)
ALIKE = st.one_of(
    st.lists(st.complex_numbers()),
    st.lists(st.floats(width=32).map(np.float32), min_size=1),
    st.lists(st.booleans().map(np.bool_)).map(tuple),
)
ROWS = st.lists(st.lists(st.floats(), max_size=3)) | st.lists(st.tuples(st.integers(), st.floats(), st.text()))


def same(one, two) -> bool:
    """Whether two values are of exactly the same types throughout, and bit for bit the same."""
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray | np.generic):
        return (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return same(list(one), list(two)) and same(list(one.values()), list(two.values()))
    if isinstance(one, float):
        return np.float64(one).tobytes() == np.float64(two).tobytes()
    if isinstance(one, complex):
        return same([one.real, one.imag], [two.real, two.imag])
    return bool(one == two)


@settings(max_examples=80, deadline=None)
@given(value=VALUES | ROWS | ALIKE)
def test_a_value_comes_back_as_it_was(value):
    assert same(typed.unpacked(typed.whole(value)), value)


@settings(max_examples=80, deadline=None)
@given(data=st.binary(max_size=60) | VALUES.map(typed.whole), cut=st.integers(0, 60), more=st.binary(max_size=9))
def test_whatever_bytes_come_they_are_a_plain_value_or_refused(data, cut, more):
    for hostile in (data[:cut], data[:cut] + more, data[:cut] + more + data[cut + 1 :]):
        try:
            value = typed.unpacked(hostile)
        except typed.NotPlain:
            continue
        assert same(typed.unpacked(typed.whole(value)), value)  # of the kinds that can be packed


@pytest.mark.parametrize("form", typed.SPARSE)
@pytest.mark.parametrize("suffix", ["_matrix", "_array"])
def test_sparse_ones_keep_their_form(form, suffix):
    dense = np.diag([1.0, 2.0, 0.0, 4.0])
    dense[0, 3] = 5.0
    value = getattr(sparse, form + suffix)(dense)
    found = typed.unpacked(typed.whole(value))
    assert type(found) is type(value)
    assert (found.toarray() == dense).all()
    assert found.dtype == value.dtype


def test_the_order_of_an_array_in_memory_is_kept():
    value = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    found = typed.unpacked(typed.whole(value))
    assert found.flags.f_contiguous
    assert found.flags.owndata
    assert found.flags.writeable
    assert same(
        typed.unpacked(typed.whole(np.arange(12.0).reshape(3, 4)[::2, ::3])), np.array([[0.0, 3.0], [8.0, 11.0]])
    )


def test_large_arrays_may_share_the_memory_they_came_in():
    value = {
        "a": 1,
        "matrix": np.arange(2000.0).reshape(40, 50),
        "fortran": np.asfortranarray(np.ones((30, 40))),
        "b": np.ones(3),
    }
    data = bytearray(typed.whole(value))
    found = typed.unpacked(data, share=True)
    assert same(found["matrix"], value["matrix"])
    assert found["fortran"].flags.f_contiguous
    for name in ("matrix", "fortran"):
        assert not found[name].flags.owndata
        assert found[name].flags.writeable
        assert found[name].ctypes.data % 8 == 0
    assert found["b"].flags.owndata
    assert typed.unpacked(data)["matrix"].flags.owndata


class Lazy(list):
    def __iter__(self):
        raise AssertionError("asked")

    def __len__(self):
        raise AssertionError("asked")


class Spoofed:
    __class__ = list  # type: ignore[assignment]

    def __array__(self, *args, **kwargs):
        raise AssertionError("asked")

    def __len__(self):
        return 3


@pytest.mark.parametrize(
    "value",
    [
        Lazy([1.0]),
        Spoofed(),
        (n for n in range(3)),
        range(3),
        map(float, [1]),
        type("F", (float,), {})(1.0),
        type("D", (dict,), {})(),
        np.ma.array([1.0]),
        np.array([object()]),
        np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
        np.datetime64("2020"),
        memoryview(b"x"),
        [[Lazy()]],
        {"a": (Spoofed(),)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_plain_value_is_refused_without_being_asked(value):
    with pytest.raises(typed.NotPlain):
        typed.whole(value)


def test_a_list_in_itself_is_refused():
    endless: list = []
    endless.append(endless)
    with pytest.raises(typed.NotPlain, match="deep"):
        typed.whole(endless)
    with pytest.raises(typed.NotPlain, match="deep"):
        typed.unpacked((b"l" + typed.SIZE.pack(1)) * 100)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps([1]),
        b"B" + b"l" + b"d" + typed.SIZE.pack(1 << 60),
        b"l" + typed.SIZE.pack(1 << 40),
        b"i" + typed.SIZE.pack(1 << 17) + bytes(1 << 17),
        b"aC\x02|O\x01" + typed.SIZE.pack(1) + bytes(8),
        b"aC\x03<f8\x02" + typed.SIZE.pack(1 << 40) * 2,
        b"R" + b"l" + b"l" + b"q" + typed.SIZE.pack(1) + typed.SIZE.pack(0) + typed.SIZE.pack((1 << 64) - 1),
        b"m" + typed.whole(["a", "a"]) + typed.whole([1, 2]),
        b"m" + typed.whole([[1]]) + typed.whole([2]),
    ],
    ids=["pickle", "block", "list", "integer", "objects", "shape", "rows", "key twice", "key of a list"],
)
def test_bytes_that_promise_more_than_they_hold_are_refused(data):
    with pytest.raises(typed.NotPlain):
        typed.unpacked(data)


def test_a_sparse_one_that_points_outside_is_refused():
    value = sparse.csr_matrix(np.eye(3))
    value.indices = np.array([0, 1, 1000], dtype=np.int32)
    with pytest.raises(typed.NotPlain):
        typed.unpacked(typed.whole(value))


@settings(max_examples=50, deadline=None)
@given(wrong=st.sampled_from([math.nan, math.inf, -math.inf]), count=st.integers(1, 4))
def test_numbers_that_are_not_finite_are_found_wherever_they_are(wrong, count):
    name = "nan" if math.isnan(wrong) else str(wrong)
    for value in (
        [1.0, *[wrong] * count],
        {"a": ([wrong] * count, b"nan", "inf")},
        np.array([0.0] + [wrong] * count),
        np.array([complex(0.0, wrong)] * count),
        sparse.csr_matrix(np.diag([1.0] + [wrong] * count)),
        (np.float32(wrong),) * count,
        [complex(wrong, 1.0)] * count,
    ):
        assert typed.not_finite(value) == {name: count}
    assert typed.not_finite([1.0, np.arange(3), None, True, 10**400, "nan", [np.bool_(True)]]) == {}
