"""What of this host's Python has to be readable inside a sandbox, and nothing more."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: Shared libraries and what the loader, the clock and time zones need; read where they exist.
SYSTEM = (
    "/usr/lib32",
    "/usr/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/localtime",
)
#: What folders of third-party packages are called.
NAMES = ("site-packages", "dist-packages")
#: Links on systems with a merged /usr, folders elsewhere.
ROOTS = ("/lib", "/lib32", "/lib64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A real interpreter (never a version manager's shim) and the paths it lives on."""

    executable: Path
    #: Files and folders to show read-only under their own names.
    readable: tuple[Path, ...]
    #: Symbolic links to make: name -> target.
    links: dict[str, str]
    #: Folders of third-party packages that this environment imports from.
    packages: tuple[Path, ...]
    #: Folders of such packages that lie inside what is readable, whether or not this environment uses them.
    nested: tuple[Path, ...]

    def hidden(self, names: Sequence[str]) -> list[Path]:
        """The folders and files of this environment that these packages, and progevo, would be imported from, and the
        libraries that came with them.

        progevo holds tasks and their generators: not for candidates to read, wherever it is installed.
        """
        forms = ("{}", "{}.py", "{}.pyc", "__pycache__/{}.*.pyc", "{}.so", "{}.*.so", "{}.libs")
        return [
            path
            for folder in self.packages
            for name in ("progevo", *names)
            for form in forms
            for path in sorted(folder.glob(form.format(name)))
        ]


def find_interpreter() -> Interpreter:
    """The interpreter that runs this process, outside any virtual environment, with this environment's packages."""
    executable = Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))
    home = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    # A prefix of its own (pyenv, conda, uv) also keeps shared libraries beside the standard library.
    home |= {Path(prefix) / "lib" for prefix in (sys.base_prefix, sys.base_exec_prefix) if prefix != "/usr"}
    # Debian keeps shared libraries apart from all else that /usr/lib holds; elsewhere they lie in it.
    libraries = Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or ".")
    libraries = libraries if libraries.is_dir() else Path("/usr/lib")
    packages = [Path(entry) for entry in sys.path if Path(entry).name in NAMES]
    roots = [Path(root) for root in ROOTS if os.path.isdir(root) and not os.path.islink(root)]
    return Interpreter(
        executable=executable,
        readable=_outermost([executable, *home, libraries, *(Path(path) for path in SYSTEM), *roots]),
        links={root: os.readlink(root) for root in ROOTS if os.path.islink(root)},
        packages=_distinct(packages),
        nested=_distinct([folder / name for folder in (*home, Path("/usr/lib/python3")) for name in NAMES]),
    )


def _distinct(paths: list[Path]) -> tuple[Path, ...]:
    """The real paths of those that exist, each once, in the order given."""
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in paths if os.path.exists(path)))


def _outermost(paths: list[Path]) -> tuple[Path, ...]:
    """Without the paths that lie inside another of them."""
    distinct = _distinct(paths)
    return tuple(path for path in distinct if not any(other in path.parents for other in distinct))
