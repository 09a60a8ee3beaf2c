"""Running alone: of all that one user times on a machine, one thing at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from progevo.errors import ConfigError


def lock_file() -> Path:
    """The file whose lock means that this user is timing something, on this machine."""
    return Path(tempfile.gettempdir()) / f"progevo-timing-{os.getuid()}.lock"


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Waits until nothing else of this user's is timed, in this process or another, and holds the place.

    The kernel gives the place back when the process ends, however it does. Raises `ConfigError` where there is no such
    place to be had.
    """
    path = lock_file()
    try:
        # Where everybody may write: no link of somebody else's is followed.
        place = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be opened ({error.strerror}); timed runs take turns by it: remove it, or set TMPDIR"
        ) from None
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)
