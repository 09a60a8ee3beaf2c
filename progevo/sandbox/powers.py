"""What the first processes of a sandbox need powers (capabilities) for, and how they give them up.

All of it happens before a byte of a candidate is read: mounts for which bwrap has no words, then no power is left.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 262144
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 23, 24, 47, 4
CAPABILITY_VERSION_3 = 0x20080522
#: Each file of a scratch takes the kernel about a KiB beside its content, which no other limit counts.
FILES = 65_536
DEVICES = ("full", "null", "random", "tty", "urandom")

libc = ctypes.CDLL(None, use_errno=True)


def close_mounts() -> None:
    """Takes a mount namespace of this process's own, where nobody can change the file of a device (its times, say).

    To write to a device is something else. bwrap has no word for that, nor has it one for the number of files.
    """
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    for name in DEVICES:
        mount("none", f"/dev/{name}", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID)


def fresh_scratch(mounts: dict[str, Any]) -> None:
    """Empty scratch of a limited size and number of files."""
    kept = [(os.open(path, os.O_PATH), path) for path in mounts["keep"]]
    for place, size in mounts["scratch"].items():
        mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={size},nr_inodes={FILES}")
    for descriptor, path in kept:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            os.makedirs(path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND | MS_REC)
        mount("none", path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
        os.close(descriptor)
    for path in mounts["hide"]:
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700")
            os.close(os.open(f"{path}/__init__.py", os.O_CREAT | os.O_WRONLY, 0o444))
            mount("/progevo/absent.py", f"{path}/__init__.py", None, MS_BIND)
            os.chmod(path, 0o111)
            mount("none", path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
        else:
            mount("/dev/null", path, None, MS_BIND)


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None)
    if libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() if options else None) != 0:
        raise OSError(ctypes.get_errno(), f"mount on {target}: {os.strerror(ctypes.get_errno())}")


def drop_capabilities() -> None:
    """Gives up every power, for good: bounding and ambient set first, then the rest."""
    for capability in range(64):
        # Most are gone already: those that bwrap was not asked for. Past the last one this is an error.
        if libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION_3, 0))
    nothing = ctypes.create_string_buffer(bytes(24))
    if libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), f"capset: {os.strerror(ctypes.get_errno())}")
