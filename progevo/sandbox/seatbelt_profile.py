"""The command of a Seatbelt run, with its profile: what it may read, write and execute."""

from __future__ import annotations

import re
import sys
import sysconfig
from importlib import resources
from pathlib import Path

from progevo.sandbox.interpreter import Interpreter
from progevo.sandbox.private_folder import Folder, canonical
from progevo.sandbox.profile import Profile

#: As in the other backend: nothing on the path but the standard library, nothing written beside the sources.
PYTHON_FLAGS = ("-P", "-s", "-S", "-B")


def command(
    sandbox_exec: str, interpreter: Interpreter, profile: Profile, folder: Folder, inside: tuple[int, ...]
) -> list[str]:
    """The whole command; paths stand in it as parameters and arguments, never in the profile's text."""
    text, parameters = rendered(interpreter, profile, folder)
    definitions = [part for key, value in parameters.items() for part in ("-D", f"{key}={value}")]
    python = [str(interpreter.executable), *PYTHON_FLAGS]
    return [sandbox_exec, "-p", text, *definitions, *python, str(folder.own / "runner.py"), *map(str, inside)]


def rendered(interpreter: Interpreter, profile: Profile, folder: Folder) -> tuple[str, dict[str, str]]:
    """The profile's text and its parameters, for one run."""
    shown = [canonical(path) for path in readable(interpreter, profile)]
    own = {"OWN": folder.own, "INPUTS": folder.inputs, "SCRATCH": folder.scratch}
    ancestors = {parent for path in (*shown, *own.values()) for parent in path.parents}
    lists = {
        "EXECUTABLE": ("literal", executables(interpreter)),
        "READABLE": ("subpath", shown),
        "HIDDEN": ("subpath", hidden(interpreter, profile)),
        "ANCESTOR": ("literal", sorted(ancestors)),
    }
    parameters = {key: str(path) for key, path in own.items()}
    filters = {}
    for key, (kind, paths) in lists.items():
        assert paths, f"a rule without a filter would hold for everything: {key}"
        parameters |= {f"{key}_{number}": str(path) for number, path in enumerate(paths)}
        filters[key] = "\n  ".join(f'({kind} (param "{key}_{number}"))' for number in range(len(paths)))
    template = (resources.files("progevo.sandbox_profiles") / "seatbelt.sb").read_text("utf-8")
    rules = re.sub(r";.*", "", template)
    return re.sub(rf"\b({'|'.join(filters)})\b", lambda found: filters[found[0]], rules), parameters


def packages(interpreter: Interpreter, profile: Profile) -> tuple[Path, ...]:
    """Folders of third-party packages that programs may import from."""
    return interpreter.packages if profile.packages else ()


def executables(interpreter: Interpreter) -> list[Path]:
    """The interpreter, and what it becomes at once where it is a framework's: the program of an application."""
    application = Path(sys.base_prefix) / "Resources" / "Python.app" / "Contents" / "MacOS" / "Python"
    return [canonical(path) for path in (interpreter.executable, application) if path.exists()]


def readable(interpreter: Interpreter, profile: Profile) -> list[Path]:
    """What of this host may be read, beside the system's own libraries."""
    shown = [*interpreter.readable, *packages(interpreter, profile), *(Path(path) for path in profile.readable)]
    if sysconfig.get_config_var("PYTHONFRAMEWORK"):  # its library and its application lie beside its `lib`
        shown.append(Path(sys.base_prefix))
    for parent in interpreter.executable.parents:
        if parent.name == "Cellar":  # Homebrew: libraries that its Python is linked to, by way of links in `opt`
            shown += [parent, parent.parent / "opt", parent.parent / "lib"]
    return [path for path in dict.fromkeys(shown) if path.exists()]


def hidden(interpreter: Interpreter, profile: Profile) -> list[Path]:
    """What the profile hides, and progevo, be it installed or a checkout."""
    return list(dict.fromkeys(map(canonical, (Path(__file__).parents[1], *interpreter.hidden(profile.hidden)))))
