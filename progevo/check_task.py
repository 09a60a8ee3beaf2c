"""check-task: tries a task as its author would have to, and says in plain words what is wrong with it.

What it finds out by running programs, it finds out in the sandbox, as a search would. Nothing here can show that a task
is right; each check is a mistake that people have made.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from progevo import gate, prompt
from progevo.domain import SEARCH, TEST, Domain
from progevo.edit import regions
from progevo.errors import ConfigError, ProgevoError
from progevo.evaluate import evaluate
from progevo.holdout import check_parts
from progevo.sandbox import Sandbox
from progevo.types import Candidate, GatePolicy, Outcome, Program
from progevo.wrong_programs import ECHO, NONSENSE, SPOIL, SPOILT_BY, SPY

#: `note` is worth a look; only `wrong` is a no.
Word = Literal["ok", "note", "wrong"]

#: How long the program that never ends may run: long enough for a busy machine to start it.
ENDLESS_S = 3
#: A seed that uses more of a limit than this leaves little room for better programs.
MUCH = 0.5
#: How close a metric and what its own cases say must be, relative to the larger.
CLOSE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one look at a task has shown."""

    about: str
    word: Word
    text: str


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A task on trial, in a sandbox of its own profile."""

    domain: Domain
    box: Sandbox

    def run(self, source: str, split: str = SEARCH, domain: Domain | None = None) -> Outcome:
        """What becomes of a program, by the task's own gate and limits unless another domain is given."""
        candidate = Candidate(program=Program(source), origin="check-task")
        return evaluate(domain or self.domain, candidate, split, self.box)

    def unscreened(self, source: str, **limits: float) -> Outcome:
        """What becomes of a program that no gate looks at."""
        changed = {name: type(getattr(self.domain.limits, name))(value) for name, value in limits.items()}
        policy = GatePolicy(imports=frozenset(), permissive=True)
        return self.run(source, domain=replace(self.domain, gate=policy, limits=replace(self.domain.limits, **changed)))

    def answering(self, text: str) -> Outcome:
        """What becomes of a program that always gives the same answer."""
        return self.unscreened(f"def {self.domain.entrypoint}(*args, **kwargs):\n    return {text}\n")


def check_task(make: Callable[[], Domain], open_box: Callable[[str], Sandbox]) -> list[Finding]:
    """All that was found, in the order of looking; with a first word of `wrong` where no task could be made at all.

    Args:
        make: makes the task; it is asked twice.
        open_box: opens a sandbox for a profile.

    Raises `SandboxUnavailable` where nothing can be run at all.
    """
    try:
        domain, again = make(), make()
    except ProgevoError as error:
        return [Finding(about="loading", word="wrong", text=str(error))]
    found = [*_loaded(domain, again), *_prompt(domain), *_parts(domain), *_seed_text(domain)]
    if found[-1].word == "wrong":
        return [*found, Finding(about="the rest", word="note", text="was not tried: there is no seed program to run")]
    found += _moves(domain)
    try:
        box = open_box(domain.profile)
    except ConfigError as error:
        return [*found, Finding(about="sandbox", word="wrong", text=str(error))]
    try:
        trial = Trial(domain=domain, box=box)
        seed = trial.run(domain.seed.source)
        found += _seed(trial, seed)
        if seed.ok:
            found += _room(domain, seed)
            found += _metric(domain, seed)
            found += _again(trial, seed)
            found += _endless(trial)
            found += _truth(trial, seed)
            found += _nonsense(trial, seed)
            found += _spoilt(trial, seed)
    except ConfigError as error:
        found.append(Finding(about="sandbox", word="wrong", text=str(error)))
    finally:
        box.close()
    return found


def _loaded(domain: Domain, again: Domain) -> Iterator[Finding]:
    try:
        same = [
            domain.evaluator.inputs(split).request == again.evaluator.inputs(split).request for split in domain.splits
        ]
    except Exception as error:
        text = f"its evaluator cannot give the inputs of its splits: {type(error).__name__}: {error}"
        yield Finding(about="loading", word="wrong", text=text)
        return
    if all(same) and domain.seed == again.seed:
        yield Finding(about="loading", word="ok", text=f"domain() makes {domain.name!r}, the same one twice")
    else:
        text = "domain() makes another task when it is called again; draw cases from a generator with a fixed seed"
        yield Finding(about="loading", word="wrong", text=text)


