"""Runs jobs in a sandbox and prints how they ended: one arm of the boundary tests, started as root or as nobody.

Standard input holds JSON: {"profile": name, "jobs": [{"source", "limits", "request", "files"}, ...]}; "drop" lists
parts of bwrap's command to leave out and "add" parts to put in, for twins that show an attack working.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from progevo.sandbox import bubblewrap
from progevo.sandbox.profile import load_profile
from progevo.types import Inputs, Job, Limits, Program


def main() -> None:
    plan = json.load(sys.stdin)
    whole = bubblewrap.command

    def command(*arguments: Any) -> list[bubblewrap.Part]:
        parts = [part for part in whole(*arguments) if part not in plan.get("drop", ())]
        at = parts.index("--remount-ro")
        return [*parts[:at], *plan.get("add", ()), *parts[at:]]

    bubblewrap.command = command  # type: ignore[assignment]
    box = bubblewrap.Bubblewrap(load_profile(plan["profile"]), bwrap=plan.get("bwrap"))
    executions = []
    for job in plan["jobs"]:
        done = box.run(
            Job(
                program=Program(job["source"]),
                entrypoint="solve",
                harness=Path(__file__).with_name("plain_harness.py"),
                inputs=Inputs(
                    request=job.get("request", {}), files={k: Path(v) for k, v in job.get("files", {}).items()}
                ),
                limits=Limits(**{"wall_s": 20.0, "cpu_s": 10, **job.get("limits", {})}),
            )
        )
        value = done.answer.value if done.answer is not None else None
        executions.append(
            {"status": done.status, "value": value, "reason": done.reason, "log": done.log_tail}
            | dataclasses.asdict(done.usage)
        )
    json.dump({"uid": os.geteuid(), "executions": executions}, sys.stdout)


if __name__ == "__main__":
    main()
