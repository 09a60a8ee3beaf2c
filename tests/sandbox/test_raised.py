"""What a candidate's exception means."""

from __future__ import annotations

import errno

import pytest

from progevo.sandbox import raised


@pytest.mark.parametrize(
    ("error", "about"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "x"), True),
        (OSError("[Errno 12] Cannot allocate memory"), True),
        (ImportError("lib.so: failed to map segment from shared object"), True),
        (ValueError("Unable to allocate 1.5 GiB for an array"), True),
        (ValueError("Error tokenizing data. C error: out of memory"), True),  # pandas
        (ValueError("the answer is out of range"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
    ],
)
def test_the_limit_of_memory_is_known_in_its_disguises(error, about):
    assert raised.failure(error)["memory"] is about
