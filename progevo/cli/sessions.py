"""One session of a run, as every command leads it: the settings, the task they name, and what is heard and written."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from progevo.cli.budgets import budget_of
from progevo.cli.group import draining
from progevo.cli.pairs import pair_domain
from progevo.cli.problems import the_problem
from progevo.errors import ConfigError, ProgevoError, RunError

if TYPE_CHECKING:
    from progevo.budget import Budget
    from progevo.config import Settings
    from progevo.domain import Domain

Result = dict[str, Any]
#: Prints a result.
Tell = Callable[[Result], None]


def lead(
    settings: Settings,
    domain: Domain,
    budget: Budget,
    folder: Path,
    start: Callable[..., Result],
    tell: Tell,
) -> Result:
    """Opens a run's proposer, shows progress, hears interrupts, tells its result, writes a page, and exits with 130
    where it was interrupted.
    """
    from progevo.holdout import blind
    from progevo.progress import open_progress
    from progevo.propose import close
    from progevo.propose.open import open_proposer
    from progevo.report import write_page

    progress = open_progress()
    proposer = open_proposer(
        settings.chosen_proposer, blind(domain), llm=settings.llm, budget=budget, folder=folder, say=progress.say
    )
    with draining() as stop:
        try:
            result = start(proposer=proposer, progress=progress, stop=stop)
            whole = not stop.is_set()
        except ProgevoError:  # what was found until then is there to be looked at
            with contextlib.suppress(RunError):
                write_page(folder)
            raise
        finally:
            close(proposer)
            progress.close()
            failure = sys.exc_info()[1]
            if failure is not None and not isinstance(failure, ConfigError):  # a mistake would only be made again
                progress.unfinished()
    tell(result)
    write_page(folder)
    progress.done(result["stop_reason"] if whole else None)
    if not whole:
        sys.exit(130)
    return result


def begin(settings: Settings, domain: Domain, folder: Path, tell: Tell) -> Result:
    """A new run, led to its end."""
    from progevo.run import run as start

    budget = budget_of(settings)
    return lead(
        settings,
        domain,
        budget,
        folder,
        lambda **session: start(
            domain,
            search=settings.search,
            constants=settings.constants,
            budget=budget,
            workers=settings.workers,
            schedule=settings.schedule,
            seed=settings.seed,
            repeats=settings.repeats,
            acceptance=settings.acceptance,
            top=settings.top,
            sandbox=settings.sandbox,
            executor=settings.executor,
            out=folder,
            settings=settings.given(),
            **session,
        ),
        tell,
    )


def go_on(
    settings: Settings,
    folder: Path,
    tell: Tell,
    *,
    more: int = 0,
    caps: Mapping[str, Any] = MappingProxyType({}),
    allowed: Sequence[str] = (),
    workers: int | None = None,
) -> Result:
    """A run that is there, led to its end."""
    from dataclasses import replace

    from progevo.journal import read_run
    from progevo.run import resume

    domain = domain_of_settings(settings)
    return lead(
        settings,
        domain,
        replace(read_run(folder).budget, **caps),
        folder,
        lambda **session: resume(
            folder,
            domain,
            more=more,
            budget=caps,
            workers=workers,
            allow_drift=allowed,
            sandbox=settings.sandbox,
            executor=settings.executor,
            **session,
        ),
        tell,
    )


def begin_or_go_on(settings: Settings, folder: Path) -> Result:
    """One run of several: one that is finished stays, one that was cut short goes on."""
    from progevo.compare import UNFINISHED
    from progevo.journal import FILE, read_run
    from progevo.run import report

    if not os.path.exists(folder / FILE):
        return begin(settings, domain_of_settings(settings), folder, lambda result: None)
    if read_run(folder).stop_reason not in UNFINISHED:
        return report(folder)
    return go_on(settings, folder, lambda result: None)


def settings_of_run(folder: Path, task: str | None, data: Path | None) -> Settings:
    """The settings of a run that is there; its task and data may have moved since."""
    from progevo.config import settings_of
    from progevo.journal import read_run

    first = read_run(folder).start
    assert first is not None
    moved = {"task": task, "data": str(data) if data is not None else None}
    given = {**first.settings, **{name: value for name, value in moved.items() if value is not None}}
    if "task" not in given:
        raise ConfigError(f"{folder} was run from Python: go on with it by progevo.resume, or name its task (--task)")
    return settings_of(given)


def domain_of(task: str | None, data: Path | None, options: dict[str, Any] | None) -> Domain:
    """The task, or the one problem of it, that the flags of a command name."""
    return domain_of_settings(problem_of(task, data, options))


def problem_of(task: str | None, data: Path | None, options: dict[str, Any] | None) -> Settings:
    """The settings for the one problem that the flags of a command name. Raises `ConfigError`."""
    from progevo.config import read_settings

    flags = {"task": task, "data": str(data) if data is not None else None, "options": options}
    return the_problem(read_settings(None, flags))


def domain_of_settings(settings: Settings) -> Domain:
    from dataclasses import replace

    from progevo.config import apply_limits
    from progevo.domain import find_domain

    if settings.openevolve:
        domain = pair_domain(settings)
    else:
        data = Path(settings.data) if settings.data is not None else None
        domain = find_domain(settings.task, data=data, options=settings.options)
    return replace(domain, limits=apply_limits(domain.limits, settings.limits))
