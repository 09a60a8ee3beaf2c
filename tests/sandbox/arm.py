"""Runs jobs in a sandbox and prints how they ended: one arm of the boundary tests, started as root or as nobody.

Standard input holds JSON: {"profile", "form", "jobs": [{"source", "limits", "request", "files"}, ...]}. A job with
"problems" gets a black box in place of the request (`plain_functions`, with "budget" calls each). The other keys take
one guarantee away, for twins that show an attack working without it:

    "drop": sequences of parts to leave out of bwrap's command
    "add": parts to put in; {"path": P} is a host path to be bound
    "environment": variables to let through
    "without": texts to cut out of what runs inside

"together": true runs all jobs at once. "keyring": true gives this process a session keyring, as a log-in does. "bwrap"
names another one to use.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from progevo.sandbox import launch, runner
from progevo.sandbox.bubblewrap import Bubblewrap
from progevo.sandbox.profile import ENVIRONMENT, load_profile
from progevo.types import BlackBox, Inputs, Job, Limits, Program

INSIDE = ("runner.py", "powers.py", "nursery.py", "zygote.py")


def weaken(plan: dict[str, Any], folder: Path) -> None:
    """Takes away from the sandbox what the plan says."""
    whole = launch.command

    def command(*arguments: Any) -> list[launch.Part]:
        parts = whole(*arguments)
        for gone in plan.get("drop", ()):
            (at,) = [n for n in range(len(parts)) if [str(part) for part in parts[n : n + len(gone)]] == gone]
            del parts[at : at + len(gone)]
        at = parts.index("--ro-bind")
        added = [Path(part["path"]) if isinstance(part, dict) else part for part in plan.get("add", ())]
        return [*parts[:at], *added, *parts[at:]]

    launch.command = command  # type: ignore[assignment]
    ENVIRONMENT.update(plan.get("environment", {}))
    if "without" in plan:
        shutil.copytree(launch.ROOM, folder, dirs_exist_ok=True)
        for gone in plan["without"]:
            (file,) = [folder / name for name in INSIDE if (folder / name).read_text().count(gone) == 1]
            file.write_text(file.read_text().replace(gone, ""))
        launch.ROOM = folder


def main() -> None:
    plan = json.load(sys.stdin)
    if plan.get("keyring"):
        runner.leave_keyrings()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        weaken(plan, Path(folder))
        box = Bubblewrap(load_profile(plan["profile"]), plan["form"], bwrap=plan.get("bwrap"))
        with ThreadPoolExecutor(len(plan["jobs"]) if plan.get("together") else 1) as pool:
            executions = list(pool.map(box.run, map(job_of, plan["jobs"])))
        box.close()
    told = [
        {
            "status": done.status,
            "value": done.answer and done.answer.value,
            "counts": done.answer and [[count.calls, count.refused] for count in done.answer.counts],
            "handed_in": done.answer and [[count.value, count.candidate_cpu_s] for count in done.answer.counts],
            "reason": done.reason,
            "log": done.log_tail,
        }
        | dataclasses.asdict(done.usage)
        for done in executions
    ]
    json.dump({"uid": os.geteuid(), "executions": told}, sys.stdout)


def job_of(job: dict[str, Any]) -> Job:
    here = Path(__file__)
    files = {name: Path(path) for name, path in job.get("files", {}).items()}
    box = None
    if "problems" in job:
        functions = here.with_name("plain_functions.py")
        box = BlackBox(
            file=functions,
            problems=tuple(job["problems"]),
            arity=2,
            budget=job.get("budget", 100),
            in_turn=job.get("in_turn", False),
        )
    return Job(
        program=Program(job["source"]),
        entrypoint="solve",
        harness=here.with_name("plain_harness.py"),
        inputs=Inputs(request=job.get("request", {}), files=files, black_box=box),
        limits=Limits(**{"wall_s": 20.0, "cpu_s": 10, **job.get("limits", {})}),
    )


if __name__ == "__main__":
    main()