def _prompt(domain: Domain) -> Iterator[Finding]:
    name = re.escape(domain.entrypoint)
    try:
        prompt.first(domain)
    except ConfigError as error:
        yield Finding(about="prompt", word="wrong", text=str(error))
        return
    if not domain.prompt.strip():
        text = "there is none; the offline mutator needs none, but a model will not know what to do"
        yield Finding(about="prompt", word="note", text=text)
    elif not re.search(rf"\b{name}\s*\(|\bclass\s+{name}\b|`{name}`", domain.prompt):
        text = f"it never names {domain.entrypoint!r}, which every program must define; a model cannot guess it"
        yield Finding(about="prompt", word="wrong", text=text)
    else:
        yield Finding(
            about="prompt", word="ok", text=f"{len(domain.prompt.split())} words, names {domain.entrypoint!r}"
        )


def _seed_text(domain: Domain) -> Iterator[Finding]:
    try:
        regions(domain.seed.source)
    except ConfigError as error:
        yield Finding(about="markers", word="wrong", text=f"in the seed program {error}")
    verdict = gate.check(domain.seed.source, domain.gate, domain.entrypoint)
    if verdict.ok:
        yield Finding(
            about="entry point", word="ok", text=f"the seed defines {domain.entrypoint!r} and passes the gate"
        )
    else:
        first = verdict.findings[0]
        text = f"the gate refuses the seed program, line {first.line}: {first.message}"
        yield Finding(about="entry point", word="wrong", text=text)


def _moves(domain: Domain) -> Iterator[Finding]:
    idle = []
    for move in domain.moves:
        made = []
        for draw in range(5):
            try:
                made.append(move.rewrite(domain.seed.source, random.Random(draw)))
            except Exception as error:
                text = f"{move.name!r} raises {type(error).__name__} on the seed: {error}; it should say None"
                yield Finding(about="moves", word="wrong", text=text)
                break
        for source in made:
            if source is not None and not (verdict := gate.check(source, domain.gate, domain.entrypoint)).ok:
                text = f"{move.name!r} makes of the seed what the gate refuses: {verdict.findings[0].message}"
                yield Finding(about="moves", word="wrong", text=text)
                break
        if made and not any(made):
            idle.append(move.name)
    if domain.moves:
        text = f"{len(domain.moves) - len(idle)} of {len(domain.moves)} apply to the seed"
        yield Finding(about="moves", word="ok" if len(idle) < len(domain.moves) else "note", text=text)


def _parts(domain: Domain) -> Iterator[Finding]:
    if TEST not in domain.splits:
        text = "there is no test part: nothing will tell a gain on search from luck"
        yield Finding(about="parts", word="note", text=text)
        return
    try:
        check_parts(domain)
    except ProgevoError as error:
        yield Finding(about="parts", word="wrong", text=str(error))
        return
    search, test = (domain.evaluator.inputs(split) for split in (SEARCH, TEST))
    known = {SEARCH, TEST} <= domain.case_ids.keys()
    if (search.request, search.files) == (test.request, test.files) and (search.request or search.files):
        text = "programs are given the same for search and for test: the test part would hold nothing back"
        yield Finding(about="parts", word="wrong", text=text)
    elif not known:
        text = "the task does not say what identifies its cases (case_ids), so a case in both parts would go unseen"
        yield Finding(about="parts", word="note", text=text)
    else:
        text = f"{len(domain.case_ids[SEARCH])} search and {len(domain.case_ids[TEST])} test cases, none in both"
        yield Finding(about="parts", word="ok", text=text)


def _seed(trial: Trial, seed: Outcome) -> Iterator[Finding]:
    """What the seed is worth on every part."""
    metric = trial.domain.metric
    values = []
    for split in trial.domain.splits:
        outcome = seed if split == SEARCH else trial.run(trial.domain.seed.source, split)
        if not outcome.ok:
            text = f"the seed ends as {outcome.status} on the {split} part: {outcome.reason}"
            yield Finding(about="seed", word="wrong", text=text)
            return
        values.append(f"{metric.name} {metric.value(outcome.score):.6g} on {split}")
    yield Finding(about="seed", word="ok", text=", ".join(values))


def _room(domain: Domain, seed: Outcome) -> Iterator[Finding]:
    usage, limits = seed.usage, domain.limits
    shares = {
        "wall_s": (usage.wall_s, limits.wall_s),
        "cpu_s": (usage.cpu_s, limits.cpu_s),
        "memory_bytes": (usage.max_rss_bytes, limits.memory_bytes),
    }
    used = {name: part / whole for name, (part, whole) in shares.items() if part is not None}
    text = "the seed uses " + ", ".join(f"{100 * share:.0f} % of {name}" for name, share in used.items())
    if any(share > MUCH for share in used.values()):
        yield Finding(about="limits", word="note", text=f"{text}: little is left for better programs")
    else:
        yield Finding(about="limits", word="ok", text=text)


