"""The sandbox against the shared battery of hostile, faulty and honest programs, with a gate that lets them all pass.

In every arm: cold and warm, as this user and as an unprivileged one. The gate against its own family is
`tests/test_gate_battery.py`. The cases run in processes of `battery.py`, which report what the host saw, and are judged
here, by their headers and by what holds for all. In the warm unprivileged arm they run twice, forwards and backwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from progevo.sandbox.cell import FILLING_BYTES_S

if TYPE_CHECKING:
    from tests.sandbox.conftest import Arm

REPO = Path(__file__).resolve().parents[2]
CASES = REPO.parent / "shared" / "battery" / "cases"

MIB = 1024 * 1024
LIMITS = {
    "cpu_s": 1,
    "wall_s": 3.0,
    "memory_bytes": 768 * MIB,
    "file_bytes": 16 * MIB,
    "open_files": 64,
    "processes": 24,
    "scratch_bytes": 64 * MIB,
}
#: Importing scikit-learn alone takes more than a second of CPU.
ROOMY = {"cpu_s": 6, "wall_s": 15.0}
#: For those that do nothing until the wall ends them.
HASTY = {"wall_s": 1.5}
OWN_LIMITS = {
    "res_sleep": HASTY,
    "sig_ignore_term": HASTY,
    "sig_stop_self": HASTY,
    "net_library_fetch": ROOMY,
    "ok_joblib_njobs": ROOMY,
    "ok_pandas": ROOMY,
    "tam_patch_metrics": ROOMY,
    "rd_walk_host": {"cpu_s": 4, "wall_s": 6.0},
    # Each of its processes burns 1.5 s, one after another: it is the sum that is to be held.
    "res_cpu_generations": {"cpu_s": 2, "wall_s": 9.0},
}
#: How long starting and clearing away a sandbox may take on a busy host, over the wall limit.
SLACK_S = 5.0
#: What measuring whole ticks and whole seconds may add to twice the CPU limit.
CPU_SLACK_S = 0.6
#: A driver that has not answered by then hangs.
PATIENCE_S = 60.0
#: An honest guess scores about -1/3; this much only who knows the labels.
TOO_GOOD = -0.05


@dataclass(frozen=True, kw_only=True)
class Case:
    """One program of the battery and what its header says about it."""

    name: str
    source: str
    oracles: tuple[str, ...]
    runs: int

    @property
    def limits(self) -> dict[str, Any]:
        return LIMITS | OWN_LIMITS.get(self.name, {})

    @property
    def alone(self) -> bool:
        """Whether it is to run alone: its memory is read off the whole host's."""
        return "mem" in self.oracles


def _cases() -> list[Case]:
    cases = []
    for path in sorted(CASES.glob("*.py")):
        if path.name.startswith("gate_"):
            continue
        source = path.read_text("utf-8")
        found = dict(re.findall(r"^# (oracle|runs): (\S+)", source, re.MULTILINE))
        oracles = tuple(found["oracle"].split("+"))
        cases.append(Case(name=path.stem, source=source, oracles=oracles, runs=int(found["runs"])))
    return cases


class Driver:
    """A process of `battery.py`, with a folder, tokens and a terminal of its own."""

    def __init__(self, arm: Arm) -> None:
        self.root = root = Path(tempfile.mkdtemp(prefix="pe-battery-", dir="/var/tmp"))
        root.chmod(0o755)
        for name in ("probe", "tmp", "cwd"):
            (root / name).mkdir()
            if arm.user is not None:
                os.chown(root / name, arm.user, arm.user)
        tokens = {
            name: f"PETOK{random.randrange(10**11, 10**12)}"
            for name in ("key", "environment", "command line", "sibling", "victim")
        }
        self.terminal, slave = os.openpty()
        os.set_blocking(self.terminal, False)
        asked, self._requests = os.pipe()
        self._replies, told = os.pipe()
        self._said = b""
        script = arm.library / "tests" / "sandbox" / "battery.py"
        self._process = subprocess.Popen(
            [arm.python, script, arm.form, str(asked), str(told), root, json.dumps(tokens)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=root / "cwd",
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(arm.library),
                "TMPDIR": str(root / "tmp"),
                "PE_SECRET": tokens["environment"],
            },
            pass_fds=(asked, told),
            start_new_session=True,
            user=arm.user,
            group=arm.user,
            extra_groups=[] if arm.user is not None else None,
        )
        for descriptor in (slave, asked, told):
            os.close(descriptor)
        ready = self._reply()
        assert not ready, ready

    def observe(self, case: Case, run: int) -> dict[str, Any]:
        """What the host saw of one run."""
        order = {"name": case.name, "source": case.source, "limits": case.limits, "run": run}
        os.write(self._requests, json.dumps(order).encode() + b"\n")
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        while b"\n" not in self._said:
            piece = os.read(self._replies, 1 << 16) if select.select([self._replies], [], [], PATIENCE_S)[0] else b""
            if not piece:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(2)
                state = "hangs" if self._process.returncode is None else f"ended with {self._process.returncode}"
                return {"host": f"the host process {state}", "terminal": self._terminal()}
            self._said += piece
        line, self._said = self._said.split(b"\n", 1)
        reply = json.loads(line)
        return reply | {"terminal": self._terminal()} if reply else reply

    def _terminal(self) -> str:
        """What has appeared on the host's terminal."""
        with contextlib.suppress(OSError):
            return os.read(self.terminal, 1 << 16).decode("utf-8", "replace")
        return ""

    def close(self) -> None:
        os.close(self._requests)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._replies)
        os.close(self.terminal)
        shutil.rmtree(self.root)


