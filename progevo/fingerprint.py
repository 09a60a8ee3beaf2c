"""Fingerprint: everything that changes what a score means, by name. Scores under two fingerprints do not compare."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from progevo.domain import SEARCH, Domain
from progevo.errors import ConfigError
from progevo.events import Drift
from progevo.sandbox import Confinement

#: Packages whose version can change what a score means.
PACKAGES = ("progevo", "libcst", "numpy", "pandas", "scikit-learn", "scipy")


@functools.cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def versions() -> dict[str, str]:
    """The versions of everything that can change what a score means."""
    return dict(_versions())


def fingerprint(domain: Domain, confinement: Confinement) -> dict[str, str]:
    """name -> value: the task's content, its evaluator, data, limits, the sandbox, package versions.

    The held-out part is not looked at: its content is covered by `data`.
    """
    return {
        **_content(domain),
        "sandbox.backend": confinement.backend,
        "sandbox.rung": confinement.rung,
        "sandbox.profile": confinement.profile,
        **{f"version.{name}": value for name, value in versions().items()},
    }


def content_id(domain: Domain) -> str:
    """sha256 (hex) of what the task says, whatever runs it."""
    return hashlib.sha256(json.dumps(_content(domain)).encode()).hexdigest()


def _content(domain: Domain) -> dict[str, str]:
    return {
        "task": _task(domain),
        "evaluator": _evaluator(domain),
        "data": domain.data.sha256 or domain.data.source,
        **{f"limit.{name}": str(value) for name, value in dataclasses.asdict(domain.limits).items()},
    }


def drift(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[Drift, ...]:
    """What differs between two fingerprints, by name."""
    names = sorted(was.keys() | now.keys())
    return tuple(
        Drift(name=name, was=was.get(name), now=now.get(name)) for name in names if was.get(name) != now.get(name)
    )


def check_drift(found: Sequence[Drift], allowed: Sequence[str]) -> None:
    """Raises `ConfigError` with the whole list unless every drift is allowed by name, and none else is named."""
    idle = sorted(set(allowed) - {each.name for each in found})
    if idle:
        names = ", ".join(each.name for each in found) or "nothing"
        raise ConfigError(f"--allow-drift names {', '.join(idle)}, which has not changed; {names} has")
    refused = [each for each in found if each.name not in allowed]
    if refused:
        flags = " ".join(f"--allow-drift {each.name}" for each in refused)
        lines = listed(refused, "was", "is")
        raise ConfigError(
            f"since this run was started, something changed that changes what a score means:{lines}\n"
            f"put it back, or go on in spite of it, which the result will say, with {flags}"
        )


def listed(found: Sequence[Drift], was: str, now: str) -> str:
    """Each drift on a line of its own, with a word for either side."""
    return "".join(f"\n  {each.name}: {was} {_short(each.was)}, {now} {_short(each.now)}" for each in found)


def _task(domain: Domain) -> str:
    gate = {
        entry.name: sorted(value) if isinstance(value := getattr(domain.gate, entry.name), frozenset) else value
        for entry in dataclasses.fields(domain.gate)
    }
    stated = {
        "name": domain.name,
        "entrypoint": domain.entrypoint,
        "seed": domain.seed.id,
        "prompt": domain.prompt,
        "ask": domain.ask,
        "metric": dataclasses.asdict(domain.metric),
        "gate": gate,
        "splits": domain.splits,
        "stages": [dataclasses.asdict(stage) for stage in domain.stages],
        "noisy": domain.noisy,
        "moves": [move.name for move in domain.moves],
        "files": [[path.name, _sha256(path)] for path in domain.sources],
    }
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()


def _evaluator(domain: Domain) -> str:
    """Of the harness, of the evaluator's own code, and of what a candidate is given to be ranked."""
    inputs = domain.evaluator.inputs(SEARCH)
    stated: list[Any] = [
        _sha256(domain.evaluator.harness),
        _code(getattr(domain.evaluator, "unsealed", domain.evaluator)),
        inputs.request,
        [[name, _sha256(path)] for name, path in sorted(inputs.files.items())],
    ]
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()


def _code(evaluator: object) -> str | None:
    with contextlib.suppress(TypeError, OSError):
        return _sha256(Path(inspect.getfile(type(evaluator))))
    return None  # made at a prompt or in a notebook: there is no file to look at


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"{path} is part of the task, and cannot be read: {error.strerror}") from None


def _short(value: str | None) -> str:
    return "absent" if value is None else value if len(value) < 40 else f"{value[:12]}..."
