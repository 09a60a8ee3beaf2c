"""Settings: one typed tree, filled from defaults, a TOML file, environment and flags. An unknown key is an error."""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from progevo import complaint
from progevo.errors import ConfigError
from progevo.types import Limits

#: A constant of one search that is also a flag and a key of its own, from the time when there was no other search.
C_PUCT = "c_puct"


#: The least that a setting may be, where it is set.
LEAST = {
    "iterations": 0,
    "max_evaluations": 1,
    "max_minutes": 0,
    "max_calls": 1,
    "max_tokens": 1,
    "max_cost": 0,
    "patience": 1,
    "workers": 1,
    "seed": 0,
    "repeats": 1,
    "top": 1,
}


#: The most that a setting of a call may be: the clocks of an operating system take no longer waits than some years.
MOST = 1_000_000_000

#: Keys of a request that have a setting of their own, or that would make one reply into several.
OURS = ("model", "messages", "temperature", "max_tokens", "max_completion_tokens", "reasoning_effort", "seed", "n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Llm:
    """How models are asked. What is left unset is not sent: the endpoint's own default holds then.

    The key is not among it: it comes from `OPENAI_API_KEY`, and is written nowhere.
    """

    #: NAME or NAME=WEIGHT; a name may hold colons.
    model: tuple[str, ...] = ()
    base_url: str = "https://api.openai.com/v1"
    #: How one of several models is chosen: by weight, or by what each has improved for its cost.
    model_policy: Literal["fixed", "bandit"] = "fixed"
    #: VALUE for all models, or NAME=VALUE for one.
    temperature: tuple[str, ...] = ()
    #: The longest reply in tokens (sent as max_tokens or max_completion_tokens).
    reply_tokens: int | None = None
    reasoning_effort: str | None = None
    #: Whether a seed goes with every call, drawn from the run's seed, the step and the attempt.
    model_seed: bool = False
    #: What else goes into the body of every request.
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    #: What a model is asked for: the whole program, or SEARCH/REPLACE blocks.
    edit: Literal["full", "diff"] = "full"
    #: How many replies may be drawn for one candidate, until one holds a program.
    reply_attempts: int = 4
    #: Whether raw replies are kept in the run folder, under llm/.
    keep_replies: bool = True
    #: US dollars for a million tokens: PROMPT/COMPLETION for all models, or NAME=PROMPT/COMPLETION for one.
    price: tuple[str, ...] = ()
    #: Seconds until one request is given up, from its start to the last byte of its answer.
    call_timeout: float = 600.0
    #: Seconds until a provider that gives no reply ends the run, all tries and waits included.
    call_deadline: float = 1800.0

    def __post_init__(self) -> None:
        for name in ("reply_tokens", "reply_attempts", "call_timeout", "call_deadline"):
            _above_0(name, getattr(self, name))
        taken = sorted(set(self.extra_body) & set(OURS))
        if taken:
            raise ConfigError(f"extra_body holds {', '.join(taken)}, which progevo sets; use the setting of that name")
        if _holds_none(self.extra_body):
            raise ConfigError("extra_body holds a null, which config.toml could not record; leave its key out")
        if _holds_no_number(self.extra_body):
            raise ConfigError("extra_body holds NaN or an infinity, which JSON cannot; give a finite number")
        check_base_url(self.base_url)

    def table(self) -> dict[str, Any]:
        """What differs from the defaults, and the attempts allowed, as it stands in a TOML file."""
        found: dict[str, Any] = {}
        for entry in dataclasses.fields(Llm):
            value = getattr(self, entry.name)
            default = entry.default_factory() if callable(entry.default_factory) else entry.default
            if value != default or entry.name == "reply_attempts":
                found[entry.name] = list(value) if isinstance(value, tuple) else value
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Llm):
    """What a person may decide about a run; the same names are keys of the TOML file and flags."""

    search: str = "era"
    task: str
    #: Who writes candidates; where nobody is named: the models, if there are any, else the offline mutator.
    proposer: str = ""
    #: Candidates to propose.
    iterations: int | None = None
    #: Caps, as `progevo.budget.Budget` explains them; minutes of wall time, US dollars, a value of the metric.
    max_evaluations: int | None = None
    max_minutes: float | None = None
    #: Of models: replies drawn, prompt and completion tokens, US dollars.
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    patience: int | None = None
    target: float | None = None
    #: Candidates in flight at a time.
    workers: int = 1
    #: serial, ordered, sync or async.
    schedule: str | None = None
    seed: int = 0
    #: The form of the sandbox: auto, warm, pool or cold.
    sandbox: str = "auto"
    #: Where candidates run: local, or dask://HOST:PORT. No part of what a score means.
    executor: str = "local"
    #: Runs of each program; what may be called best; how many of the best are scored on the held-out part.
    repeats: int = 1
    acceptance: str = "mean"
    top: int = 1
    #: A data file to use in place of the task's own.
    data: str | None = None
    #: The task's options by name (`progevo.options`).
    options: Mapping[str, str | int | float] = field(default_factory=dict)
    #: An OpenEvolve pair in place of a task: its program and evaluator, its YAML file, and what is left aside of that.
    openevolve: tuple[str, ...] = ()
    openevolve_config: str | None = None
    drop_key: tuple[str, ...] = ()
    #: The search's constants by name, where they differ from its own (`progevo.search.catalogue` knows them).
    constants: Mapping[str, Any] = field(default_factory=dict)
    #: Limits that differ from the task's own, by name.
    limits: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Llm.__post_init__(self)
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ConfigError(f"{name} is {value}; it must be at least {least}")
        apply_limits(Limits(), self.limits)
        if self.openevolve and len(self.openevolve) != 2:
            raise ConfigError("openevolve takes two files: the initial program and its evaluator")
        if self.proposer not in ("", "llm") and self.model:
            raise ConfigError(f"the proposer {self.proposer!r} asks no model; leave out --model or --proposer")
        if self.proposer == "llm" and not self.model:
            raise ConfigError("the proposer llm asks a model; name one with --model NAME")
        idle = self._idle()
        if idle:
            raise ConfigError(f"the proposer {self.chosen_proposer!r} has no use for {', '.join(idle)}; leave it out")

    def _idle(self) -> list[str]:
        """What is set about models, and would do nothing: they are not asked."""
        word = self.chosen_proposer.partition(":")[0]
        if word not in ("mutate", "recorded"):
            return []
        used = {"model", "base_url"}  # said above; may come from the environment
        if word == "recorded":
            used |= {"edit", "reply_attempts", "keep_replies"}
        caps = [name for name in ("max_calls", "max_tokens", "max_cost") if getattr(self, name) is not None]
        unset = Llm()
        changed = [
            entry.name for entry in dataclasses.fields(Llm) if getattr(self, entry.name) != getattr(unset, entry.name)
        ]
        return [name for name in (*changed, *caps) if name not in used]

    @property
    def llm(self) -> Llm:
        """The part that says how models are asked."""
        return Llm(**{entry.name: getattr(self, entry.name) for entry in dataclasses.fields(Llm)})

    @property
    def chosen_proposer(self) -> str:
        """Who writes candidates."""
        return self.proposer or ("llm" if self.model else "mutate")

    def given(self) -> dict[str, Any]:
        """As plain data, for `settings_of`: without what is not set, and with paths that hold in any folder."""
        found = {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, {}, ())}
        for entry in dataclasses.fields(Llm):
            found.pop(entry.name, None)
        word, colon, path = self.chosen_proposer.partition(":")
        found["proposer"] = f"{word}:{os.path.abspath(path)}" if colon else word
        if os.sep in self.task or self.task.endswith(".py"):
            found["task"] = os.path.abspath(self.task)
        if self.data is not None:
            found["data"] = os.path.abspath(self.data)
        return {**found, **(self.llm.table() if word in ("llm", "recorded") else {})}


