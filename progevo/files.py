"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
from pathlib import Path

from progevo.errors import RunError


def write_file(path: Path, content: bytes) -> None:
    """Writes a whole file or nothing of it. Raises `RunError` where the disk does not take it."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise RunError(f"{path} cannot be written: {error.strerror}") from None
