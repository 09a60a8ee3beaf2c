"""The host's side of the battery: runs one case after another in the sandbox and gathers what the host itself can see.

Started by `test_battery`, as the user of its arm, on a pseudo-terminal of its own, with a token in its command line and
one in its environment.
It sets up what the cases go for (files, listeners, a pipe, a process: see `../shared/battery/README.md`), shows that
each is within reach from outside a sandbox, and then answers each line of JSON on its request pipe,
{"name", "source", "limits", "run"}, with a line of evidence on its reply pipe. Only the judging is left to the test.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import hashlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import termios
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from progevo import sandbox
from progevo.domain import Domain
from progevo.evaluate import evaluate
from progevo.evaluators.calls import Calls, numbers
from progevo.evaluators.calls.score import HARNESS
from progevo.sandbox.bubblewrap import Bubblewrap, Form
from progevo.sandbox.profile import load_profile
from progevo.sandbox.source import Zygote
from progevo.types import Candidate, GatePolicy, Inputs, Job, Limits, Metric, Outcome, Program

NOBODY = 65534
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.04
#: The same for every case: in the warm form they share a zygote.
SCRATCH_BYTES = 64 * 1024 * 1024
PERMISSIVE = GatePolicy(imports=frozenset(), permissive=True, max_bytes=10_000_000)

#: Places that a case might leave something in, should it get out.
WORLD_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/run")
MARKS = re.compile(r"pe_|core|(numpy|pandas|json|random|sitecustomize|usercustomize)\.py$")


class Host:
    """What a case may try to reach, and whether it did."""

    def __init__(self, root: Path, tokens: dict[str, str]) -> None:
        self.root = root
        self.tokens = tokens
        self.tag = root.name
        self.probe = root / "probe"
        rng = random.Random()
        self.values = [rng.uniform(-5, 5) for _ in range(16)]
        self.labels = [2 * value + 1 + rng.uniform(-1, 1) for value in self.values]
        #: In this process's memory as some case expects to find it in its own.
        self.packed = ("PETRUTH:" + ",".join(map(str, self.labels)) + ";").encode()
        self._make_files()
        self._make_listeners()
        # When the sandbox runs as nobody, so does the victim: only the namespace protects it.
        self.victim = subprocess.Popen(
            ["sleep", "3600"],
            env={"PATH": "/usr/bin:/bin", "PE_SECRET": tokens["victim"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            user=NOBODY if os.geteuid() == 0 else None,
        )
        self._prove_reach()

    def _make_files(self) -> None:
        """Everything is open to everyone: only its absence in the sandbox protects it."""
        texts = {
            "outside/keep.txt": "keep me",
            "home/.ssh/id_ed25519": f"-----BEGIN KEY-----\n{self.tokens['key']}\n",
            "truth.json": json.dumps(self.labels),
            "driver_open.txt": "open in the host",
        }
        for name, text in texts.items():
            path = self.probe / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o666)
        for folder in (self.probe, *(path for path in self.probe.rglob("*") if path.is_dir())):
            folder.chmod(0o777)
        self.inherited = os.open(self.probe / "driver_open.txt", os.O_RDWR)
        os.set_inheritable(self.inherited, True)
        os.mkfifo(self.probe / "h.fifo")
        (self.probe / "h.fifo").chmod(0o666)
        self.fifo = os.open(self.probe / "h.fifo", os.O_RDONLY | os.O_NONBLOCK)

    def _make_listeners(self) -> None:
        kinds: dict[str, tuple[int, int, Any]] = {
            "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "tcp6": (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.tag}"),
            "unix": (socket.AF_UNIX, socket.SOCK_STREAM, str(self.probe / "h.sock")),
        }
        self.listeners = {}
        for kind, (family, form, address) in kinds.items():
            listener = socket.socket(family, form)
            listener.setblocking(False)
            try:
                listener.bind(address)
            except OSError:
                if kind != "tcp6":  # a host without IPv6 has no ::1
                    raise
                continue
            if form == socket.SOCK_STREAM:
                listener.listen(8)
            self.listeners[kind] = listener
        (self.probe / "h.sock").chmod(0o777)

    def _prove_reach(self) -> None:
        """What nobody could reach anyhow would prove nothing about the sandbox."""
        for listener in self.listeners.values():
            with socket.socket(listener.family, listener.type) as client:
                client.connect(listener.getsockname())
                client.send(b"hello")
        with open(self.probe / "h.fifo", "wb", buffering=0) as fifo:
            fifo.write(b"hello")
        assert self.reached() == [*self.listeners, "fifo"]
        assert Path(f"/proc/{self.victim.pid}").exists()

    def reached(self) -> list[str]:
        """The listeners and pipes that somebody has written or connected to since the last question."""
        hits = []
        for kind, listener in self.listeners.items():
            with contextlib.suppress(BlockingIOError):
                if listener.type == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                else:
                    listener.recv(1 << 16)
                hits.append(kind)
        with contextlib.suppress(BlockingIOError):
            if os.read(self.fifo, 1 << 16):
                hits.append("fifo")
        return hits

    def state(self) -> dict[str, str]:
        """Every file that no case may touch (mode, age, content), and what it might leave where everyone may write."""
        names = ("runner.py", "raised.py", "wire.py", "blackbox.py", "stopwatch.py")
        runner = [Path(sandbox.__file__).with_name(name) for name in names]
        planted = [path for top in WORLD_WRITABLE for path in Path(top).glob("*") if MARKS.match(path.name)]
        found = {}
        for path in (*self.root.rglob("*"), *runner, HARNESS, *planted):
            state = path.lstat()
            data = path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else b""
            age = state.st_mtime_ns if data else 0
            found[str(path)] = f"{state.st_mode:o} {age} {hashlib.sha256(data).hexdigest()}"
        return found

    def argument(self, name: str, run: int) -> dict[str, Any]:
        port = {kind: listener.getsockname()[1] for kind, listener in self.listeners.items()}
        return {
            "v": self.values,
            "probe": {
                "tcp": port["tcp"],
                "tcp6": port.get("tcp6", 9),
                "udp": port["udp"],
                "dir": str(self.probe),
                "abstract": self.tag,
                "vsock": 1 << 20 | os.getpid() & 0xFFFF,
                "victim_pid": self.victim.pid,
                "driver_pid": os.getpid(),
                "tag": self.tag,
                "case": name,
                "run": run,
                "bare": False,
            },
        }

    def score(self, values: list[float]) -> float:
        return -sum((a - b) ** 2 for a, b in zip(values, self.labels, strict=True)) / len(self.labels)

    def survivors(self, box: Bubblewrap) -> list[str]:
        """Descendants of this process but the victim and what waits; orphans of a sandbox become its children."""
        alive, found = [], psutil.Process().children(recursive=True)
        meant = {self.victim.pid, *waiting(box)}  # after the list: the next child may just be coming
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess, ChildProcessError):
                if process.status() == psutil.STATUS_ZOMBIE:  # dead: any other host's init would have collected it
                    os.waitpid(process.pid, os.WNOHANG)
                elif process.pid not in meant and not any(part.endswith("sweeper.py") for part in process.cmdline()):
                    alive.append(f"{process.pid} {process.name()}")
        return alive


def waiting(box: Bubblewrap) -> list[int]:
    """What a box has between two candidates: each zygote, its bwrap and nursery, and one child of either."""
    found = []
    for _, source in box._idle:
        home = source.home if isinstance(source, Zygote) else None
        if home is None or home.pid is None:
            continue
        nursery, *candidates = born(home.pid)
        bwrap = psutil.Process(home.pid).ppid()
        found += [home.pid, bwrap, nursery, *newest(candidates), *newest(born(nursery))]
    return found


def born(parent: int) -> list[int]:
    """Its children, the oldest first. Their numbers do not say: after the last the kernel begins again at 300."""
    return list(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()))


def newest(processes: list[int]) -> list[int]:
    """The last of them that is alive, if any."""
    for pid in reversed(processes):
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return [pid]
    return []


class Meter:
    """Samples the processes of a sandbox from outside, over what waited before: CPU, memory, scratch."""

    def __init__(self, victim: int) -> None:
        self.cpu: dict[int, float] = {}
        self.memory = 0
        self.scratch = 0
        #: By how much a look came later than it should have: this machine has other work.
        self.late_s = 0.0
        self._apart = victim
        self._shmem = _shmem()
        self._before: dict[int, float] = {}
        self._held = self._look()
        self._before = self.cpu
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def cpu_s(self) -> float:
        return sum(used - self._before.get(pid, 0.0) for pid, used in self.cpu.items())

    def _sample(self) -> None:
        last = time.monotonic()
        while not self._done.wait(POLL_S):
            # Files in memory and shared memory, of the whole host: cases that go for it run alone.
            self.memory = max(self.memory, self._look() - self._held + max(0, _shmem() - self._shmem))
            now = time.monotonic()
            self.late_s, last = max(self.late_s, now - last - POLL_S), now

    def _look(self) -> int:
        """Notes the CPU and scratch of every process, and says how much memory they hold now."""
        anonymous, found = 0, dict(self.cpu)
        for process in psutil.Process().children(recursive=True):
            if process.pid == self._apart:
                continue
            with contextlib.suppress(psutil.Error, OSError):
                found[process.pid] = sum(process.cpu_times()[:2])
                rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
                anonymous += sum(map(int, re.findall(r"^Pss_Anon: *(\d+)", rollup, re.MULTILINE))) << 10
                if os.stat(Path("/proc", str(process.pid), "root", "tmp")).st_dev != os.stat("/tmp").st_dev:
                    disk = os.statvfs(Path("/proc", str(process.pid), "root", "tmp"))
                    self.scratch = max(self.scratch, (disk.f_blocks - disk.f_bfree) * disk.f_frsize)
        self.cpu = found
        return anonymous


def _shmem() -> int:
    found = re.search(r"^Shmem: *(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def _peak() -> int:
    """The largest resident size of this process since the last call."""
    found = re.search(r"^VmHWM:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    Path("/proc/self/clear_refs").write_text("5")
    return int(found[1]) << 10 if found else 0


def observe(host: Host, box: Bubblewrap, order: dict[str, Any]) -> dict[str, Any]:
    """Runs one case and says what came of it, inside and outside."""
    outputs: list[Any] = []

    def score(split: str, answered: list[Any]) -> float:
        outputs.append(answered[0])
        return host.score(numbers(answered[0], len(host.labels)))

    domain = Domain(
        name="battery",
        entrypoint="solve",
        seed=Program("def solve(x): return x['v']"),
        metric=Metric(name="MSE", direction="minimize"),
        gate=PERMISSIVE,
        limits=Limits(**order["limits"]),
        evaluator=Calls(cases={"search": [host.argument(order["name"], order["run"])]}, score=score),
        splits=("search",),
    )
    files = host.state()
    segments = Path("/proc/sysvipc/shm").read_text().count("\n")
    _peak()
    before = psutil.Process().memory_info().rss
    raised, outcome = "", Outcome(status="no_program", reason="evaluate raised")
    with Meter(host.victim.pid) as meter:
        started = time.monotonic()
        try:
            outcome = evaluate(domain, Candidate(program=Program(order["source"]), origin="battery"), "search", box)
        except BaseException:
            raised = traceback.format_exc()
        wall_s = time.monotonic() - started
    honest = host.score([2 * value + 1 for value in host.values])
    text = json.dumps([outputs, outcome.reason, outcome.log_tail], default=str)
    return {
        "status": outcome.status,
        "score": outcome.score,
        "honest": honest,
        "metrics": dict(outcome.metrics),
        "reason": outcome.reason,
        "log": outcome.log_tail[-2000:],
        "usage": dataclasses.asdict(outcome.usage),
        "outputs": _short(outputs),
        "raised": raised,
        "leaked": [name for name, token in host.tokens.items() if token.removeprefix("PETOK") in text],
        "wall_s": wall_s,
        "cpu_s": meter.cpu_s,
        "memory": meter.memory,
        "late_s": meter.late_s,
        "scratch": meter.scratch,
        "grew": _peak() - before,
        "victim": host.victim.poll(),
        "reached": host.reached(),
        "changed": sorted(name for name, _ in files.items() ^ host.state().items()),
        "survivors": host.survivors(box),
        "segments": Path("/proc/sysvipc/shm").read_text().count("\n") - segments,
    }


def _short(outputs: list[Any]) -> list[Any]:
    """What the case returned, where that is a short list of numbers; enough for every report of a case."""
    first = outputs[0] if outputs else None
    if isinstance(first, list) and len(first) <= 16 and all(type(value) in (int, float) for value in first):
        return first
    return [] if first is None else [f"a {type(first).__name__}"]


def with_sibling(host: Host, box: Bubblewrap, order: dict[str, Any]) -> dict[str, Any]:
    """The same while another candidate, with a token in its scratch, is running, and with one in the host's."""
    text = f"import os\nos.mkdir('/tmp/s')\nopen('/tmp/s/sibling.txt', 'w').write({host.tokens['sibling']!r})\n"
    sibling = dict(order, source=f"{text}import time\ndef solve(x): time.sleep(2.5)", name="sibling")
    folders = [Path(top, f"sibling-of-{host.tag}") for top in ("/tmp", "/var/tmp")]
    for folder in folders:
        folder.mkdir()
        (folder / "sibling.txt").write_text(host.tokens["sibling"])
    warm_up(box, 2)  # so that a warm one starts at once beside the other
    other = threading.Thread(target=observe, args=(host, box, sibling))
    try:
        other.start()
        time.sleep(1.0)
        evidence = observe(host, box, order)
        assert other.is_alive()
        other.join()
        return evidence | {"survivors": host.survivors(box)}
    finally:
        for folder in folders:
            (folder / "sibling.txt").unlink()
            folder.rmdir()


