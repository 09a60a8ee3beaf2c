"""The system-call filter, run by a small interpreter of classic BPF: every call against every machine."""

from __future__ import annotations

import errno
import fcntl
import re
import socket
import struct
from pathlib import Path

import pytest

from progevo.sandbox import syscalls

EPERM, ENOSYS = syscalls.ERROR | errno.EPERM, syscalls.ERROR | errno.ENOSYS
#: Done, as far as the caller is told.
GRANTED = syscalls.ERROR
ARCH = {0: 0xC000003E, 1: 0xC00000B7}
MACHINE = {0: "x86_64", 1: "aarch64"}


def verdict(column, number, *arguments, arch=None, program=None):
    """What the filter answers to a call."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    call = struct.pack("=IIQ6Q", number, arch if arch is not None else ARCH[column], 0, *padded)
    program = list(struct.iter_unpack("=HBBI", program or syscalls.filter_for(MACHINE[column])))
    at, word = 0, 0
    while True:
        code, yes, no, value = program[at]
        at += 1
        if code == syscalls.LOAD:
            (word,) = struct.unpack_from("=I", call, value)
        elif code == syscalls.RETURN:
            return value
        else:
            holds = {
                syscalls.JUMP_EQUAL: word == value,
                syscalls.JUMP_AT_LEAST: word >= value,
                syscalls.JUMP_ANY_BIT: bool(word & value),
            }[code]
            at += yes if holds else no


@pytest.mark.parametrize("column", [0, 1])
def test_every_listed_call_is_refused_and_every_other_allowed(column):
    refused = {numbers[column] for numbers in syscalls.REFUSED.values()} - {None}
    absent = {numbers[column] for numbers in syscalls.ABSENT.values()}
    assert len(refused) == sum(numbers[column] is not None for numbers in syscalls.REFUSED.values())
    usual = {syscalls.SOCKETPAIR[column]: (syscalls.AF_UNIX,), syscalls.IOCTL[column]: (0, 0x5401)}
    for number in range(600):
        expected = EPERM if number in refused else ENOSYS if number in absent or number >= 463 else syscalls.ALLOW
        expected = GRANTED if number == syscalls.FLOCK[column] else expected
        assert verdict(column, number, *usual.get(number, ())) == expected, number


@pytest.mark.parametrize("column", [0, 1])
def test_locks_are_granted_unasked_and_nothing_else_is_done_to_a_shared_file(column):
    def commanded(command):
        return verdict(column, syscalls.FCNTL[column], 3, command)

    names = ("F_SETLK", "F_SETLKW", "F_OFD_SETLK", "F_OFD_SETLKW")
    for command in [getattr(fcntl, name) for name in names] + [fcntl.F_SETLK | 1 << 32]:
        assert commanded(command) == GRANTED
    for name in ("F_DUPFD", "F_GETFD", "F_SETFD", "F_GETFL", "F_SETFL", "F_GETLK", "F_DUPFD_CLOEXEC", "F_GETPIPE_SZ"):
        assert commanded(getattr(fcntl, name)) == syscalls.ALLOW
    others = [fcntl.F_SETLEASE, fcntl.F_NOTIFY, fcntl.F_SETPIPE_SZ, 1033, 1036, 1038, 1040, *range(39, 1024)]
    assert {commanded(command) for command in others} == {EPERM}


def test_a_profile_may_refuse_locks():
    program = syscalls.filter_for("x86_64", ("flock",))
    assert verdict(0, syscalls.FLOCK[0], program=program) == EPERM


@pytest.mark.parametrize("column", [0, 1])
def test_clone_makes_processes_and_threads_but_no_namespaces(column):
    clone = syscalls.CLONE[column]
    for flags in (0x11, 0x3D0F00, 0x4111):  # fork, a thread, vfork with posix_spawn
        assert verdict(column, clone, flags) == syscalls.ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(column, clone, flag | 0x11) == EPERM


@pytest.mark.parametrize("column", [0, 1])
def test_only_local_pairs_of_sockets_are_made(column):
    for family in range(50):
        assert verdict(column, syscalls.SOCKETPAIR[column], family) == (syscalls.ALLOW if family == 1 else EPERM)


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("name", ["SOCK_STREAM", "SOCK_SEQPACKET", "SOCK_DGRAM", "SOCK_RAW"])
def test_no_pair_sends_to_others(column, name):
    for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK):
        allowed = name in ("SOCK_STREAM", "SOCK_SEQPACKET")
        word = verdict(column, syscalls.SOCKETPAIR[column], socket.AF_UNIX, getattr(socket, name) | flags)
        assert word == (syscalls.ALLOW if allowed else EPERM)


@pytest.mark.parametrize("column", [0, 1])
def test_memory_stays_where_it_is_counted(column):
    private, huge, cold, page_out, collapse = 0x22, 0x40000, 20, 21, 25
    for size in (0, 21 << 26, 30 << 26):  # the machine's usual large pages, of 2 MiB, of 1 GiB
        no_memory = syscalls.ERROR | errno.ENOMEM
        assert verdict(column, syscalls.MMAP[column], 0, 4096, 3, private | huge | size) == no_memory
    assert verdict(column, syscalls.MMAP[column], 0, 4096, 3, private) == syscalls.ALLOW
    for advice in range(120):
        refused = advice in (cold, page_out, collapse)
        word = verdict(column, syscalls.MADVISE[column], 0, 4096, advice)
        assert word == (syscalls.ERROR | errno.EINVAL if refused else syscalls.ALLOW)


@pytest.mark.parametrize("column", [0, 1])
def test_nobody_adds_a_filter(column):
    words = {verdict(column, syscalls.PRCTL[column], option) for option in range(80) if option != 22}
    assert words == {syscalls.ALLOW}
    assert verdict(column, syscalls.PRCTL[column], 22) == EPERM


@pytest.mark.parametrize("column", [0, 1])
def test_nothing_is_typed_into_a_terminal(column):
    ioctl = syscalls.IOCTL[column]
    assert verdict(column, ioctl, 0, 0x5401) == syscalls.ALLOW
    assert verdict(column, ioctl, 0, 0x5412) == verdict(column, ioctl, 0, 0x541C) == EPERM
    # A file system's own, such as FS_IOC_GETFLAGS, are as unknown as to a pipe.
    assert verdict(column, ioctl, 0, 0x80086601) == verdict(column, ioctl, 0, 0x5400) == syscalls.ERROR | errno.ENOTTY
    # The kernel drops the upper half of a request; so does the filter.
    assert verdict(column, ioctl, 0, 0x1_0000_5412) == EPERM


def test_foreign_architectures_end_the_process_and_x32_does_not_exist():
    for column in (0, 1):
        for arch in (0x40000003, 0x40000028, ARCH[1 - column]):
            assert verdict(column, 0, arch=arch) == syscalls.KILL
    assert verdict(0, 0x40000000) == verdict(0, 0x40000000 + 101) == ENOSYS


def test_a_machine_it_is_not_written_for_has_no_filter():
    assert syscalls.filter_for("riscv64") is None


@pytest.mark.parametrize(
    ("column", "header"),
    [(0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")],
)
def test_the_numbers_are_the_kernel_s(column, header):
    if not Path(header).exists():
        pytest.skip(f"the kernel's headers are not installed: no {header}")
    numbers = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text())
    }
    rest = {"clone": syscalls.CLONE, "socketpair": syscalls.SOCKETPAIR, "ioctl": syscalls.IOCTL}
    rest |= {"flock": syscalls.FLOCK, "fcntl": syscalls.FCNTL, "mmap": syscalls.MMAP, "madvise": syscalls.MADVISE}
    rest |= {"prctl": syscalls.PRCTL, "prlimit64": syscalls.PRLIMIT}
    for name, found in {**syscalls.REFUSED, **syscalls.ABSENT, **syscalls.OPTIONAL, **rest}.items():
        if found[column] is not None and name in numbers:
            assert numbers[name] == found[column], name
    assert len(set(numbers) & set(syscalls.REFUSED)) > 50
