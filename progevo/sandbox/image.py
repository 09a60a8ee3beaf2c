"""The memory of a process as one file, which its children share: they copy no page table for what only they read.

A fork copies an entry for every page that its parent has ever written, and at its end gives each one back. What lies
in a file is left out until it is touched. So once all imports are there, what they have written goes into a file in
memory, and the file takes its place, privately: whoever writes there gets a page of its own, and nobody can write to
the file. A library's data, some in its file and some not, become one mapping by this.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import signal
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

#: The C library, as `ctypes` calls it by default, and without letting go of the interpreter.
LIBC, HELD = ctypes.CDLL(None, use_errno=True), ctypes.PyDLL(None)
PAGE = mmap.PAGESIZE
MAP_FIXED, MFD_NOEXEC_SEAL, RTLD_DI_LINKMAP = 0x10, 0x8, 2
HUGE_PAGE, MADV_COLLAPSE = 2 * 1024 * 1024, 25
#: Whether this system can do what is done here; musl has no contexts.
KNOWN = hasattr(os, "memfd_create") and all(
    hasattr(LIBC, name) for name in ("dlinfo", "makecontext", "swapcontext", "pwrite")
)
#: What the file is called in lists of mappings.
NAME = "progevo"
#: Room for one `ucontext_t` (968 bytes on x86_64, 4,560 on aarch64), and for the stack of a system call.
CONTEXT_BYTES, STACK_BYTES = 8 * 1024, 8 * 1024
#: A line of a library's table of what is loaded (p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz and
#: p_align of elf(5)), and that it is loaded, and written to.
PROGRAM_HEADER, PT_LOAD, PF_W = struct.Struct("=IIQQQQQQ"), 1, 2

#: What the kernel says of memory that nobody has asked anything of (VmFlags of proc_pid_smaps(5)): what may be done
#: with it, and that it is counted; whether it is written to, and how large its pages should be or whether to be merged,
#: change nothing. What is to be left out of children or of core files, or to stay in memory, has more.
PLAIN = frozenset(("rd", "wr", "mr", "mw", "me", "ac", "sd", "hg", "nh", "mg"))

#: From an address to another one, both at a page.
Span = tuple[int, int]


class Mapping(NamedTuple):
    """A line of /proc/self/maps."""

    start: int
    end: int
    rights: str
    offset: int
    file: str
    name: str

    @classmethod
    def of(cls, line: str) -> Mapping:
        place, rights, offset, _, file, *name = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in place.split("-"))
        return cls(start, end, rights, int(offset, 16), file, *name or [""])

    @property
    def span(self) -> Span:
        return self.start, self.end

    @property
    def nameless(self) -> bool:
        """Whether it can be written to and is in no file, nor is the heap or a stack."""
        return self.rights == "rw-p" and self.file == "0" and (not self.name or self.name.startswith("[anon:"))

    def goes_on_in(self, other: Mapping) -> bool:
        """Whether the other follows in memory and in the same file, which is known by its number."""
        size = self.end - self.start
        return self.file == other.file != "0" and (self.end, self.offset + size) == (other.start, other.offset)

    def protect(self, rights: int) -> None:
        LIBC.mprotect(ctypes.c_void_p(self.start), ctypes.c_size_t(self.end - self.start), rights)


def mappings(process: int | str = "self") -> list[Mapping]:
    """Those of a process, in the order of their addresses. Raises `OSError` where this user may not look."""
    return [Mapping.of(line) for line in Path(f"/proc/{process}/maps").read_text("utf-8", "replace").splitlines()]


def plain() -> list[Span]:
    """The parts of this process's memory that nobody has asked anything of. Raises `OSError` where it is not said."""
    found, here = [], (0, 0)
    for line in Path("/proc/self/smaps").read_text("utf-8", "replace").splitlines():
        first, *flags = line.split()
        if not first.endswith(":"):
            here = Mapping.of(line).span
        elif first == "VmFlags:" and PLAIN.issuperset(flags):
            found.append(here)
    return joined(found)