def warm_up(box: Bubblewrap, count: int) -> None:
    """Runs idle programs side by side, so that what can be ready is ready: an import is no case's CPU."""
    job = Job(
        program=Program("import time\ndef solve(x): time.sleep(0.3)"),
        entrypoint="solve",
        harness=HARNESS,
        inputs=Inputs(request={"cases": [None]}),
        limits=Limits(scratch_bytes=SCRATCH_BYTES),
    )
    with ThreadPoolExecutor(count) as pool:
        assert [done.status for done in pool.map(box.run, [job] * count)] == ["ok"] * count


def main(form: Form, requests: int, replies: int, root: Path, tokens: dict[str, str]) -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    host = Host(root, tokens)
    profile = load_profile("tabular")
    if form == "cold":  # each of a hundred sandboxes would import pandas and scikit-learn; cases that need them do
        profile = dataclasses.replace(profile, preload=())
    try:
        with (
            contextlib.closing(Bubblewrap(profile, form)) as box,
            open(requests, encoding="utf-8") as asked,
            open(replies, "w", encoding="utf-8") as told,
        ):
            warm_up(box, 1)
            print("{}", file=told, flush=True)
            for line in asked:
                order = json.loads(line)
                run = with_sibling if order["name"] == "rd_sibling_scratch" else observe
                print(json.dumps(run(host, box, order)), file=told, flush=True)
    finally:
        host.victim.kill()
        host.victim.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), json.loads(sys.argv[5]))
