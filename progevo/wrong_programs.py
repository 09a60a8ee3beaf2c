"""Programs that no task may reward, as templates: what `progevo check-task` tries a task with."""

from __future__ import annotations

#: Answers that no task asks for, and what they are called.
NONSENSE = {
    "None": "None",
    "a text": "'nonsense'",
    "not a number": "float('nan')",
    "an infinite number": "float('inf')",
    "an empty list": "[]",
    "an object": "object()",
}
#: What is added to every number of the seed's answers, to see whether the score notices.
SPOILT_BY = (1000, -1000)

#: Finds the files it is asked for, and says what its arguments are made of: one line of JSON in the log.
SPY = """
import json, os, sys

LOOK_FOR = {paths!r}

def readable(path):
    try:
        with open(path, "rb") as file:
            file.read(1)
        return True
    except OSError:
        return False

def importable(name):
    try:
        module = __import__(name)
    except BaseException:
        return False
    return getattr(module, "__file__", None) is not None  # what is hidden is an empty folder, and so a package

def parts(value):
    if isinstance(value, dict):
        return [key for key in list(value)[:8] if isinstance(key, str)]
    return list(range(min(len(value), 4))) if isinstance(value, (list, tuple)) else []

def {entry}(*args, **kwargs):
    found = {{
        "readable": [path for path in LOOK_FOR if readable(path)],
        "importable": [name for name in {modules!r} if importable(name)],
        "parts": [[n, *more] for n, arg in enumerate(args[:4]) for more in [[], *([part] for part in parts(arg))]],
    }}
    sys.stderr.write("\\nspy: " + json.dumps(found) + "\\n")
    sys.stderr.flush()
    os._exit(0)
"""

#: Answers with one part of what it is given.
ECHO = """
def {entry}(*args, **kwargs):
    value = args
    for part in {path!r}:
        value = value[part]
    return value
"""

#: Goes at the end of a seed: its answers with an amount added to every number.
SPOIL = """


def spoilt(value):
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [spoilt(each) for each in value]
    if isinstance(value, dict):
        return {{key: spoilt(each) for key, each in value.items()}}
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value + {amount} if number else value

def spoilt_entry(*args, __seed={entry}, **kwargs):
    return spoilt(__seed(*args, **kwargs))

{entry} = spoilt_entry
"""
