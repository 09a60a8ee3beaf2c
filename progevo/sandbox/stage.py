"""Root's way into an unprivileged sandbox: show the named paths to everyone, become nobody, start the program.

Bubblewrap run by root keeps root's powers over files, and its process limits never bind. So root does not run
it: this file, in a process of its own, binds the named paths to a world-readable folder of a private mount
namespace (an interpreter under /root or a checkout in a closed home would be out of reach otherwise), gives up
every privilege and then becomes that program. From there on root's sandbox is the same as anybody's.

    python -I -S stage.py '{"uid": ..., "paths": [...], "argv": [...]}'

In `argv`, `{"path": i}` stands for where the i-th path has been put. The environment is passed on as it is.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import NoReturn

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MS_NOSUID, MS_NODEV = 0x2, 0x4

#: Exists everywhere and is open to everyone; in this process's own mount namespace alone, another one hides it.
STAGE = "/tmp"

libc = ctypes.CDLL(None, use_errno=True)


def main() -> NoReturn:
    plan = json.loads(sys.argv[1])
    check("unshare", libc.unshare(CLONE_NEWNS))
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    # Opened before the stage hides anything: also what lies under it can be shown.
    sources = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in plan["paths"]]
    mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, b"mode=0755,size=1m")
    places = []
    for number, (source, path) in enumerate(zip(sources, plan["paths"], strict=True)):
        place = f"{STAGE}/{number}"
        if os.path.isdir(f"/proc/self/fd/{source}"):
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(f"/proc/self/fd/{source}", place, None, MS_BIND | MS_REC, name=path)
        places.append(place)
    os.setgroups([])
    os.setresgid(plan["uid"], plan["uid"], plan["uid"])
    os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    argv = [part if isinstance(part, str) else places[part["path"]] for part in plan["argv"]]
    os.execv(argv[0], argv)


def mount(
    source: str, target: str, kind: str | None, flags: int, options: bytes | None = None, *, name: str = ""
) -> None:
    made = libc.mount(source.encode(), target.encode(), kind.encode() if kind else None, flags, options)
    check(f"mount {name or source} on {target}", made)


def check(what: str, result: int) -> None:
    """Ends the process with a word where a call failed."""
    if result != 0:
        sys.exit(f"stage: {what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
