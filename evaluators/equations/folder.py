"""A folder of files for the sandbox, which lasts as long as this process."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from progevo.evaluators.equations.problem import Samples


def laid_out(files: Mapping[str, bytes]) -> dict[str, Path]:
    """Writes the files; name -> path. Nothing in them may be secret: the sandbox may read as another user."""
    folder = Path(tempfile.mkdtemp(prefix="progevo-equations-"))
    atexit.register(_remove, folder, os.getpid())
    folder.chmod(0o755)
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o644)
    return {name: folder / name for name in files}


def columns(samples: Samples, *, target: bool) -> bytes:
    """One column after the other as little-endian float64, the target first where it is wanted."""
    parts = [samples.target, *samples.inputs] if target else list(samples.inputs)
    return b"".join(np.ascontiguousarray(part, dtype="<f8").tobytes() for part in parts)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends must not take its parent's files along
        shutil.rmtree(folder, ignore_errors=True)