class Room:
    """Memory for the objects of imports in one stretch, until `leave`; for before the first of them.

    The interpreter takes memory by the MiB wherever there is a gap between libraries. Here it takes so many at once,
    and keeps each MiB for as long as a single object lies in it. One each: it fills the fullest first.
    """

    def __init__(self, mebibytes: int) -> None:
        pieces = [b""] * (mebibytes * 2500)  # a list that grew would lie in between
        for number in range(len(pieces)):
            pieces[number] = bytes(400)
        self._held = list({id(piece) >> 20: piece for piece in pieces}.values())
        del pieces
        #: All memory without a file so far is the interpreter's, or the C library's: nobody else is there yet.
        self.spans = [part.span for part in mappings() if part.nameless]

    def leave(self) -> None:
        """Gives back what nothing was put into."""
        self._held.clear()


def share(room: Room) -> bool:
    """Makes forks of this process cheap, from now on. Whether its memory is in a file: see `put_into_a_file`."""
    room.leave()
    join_mappings()
    with contextlib.suppress(OSError):
        return KNOWN and put_into_a_file(lasting(room))
    return False


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same, in order, with no two that touch."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def common(ours: Iterable[Span], theirs: Iterable[Span]) -> Iterator[Span]:
    """What lies in both."""
    others = sorted(theirs)
    for start, end in ours:
        for low, high in others:
            if low >= end:
                break
            if high > start:
                yield max(start, low), min(end, high)


def join_mappings() -> None:
    """Makes one mapping each of a library's read-only and of its writable parts: a child copies every mapping, and at
    its end gives it back.

    A library comes as five: headers, code, constants, then what its loader has written (and closed behind itself), and
    data. What lies in one piece in the file and in memory becomes one once it has the same rights: constants may then
    be executed, and what the loader wrote be written, by a process that can change its own rights anyway. Halves the
    mappings of the large packages, and saves a tenth of what a child costs.
    """
    parts = mappings()
    for before, here, after in zip(parts, parts[1:], parts[2:], strict=False):
        if here.rights != "r--p":
            continue
        if here.goes_on_in(after) and after.rights == "rw-p":
            here.protect(mmap.PROT_READ | mmap.PROT_WRITE)
        elif "r-xp" in (after.rights * here.goes_on_in(after), before.rights * before.goes_on_in(here)):
            here.protect(mmap.PROT_READ | mmap.PROT_EXEC)