def read_settings(
    file: Path | None, flags: Mapping[str, Any], beneath: Mapping[str, Any] = MappingProxyType({})
) -> Settings:
    """Settings from a TOML file and, before it, flags (where a flag is `None` it was not given); under both, `beneath`.

    Raises `ConfigError` for a file that cannot be read, a key that does not exist and a value of the wrong type.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if file is None:
        return settings_of(_merged(beneath, {}, given))
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the settings file {file} cannot be read: {complaint.of_reading(error)}") from None
    table.pop("ran_on", None)  # in the config.toml of a run: what it ran on is no setting
    try:
        return settings_of(_merged(beneath, table, given))
    except ConfigError as error:
        wrong, task = str(error), {name: value for name, value in given.items() if name == "task"}
        if wrong == _wrong(beneath, table, task):
            raise ConfigError(f"{file}: {wrong}") from None
        if wrong != _wrong(beneath, {}, {"task": table.get("task"), **given}):
            raise ConfigError(f"{wrong} (with the settings of {file})") from None
        raise


def _wrong(beneath: Mapping[str, Any], table: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """What is wrong with settings; empty where nothing is."""
    try:
        settings_of(_merged(beneath, table, given))
    except ConfigError as error:
        return str(error)
    return ""


def _merged(beneath: Mapping[str, Any], table: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = {
        **beneath,
        **table,
        **given,
        "limits": {**_table(beneath, "limits"), **_table(table, "limits"), **given.get("limits", {})},
        "options": {**_table(beneath, "options"), **_table(table, "options"), **given.get("options", {})},
        "constants": {**_table(beneath, "constants"), **_constants(table, given)},
    }
    merged.pop(C_PUCT, None)
    return merged


def settings_of(merged: Mapping[str, Any]) -> Settings:
    """Settings from plain data. Raises `ConfigError` as `read_settings` does."""
    known = [entry.name for entry in dataclasses.fields(Settings)]
    unknown = sorted(set(merged) - set(known))
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, n=1)
        meant = f"did you mean {near[0]}? There" if near else "there"
        raise ConfigError(f"unknown settings: {', '.join(unknown)}; {meant} are {', '.join(known)}")
    if "task" not in merged:
        raise ConfigError("no task was named; add --task NAME (progevo tasks lists them)")
    plain = dict(merged)
    for name in ("model", "temperature", "price"):
        if isinstance(plain.get(name), str | float | int):  # one is written without brackets
            plain[name] = [str(plain[name])]
    try:
        return msgspec.convert(plain, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(complaint.of_value(error, plain, Settings)) from None


def named(texts: Sequence[str], names: Sequence[str], option: str) -> dict[str, str]:
    """By name, what VALUE (for every name) and NAME=VALUE (for one, which wins) say. Raises `ConfigError`."""
    found: dict[str, str] = {}
    for text in sorted(texts, key=lambda text: "=" in text):
        name, equals, value = text.rpartition("=")
        if equals and name not in names:
            raise ConfigError(f"--{option} names {name!r}, which is no model of this run ({', '.join(names)})")
        found |= dict.fromkeys((name,) if equals else names, value)
    return found


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def check_base_url(url: str) -> None:
    """Raises `ConfigError` for what is no base URL, and for one that would carry a secret into the run folder."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"the base URL {url!r} is none; it is like http://127.0.0.1:8080/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            "the base URL holds a user, a query or a fragment, which would be written into the run folder; "
            "a key belongs into OPENAI_API_KEY"
        )


