"""What `progevo doctor` looks at: everything that decides whether a candidate can run here."""

from __future__ import annotations

import contextlib
import platform
import shutil
from pathlib import Path
from typing import Any

from progevo.errors import SandboxUnavailable
from progevo.sandbox.interpreter import find_interpreter
from progevo.sandbox.probe import open_sandbox
from progevo.sandbox.profile import load_profile
from progevo.sandbox.prove import prove as attack

#: Kernel switches that forbid what Bubblewrap needs, and the value that allows it.
SWITCHES = (
    ("kernel.unprivileged_userns_clone", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "0"),
    ("user.max_user_namespaces", "above 0"),
)


def examine(profile: str, form: str = "auto", *, prove: bool = False) -> dict[str, Any]:
    """What was found, by name; `sandbox` is "works" if and only if a program has just run in it.

    With `prove`, `proof` says which attacks of the self-test were stopped; a failed one is a refusal.
    """
    interpreter = find_interpreter()
    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_version()}, {interpreter.executable}",
        "packages": ", ".join(str(path) for path in interpreter.packages) or "none",
        "bwrap": shutil.which("bwrap") or "not on the PATH",
    }
    for name, wanted in SWITCHES:
        file = Path("/proc/sys") / name.replace(".", "/")
        if file.is_file():
            found[name] = f"{file.read_text().strip()} (needs {wanted})"
    try:
        with contextlib.closing(open_sandbox(profile, form)) as box:
            seen = box.confinement
            confined = f"{seen.backend} {seen.version}, {seen.rung} form, profile {seen.profile}"
            found |= {"confinement": confined, "limits_refused": seen.limits_refused or "none"}
            found["sums"] = f"CPU and memory of all processes together are counted by {seen.counted_by}"
            if prove:
                found["proof"] = attack(box, load_profile(profile))
    except SandboxUnavailable as error:
        return {**found, "sandbox": str(error)}
    return {**found, "sandbox": "works"}
