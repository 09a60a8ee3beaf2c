"""Values as bytes and back, exactly as they were: what problems and solutions travel as.

This file runs on both sides: the host's examiner loads it, and so does the harness inside. It imports the standard
library alone; numpy and scipy only once a value is theirs. Nothing is ever unpickled: bytes from a candidate can become
a value of the kinds below, and nothing else.

    None, bool, int of any size, float, complex, str, bytes, list, tuple, set, frozenset, dict
    numpy arrays and scalars of booleans, numbers, texts and bytes; scipy's sparse matrices and arrays

Types are compared exactly: a subclass may answer differently each time it is asked. Each value is one letter and what
follows; lengths are 8 bytes, little-endian. Lists of floats, of small whole numbers and of truth values, and lists of
such lists, go as one block each: a call that takes longer to pack than to run could not be timed.
"""

from __future__ import annotations

import array
import itertools
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

SIZE = struct.Struct("<Q")
FLOAT, COMPLEX = struct.Struct("<d"), struct.Struct("<dd")
#: Deeper nesting is refused; a list that contains itself is infinitely deep.
MAX_DEPTH = 64
TOO_DEEP = f"a value nested more than {MAX_DEPTH} deep, or in itself"
#: Rows of different types go column by column, up to so many.
MAX_COLUMNS = 16
#: Of values that stand by themselves: an empty list weighs fifty times in memory what it weighs here. Those of a block
#: weigh four times, and need no cap but that of the bytes.
MAX_VALUES = 5_000_000
#: Longer whole numbers take seconds to print, which somebody will.
MAX_INT_BYTES = 1 << 16
NUMPY_KINDS = "biufcSU"
#: Arrays of so many bytes begin where an array may begin in memory, so that they need not be copied to be used.
LARGE, ALIGNED = 4096, 64
SPARSE = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
#: What the components of a sparse one are called, where they go by themselves; the others go as coordinates.
COMPONENTS = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "dia": ("data", "offsets")}
#: A block of values of one type: its letter, the code of its array, and back.
BLOCKS: dict[type, tuple[bytes, str]] = {float: (b"d", "d"), int: (b"q", "q"), bool: (b"?", "b")}
CONTAINERS: dict[bytes, Callable[[Iterable[Any]], Any]] = {b"l": list, b"t": tuple, b"e": set, b"z": frozenset}
LETTERS: dict[type, bytes] = {list: b"l", tuple: b"t", set: b"e", frozenset: b"z"}


class NotPlain(ValueError):
    """A value of another kind, or bytes that are none."""


# ---- to bytes


class Pieces(list[Any]):
    """Pieces of bytes that follow one another, and how many bytes they are in all."""

    size = 0

    def add(self, *pieces: Any) -> None:
        for piece in pieces:
            self.append(piece)
            self.size += len(piece)


def packed(value: Any) -> list[Any]:
    """A value as pieces of bytes, to be sent one after another. Raises `NotPlain`, and says what was in the way."""
    pieces = Pieces()
    _pack(value, pieces, 0)
    return pieces


def whole(value: Any) -> bytes:
    """A value as bytes."""
    return b"".join(packed(value))


def _pack(value: Any, pieces: Pieces, depth: int) -> None:
    kind = type(value)
    if depth > MAX_DEPTH:
        raise NotPlain(TOO_DEEP)
    if value is None:
        pieces.add(b"N")
    elif kind is bool:
        pieces.add(b"T" if value else b"F")
    elif kind is float:
        pieces.add(b"f" + FLOAT.pack(value))
    elif kind is int:
        _sized(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True), pieces)
    elif kind is str:
        _sized(b"s", _text(value), pieces)
    elif kind is bytes:
        _sized(b"b", value, pieces)
    elif kind is complex:
        pieces.add(b"c" + COMPLEX.pack(value.real, value.imag))
    elif kind in LETTERS:
        _items(LETTERS[kind], list(value), pieces, depth)
    elif kind is dict:
        pieces.add(b"m")
        _items(b"l", list(value), pieces, depth)
        _items(b"l", list(value.values()), pieces, depth)
    else:
        _foreign(value, kind, pieces)


def _sized(letter: bytes, data: bytes, pieces: Pieces) -> None:
    pieces.add(letter + SIZE.pack(len(data)))
    pieces.add(data)