def apply_limits(limits: Limits, changes: Mapping[str, float]) -> Limits:
    """`limits` with some changed. Raises `ConfigError` for a name that is none and a value that cannot be one."""
    names = [entry.name for entry in dataclasses.fields(Limits)]
    whole = {name for name in names if name != "wall_s"}
    for name, value in changes.items():
        if name not in names:
            raise ConfigError(f"there is no limit {name!r}; the limits are {', '.join(names)}")
        if not 0 < value < 2**62 or (name in whole and value != int(value)):
            raise ConfigError(f"the limit {name} is {value}; it must be a {'whole ' * (name in whole)}number above 0")
    typed: dict[str, Any] = {name: int(value) if name in whole else float(value) for name, value in changes.items()}
    return dataclasses.replace(limits, **typed)


def _holds_none(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_none, value.values()))
    return value is None or (isinstance(value, list) and any(map(_holds_none, value)))


def _holds_no_number(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_no_number, value.values()))
    if isinstance(value, list):
        return any(map(_holds_no_number, value))
    return isinstance(value, float) and not math.isfinite(value)


def _above_0(name: str, value: float | None) -> None:
    if value is not None and not 0 < value <= MOST:
        raise ConfigError(f"{name} is {value}; it must be a number above 0, and at most {MOST}")


def _constants(table: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The table `[constants]` and, before it, flags; `c_puct` may also stand outside the table, but not in both."""
    merged: dict[str, Any] = {}
    for source in (table, given):
        constants = _table(source, "constants")
        merged.update(constants)
        if C_PUCT in source:
            if constants.get(C_PUCT, source[C_PUCT]) != source[C_PUCT]:
                raise ConfigError(
                    f"{C_PUCT} is {source[C_PUCT]} by itself and {constants[C_PUCT]} among the constants; give it once"
                )
            merged[C_PUCT] = source[C_PUCT]
    return merged


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{name} must be a table, [{name}]; it is {found!r}")
    return found
