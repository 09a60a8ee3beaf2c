"""The Bubblewrap backend: one cell for every candidate, by one of three forms.

warm   a zygote has imported everything; a child of its own, jailed in new namespaces, for every candidate
pool   a whole sandbox for every candidate, started and imported ahead
cold   a whole sandbox for every candidate, started when it is needed
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import platform
import shutil
import subprocess
import threading
import warnings
from collections.abc import Iterator
from typing import Literal

from progevo.errors import ConfigError, SandboxUnavailable
from progevo.sandbox import Confinement, cgroup, wire
from progevo.sandbox.answerer import Answerers
from progevo.sandbox.cell import Alive, InUse, Lost
from progevo.sandbox.cgroup import NO_ACCOUNT, Account
from progevo.sandbox.interpreter import find_interpreter
from progevo.sandbox.launch import STATUS_S, Launcher, Surroundings
from progevo.sandbox.outcome import clean, execution
from progevo.sandbox.profile import Profile
from progevo.sandbox.source import Fresh, Source, Zygote, mounts
from progevo.sandbox.syscalls import MACHINES, OPTIONAL, filter_for
from progevo.sandbox.watch import frames_of, watch
from progevo.types import Execution, Job, Json, Limits

Form = Literal["warm", "pool", "cold"]

CLOSED = Execution(status="sandbox_lost", reason="the sandbox was closed from outside")


class Bubblewrap:
    """A `Sandbox` by the `bwrap` command. Raises `SandboxUnavailable` where there is none."""

    def __init__(self, profile: Profile, form: Form = "cold", *, bwrap: str | None = None) -> None:
        found = shutil.which(bwrap or "bwrap")
        if found is None:
            raise SandboxUnavailable(
                "candidates run only in a sandbox, and Bubblewrap (the command bwrap) is not on the PATH;"
                " install it: apt-get install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap"
                " or apk add bubblewrap"
            )
        unknown = sorted(set(profile.refused_calls) - set(OPTIONAL))
        if unknown:
            raise ConfigError(
                f"the profile {profile.name!r} refuses calls that it cannot name: {', '.join(unknown)};"
                f" it may name {', '.join(OPTIONAL)}"
            )
        program = filter_for(platform.machine(), profile.refused_calls)
        if program is None:
            raise SandboxUnavailable(
                f"there is no system-call filter for the machine {platform.machine()!r}; progevo has one for"
                f" {', '.join(sorted(MACHINES))}"
            )
        self._filter, self._profile, self._form = program, profile, form
        self._launcher = Launcher(bwrap=os.path.realpath(found), profile=profile, interpreter=find_interpreter())
        #: Sources that no run uses right now, each for its own surroundings.
        self._idle: list[tuple[Surroundings, Source]] = []
        #: As the first sandbox that was started has found; a probe starts one before anybody asks.
        self._refused: dict[str, Json] = {}
        self._cgroups = cgroup.find()
        self._cells = InUse()
        self._answerers = Answerers()
        self._lock = threading.Lock()

    @functools.cached_property
    def _version(self) -> str:
        """Asked for only once a sandbox has run: a bwrap that hangs would do so here, too. Empty if it does not say."""
        command = [self._launcher.bwrap, "--version"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env={}, check=False, timeout=STATUS_S)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout.strip().removeprefix("bubblewrap ")

    @property
    def confinement(self) -> Confinement:
        return Confinement(
            backend="bubblewrap",
            rung=self._form,
            version=self._version,
            kernel=platform.release(),
            profile=self._profile.name,
            limits_refused=dict(self._refused),
            counted_by=f"cgroup {self._cgroups.version}" if self._cgroups is not None else "the watch",
        )

    def run(self, job: Job) -> Execution:
        self._profile.check(job)
        surroundings = Surroundings.of(job)
        try:
            with self._answerers.asked(job) as talk:
                frames = frames_of(job, dataclasses.asdict(job.limits), talk)
                with (
                    self._source(surroundings) as source,
                    self._cells.hold(source.take()) as cell,
                    self._account(source, job.limits) as account,
                ):
                    ending = watch(cell, job.limits, frames, talk, account)
                    self._refused.update(ending.refused)
                talk.end()
        except Alive as error:  # what has made the cell has been ended as well
            return Execution(status="sandbox_lost", reason=str(error))
        except (Lost, OSError) as error:
            return CLOSED if self._cells.closed else Execution(status="sandbox_lost", reason=clean(str(error), 500))
        return CLOSED if self._cells.closed else execution(ending, job.limits, talk.found)

    def _account(self, source: Source, limits: Limits) -> contextlib.AbstractContextManager[Account]:
        """An account that the kernel keeps of one candidate, where it does that for this user."""
        if self._cgroups is None:
            return contextlib.nullcontext(NO_ACCOUNT)
        limit_bytes = limits.memory_bytes + limits.scratch_bytes + self._profile.shm_bytes
        if isinstance(source, Zygote) and source.account is not None:
            return contextlib.nullcontext(source.account.admit(limit_bytes))
        return self._cgroups.opened(limit_bytes)

    def close(self) -> None:
        self._cells.close()
        with self._lock:
            idle, self._idle = self._idle, []
        alive = []
        for _, source in idle:
            try:
                source.close()
            except Alive as error:  # it waited, and holds nothing of a candidate's
                alive.append(str(error))
        self._answerers.close()
        if self._cgroups is not None:
            self._cgroups.close()
        if alive:
            warnings.warn("; ".join(alive), RuntimeWarning, stacklevel=2)

    @contextlib.contextmanager
    def _source(self, surroundings: Surroundings) -> Iterator[Source]:
        """A source of this run's own for a while: an idle one, or a new one."""
        with self._lock:
            if self._cells.closed:
                raise Lost("closed")
            same = [entry for entry in self._idle if entry[0] == surroundings]
            if same:
                self._idle.remove(same[-1])
            # Those that wait for other surroundings (the search part, once the test part is scored) are not needed.
            others = [entry for entry in self._idle if entry[0] != surroundings]
            self._idle = [entry for entry in self._idle if entry[0] == surroundings]
        for _, other in others:
            other.close()
        source = same[-1][1] if same else self.new_source(surroundings)
        try:
            yield source
            source.prepare()
        except BaseException:
            source.close()
            raise
        with self._lock:
            if not self._cells.closed:
                self._idle.append((surroundings, source))
                return
        source.close()

    def new_source(self, surroundings: Surroundings) -> Source:
        """Where the cells of one candidate after another come from."""
        told = wire.encode(
            {
                "packages": self._launcher.packages,
                "preload": list(self._profile.preload),
                "seed": 0,
                "filter": self._filter.hex(),
                "mounts": mounts(self._launcher, surroundings),
            }
        )
        if self._form == "warm":
            return Zygote(self._launcher, surroundings, told, self._cgroups)
        return Fresh(self._launcher, surroundings, told, ahead=self._form == "pool")