def _metric(domain: Domain, seed: Outcome) -> Iterator[Finding]:
    """Whether the metric is what the task's own cases say, sign included."""
    metric, value = domain.metric, domain.metric.value(seed.score)
    about = "score direction"
    if metric.aggregate is None or not seed.cases:
        if metric.direction == "minimize" and value < 0:
            text = (
                f"{metric.name} is {value:.6g} and to be minimized; a score is larger-is-better: return minus an error"
            )
            yield Finding(about=about, word="note", text=text)
        text = "the score has no values by case, so no gain can be told from noise (Score.cases, Metric.aggregate)"
        yield Finding(about="cases", word="note", text=text)
        return
    mean = math.fsum(seed.cases) / len(seed.cases)
    if metric.aggregate == "root_mean" and mean < 0:
        text = f"the mean of the cases is {mean:.6g}, and no root of it can be {metric.name}"
        yield Finding(about="cases", word="wrong", text=text)
        return
    expected = math.sqrt(mean) if metric.aggregate == "root_mean" else mean
    if math.isclose(value, expected, rel_tol=CLOSE, abs_tol=1e-12):
        text = f"{metric.name} is the {metric.aggregate.replace('_', ' ')} of {len(seed.cases)} cases"
        yield Finding(about="cases", word="ok", text=text)
    elif math.isclose(value, -expected, rel_tol=CLOSE):
        text = (
            f"the sign is wrong: the cases say {metric.name} {expected:.6g}, the score {value:.6g};"
            " a score is larger-is-better, so return minus a metric that is to be minimized"
        )
        yield Finding(about=about, word="wrong", text=text)
    else:
        text = f"the cases say {metric.name} {expected:.6g} ({metric.aggregate}), the score says {value:.6g}"
        yield Finding(about="cases", word="wrong", text=text)


def _again(trial: Trial, seed: Outcome) -> Iterator[Finding]:
    again = trial.run(trial.domain.seed.source)
    if trial.domain.noisy:
        yield Finding(about="determinism", word="note", text="the task says that scores differ from run to run (noisy)")
    elif (again.answer_id, again.score) == (seed.answer_id, seed.score):
        yield Finding(about="determinism", word="ok", text="the seed gave the same answers and score twice")
    else:
        what = "answers" if again.answer_id != seed.answer_id else "scores for the same answers"
        text = f"the seed gave other {what} the second time; fix every random state, or say noisy=True"
        yield Finding(about="determinism", word="wrong", text=text)


def _endless(trial: Trial) -> Iterator[Finding]:
    """Whether a program that never ends is ended."""
    source = f"def {trial.domain.entrypoint}(*args, **kwargs):\n    while True:\n        pass\n"
    outcome = trial.unscreened(source, wall_s=ENDLESS_S)
    if outcome.status in ("timeout", "cpu_limit"):
        text = f"a program that never ends is ended, as {outcome.status}"
        yield Finding(about="limits", word="ok", text=text)
    else:
        text = f"a program that never ends came out as {outcome.status}: is the entry point called at all?"
        yield Finding(about="limits", word="wrong", text=text)


def _truth(trial: Trial, seed: Outcome) -> Iterator[Finding]:
    """Whether a candidate can get at the task's own files, or is handed the answers with the question."""
    domain = trial.domain
    files = sorted({os.fspath(path.resolve()) for path in _own_files(domain)})
    modules = ["progevo", *sorted({path.stem for path in domain.sources if path.suffix == ".py"} & {"task"})]
    outcome = trial.unscreened(SPY.format(entry=domain.entrypoint, paths=files, modules=modules))
    line = next((line for line in outcome.log_tail.splitlines() if line.startswith("spy: ")), None)
    about = "truth"
    if line is None:
        text = f"the program that looks for the task's files ended as {outcome.status} without a word: {outcome.reason}"
        yield Finding(about=about, word="wrong", text=text)
        return
    seen = json.loads(line.removeprefix("spy: "))
    given = _given(domain)
    reached = [*seen["readable"], *(f"the module {name}" for name in seen["importable"]), *given]
    if reached:
        text = f"candidates can read {', '.join(reached[:3])}: whoever reads the task's files knows its answers"
        yield Finding(about=about, word="wrong", text=text)
    else:
        yield Finding(about=about, word="ok", text=f"none of the task's {len(files)} files can be read by a candidate")
    yield from _echo(trial, seed, seen["parts"])


