"""What the system or a library complains of, in words for whoever can mend it: a file, its text, a value in it."""

from __future__ import annotations

import json
import os
import re
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

#: What msgspec calls the kinds of values, and what people do.
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<got>[^`]*)`")
_PLACE = re.compile(r" - at `\$\.(?P<name>\w+)(?P<inside>[^`]*)`")


def of_reading(error: Exception) -> str:
    """Why a file could not be read, or its text not be understood."""
    match error:
        case FileNotFoundError():
            return "there is no such file"
        case IsADirectoryError():
            return "it is a folder; name a file"
        case OSError():
            return error.strerror or str(error)
        case UnicodeDecodeError():
            line = 1 + error.object.count(b"\n", 0, error.start)
            return f"it is not UTF-8 text (byte 0x{error.object[error.start]:02x} in line {line}); save it as UTF-8"
        case tomllib.TOMLDecodeError():
            return f"it is not TOML: {error}"
        case json.JSONDecodeError():
            return f"it is not JSON: {error}"
    return str(error)


def of_writing(path: Path, error: OSError | None = None) -> str:
    """Why a file of that name could not be written, and what to do; empty where nothing is seen in its way."""
    if not path.name or os.path.isdir(path):
        return "it is a folder; name a file"
    blocked = blocking(path.parent)
    if blocked is not None:
        return f"{blocked} is no folder; name another place"
    if not os.path.isdir(path.parent):
        return f"there is no folder {path.parent}; make it, or name another place"
    return error.strerror or str(error) if error is not None else ""


def blocking(folder: Path) -> Path | None:
    """The file that stands where a folder, or one that it is in, would have to be."""
    return next((each for each in (folder, *folder.parents) if os.path.exists(each) and not os.path.isdir(each)), None)


def of_value(error: msgspec.ValidationError, table: Mapping[str, Any], kind: type[Any]) -> str:
    """What is wrong with a table of values by name, of which msgspec could not make a `kind`."""
    text = str(error)
    place, expected = _PLACE.search(text), _EXPECTED.search(text)
    if place is None:
        return text
    name, inside = place["name"], place["inside"]
    choices = [choice for choice in typing.get_args(typing.get_type_hints(kind).get(name)) if isinstance(choice, str)]
    if expected is not None:
        wanted = [word for word in expected["wanted"].split(" | ") if word != "null"]
        rule = f"it must be {' or '.join(KINDS.get(word, word) for word in wanted)}"
        if inside:
            return f"{name} holds {KINDS.get(expected['got'], expected['got'])}, where {rule}"
    elif choices:
        rule = f"it must be {' or '.join(choices)}"
    else:
        rule = text.partition(" - at ")[0]
    return f"{name} is {table.get(name)!r}; {rule}"
