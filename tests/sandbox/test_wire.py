"""The wire: what goes in comes out, and nothing hostile gets through or raises anything but `WireError`."""

from __future__ import annotations

import contextlib
import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo.sandbox import wire

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text().filter(lambda key: key != "arrays"), plain), st.lists(st.lists(st.floats())))
def test_a_frame_comes_back_as_it_was(header, arrays):
    (body,) = wire.Reader(1 << 30).feed(wire.encode(header, arrays))
    found, values = wire.decode(body)
    assert found == header
    assert [[repr(number) for number in value] for value in values] == [[repr(n) for n in value] for value in arrays]


@given(st.binary())
def test_any_bytes_are_a_frame_or_a_wire_error(body):
    with contextlib.suppress(wire.WireError):
        wire.decode(body)


def frame(header: bytes, rest: bytes = b"") -> bytes:
    return struct.pack(">I", len(header)) + header + rest


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(frame(b"[" * 100_000), id="nested too deep for the reader"),
        pytest.param(frame(b'{"arrays": [], "x": ' + b"9" * 5000 + b"}"), id="an integer of 5000 digits"),
        pytest.param(frame(b'{"arrays": [], "x": NaN}'), id="NaN in JSON"),
        pytest.param(frame(b'{"arrays": [-1]}'), id="a negative count"),
        pytest.param(frame(b'{"arrays": [true]}', bytes(8)), id="a count that is a boolean"),
        pytest.param(frame(b'{"arrays": [1e3]}', bytes(8000)), id="a count that is a float"),
        pytest.param(frame(b'{"arrays": [2]}', bytes(8)), id="fewer numbers than announced"),
        pytest.param(frame(b'{"arrays": []}', bytes(8)), id="more numbers than announced"),
        pytest.param(frame(b"[]"), id="not an object"),
        pytest.param(frame(b"{}"), id="no count of arrays"),
        pytest.param(frame(b'\xff{"arrays": []}'), id="not UTF-8"),
        pytest.param(struct.pack(">I", 100) + b"{}", id="a header longer than the frame"),
        pytest.param(b"\0", id="shorter than its own length"),
    ],
)
def test_a_malformed_frame_is_refused(body):
    with pytest.raises(wire.WireError):
        wire.decode(body)


def test_a_header_from_inside_has_its_own_cap():
    body = wire.encode({"x": "y" * 1000})[8:]
    assert wire.decode(body)[0] == {"x": "y" * 1000}
    with pytest.raises(wire.WireError, match="does not fit"):
        wire.decode(body, max_header_bytes=1000)
    with pytest.raises(wire.WireError, match="at most 1000"):
        wire.encode({"x": "y" * 1000}, max_header_bytes=1000)


@pytest.mark.parametrize("value", [math.nan, {1, 2}, object(), b"bytes"])
def test_only_plain_json_is_encoded(value):
    with pytest.raises(wire.WireError, match="not plain JSON"):
        wire.encode({"x": value})


@given(st.lists(st.binary(max_size=40), max_size=5), st.data())
def test_frames_are_found_whatever_the_pieces(bodies, data):
    stream = b"".join(wire.LENGTH.pack(len(body)) + body for body in bodies)
    reader, found = wire.Reader(40), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert found == bodies


def test_a_frame_that_announces_too_much_is_refused_before_it_arrives():
    with pytest.raises(wire.WireError, match="at most 40"):
        wire.Reader(40).feed(wire.LENGTH.pack(41))


def test_lone_surrogates_travel():
    (body,) = wire.Reader(1000).feed(wire.encode({"source": "x = '\udc80'"}))
    assert wire.decode(body)[0]["source"] == "x = '\udc80'"
    assert json.loads(json.dumps("\udc80")) == "\udc80"


@given(st.binary(max_size=30), st.integers(0, 60))
def test_what_is_whole_counts_however_the_rest_comes(body, cut):
    """A frame and then one that is too long: in one piece or in several, the first is taken and the second refused."""
    data = wire.LENGTH.pack(len(body)) + body + wire.LENGTH.pack(2**40)
    reader, found, refused = wire.Reader(64), [], False
    for piece in (data[:cut], data[cut:], b""):
        try:
            found += reader.feed(piece)
        except wire.WireError:
            refused = True
    assert (found, refused) == ([body], True)
