"""What a candidate's exception means: its name, its text, the line of the program, and the limit behind it, if any.

This file lies beside the runner inside the sandbox. What it says is part of the candidate's own claim.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import linecache
import mmap
import resource
import sys
import threading
import traceback
import types
from pathlib import Path
from typing import Any

PROGRAM = "/tmp/program.py"

#: What a refused resource looks like from inside, and the limit that a person would have to raise.
LIMIT_BY_ERRNO = {
    errno.EFBIG: "file_bytes",
    errno.ENOSPC: "scratch_bytes",
    errno.EMFILE: "open_files",
    errno.EAGAIN: "processes",
}
#: Where the limit of a stack is none.
USUAL_STACK_BYTES = 8 * 1024 * 1024
#: How the system-call filter answers, and what else is not permitted in here.
REFUSALS = (errno.EPERM, errno.ENOSYS)


def failure(error: BaseException) -> dict[str, Any]:
    """The frame for an exception: its name, its text, the line where the program raised it, and a likely limit."""
    reason = f"{type(error).__name__}: {text_of(error)}"
    line = refused = None
    with contextlib.suppress(BaseException):
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != PROGRAM:
            frames = frames.tb_next  # the runner's own frames say nothing about the program
        # Not by print_exception: the exception's own text may be of any length.
        print(
            "Traceback (most recent call last):", *traceback.format_tb(frames, -12), reason, sep="\n", file=sys.stderr
        )
        lines = [frame.lineno for frame in traceback.extract_tb(frames) if frame.filename == PROGRAM]
        line = lines[-1] if lines else None
        if number_of(error) in REFUSALS:
            refused = called(frames)
    limit = LIMIT_BY_ERRNO.get(number_of(error))
    if limit == "processes" and starts_a_thread():
        limit = None  # the call could not be done at once, as a read of what is empty and does not wait
    if isinstance(error, RuntimeError) and "can't start new thread" in reason:
        limit = limit_of_threads()
    memory = limit == "memory_bytes" or is_about_memory(error, reason)
    return {"kind": "raised", "reason": reason, "line": line, "limit": limit, "refused": refused, "memory": memory}


def called(frames: types.TracebackType | None) -> str | None:
    """What the program's innermost frame was about, in its own words: a call that went through its libraries."""
    words = None
    while frames is not None:
        code = frames.tb_frame.f_code
        if code.co_filename == PROGRAM:
            # Of each instruction, which is two bytes: lines, counted from 1, and columns in bytes of UTF-8.
            first, last, start, end = [*code.co_positions()][frames.tb_lasti // 2]
            text = linecache.getline(PROGRAM, first or 0).encode()[start : end if first == last else None]
            words = text.decode("utf-8", "replace").strip()[:100]
        frames = frames.tb_next
    return words


def limit_of_threads() -> str:
    """What has kept a thread from starting; the C library says the same of no room for its stack as of too many.

    Both are named where it cannot be told any more, since threads have ended in the meantime.
    """
    with contextlib.suppress(BaseException):  # an exception here is no reason to lose that which is explained
        stack = threading.stack_size() or resource.getrlimit(resource.RLIMIT_STACK)[0]
        stack = stack if stack > 0 else USUAL_STACK_BYTES
        try:
            mmap.mmap(-1, stack, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
        except OSError:
            return "memory_bytes"
        if not starts_a_thread():
            return "processes"
        allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
        (most,) = [line for line in Path("/proc/self/status").read_text("ascii").splitlines() if "VmPeak" in line]
        if allowed < 0 or int(most.split()[1]) * 1024 + stack <= allowed:
            return "processes"  # there has always been room
    return "processes or memory_bytes"


def starts_a_thread() -> bool:
    """Whether there is room for one more, which counts as a process does."""
    try:
        _thread.start_new_thread(int, ())
    except RuntimeError:
        return False
    return True


def is_about_memory(error: BaseException, reason: str) -> bool:
    """Whether an exception is the address-space limit in disguise."""
    if isinstance(error, MemoryError) or number_of(error) == errno.ENOMEM:
        return True
    signs = ("failed to map segment", "annot allocate memory", "Unable to allocate", "out of memory")
    return any(sign in reason for sign in signs)


def number_of(error: BaseException) -> int:
    """The number of an error of the system, 0 where it is none; a candidate's own class may say anything."""
    with contextlib.suppress(BaseException):
        number = error.errno if isinstance(error, OSError) else 0
        return number if type(number) is int else 0
    return 0


def text_of(error: BaseException) -> str:
    """An exception's text, cut; its own `__str__` may be hostile."""
    try:
        return str(error)[:2000]
    except BaseException:
        return "(its text cannot be read)"
