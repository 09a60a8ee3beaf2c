"""new-task: a complete task folder that runs, to be made into something else."""

from __future__ import annotations

import keyword
import os
import re
from importlib import resources
from pathlib import Path

from progevo.errors import ConfigError, RunError

#: What the task in the starter folder is called, in its own files.
STARTER = "starter"


def new_task(name: str, where: Path) -> list[Path]:
    """Writes the folder `where/name` and returns its files, in order.

    Raises `ConfigError` for a name that is no Python name in lower case, `RunError` where something of that name is
    there already or the folder cannot be written.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(
            f"a task cannot be called {name!r}; take lower-case letters, digits and underscores, a letter first"
        )
    folder = where / name
    try:
        folder.mkdir(parents=True)
        written = []
        for source in sorted(_files(), key=lambda file: file.name):
            text = source.read_text("utf-8").replace(f'NAME = "{STARTER}"', f'NAME = "{name}"')
            (folder / source.name).write_text(text, "utf-8")
            written.append(folder / source.name)
    except FileExistsError:
        raise RunError(f"{folder} is there already, and nothing in it was touched; take another name") from None
    except OSError as error:
        raise RunError(f"{folder} cannot be written: {os.strerror(error.errno or 0)}") from None
    return written


def _files() -> list[Path]:
    folder = Path(str(resources.files("progevo") / STARTER))
    return [path for path in folder.iterdir() if path.suffix in (".py", ".md")]
