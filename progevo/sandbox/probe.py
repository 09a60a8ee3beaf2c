"""Choosing a sandbox by trying it: a host that cannot confine a program gets a refusal with cause and cure."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from progevo.errors import ConfigError, SandboxUnavailable
from progevo.sandbox import Sandbox
from progevo.sandbox.bubblewrap import Bubblewrap, Form
from progevo.sandbox.launch import SILENT
from progevo.sandbox.profile import Profile, load_profile
from progevo.sandbox.seatbelt import Seatbelt
from progevo.types import Execution, Inputs, Job, Limits, Program

#: What bwrap or `stage` says -> what it means and what to do. The first that matches is taken.
CURES = (
    (
        (SILENT,),
        "it hangs: a file system does not answer, the machine is far too busy, what the profile preloads does not come"
        " to an end, or the bwrap on the PATH is a script that waits; put another one in front there, and see with"
        " progevo doctor whether it works",
    ),
    (
        ("setting up uid map: Permission denied", "RTM_NEWADDR", "RTM_NEWLINK"),
        "AppArmor restricts user namespaces here, as Ubuntu 23.10 and later do; either load the profile that lets bwrap"
        " have them (apt-get install apparmor-profiles; cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict"
        " /etc/apparmor.d/; apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict) or lift the restriction:"
        " sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        ("not permitted in setuid mode", "doesn't work in setuid mode"),
        "this bwrap is installed setuid, and such a one refuses what the sandbox needs; chmod u-s on it where user"
        " namespaces are allowed, or put another bwrap in front on the PATH",
    ),
    (
        ("Unknown option --size", "Unknown option --disable-userns", "Unknown option --json-status-fd"),
        "this bwrap is too old: progevo needs version 0.8.0 or later (Debian 12, Ubuntu 24.04)",
    ),
    (
        ("o permissions to creat", "Creating new namespace failed", "max_user_namespaces", "unshare: "),
        "this kernel or container does not allow new namespaces; on a host:"
        " sysctl -w kernel.unprivileged_userns_clone=1 and user.max_user_namespaces above 0; in Docker: run with"
        " --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt"
        " systempaths=unconfined, or --privileged for root",
    ),
    (
        ("Can't mount proc", "pivot_root", "Failed to mount tmpfs", "stage: mount", "Failed to make / slave"),
        "this container does not allow mounts; in Docker: --security-opt seccomp=unconfined --security-opt"
        " apparmor=unconfined --security-opt systempaths=unconfined (Podman: unmask=ALL), in Kubernetes:"
        " procMount: Unmasked",
    ),
    (
        ("ModuleNotFoundError",),
        "the profile preloads what cannot be found inside: a name that its package does not have, or a package that is"
        " not in the environment's site-packages (an editable install, or on PYTHONPATH); correct it or install it."
        " If it is there, others cannot read it (a strict umask at install time?): chmod -R o+rX on the environment",
    ),
    (
        ("PermissionError", "Permission denied"),
        "the interpreter, its packages or a path of the profile cannot be read by others (a strict umask at install"
        " time?): chmod -R o+rX on them, or make the environment anew under umask 022",
    ),
)

#: A folder that cannot be read is an empty package to Python, and no error.
PROBE = """
import importlib, os
def probe():
    places = {readable!r}
    for name in {preload!r}:
        places += getattr(importlib.import_module(name), "__path__", [])
    closed = [
        place for place in places
        if os.path.exists(place) and not os.access(place, os.R_OK | os.X_OK * os.path.isdir(place))
    ]
    if closed:
        raise PermissionError(f"cannot be read: {{', '.join(closed)}}")
    return "confined"
"""


#: By system, from the fastest to the plainest.
FORMS: dict[str, tuple[Form, ...]] = {"linux": ("warm", "pool", "cold"), "darwin": ("cold",)}


def open_sandbox(profile: str | Profile, form: str = "auto") -> Sandbox:
    """A sandbox that has just proved that it runs a program with this profile.

    `form` is "warm", "pool", "cold", or "auto": the first of these that works here.

    Raises `SandboxUnavailable` with the cause and the cure, `ConfigError` for a profile or a form that is not there.
    """
    loaded = load_profile(profile) if isinstance(profile, str) else profile
    forms = FORMS.get(sys.platform, ())
    if not forms:
        raise SandboxUnavailable(
            f"candidates run only in a sandbox, and there is none for {sys.platform}: progevo has Bubblewrap for Linux"
            " and Seatbelt for macOS; run it on Linux, in a virtual machine if need be"
        )
    if form not in (*forms, "auto"):
        raise ConfigError(f"there is no form {form!r} of the sandbox here; the forms are auto, {', '.join(forms)}")
    tried = Execution(status="sandbox_lost", reason="no form was tried")
    for wanted in [each for each in forms if form in (each, "auto")]:
        sandbox = sandbox_of(sys.platform, loaded, wanted)
        tried = sandbox.run(probe_job(loaded))
        if tried.status == "ok" and tried.answer is not None and tried.answer.value == "confined":
            return sandbox
        sandbox.close()
        if SILENT in tried.reason:  # as it would be in the others
            break
    raise SandboxUnavailable(refusal(tried, sys.platform))


def sandbox_of(system: str, profile: Profile, form: Form) -> Sandbox:
    """The system's own kind of sandbox."""
    return Seatbelt(profile) if system == "darwin" else Bubblewrap(profile, form)


def probe_job(profile: Profile) -> Job:
    """The probe: a program that imports what the profile preloads, as far as it is installed, and looks at the rest."""
    installed = [name for name in profile.preload if find_spec(name.partition(".")[0]) is not None]
    return Job(
        program=Program(PROBE.format(preload=installed, readable=list(profile.readable))),
        entrypoint="probe",
        harness=Path(__file__).parent / "probe_harness.py",
        inputs=Inputs(),
        limits=profile.within(Limits(wall_s=60.0)),
    )


def refusal(tried: Execution, system: str) -> str:
    """Why a probe that failed means a refusal, in the words of the tool that failed and in plain ones."""
    said = f"{tried.reason}\n{tried.log_tail}"
    if system == "darwin":
        return f"candidates run only in a sandbox, and the probe of Seatbelt failed here: {said[-2000:].strip()}"
    cure = next((cure for signs, cure in CURES if any(sign in said for sign in signs)), "")
    who = "root (which becomes nobody first)" if os.geteuid() == 0 else "an unprivileged user"
    text = f"candidates run only in a sandbox, and the probe of Bubblewrap failed here as {who}: {tried.reason}"
    return f"{text}\n{cure}" if cure else text
