"""A sketch of the values of a candidate's cases: small enough to keep for every node, enough to see which moved.

Sixteen bits stand for a case, at most `CASES` cases for all. Two different values share them once in 65,536.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

CASES = 512
#: Characters for a case.
WIDTH = 4


class Comparison(NamedTuple):
    """How many of the cases looked at kept their value, and the numbers of those that did not."""

    same: int
    of: int
    changed: tuple[int, ...]
    #: Every how many cases one was looked at; 1 is all of them.
    spacing: int


def sketch(cases: Sequence[float]) -> str:
    """The spacing, a colon, and four hexadecimal digits for a case; empty where there are no cases."""
    if not cases:
        return ""
    spacing = max(1, -(-len(cases) // CASES))
    digits = "".join(f"{zlib.crc32(struct.pack('<d', value + 0.0)) & 0xFFFF:04x}" for value in cases[::spacing])
    return f"{spacing}:{digits}"


def compare(before: str, after: str) -> Comparison | None:
    """What moved between two sketches; `None` where either is missing or they are of different cases."""
    (spacing, _, old), (other, _, new) = before.partition(":"), after.partition(":")
    if not old or len(old) != len(new) or spacing != other:
        return None
    places = range(0, len(old), WIDTH)
    changed = tuple(at // WIDTH * int(spacing) for at in places if old[at : at + WIDTH] != new[at : at + WIDTH])
    return Comparison(same=len(places) - len(changed), of=len(places), changed=changed, spacing=int(spacing))