def _own_files(domain: Domain) -> Iterator[Path]:
    yield from domain.sources
    for folder in {path.parent for path in domain.sources if path.name == "task.py"}:
        yield from (path for path in folder.iterdir() if path.is_file())


def _given(domain: Domain) -> list[str]:
    """Files of the task's own that are handed to the candidate, by name or by content."""
    own = {path.read_bytes() for path in domain.sources if path.suffix == ".py" and path.is_file()}
    found = []
    for split in domain.splits:
        for name, path in domain.evaluator.inputs(split).files.items():
            if os.path.isfile(path) and path.read_bytes() in own:
                found.append(f"the input {name}")
    return found


def _echo(trial: Trial, seed: Outcome, parts: Sequence[Sequence[str | int]]) -> Iterator[Finding]:
    """Whether some part of a question is its answer."""
    metric, about = trial.domain.metric, "truth"
    for path in parts:
        outcome = trial.unscreened(ECHO.format(entry=trial.domain.entrypoint, path=list(path)))
        if not outcome.ok or outcome.score <= seed.score:
            continue
        where = f"argument {path[0]}" + "".join(f"[{part!r}]" for part in path[1:])
        value = metric.value(outcome.score)
        if metric.direction == "minimize" and value == 0.0:
            text = f"handing back {where} scores {metric.name} 0: the question holds its own answer"
            yield Finding(about=about, word="wrong", text=text)
        else:
            text = f"handing back {where} is better than the seed ({metric.name} {value:.6g}): does it hold the answer?"
            yield Finding(about=about, word="note", text=text)
        return
    yield Finding(about=about, word="ok", text="no part of a question does as well as the seed when it is handed back")


def _nonsense(trial: Trial, seed: Outcome) -> Iterator[Finding]:
    """Whether a wrong program fails, or at least is worth less than the seed."""
    about = "wrong programs"
    entry = trial.domain.entrypoint
    wrong = {name: trial.answering(text) for name, text in NONSENSE.items()}
    wrong["an exception"] = trial.unscreened(f"def {entry}(*args, **kwargs):\n    raise ValueError('wrong')\n")
    wrong["no entry point"] = trial.run("x = 1\n")
    bad = [name for name, outcome in wrong.items() if outcome.ok and outcome.score >= seed.score]
    if bad:
        text = f"a program that answers {', '.join(bad)} is worth as much as the seed: raise BadOutput for such answers"
        yield Finding(about=about, word="wrong", text=text)
    stumbles = {name: outcome.reason for name, outcome in wrong.items() if "the scorer raised" in outcome.reason}
    for name, reason in list(stumbles.items())[:1]:
        text = f"on {name}, {reason.removeprefix('invalid: ')}; such a program fails, but BadOutput would say why"
        yield Finding(about=about, word="note", text=text)
    if not bad:
        failed = sum(not outcome.ok for outcome in wrong.values())
        text = f"of {len(wrong)} kinds of nonsense {failed} fail and the others are worth less than the seed"
        if failed == len(wrong):
            text = f"{len(wrong)} kinds of nonsense all fail"
        yield Finding(about=about, word="ok", text=text)


def _spoilt(trial: Trial, seed: Outcome) -> Iterator[Finding]:
    """Whether answers far off the seed's are worth less: else the sign is wrong, or a claim is believed."""
    domain, about = trial.domain, "score direction"
    outcomes = [
        trial.unscreened(domain.seed.source + SPOIL.format(entry=domain.entrypoint, amount=amount))
        for amount in SPOILT_BY
    ]
    better = [outcome.ok and outcome.score > seed.score for outcome in outcomes]
    what = f"{SPOILT_BY[0]} added to every number of the seed's answers, or taken from it,"
    if all(better):
        text = f"{what} makes them worth more: a score is larger-is-better, so return minus an error"
        yield Finding(about=about, word="wrong", text=text)
    elif any(better):
        text = f"{what} makes them worth more one way: does the score believe what it is told?"
        yield Finding(about=about, word="note", text=text)
    elif all(outcome.ok and outcome.score == seed.score for outcome in outcomes):
        text = f"{what} changes nothing: the score seems not to depend on them"
        yield Finding(about=about, word="note", text=text)
    else:
        verb = "makes them worth less" if any(outcome.ok for outcome in outcomes) else "has them refused"
        yield Finding(about=about, word="ok", text=f"{what} {verb}")
