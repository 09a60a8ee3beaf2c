"""The wire between host and sandbox: length-prefixed frames of JSON and raw float64, and nothing else.

This file runs on both sides: the host imports it, and it lies beside the runner inside the sandbox. It
therefore imports the standard library alone. No frame is ever unpickled, and a frame from inside is a claim.

    frame  = length (8 bytes, big-endian) + body
    body   = header length (4 bytes, big-endian) + header (JSON, UTF-8) + float64 values (little-endian)
    header = {"arrays": [count, ...], ...}     the values of all arrays follow one another
"""

from __future__ import annotations

import array
import json
import math
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

LENGTH = struct.Struct(">Q")
HEADER_LENGTH = struct.Struct(">I")

#: For headers from inside: JSON can grow thirtyfold in memory when it is read. Raw numbers do not grow, so long
#: answers travel as arrays.
MAX_HEADER_BYTES = 4 * 1024 * 1024
#: An empty array of one's own costs the host forty times what it costs on the wire.
MAX_ARRAYS = 10_000


class WireError(ValueError):
    """A frame that is not what the format says."""


def encode(
    header: dict[str, Any], arrays: Iterable[Sequence[float]] = (), *, max_header_bytes: int | None = None
) -> bytes:
    """A frame, length included. Raises `WireError` for a header that is not plain, finite JSON or is too long."""
    packed = [array.array("d", values) for values in arrays]
    try:
        text = json.dumps({**header, "arrays": [len(values) for values in packed]}, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"not plain JSON: {error}") from None
    if max_header_bytes is not None and len(text) > max_header_bytes:
        raise WireError(f"the JSON part weighs {len(text)} bytes; at most {max_header_bytes} are taken")
    if sys.byteorder == "big":
        for values in packed:
            values.byteswap()
    body = b"".join([HEADER_LENGTH.pack(len(text)), text, *(values.tobytes() for values in packed)])
    return LENGTH.pack(len(body)) + body


def decode(body: bytes, *, max_header_bytes: int | None = None) -> tuple[dict[str, Any], list[array.array[float]]]:
    """Header and arrays of a frame's body. Raises `WireError` for anything malformed, however hostile."""
    if len(body) < HEADER_LENGTH.size:
        raise WireError(f"a frame of {len(body)} bytes has no header")
    (size,) = HEADER_LENGTH.unpack_from(body)
    start = HEADER_LENGTH.size + size
    if start > len(body) or (max_header_bytes is not None and size > max_header_bytes):
        raise WireError(f"a header of {size} bytes does not fit")
    try:
        header = json.loads(
            body[HEADER_LENGTH.size : start].decode("utf-8"), parse_constant=_refuse, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise WireError(f"the header is not JSON: {error}") from None
    counts = header.pop("arrays", None) if isinstance(header, dict) else None
    if not isinstance(counts, list) or not all(type(count) is int and count >= 0 for count in counts):
        raise WireError("the header does not say how many values its arrays have")
    if len(counts) > MAX_ARRAYS:
        raise WireError(f"the header announces {len(counts)} arrays; at most {MAX_ARRAYS} are taken")
    if 8 * sum(counts) != len(body) - start:
        raise WireError(f"the header announces {sum(counts)} numbers, {len(body) - start} bytes follow")
    arrays = []
    for count in counts:
        values = array.array("d")
        values.frombytes(body[start : start + 8 * count])
        if sys.byteorder == "big":
            values.byteswap()
        arrays.append(values)
        start += 8 * count
    return header, arrays


class Reader:
    """Collects the bytes of frames as they come, whatever their pieces; a frame over `limit` bytes is refused."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that `data` completes. Raises `WireError` as soon as a frame announces too many bytes."""
        self._buffer += data
        bodies: list[bytes] = []
        while len(self._buffer) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._buffer)
            if size > self.limit and bodies:
                break  # what is whole counts, in however many pieces it comes; the rest is refused next time
            if size > self.limit:
                raise WireError(f"a frame of {size} bytes; at most {self.limit} are taken")
            if len(self._buffer) < LENGTH.size + size:
                break
            bodies.append(bytes(self._buffer[LENGTH.size : LENGTH.size + size]))
            del self._buffer[: LENGTH.size + size]
        return bodies


def _refuse(name: str) -> NoReturn:
    raise WireError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)