class Library(ctypes.Structure):
    """What the loader knows of a library: the beginning of `struct link_map`, see dlinfo(3)."""

    _fields_ = (
        ("base", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("dynamic", ctypes.c_void_p),
        ("following", ctypes.c_void_p),
    )


def data_of_libraries(parts: list[Mapping]) -> Iterator[Span]:
    """Where the writable data of the program and its libraries lies, by their headers: also what is in none of their
    files, and cannot be told from others' memory that follows."""
    beginnings = {part.start for part in parts if part.offset == 0 and part.rights.startswith("r")}
    place = ctypes.c_void_p()
    LIBC.dlinfo(ctypes.c_void_p(LIBC._handle), RTLD_DI_LINKMAP, ctypes.byref(place))
    while place.value is not None:
        library = Library.from_address(place.value)
        place = ctypes.c_void_p(library.following)
        if library.base not in beginnings:
            continue
        # Where the table begins and how long it is: e_phoff and e_phnum of elf(5).
        head = ctypes.string_at(library.base, 64)
        (offset,), (count,) = struct.unpack_from("=Q", head, 32), struct.unpack_from("=H", head, 56)
        table = ctypes.string_at(library.base + offset, count * PROGRAM_HEADER.size)
        for kind, rights, _, address, _, _, size, _ in PROGRAM_HEADER.iter_unpack(table):
            if kind == PT_LOAD and rights & PF_W:
                start, end = library.base + address, library.base + address + size
                yield start & -PAGE, -(-end // PAGE) * PAGE


def lasting(room: Room) -> list[Span]:
    """Memory that no library hands back to the kernel: objects of the interpreter, the C library's heap, and the data
    of libraries.

    Not what else is in no file: an allocator of a library may hand pages back and count on zeros, where a file would
    bring its contents again.
    """
    parts = mappings()
    writable = joined(part.span for part in parts if part.rights == "rw-p")
    heap = [part.span for part in parts if part.name == "[heap]" and part.rights == "rw-p"]
    objects = common(room.spans, [part.span for part in parts if part.nameless])
    return joined([*heap, *objects, *common(joined(data_of_libraries(parts)), writable)])


def put_into_a_file(spans: list[Span]) -> bool:
    """Puts these parts of memory into a file that nobody can write to, and the file in their place; but not those that
    somebody has asked more of than to be there, which the file would not give.

    Whether it was done: it is not where the kernel or the C library does not know how, where nothing is left to do, or
    beside other threads, which would go on writing meanwhile. Raises `OSError` where there is no room for it. Ends the
    process where the kernel has left a part out: nobody knows then what is there.
    """
    if not KNOWN or len(os.listdir("/proc/self/task")) > 1:
        return False
    spans = list(common(joined(spans), plain()))
    if not spans:
        return False
    file = new_file()
    try:
        writes = list(places_in(file, spans))
        # The gaps too: a candidate could fill one by reading it, for all, and leave a word by that.
        os.posix_fallocate(file, 0, max(write.place + write.size for write in writes))
        # Once beforehand: where every page is there and can be read, a second time will not fall short.
        if any(LIBC.pwrite(*map(ctypes.c_size_t, write)) != write.size for write in writes):
            return False
        signals = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            exchange(writes)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        if not in_place(file, writes):
            sys.exit("the memory of this process could not be exchanged: the kernel has refused a part of it")
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    finally:
        os.close(file)
    join_pages(spans)
    return True


class Write(NamedTuple):
    """The arguments of pwrite(2)."""

    file: int
    start: int
    size: int
    place: int


def places_in(file: int, spans: list[Span]) -> Iterator[Write]:
    """Where each part of memory goes in the file: so that what holds pages of 2 MiB has them in both, the rest without
    a gap.
    """
    place = 0
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):
        if end - start >= HUGE_PAGE:
            place += (start - place) % HUGE_PAGE
        yield Write(file, start, end - start, place)
        place += end - start


def in_place(file: int, writes: list[Write]) -> bool:
    """Whether the file lies in memory where it should, and nowhere else."""
    number, name = str(os.fstat(file).st_ino), f"/memfd:{NAME} "
    there = [part for part in mappings() if part.file == number and part.name.startswith(name)]
    wanted = by_distance((write.start - write.place, (write.start, write.start + write.size)) for write in writes)
    return wanted == by_distance((part.start - part.offset, part.span) for part in there)


def by_distance(parts: Iterable[tuple[int, Span]]) -> dict[int, list[Span]]:
    """Parts of memory by how far each is from its place in a file."""
    found: dict[int, list[Span]] = {}
    for distance, span in parts:
        found.setdefault(distance, []).append(span)
    return {distance: joined(spans) for distance, spans in found.items()}


def join_pages(spans: list[Span]) -> None:
    """Makes pages of 2 MiB out of small ones: what a child reads from such a page is there all at once.

    Where the kernel will not (before Linux 6.1, without huge pages), nothing changes.
    """
    for start, end in spans:
        for page in range(-(-start // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE):
            LIBC.madvise(ctypes.c_void_p(page), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE)


def new_file() -> int:
    """A file in memory; since Linux 6.3 one of which nothing can be executed."""
    try:
        return os.memfd_create(NAME, os.MFD_CLOEXEC | MFD_NOEXEC_SEAL)
    except OSError:
        return os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def exchange(writes: list[Write]) -> None:
    """Writes parts of memory to a file and maps it in their place, with nothing in between.

    A single line of Python in between would write to memory of which the file already has a copy. So the C library is
    told to do it alone: each call is a context of its own, on a stack of its own, and goes on to the next one's.
    """
    rights, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | MAP_FIXED
    steps: list[tuple[object, tuple[int, ...]]] = [(LIBC.pwrite, write) for write in writes]
    steps += [(LIBC.mmap, (start, size, rights, kind, file, place)) for file, start, size, place in writes]
    each = CONTEXT_BYTES + STACK_BYTES
    with mmap.mmap(-1, (len(steps) + 1) * each, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        first = ctypes.c_char.from_buffer(memory)
        contexts = [ctypes.addressof(first) + number * each for number in range(len(steps) + 1)]
        for here, following, (call, arguments) in zip(contexts, contexts[1:], steps, strict=False):
            LIBC.getcontext(ctypes.c_void_p(here))
            # From its second word on: `uc_link`, and `uc_stack`, which is an address, flags and a size.
            for word, value in ((1, following), (2, here + CONTEXT_BYTES), (4, STACK_BYTES)):
                ctypes.c_size_t.from_address(here + word * 8).value = value
            LIBC.makecontext(ctypes.c_void_p(here), call, len(arguments), *map(ctypes.c_size_t, arguments))
        HELD.swapcontext(ctypes.c_void_p(contexts[-1]), ctypes.c_void_p(contexts[0]))
        del first