def _text(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise NotPlain("a text with half of a surrogate pair, which is no character") from None


def _items(letter: bytes, items: list[Any], pieces: Pieces, depth: int) -> None:
    """A list or the like: as a block where all items are of one simple type, or lists of such; else one by one."""
    if depth > MAX_DEPTH:
        raise NotPlain(TOO_DEEP)
    kinds = set(map(type, items))
    if len(kinds) == 1:
        (kind,) = kinds
        if kind in BLOCKS and (block := _block(kind, items)) is not None:
            pieces.add(b"B" + letter + BLOCKS[kind][0] + SIZE.pack(len(items)), block)
            return
        if (numpy := _numpy_of(kind)) is not None and numpy.dtype(kind).kind in "biufc":
            pieces.add(b"G" + letter)
            _array(numpy.array(items, dtype=numpy.dtype(kind)), pieces)
            return
        if kind is complex and (numpy := sys.modules.get("numpy")) is not None:
            pieces.add(b"C" + letter)
            _array(numpy.array(items, dtype="<c16"), pieces)
            return
        if kind in (list, tuple):
            if _rows(letter, kind, items, pieces):
                return
            widths = set(map(len, items))
            if len(items) > 1 and len(widths) == 1 and 0 < (width := widths.pop()) <= MAX_COLUMNS:
                pieces.add(b"X" + letter + LETTERS[kind] + bytes([width]))
                for column in zip(*items, strict=True):
                    _items(b"l", list(column), pieces, depth + 1)
                return
    pieces.add(letter + SIZE.pack(len(items)))
    for item in items:
        _pack(item, pieces, depth + 1)


def _block(kind: type, items: list[Any]) -> bytes | None:
    try:
        values = array.array(BLOCKS[kind][1], items)
    except OverflowError:  # a whole number of more than 64 bits
        return None
    return _little(values).tobytes()


def _rows(letter: bytes, kind: type, rows: list[Any], pieces: Pieces) -> bool:
    """Packs lists of values of one type, whatever their lengths; whether they were that."""
    flat = list(itertools.chain.from_iterable(rows))
    kinds = set(map(type, flat))
    if len(kinds) != 1:
        return False
    (inner,) = kinds
    if inner not in BLOCKS or (block := _block(inner, flat)) is None:
        return False
    counts = _little(array.array("q", map(len, rows))).tobytes()
    head = b"R" + letter + LETTERS[kind] + BLOCKS[inner][0] + SIZE.pack(len(rows)) + SIZE.pack(len(flat))
    pieces.add(head, counts, block)
    return True


def _little(values: array.array[Any]) -> array.array[Any]:
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _foreign(value: Any, kind: type, pieces: Pieces) -> None:
    numpy = sys.modules.get("numpy")  # whoever has a value of numpy's has imported it
    if numpy is not None and kind is numpy.ndarray:
        _array(value, pieces)
    elif numpy is not None and _numpy_of(kind) is not None:
        pieces.add(b"g")
        _array(numpy.asarray(value), pieces)
    elif (name := _sparse_name(kind)) is not None:
        _pack_sparse(value, name, pieces)
    else:
        raise NotPlain(
            f"a value of type {kind.__module__[:40]}.{kind.__qualname__[:60]}; allowed are None, numbers, texts, bytes,"
            " lists, tuples, sets, dicts, numpy arrays and scipy's sparse matrices, and no subclasses of these"
        )


def _numpy_of(kind: type) -> ModuleType | None:
    """numpy, if it is a type of its scalars."""
    numpy = sys.modules.get("numpy")
    return numpy if numpy is not None and issubclass(kind, numpy.generic) and kind.__module__ == "numpy" else None


def _array(value: Any, pieces: Pieces) -> None:
    if value.dtype.kind not in NUMPY_KINDS or value.dtype.itemsize == 0 or value.dtype.names is not None:
        raise NotPlain(f"a numpy array of {str(value.dtype)[:60]}; allowed are booleans, numbers, texts and bytes")
    order = b"F" if value.flags.f_contiguous and not value.flags.c_contiguous else b"C"
    dtype = value.dtype.str.encode()
    shape = b"".join(map(SIZE.pack, value.shape))
    pieces.add(b"a" + order + bytes([len(dtype)]) + dtype + bytes([value.ndim]) + shape)
    large = value.nbytes >= LARGE
    gap = -(pieces.size + 1) % ALIGNED if large else 0
    pieces.add(bytes([gap]) + bytes(gap))
    numpy = sys.modules["numpy"]
    flat = numpy.ascontiguousarray(value.reshape(-1, order=order.decode()))  # a copy only of what is not in one piece
    pieces.add(memoryview(flat.view("u1")) if flat.size else b"")


def _sparse_name(kind: type) -> str | None:
    sparse = sys.modules.get("scipy.sparse")
    if sparse is None:
        return None
    for name in SPARSE:
        for suffix in ("_matrix", "_array"):
            if kind is getattr(sparse, name + suffix):
                return name + suffix
    return None


def _pack_sparse(value: Any, name: str, pieces: Pieces) -> None:
    form = name.partition("_")[0]
    pieces.add(b"p" + bytes([len(name)]) + name.encode() + bytes([len(value.shape)]))
    pieces.add(b"".join(map(SIZE.pack, value.shape)))
    if form in COMPONENTS:
        parts = [getattr(value, part) for part in COMPONENTS[form]]
    else:
        coordinates = value.tocoo()
        parts = [coordinates.data, *coordinates.coords]
        if form == "bsr":
            parts.append(sys.modules["numpy"].asarray(value.blocksize))
    pieces.add(bytes([len(parts)]))
    for part in parts:
        if type(part) is not sys.modules["numpy"].ndarray:
            raise NotPlain(f"a {name} whose parts are no numpy arrays")
        _array(part, pieces)


# ---- back


def unpacked(data: Any, *, share: bool = False) -> Any:
    """The value. Raises `NotPlain` for bytes that are none, however hostile.

    What it makes is fresh memory; with `share`, large arrays are the memory of `data`, which nobody else may write to.
    """
    reader = _Reader(memoryview(data), share)
    try:
        value = reader.value(0)
    except NotPlain:
        raise
    except (ValueError, TypeError, OverflowError, KeyError, IndexError, struct.error, UnicodeError) as error:
        raise NotPlain(f"these bytes are no value: {error}") from None
    if reader.at != len(reader.data):
        raise NotPlain("more bytes than the value has")
    return value


class _Reader:
    """Reads values off bytes, from `at` on."""

    def __init__(self, data: memoryview, share: bool) -> None:
        self.data, self.share = data, share
        self.at = self.made = 0

    def take(self, size: int) -> memoryview:
        if size < 0 or size > len(self.data) - self.at:
            raise NotPlain("fewer bytes than the value announces")
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> bytes:
        return bytes(self.take(1))

    def size(self) -> int:
        size: int = SIZE.unpack(self.take(8))[0]
        return size

    def count(self, least: int, *, alone: bool) -> int:
        """A number of items, each of which takes at least so many bytes."""
        count = self.size()
        self.made += count if alone else 0
        if count * least > len(self.data) - self.at or self.made > MAX_VALUES:
            raise NotPlain(f"{count} values in one list, or more than {MAX_VALUES} in all")
        return count

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise NotPlain(TOO_DEEP)
        letter = self.byte()
        match letter:
            case b"N":
                return None
            case b"T" | b"F":
                return letter == b"T"
            case b"f":
                return FLOAT.unpack(self.take(8))[0]
            case b"c":
                return complex(*COMPLEX.unpack(self.take(16)))
            case b"i":
                size = self.size()
                if size > MAX_INT_BYTES:
                    raise NotPlain(f"a whole number of {size} bytes; at most {MAX_INT_BYTES} are taken")
                return int.from_bytes(self.take(size), "little", signed=True)
            case b"s":
                return str(self.take(self.size()), "utf-8")
            case b"b":
                return bytes(self.take(self.size()))
            case b"B":
                make, items = CONTAINERS[self.byte()], self.block(self.byte())
                return items if make is list else make(items)
            case b"R":
                return self.rows()
            case b"G" | b"C":
                make, values = CONTAINERS[self.byte()], self.value(depth + 1)
                return make(values.tolist() if letter == b"C" else values)
            case b"X":
                make, row, width = CONTAINERS[self.byte()], CONTAINERS[self.byte()], self.byte()[0]
                return make(map(row, zip(*self.columns(width, depth), strict=True)))
            case b"m":
                keys, values = self.value(depth + 1), self.value(depth + 1)
                made = dict(zip(keys, values, strict=True))
                if len(made) != len(keys):
                    raise NotPlain("a dict that has a key twice")
                return made
            case b"a":
                return self.array()
            case b"g":
                if self.byte() != b"a" or (found := self.array()).ndim:
                    raise NotPlain("a scalar that is none")
                return found[()]
            case b"p":
                return self.sparse()
        if letter not in CONTAINERS:
            raise NotPlain(f"there is no kind {letter!r}")
        count = self.count(1, alone=True)
        return CONTAINERS[letter]([self.value(depth + 1) for _ in range(count)])

    def block(self, letter: bytes, count: int | None = None) -> list[Any]:
        (code,) = (code for known, code in BLOCKS.values() if known == letter)
        values = array.array(code)
        values.frombytes(
            self.take((self.count(values.itemsize, alone=False) if count is None else count) * values.itemsize)
        )
        items = _little(values).tolist()
        return list(map(bool, items)) if letter == b"?" else items

    def rows(self) -> Any:
        make, row, letter = CONTAINERS[self.byte()], CONTAINERS[self.byte()], self.byte()
        count, total = self.count(8, alone=True), self.size()
        counts = self.block(b"q", count)
        if min(counts, default=0) < 0 or sum(counts) != total:
            raise NotPlain("rows that are not as long as they say")
        flat = iter(self.block(letter, total))
        return make(_cut(flat, counts, row))

    def columns(self, width: int, depth: int) -> list[list[Any]]:
        columns = [self.value(depth + 1) for _ in range(width)]
        if not columns or any(type(column) is not list for column in columns):
            raise NotPlain("columns that are none")
        self.made += len(columns[0])
        return columns

    def array(self) -> Any:
        import numpy

        order = self.byte()
        dtype = numpy.dtype(str(self.take(self.byte()[0]), "ascii"))
        shape = tuple(self.size() for _ in range(self.byte()[0]))
        if (
            dtype.kind not in NUMPY_KINDS
            or dtype.itemsize == 0
            or dtype.names is not None
            or dtype.subdtype is not None
        ):
            raise NotPlain(f"an array of {dtype}")
        count = 1
        for length in shape:
            count *= length
        if any(length >= 1 << 48 for length in shape) or len(shape) > 32:
            raise NotPlain("an array of an impossible shape")
        self.take(self.byte()[0])
        shared = self.share and count * dtype.itemsize >= LARGE and self.at % ALIGNED == 0
        flat = numpy.frombuffer(self.take(count * dtype.itemsize), dtype=dtype)
        if shared:
            return flat.reshape(shape, order="F" if order == b"F" else "C")
        found = numpy.empty(shape, dtype=dtype, order="F" if order == b"F" else "C")
        found.reshape(-1, order="A")[...] = flat
        return found

    def sparse(self) -> Any:
        from scipy import sparse

        name = str(self.take(self.byte()[0]), "ascii")
        form = name.partition("_")[0]
        if form not in SPARSE or name not in (f"{form}_matrix", f"{form}_array"):
            raise NotPlain(f"there is no sparse {name!r}")
        shape = tuple(self.size() for _ in range(self.byte()[0]))
        parts = []
        for _ in range(self.byte()[0]):
            if self.byte() != b"a":
                raise NotPlain("a part of a sparse one that is no array")
            parts.append(self.array())
        make = getattr(sparse, name)
        if form in COMPONENTS:
            found = make(tuple(parts), shape=shape)
        else:
            blocksize = tuple(map(int, parts.pop())) if form == "bsr" else None
            data, *coordinates = parts
            made = sparse.coo_array if name.endswith("_array") else sparse.coo_matrix
            found = made((data, tuple(coordinates)), shape=shape)
            if form == "bsr":
                found = found.tobsr(blocksize=blocksize)
            elif form != "coo":
                found = make(found)
        # scipy's own routines read wherever these point.
        if form in ("csr", "csc", "bsr"):
            found.check_format(full_check=True)
        return found


def _cut(flat: Iterator[Any], counts: list[int], row: Callable[[Iterable[Any]], Any]) -> Iterator[Any]:
    return (row(itertools.islice(flat, count)) for count in counts)


# ---- a look at a value


def not_finite(value: Any) -> dict[str, int]:
    """How many of its numbers are "nan", "inf" and "-inf"; those that are none are left out."""
    found: dict[str, int] = {}
    _look(value, found)
    return {name: count for name, count in found.items() if count}


def _look(value: Any, found: dict[str, int]) -> None:
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        for item in value:
            _look(item, found)
    elif kind is dict:
        for key, item in value.items():
            _look(key, found)
            _look(item, found)
    elif kind is float:
        _count(value, found)
    elif kind is complex:
        _count(value.real, found)
        _count(value.imag, found)
    elif kind not in (int, bool, str, bytes, type(None)):
        _look_foreign(value, found)


def _count(value: float, found: dict[str, int]) -> None:
    if value != value:
        found["nan"] = found.get("nan", 0) + 1
    elif value in (float("inf"), float("-inf")):
        found[str(value)] = found.get(str(value), 0) + 1


def _look_foreign(value: Any, found: dict[str, int]) -> None:
    import numpy

    if hasattr(value, "tocoo"):
        value = value.tocoo().data
    values = numpy.asarray(value)
    if values.dtype.kind == "c":
        for part in (values.real, values.imag):
            _look_foreign(part, found)
    elif values.dtype.kind == "f":
        for name, where in (
            ("nan", numpy.isnan(values)),
            ("inf", numpy.isposinf(values)),
            ("-inf", numpy.isneginf(values)),
        ):
            found[name] = found.get(name, 0) + int(numpy.count_nonzero(where))
