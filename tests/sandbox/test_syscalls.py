"""The system-call filter, run by a small interpreter of classic BPF: every call against every machine."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from progevo.sandbox import syscalls

EPERM, ENOSYS = syscalls.ERROR | errno.EPERM, syscalls.ERROR | errno.ENOSYS
ARCH = {0: 0xC000003E, 1: 0xC00000B7}
MACHINE = {0: "x86_64", 1: "aarch64"}


def verdict(column, number, *arguments, arch=None):
    """What the filter answers to a call."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    call = struct.pack("=IIQ6Q", number, arch if arch is not None else ARCH[column], 0, *padded)
    program = list(struct.iter_unpack("=HBBI", syscalls.filter_for(MACHINE[column])))
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
    for number in range(600):
        local = (syscalls.AF_UNIX,) if number == syscalls.SOCKETPAIR[column] else ()
        expected = EPERM if number in refused else ENOSYS if number in absent else syscalls.ALLOW
        assert verdict(column, number, *local) == expected, number


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
def test_nothing_is_typed_into_a_terminal(column):
    ioctl = syscalls.IOCTL[column]
    assert verdict(column, ioctl, 0, 0x5401) == syscalls.ALLOW
    assert verdict(column, ioctl, 0, 0x5412) == verdict(column, ioctl, 0, 0x541C) == EPERM
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
    for name, found in {**syscalls.REFUSED, **syscalls.ABSENT, **rest}.items():
        if found[column] is not None and name in numbers:
            assert numbers[name] == found[column], name
    assert len(set(numbers) & set(syscalls.REFUSED)) > 50