class Drivers:
    """Two drivers of one arm, each made when it is needed and made anew when it has broken."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self._made: dict[int, Driver] = {}
        #: For each case what the host saw of its runs, in order.
        self.seen: dict[str, list[dict[str, Any]]] = {}

    def observe(self, cases: list[Case]) -> None:
        """Takes the cases in turn, side by side, those that take long first; then those that have to be alone."""
        todo: queue.SimpleQueue[Case] = queue.SimpleQueue()
        for case in sorted(cases, key=lambda case: -case.limits["wall_s"]):
            if not case.alone:
                todo.put(case)
        with ThreadPoolExecutor(2) as pool:
            for worker in [pool.submit(self._work, number, todo) for number in range(2)]:
                worker.result()
        for case in cases:
            if case.alone:
                todo.put(case)
        self._work(0, todo)

    def _work(self, number: int, todo: queue.SimpleQueue[Case]) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                case = todo.get_nowait()
                driver = self._made.get(number) or self._made.setdefault(number, Driver(self._arm))
                evidence = [driver.observe(case, run) for run in range(case.runs)]
                self.seen.setdefault(case.name, []).extend(evidence)
                if any("host" in each for each in evidence):
                    self._made.pop(number).close()

    def close(self) -> None:
        for driver in self._made.values():
            driver.close()


@pytest.fixture(scope="session")
def seen(arm: Arm, request: pytest.FixtureRequest) -> dict[str, list[dict[str, Any]]]:
    """What the host saw, in this arm, of every case that is selected."""
    mine = [item for item in request.session.items if isinstance(item, pytest.Function) and hasattr(item, "callspec")]
    here = [item.callspec.params for item in mine if item.path == Path(__file__)]
    cases = [params["case"] for params in here if params.get("arm") == arm.name]
    drivers = Drivers(arm)
    try:
        drivers.observe(cases)
        if arm.form == "warm" and (arm.user is not None or os.geteuid() != 0):
            drivers.observe(cases[::-1])
    finally:
        drivers.close()
    return drivers.seen


def standing_faults(case: Case, evidence: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a run by the rules that hold for every one."""
    if "host" in evidence:
        yield f"{evidence['host']}: {evidence['terminal']}"
        return
    if evidence["raised"]:
        yield f"evaluate raised: {evidence['raised']}"
    if evidence["status"] != "ok" and not evidence["reason"]:
        yield f"{evidence['status']} without a cause"
    if evidence["status"] == "sandbox_lost":
        yield "the host lost it, again and again"
    if evidence["score"] > TOO_GOOD:
        yield f"it scored {evidence['score']}, an honest guess {evidence['honest']}"
    if evidence["metrics"]:
        yield f"metrics that the host has not made: {evidence['metrics']}"
    if evidence["leaked"]:
        yield f"tokens came back: {evidence['leaked']}"
    for what in ("reached", "changed", "survivors", "segments", "terminal"):
        if evidence[what]:
            yield f"{what}: {evidence[what]!r}"
    if evidence["victim"] is not None:
        yield "the victim is dead"
    if evidence["grew"] > 200 * MIB:
        yield f"the host grew by {evidence['grew'] // MIB} MiB"
    if evidence["wall_s"] > case.limits["wall_s"] + SLACK_S:
        yield f"it took {evidence['wall_s']:.1f} s"


def faults(case: Case, evidence: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a run by its own header. What `standing_faults` covers for all is not named again."""
    status, score = evidence["status"], evidence["score"]
    right = status == "ok" and abs(score - evidence["honest"]) < 1e-9
    for oracle in case.oracles:
        kind, _, argument = oracle.partition(":")
        match kind:
            case "report":
                if not evidence["outputs"]:
                    yield f"it reported nothing: {status}"
                elif evidence["outputs"][0] != 0.0:
                    yield f"it reports success: {evidence['outputs']}"
            case "right" if not right:
                yield f"it is not right: {status}, {score}"
            case "right_or_fail" if not right and status == "ok":
                yield f"it is neither right nor a failure: {score}"
            case "fail" | "neginf" if status == "ok":
                yield f"it scored {score}"
            case "cpu" if evidence["cpu_s"] > 2 * case.limits["cpu_s"] + CPU_SLACK_S:
                yield f"{evidence['cpu_s']:.1f} s of CPU at a limit of {case.limits['cpu_s']} s"
            case "mem":
                # The host's shared memory as a whole is read: some of it is others'. A busy machine keeps the watch
                # waiting as it does the meter, and meanwhile there is time to fill more.
                limit = case.limits["memory_bytes"]
                if evidence["memory"] > max(1.2 * limit, limit + evidence["late_s"] * FILLING_BYTES_S):
                    yield f"{evidence['memory'] // MIB} MiB of memory"
                elif evidence["outputs"][:1] == [1.0]:
                    yield f"it reports success: {evidence['outputs']}"
            case "scratch" if evidence["scratch"] > 80 * MIB:
                yield f"{evidence['scratch'] // MIB} MiB of scratch"
            case "time" | "time_or_bad":
                if (kind == "time" or right) and (evidence["usage"]["wall_s"] or 0.0) < 0.8 * float(argument):
                    yield f"it says to have taken {evidence['usage']['wall_s']} s"


BATTERY = _cases()
pytestmark = pytest.mark.skipif(not BATTERY, reason=f"no battery at {CASES}")


@pytest.mark.parametrize("case", BATTERY, ids=lambda case: case.name)
def test_a_case_ends_as_its_header_says(arm: Arm, case: Case, seen: dict[str, list[dict[str, Any]]]) -> None:
    for evidence in seen[case.name]:
        assert not list(standing_faults(case, evidence)), evidence
        assert not list(faults(case, evidence)), evidence
