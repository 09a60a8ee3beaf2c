"""Runs jobs in a sandbox and prints how they ended: one arm of the boundary tests, started as root or as nobody.

Standard input holds a plan in JSON, or, with the argument "serve", one a line:
{"profile", "form", "jobs": [{"source", "limits", "request", "files"}, ...]}. A job with "problems" gets a black box in
place of the request (`plain_functions`, with "budget" calls each), one with "watch", which holds the fields of a
`Stopwatch`, a stopwatch. The other keys take one guarantee away, for twins that show an attack working without it:

    "drop": sequences of parts to leave out of bwrap's command
    "add": parts to put in; {"path": P} is a host path to be bound
    "environment": variables to let through
    "without": texts to cut out of what runs inside

"together": true runs all jobs at once; the last of them has ended once something is in the file "ring". "keyring": true
gives this process a session keyring, as a log-in does. "bwrap" names another one to use.

Who serves has imported everything, does nothing else, and forks for each plan: a host that runs one plan and then comes
to its end as any process does. Each plan is answered with a line of JSON: {"code", "out", "err"}.
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
from progevo.types import BlackBox, Inputs, Job, Limits, Program, Stopwatch

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


def serve() -> None:
    """Answers plans until there are no more. A fork returns from here, as a host of its own."""
    for line in sys.stdin:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            host = os.fork()
            if host == 0:
                with open(os.devnull, "rb") as nothing:
                    for file, number in ((nothing, 0), (out, 1), (err, 2)):
                        os.dup2(file.fileno(), number)
                run(json.loads(line))
                return
            code = os.waitstatus_to_exitcode(os.waitpid(host, 0)[1])
            out.seek(0)
            err.seek(0)
            print(json.dumps({"code": code, "out": out.read().decode(), "err": err.read().decode()}), flush=True)


def run(plan: dict[str, Any]) -> None:
    if plan.get("keyring"):
        runner.leave_keyrings()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        weaken(plan, Path(folder))
        box = Bubblewrap(load_profile(plan["profile"]), plan["form"], bwrap=plan.get("bwrap"))
        with ThreadPoolExecutor(len(plan["jobs"]) if plan.get("together") else 1) as pool:
            running = [pool.submit(box.run, job_of(job)) for job in plan["jobs"]]
            if "ring" in plan:
                running[-1].result()
                Path(plan["ring"]).write_text("done")
            executions = [each.result() for each in running]
        box.close()
    told = [
        {
            "status": done.status,
            "value": done.answer and done.answer.value,
            "timings": done.answer
            and [[each.ready_s, each.warm_up_s, each.call_s, each.output.decode()] for each in done.answer.timings],
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
    watch = None
    if "watch" in job:
        told = {name: value.encode() if isinstance(value, str) else value for name, value in job["watch"].items()}
        watch = Stopwatch(**{"ready_s": 10.0, "warm_up_s": 10.0, "call_s": 10.0, **told})
    return Job(
        program=Program(job["source"]),
        entrypoint="solve",
        harness=here.with_name("plain_harness.py"),
        inputs=Inputs(request=job.get("request", {}), files=files, black_box=box, stopwatch=watch),
        limits=Limits(**{"wall_s": 20.0, "cpu_s": 10, **job.get("limits", {})}),
    )


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else run(json.load(sys.stdin))
