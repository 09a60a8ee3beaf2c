"""The folder that a run has of its own where there are no mounts: runner, inputs and scratch, on the host's own disk.

What a candidate makes of its scratch is hostile: any depth, any rights, any name.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import math
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from progevo.types import Job

ROOM = Path(__file__).parent
#: What an entry of scratch counts for beside its content, so that empty ones are not free.
ENTRY_BYTES = 4096
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What a run has of its own on the host's disk."""

    #: The runner, the wire and the harness.
    own: Path
    inputs: Path
    scratch: Path


@contextlib.contextmanager
def run_folder(job: Job) -> Iterator[Folder]:
    """A private folder for one run; nothing of it is left afterwards."""
    top = canonical(Path(tempfile.mkdtemp(prefix="progevo-")))
    folder = Folder(own=top / "progevo", inputs=top / "inputs", scratch=top / "scratch")
    try:
        for path in (folder.own, folder.inputs, folder.scratch):
            path.mkdir(0o700)
        # Copies: a link would be the host's own file, under a name that others may come to write to.
        for name in ("runner.py", "raised.py", "wire.py", "blackbox.py", "stopwatch.py"):
            shutil.copyfile(ROOM / name, folder.own / name)
        shutil.copyfile(job.harness, folder.own / "harness.py")
        for name, path in job.inputs.files.items():
            shutil.copyfile(path, folder.inputs / name)
        yield folder
    finally:
        remove(top)


def weight(folder: Path, enough: int) -> float:
    """Bytes on the disk below a folder, as far as `enough` is passed; infinite where somebody has locked a part."""
    total, waiting = 0, [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512 + ENTRY_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                    if total > enough:
                        return total
        except FileNotFoundError:
            continue
        except OSError:
            return math.inf
    return total


def remove(folder: Path) -> None:
    """Removes a folder, whatever a candidate has made of it: any depth, any rights, and no link is followed.

    Every folder that is met is first moved to the top, so that no path grows long and nothing recurses.
    """
    numbers = itertools.count()
    with contextlib.suppress(OSError):
        top = os.open(folder, DIRECTORY)
        try:
            while sum(_removed(name, top, numbers) for name in os.listdir(top)):
                pass
        finally:
            os.close(top)
        os.rmdir(folder)


def _removed(name: str, top: int, numbers: Iterator[int]) -> bool:
    """Removes one entry of the folder `top`, with the folders in it moved up beside it; whether it could."""
    try:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
            os.unlink(name, dir_fd=top)
            return True
        os.chmod(name, 0o700, dir_fd=top)
        inside = os.open(name, DIRECTORY, dir_fd=top)
        try:
            for entry in os.listdir(inside):
                if stat.S_ISDIR(os.lstat(entry, dir_fd=inside).st_mode):
                    os.chmod(entry, 0o700, dir_fd=inside)  # a folder that is moved has to be writable itself
                    os.rename(entry, f"moved-{next(numbers)}", src_dir_fd=inside, dst_dir_fd=top)
                else:
                    os.unlink(entry, dir_fd=inside)
        finally:
            os.close(inside)
        os.rmdir(name, dir_fd=top)
    except OSError:
        return False
    return True


def canonical(path: Path) -> Path:
    """The path as the kernel spells it, which is what Seatbelt compares: no links, and the case that is on the disk."""
    real = os.path.realpath(path)
    get_path = getattr(fcntl, "F_GETPATH", None)
    if get_path is not None:  # macOS alone has it, and needs it: there one file answers to many spellings
        descriptor = os.open(real, os.O_RDONLY)
        try:
            real = os.fsdecode(bytes(fcntl.fcntl(descriptor, get_path, bytes(1024))).rstrip(b"\0"))
        finally:
            os.close(descriptor)
    return Path(real)
