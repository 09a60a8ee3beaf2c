"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from progevo import complaint
from progevo.errors import RunError


def write_file(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Writes a whole file or nothing of it; with `sync`, its content is on disk before it has its name.

    Raises `RunError` where the disk does not take it.
    """
    part = path.parent / f".{path.name}.part"
    try:
        with open(part, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise RunError(f"{path} cannot be written: {complaint.of_writing(path, error)}") from None


def check_place(path: Path) -> None:
    """Raises `RunError` where something that can be seen stands in the way of a file: for use before long work."""
    if wrong := complaint.of_writing(path):
        raise RunError(f"{path} cannot be written: {wrong}")
