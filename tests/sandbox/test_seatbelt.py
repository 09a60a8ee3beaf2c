"""The Seatbelt backend: its profile read and questioned, its runs by a stand-in here, and all of it for real on a Mac.

The stand-in for `sandbox-exec` writes down how it was called and then starts the command with no confinement at all.
It therefore gets nothing to run but the small programs of this file. On macOS the same tests go through the real
`sandbox-exec`, and those marked `on_a_mac` join in; there, nothing here may be skipped.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import importlib.util
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from progevo.domain import Domain
from progevo.errors import ConfigError, SandboxUnavailable
from progevo.evaluate import evaluate
from progevo.evaluators.calls import Calls, numbers
from progevo.sandbox import private_folder, probe, seatbelt
from progevo.sandbox.interpreter import Interpreter
from progevo.sandbox.private_folder import Folder, canonical, remove, weight
from progevo.sandbox.profile import ENVIRONMENT, load_profile
from progevo.sandbox.seatbelt import SANDBOX_EXEC, Seatbelt
from progevo.sandbox.seatbelt_profile import command, rendered
from progevo.types import MIB, BlackBox, Candidate, Execution, GatePolicy, Inputs, Job, Limits, Metric, Outcome, Program

HERE = Path(__file__).resolve().parent


def _beside(name: str) -> Any:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"seatbelt_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


sbpl = _beside("sbpl")
MAC = sys.platform == "darwin"
on_a_mac = pytest.mark.skipif(not MAC, reason="this needs the kernel of macOS; .github/workflows/macos.yml runs it")

# ---- the profile, as text


class Tree:
    """A host's folders, as far as a profile speaks of them, below a folder of any name."""

    def __init__(self, top: Path) -> None:
        top.mkdir(parents=True, exist_ok=True)
        self.top = top = canonical(top)
        self.prefix = top / "python"
        self.site = self.prefix / "lib" / "python3.11" / "site-packages"
        files = ("python/bin/python3.11", "home/.ssh/id_ed25519", "checkout/tasks/s3e1/task.py", "run/result.json")
        for name in files:
            (top / name).parent.mkdir(parents=True)
            (top / name).touch()
        for folder in (self.site / "numpy", self.site / "progevo" / "tasks", top / "packages" / "more"):
            folder.mkdir(parents=True)
        self.interpreter = Interpreter(
            executable=self.prefix / "bin" / "python3.11",
            readable=(self.prefix / "bin" / "python3.11", self.prefix / "lib"),
            links={},
            packages=(self.site, top / "packages"),
            nested=(),
        )
        self.folder = Folder(
            own=top / "now" / "progevo", inputs=top / "now" / "inputs", scratch=top / "now" / "scratch"
        )
        for path in (self.folder.own, self.folder.inputs, self.folder.scratch):
            path.mkdir(parents=True)

    def rendered(self, profile: str = "tabular") -> tuple[str, dict[str, str]]:
        return rendered(self.interpreter, load_profile(profile), self.folder)

    def profile(self, profile: str = "tabular") -> Any:
        return sbpl.profile(*self.rendered(profile))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def agreed(profile: Any, operation: str, path: str | None = None, **subject: str) -> bool:
    """The answer, which has to be the same whichever way rules are weighed."""
    answer = profile.allows(operation, path, **subject)
    assert answer == profile.allows_by_the_most_specific(operation, path, **subject), (operation, path, subject)
    return answer


READS = ("file-read-data", "file-read-metadata", "file-read-xattr", "file-test-existence")
WRITES = (
    "file-write-create",
    "file-write-data",
    "file-write-mode",
    "file-write-times",
    "file-write-unlink",
)
#: What could outlast a run, keep it from being removed, or reach a file by another name.
NEVER = (
    "file-write-acl",
    "file-write-flags",
    "file-write-owner",
    "file-write-setugid",
    "file-write-xattr",
    "file-write-mount",
    "file-clone",
    "file-issue-extension",
    "file-link",
    "file-mknod",
    "file-mount",
)

#: path below the tree (or absolute) -> what may be done with it: read, map, write, none, or only be seen ("seen")
PATHS = {
    "home": "none",
    "home/.ssh": "none",
    "home/.ssh/id_ed25519": "none",
    "checkout/tasks/s3e1/task.py": "none",
    "run/result.json": "none",
    "now": "seen",
    "python": "seen",
    "python/bin": "seen",
    "python/bin/python3.11": "map",
    "python/bin/other": "none",
    "python/lib": "map",
    "python/lib/python3.11/os.py": "map",
    "python/lib/python3.11/site-packages/numpy/__init__.py": "map",
    "python/lib/python3.11/site-packages/progevo": "none",
    "python/lib/python3.11/site-packages/progevo/tasks/era/task.py": "none",
    "python/lib/python3.11/site-packages/progevo-1.dist-info/METADATA": "map",
    "python/library": "none",
    "packages/more/x.so": "map",
    "now/progevo/runner.py": "read",
    "now/inputs": "read",
    "now/inputs/train.csv": "read",
    "now/inputs-of-others": "none",
    "now/scratch": "read",
    "now/scratch/x": "write",
    "now/scratch/deep/er/x": "write",
    "now/scratch2/x": "none",
    "/": "read",
    "/Users/somebody/.ssh/id_ed25519": "none",
    "/Users/somebody/Library/Keychains/login.keychain-db": "none",
    "/private/etc/passwd": "none",
    "/private/etc/localtime": "read",
    "/private/var/db/dslocal/nodes/Default/users/root.plist": "none",
    "/private/tmp/x": "none",
    "/etc": "seen",
    "/tmp": "seen",
    "/var": "seen",
    "/usr/lib/libSystem.B.dylib": "map",
    "/System/Library/Frameworks/Accelerate.framework/Accelerate": "map",
    "/System/Library/Keychains/x": "none",
    "/System/Volumes/Data/Users/somebody/x": "none",
    "/System/Volumes/Preboot/Cryptexes/OS/System/Library/dyld/dyld_shared_cache_arm64e": "map",
    "/usr/bin/ssh": "none",
    "/bin/sh": "none",
    "/dev/urandom": "read",
    "/dev/fd": "read",
    "/dev/fd/3": "none",
    "/dev/tty": "none",
    "/dev/ptmx": "none",
    "/dev/disk0": "none",
    "/cores/core.1": "none",
}


@pytest.mark.parametrize("place", PATHS)
def test_every_path_can_be_used_for_what_is_promised_and_no_more(tree, place):
    profile, path, use = tree.profile(), str(tree.top / place), PATHS[place]
    inside = {operation: agreed(profile, operation, path) for operation in (*READS, *WRITES, *NEVER)}
    reads = {"none": (), "seen": ("file-read-metadata", "file-test-existence")}.get(use, READS)
    wanted = {*reads, *(WRITES if use == "write" else ())}
    assert {operation for operation, allowed in inside.items() if allowed} == wanted
    assert agreed(profile, "file-map-executable", path) == (use == "map")
    assert agreed(profile, "process-exec", path) == (place == "python/bin/python3.11")


def test_without_packages_only_the_standard_library_is_readable(tree):
    assert agreed(tree.profile(), "file-read-data", str(tree.top / "packages/more/x.so"))
    assert not agreed(tree.profile("stdlib"), "file-read-data", str(tree.top / "packages/more/x.so"))


def test_null_can_be_written_to_as_the_device_that_it_is(tree):
    profile = tree.profile()
    assert agreed(profile, "file-write-data", "/dev/null", vnode_type="CHARACTER-DEVICE")
    assert not agreed(profile, "file-write-data", "/dev/null", vnode_type="REGULAR-FILE")
    assert not agreed(profile, "file-write-data", "/dev/zero", vnode_type="CHARACTER-DEVICE")


@pytest.mark.parametrize(
    "operation",
    [
        *("network-outbound", "network-inbound", "network-bind", "system-socket", "process-fork", "process-exec"),
        *("mach-register", "mach-priv-task-port", "mach-priv-host-port", "iokit-open", "iokit-open-user-client"),
        *("ipc-sysv-shm", "ipc-sysv-sem", "ipc-sysv-msg", "pseudo-tty", "appleevent-send", "lsopen", "job-creation"),
        *("sysctl-write", "nvram-set", "system-kext-load", "system-reboot", "user-preference-read", "default"),
        *("distributed-notification-post", "device-camera", "device-microphone", "process-codesigning-status-set"),
    ],
)
def test_what_no_program_needs_is_denied(tree, operation):
    assert not agreed(tree.profile(), operation)


@pytest.mark.parametrize(
    ("operation", "subject", "allowed"),
    [
        ("signal", {"target": "self"}, True),
        ("signal", {"target": "others"}, False),
        ("signal", {"target": "pgrp"}, False),
        ("signal", {"target": "same-sandbox"}, False),
        ("process-info-pidinfo", {"target": "self"}, True),
        ("process-info-pidinfo", {"target": "others"}, False),
        ("sysctl-read", {"name": "hw.physicalcpu"}, True),
        ("sysctl-read", {"name": "hw.perflevel0.physicalcpu"}, True),
        ("sysctl-read", {"name": "kern.proc.all"}, False),
        ("sysctl-read", {"name": "kern.procargs2"}, False),
        ("sysctl-read", {"name": "net.routetable.0"}, False),
        ("mach-lookup", {"name": "com.apple.system.opendirectoryd.libinfo"}, True),
        ("mach-lookup", {"name": "com.apple.SecurityServer"}, False),
        ("mach-lookup", {"name": "com.apple.coreservices.launchservicesd"}, False),
        ("mach-lookup", {"name": "com.apple.pasteboard.1"}, False),
        ("ipc-posix-shm-write-create", {"name": "/__KMP_REGISTERED_LIB_4711"}, True),
        ("ipc-posix-shm-write-create", {"name": "/psm_4711"}, False),
        ("ipc-posix-shm-read-data", {"name": "apple.shm.notification_center"}, False),
        ("ipc-posix-sem", {"name": "/mp-4711"}, True),
    ],
)
def test_processes_names_and_memory_are_its_own(tree, operation, subject, allowed):
    assert agreed(tree.profile(), operation, **subject) == allowed


def test_the_profile_is_deny_by_default_with_every_allowance_scoped(tree):
    text, parameters = tree.rendered()
    rules = tree.profile().rules
    assert rules[0] == sbpl.Rule(allow=False, operations=("default",), filters=())
    unscoped = {operation for rule in rules[1:] if not rule.filters for operation in rule.operations}
    assert unscoped == {"ipc-posix-sem"}
    assert {operation for rule in rules if rule.allow for operation in rule.operations} == {
        *("file-read*", "file-read-metadata", "file-test-existence", "file-map-executable", *WRITES),
        *("process-exec", "process-info*", "signal", "sysctl-read", "mach-lookup", "ipc-posix-sem"),
        *("ipc-posix-shm-read-data", "ipc-posix-shm-write-create"),
        *("ipc-posix-shm-write-data", "ipc-posix-shm-write-unlink"),
    }
    assert sbpl.parameters_named(text) == set(parameters)


def test_no_path_of_the_host_is_in_the_text_and_every_parameter_is_a_real_path(tree):
    text, parameters = tree.rendered()
    assert str(tree.top) not in text
    assert [path for path in parameters.values() if os.path.realpath(path) != path] == []


def test_progevo_is_hidden_wherever_it_is_installed(tree):
    profile = tree.profile()
    hidden = [path for key, path in profile.parameters.items() if key.startswith("HIDDEN")]
    assert hidden == [str(seatbelt.ROOM.parent), str(tree.site / "progevo")]
    for path in hidden:
        assert not any(agreed(profile, operation, f"{path}/types.py") for operation in (*READS, "file-map-executable"))


def test_what_a_profile_hides_cannot_be_read_or_mapped(tree):
    (tree.site / "one.py").touch()
    (tree.site / "fast.cpython-311-darwin.so").touch()
    own = dataclasses.replace(load_profile("tabular"), hidden=("numpy", "one", "fast", "absent"))
    plain, hiding = (
        sbpl.profile(*rendered(tree.interpreter, profile, tree.folder)) for profile in (load_profile("tabular"), own)
    )
    for name in ("numpy/core.py", "one.py", "fast.cpython-311-darwin.so"):
        for operation in (*READS, "file-map-executable"):
            assert agreed(plain, operation, str(tree.site / name))
            assert not agreed(hiding, operation, str(tree.site / name))
    assert agreed(hiding, "file-read-data", str(tree.site / "numpy_financial.py"))


def test_a_path_behind_a_link_is_given_as_what_it_leads_to(tmp_path):
    real = Tree(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked = dataclasses.replace(real.interpreter, packages=(tmp_path / "link" / "packages",))
    _, parameters = rendered(linked, load_profile("tabular"), real.folder)
    assert str(real.top / "packages") in parameters.values()
    assert not any(path.startswith(str(tmp_path / "link")) for path in parameters.values())


NASTY = st.text(
    st.one_of(
        st.sampled_from("()\"'\\;#= \n\t$|*?[]{}<>&`~%äß漢字🙂\u0301"), st.characters(exclude_categories=("Cs",))
    ),
    min_size=1,
    max_size=40,
).filter(lambda name: "/" not in name and "\0" not in name and name not in (".", "..") and len(name.encode()) < 200)


@settings(max_examples=30, deadline=None)
@given(name=NASTY)
def test_no_name_of_a_folder_changes_what_the_profile_says(name):
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as nasty:
        usual = Tree(Path(plain) / "usual")
        try:
            (Path(nasty) / name).mkdir()
        except OSError:  # not every file system takes every name
            assume(False)
        odd = Tree(Path(nasty) / name)
        text, parameters = odd.rendered()
        assert text == usual.rendered()[0]
        profile = sbpl.profile(text, parameters)
        assert agreed(profile, "file-read-data", str(odd.site / "numpy" / "core.py"))
        assert agreed(profile, "file-write-data", str(odd.folder.scratch / name))
        assert not agreed(profile, "file-read-data", str(odd.top / "home"))
        assert not agreed(profile, "file-write-data", str(odd.folder.inputs / name))
        assert not agreed(profile, "file-read-data", f"{odd.top}x/python/lib/os.py")
        argv = command(SANDBOX_EXEC, odd.interpreter, load_profile("tabular"), odd.folder, (7, 8))
        # As sandbox-exec takes a definition apart: at the first sign of equality.
        given_to_it = dict(
            argv[at + 1].split("=", 1) for at, part in enumerate(argv[: argv.index("-P")]) if part == "-D"
        )
        assert given_to_it == parameters


@pytest.mark.parametrize(
    "text",
    [
        "(version 1) (deny default",
        "(version 1) (deny default))",
        "(version 1) deny",
        "(deny default)",
        "(version 1) (permit default)",
        '(version 1) (allow file-read* (near "/"))',
        '(version 1) (allow (literal "/"))',
        '(version 1) (allow file-read* (literal "/)',
    ],
)
def test_the_reader_of_profiles_refuses_what_it_does_not_know(text):
    with pytest.raises(ValueError, match=r"."):
        sbpl.profile(text)


def test_the_reader_of_profiles_knows_order_strings_and_combinations():
    profile = sbpl.profile(
        '(version 1)(deny default) ; a ) in a comment\n(allow file-read* (subpath "/a\\"(b"))'
        '(deny file-read* (require-all (subpath (param "P")) (require-not (regex #"[.]py$"))))'
        '(allow file-read* (require-any (literal "/x") (literal "/y")))',
        {"P": '/a"(b/c'},
    )
    answers = {
        path: profile.allows("file-read-data", path) for path in ('/a"(b/d', '/a"(b/c/d', '/a"(b/c/d.py', "/y", "/z")
    }
    assert list(answers.values()) == [True, False, True, True, False]


# ---- the runs, by the stand-in or on a Mac

STAND_IN = """#!{python} -IS
import json, os, sys
with open({record!r}, "a") as file:
    print(json.dumps({{"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}}), file=file)
rest = sys.argv[1:]
while rest[0] in ("-p", "-D"):
    rest = rest[2:]
os.execv(rest[0], rest)
"""


@dataclasses.dataclass
class Called:
    """A `sandbox-exec`, and how it was called where it is the stand-in."""

    path: str
    record: Path

    def last(self) -> dict[str, Any]:
        return json.loads(self.record.read_text().splitlines()[-1])


@pytest.fixture
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Called:
    folder = tmp_path_factory.mktemp("stand-in")
    path, record = folder / "sandbox-exec", folder / "record"
    path.write_text(STAND_IN.format(python=os.path.realpath(sys.executable), record=str(record)))
    path.chmod(0o755)
    return Called(str(path), record)


@pytest.fixture
def sandbox_exec(stand_in: Called) -> Called:
    return Called(SANDBOX_EXEC, Path("/nowhere")) if MAC else stand_in


@pytest.fixture
def box(sandbox_exec: Called) -> Iterator[Seatbelt]:
    box = Seatbelt(load_profile("stdlib"), command=sandbox_exec.path)
    yield box
    box.close()


def job_of(source: str, *, files: dict[str, Path] | None = None, request: Any = None, **limits: Any) -> Job:
    return Job(
        program=Program(source),
        entrypoint="solve",
        harness=HERE / "plain_harness.py",
        inputs=Inputs(request=request or {}, files=files or {}),
        limits=Limits(**{"wall_s": 20.0, "cpu_s": 10, **limits}),
    )


def value(done: Execution) -> Any:
    assert done.status == "ok", (done.reason, done.log_tail)
    assert done.answer is not None
    return done.answer.value


@pytest.fixture(autouse=True)
def no_folder_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Whatever a test does, the folders of its runs are gone afterwards."""
    place = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    assert [path.name for path in place.iterdir() if path.name.startswith("progevo-")] == []


def test_sandbox_exec_gets_the_profile_the_paths_and_the_command(stand_in, monkeypatch):
    box = Seatbelt(load_profile("stdlib"), command=stand_in.path)
    monkeypatch.setenv("PE_SECRET", "token 4711")
    seen = value(box.run(job_of("import os\ndef solve(x): return [os.getcwd(), dict(os.environ), os.listdir('..')]")))
    called = stand_in.last()
    argv = called["argv"]
    assert argv[1] == "-p"
    end = argv.index("-P") - 1
    definitions = argv[3:end]
    assert definitions[::2] == ["-D"] * (len(definitions) // 2)
    parameters = dict(part.split("=", 1) for part in definitions[1::2])
    assert sbpl.parameters_named(argv[2]) == set(parameters)
    scratch = parameters["SCRATCH"]
    folder = Path(scratch).parent
    assert argv[end:-2] == [str(box._interpreter.executable), "-P", "-s", "-S", "-B", f"{folder}/progevo/runner.py"]
    assert all(word.isdigit() for word in argv[-2:])
    assert (seen[0], called["cwd"]) == (scratch, scratch)
    assert set(seen[2]) == {"inputs", "progevo", "scratch"}
    environment = {
        **ENVIRONMENT,
        **load_profile("stdlib").environment,
        "HOME": scratch,
        "TMPDIR": scratch,
        "LOKY_MAX_CPU_COUNT": "1",
    }
    for found in (called["env"], seen[1]):
        assert environment.items() <= found.items()
        assert set(found) - set(environment) <= {"LC_CTYPE", "__CF_USER_TEXT_ENCODING", "__PYVENV_LAUNCHER__"}
    profile = sbpl.profile(argv[2], parameters)
    assert profile.allows("file-read-data", f"{folder}/progevo/harness.py")
    assert not profile.allows("file-write-data", f"{folder}/progevo/harness.py")
    assert not profile.allows("file-read-data", str(HERE / "plain_harness.py"))


#: name -> (program, limits, status, a word of the reason)
ENDINGS = {
    "an answer": ("def solve(x): return 7", {}, "ok", ""),
    "an exception": ("def solve(x): raise ValueError('no luck')", {}, "crashed", "ValueError: no luck (line 1)"),
    "an exit": ("import sys\ndef solve(x): sys.exit(0)", {}, "crashed", "SystemExit"),
    "an exit at once": ("import os\ndef solve(x): os._exit(3)", {}, "crashed", "exited with status 3"),
    "a crash": ("import os\ndef solve(x): os.kill(os.getpid(), 11)", {}, "crashed", "SIGSEGV"),
    "a sleep": ("import time\ndef solve(x): time.sleep(60)", {"wall_s": 0.5}, "timeout", "wall_s"),
    "CPU": ("def solve(x):\n while True: pass", {"cpu_s": 1}, "cpu_limit", "cpu_s"),
    "a file too long": (
        "def solve(x): open('f', 'wb').write(bytes(2 * 10**6))",
        {"file_bytes": MIB},
        "crashed",
        "file_bytes",
    ),
    "too many files": ("def solve(x): kept = [open('f', 'w') for _ in range(99)]", {}, "crashed", "open_files"),
    "scratch that is full": (
        "import time\ndef solve(x):\n for i in range(9): open(f'f{i}', 'wb').write(b'x' * 10**6)\n time.sleep(20)",
        {"scratch_bytes": 4 * MIB},
        "crashed",
        "limit scratch_bytes",
    ),
    "scratch full of nothing": (
        "import os, time\ndef solve(x):\n for i in range(400): os.mkdir(f'd{i}')\n time.sleep(20)",
        {"scratch_bytes": MIB},
        "crashed",
        "limit scratch_bytes",
    ),
    "a flood": (
        "def solve(x):\n while True: print('x' * 10**5)",
        {"output_bytes": 10 * MIB},
        "output_limit",
        "output_bytes",
    ),
    "an answer too long": (
        "def solve(x): return 'x' * (2 * 10**6)",
        {"answer_bytes": MIB},
        "output_limit",
        "answer_bytes",
    ),
    "an answer far too long": (
        "def solve(x):\n import sys\n sys.modules['wire'].MAX_HEADER_BYTES = 2**30\n return 'x' * 10**7",
        {"answer_bytes": MIB},
        "output_limit",
        "answer_bytes",
    ),
    "an answer that is no JSON": ("def solve(x): return {1, 2}", {}, "bad_output", "not plain JSON"),
    "the channel closed": (
        "import os, time\ndef solve(x):\n os.closerange(3, 64)\n time.sleep(60)",
        {},
        "crashed",
        "before it answered",
    ),
    "a lie on the channel": (
        "import os\ndef solve(x):\n for n in range(3, 64):\n  try: os.write(n, bytes(7) + b'\\x02{}')\n"
        "  except OSError: pass\n os._exit(0)",
        {},
        "bad_output",
        "not a frame",
    ),
    "a thread left behind": (
        "import threading, time\ndef solve(x):\n threading.Thread(target=time.sleep, args=(3600,)).start()\n return 7",
        {},
        "ok",
        "",
    ),
    "a pool of threads": (
        "from multiprocessing.pool import ThreadPool\ndef solve(x): return ThreadPool(2).map(abs, [-1, 2])",
        {},
        "ok",
        "",
    ),
    "streams closed": ("import os\ndef solve(x):\n os.closerange(0, 3)\n return 7", {}, "ok", ""),
    "a read of stdin": ("import sys\ndef solve(x): return len(sys.stdin.read())", {}, "ok", ""),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_every_ending_has_its_status_and_its_cause(box, name):
    source, limits, status, word = ENDINGS[name]
    done = box.run(job_of(source, **limits))
    assert (done.status, word in done.reason) == (status, True), (done.reason, done.log_tail)
    assert (done.answer is not None) == (status == "ok")


def test_named_inputs_are_there_as_copies_that_belong_to_the_run(box, tmp_path):
    (tmp_path / "a file").write_text("public")
    harness = "import os\ndef solve(x): return sorted(os.listdir('../inputs')) + [open('../inputs/train.csv').read()]"
    job = job_of(harness, files={"train.csv": tmp_path / "a file"})
    assert value(box.run(job)) == ["train.csv", "public"]
    with pytest.raises(ConfigError, match="not there"):
        box.run(job_of(harness, files={"train.csv": tmp_path / "no file"}))


def test_the_harness_is_told_where_the_inputs_are(box, tmp_path):
    (tmp_path / "harness.py").write_text(
        "class BadOutput(Exception): pass\ndef run(entry, request, inputs): return (inputs / 'x').read_text(), []\n"
    )
    (tmp_path / "x").write_text("public")
    job = job_of("def solve(x): pass", files={"x": tmp_path / "x"})
    assert value(box.run(dataclasses.replace(job, harness=tmp_path / "harness.py"))) == "public"


def test_a_black_box_answers_and_counts_here_too(box):
    source = "def solve(box):\n f = box.problem(1)\n return [f(4.0, 3), f(9.0, 1)]"
    functions = BlackBox(file=HERE / "plain_functions.py", problems=(1.0, 2.0), arity=2, budget=9)
    job = job_of(source)
    done = box.run(dataclasses.replace(job, inputs=dataclasses.replace(job.inputs, black_box=functions)))
    assert value(done) == [8.0, 5.0]
    assert [count.calls for count in done.answer.counts] == [0, 2]
    source = "def solve(box):\n box.problem(0)(4.0, 3)\n sum(range(10**7))\n box.hand_in(0, 7.0)"
    functions = dataclasses.replace(functions, in_turn=True)
    job = job_of(source, processes=1)
    done = box.run(dataclasses.replace(job, inputs=dataclasses.replace(job.inputs, black_box=functions)))
    first, second = done.answer.counts
    assert (first.value, second.value, second.candidate_cpu_s) == (7.0, None, None)
    assert 0.02 < first.candidate_cpu_s < 5.0


def test_what_a_candidate_used_is_measured_by_the_host(box):
    spin = "import time\ndef solve(x):\n end = time.process_time() + 0.5\n while time.process_time() < end: pass"
    slow = box.run(job_of(spin))
    large = box.run(job_of("def solve(x): return len(bytearray(b'x' * (100 * 2**20)))"))
    assert 0.45 < slow.usage.cpu_s < 1.5
    assert slow.usage.wall_s >= 0.45
    # Linux counts for a child what its parent held when it forked: here the whole test run.
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 100 * MIB < large.usage.max_rss_bytes < max(400 * MIB, inherited + 100 * MIB)


def test_a_profile_with_much_to_import_does_not_charge_the_candidate_for_it(sandbox_exec):
    box = Seatbelt(load_profile("numeric"), command=sandbox_exec.path)
    done = box.run(job_of("import numpy\ndef solve(x): return float(numpy.float64(7))", cpu_s=1, wall_s=30.0))
    assert value(done) == 7.0
    assert done.usage.cpu_s < 0.3


LIMITS_SEEN = """
import resource
def solve(x):
    names = 'CPU', 'AS', 'FSIZE', 'NOFILE', 'NPROC', 'CORE'
    return {name: resource.getrlimit(getattr(resource, 'RLIMIT_' + name))[0] for name in names}
"""


def test_the_limits_that_this_system_grants_are_set_and_the_others_reported(box):
    import resource

    seen = value(box.run(job_of(LIMITS_SEEN, cpu_s=9, file_bytes=MIB, open_files=60)))
    refused = box.confinement.limits_refused
    assert (seen["FSIZE"], seen["NOFILE"], seen["CORE"]) == (MIB, 60, 0)
    assert 9 <= seen["CPU"] <= 11
    assert seen["NPROC"] == resource.getrlimit(resource.RLIMIT_NPROC)[0]  # it counts processes that are not ours
    assert {"scratch_bytes", "processes"} <= set(refused)
    assert (seen["AS"] == Limits().memory_bytes) == ("memory_bytes" not in refused)


def test_where_address_space_cannot_be_limited_that_is_said_and_memory_is_watched(sandbox_exec, monkeypatch):
    import resource

    monkeypatch.setattr(seatbelt, "refused_limits", lambda python: {"memory_bytes": "Invalid argument"})
    box = Seatbelt(load_profile("stdlib"), command=sandbox_exec.path)
    assert "Invalid argument" in box.confinement.limits_refused["memory_bytes"]
    assert value(box.run(job_of(LIMITS_SEEN)))["AS"] == resource.getrlimit(resource.RLIMIT_AS)[0]
    big = "import time\ndef solve(x):\n kept = b'x' * (200 * 2**20)\n time.sleep(20)\n return len(kept)"
    done = box.run(job_of(big, memory_bytes=100 * MIB))
    assert (done.status, "limit memory_bytes" in done.reason) == ("memory_limit", True)


def test_a_limit_that_is_refused_is_named_with_the_kernels_word(box, monkeypatch, tmp_path):
    """A runner that finds no message queues, and that the kernel grants no address space, as on Darwin."""
    text = (seatbelt.ROOM / "runner.py").read_text()
    (tmp_path / "runner.py").write_text(
        "import resource\ngranted = resource.setrlimit\nvars(resource).pop('RLIMIT_MSGQUEUE', None)\n"
        "def setrlimit(limit, bounds):\n"
        "    if limit == resource.RLIMIT_AS: raise ValueError('current limit exceeds maximum limit')\n"
        "    granted(limit, bounds)\n"
        "resource.setrlimit = setrlimit\n" + text.replace("from __future__ import annotations\n", "")
    )
    for name in ("raised.py", "wire.py", "blackbox.py", "stopwatch.py"):
        shutil.copy(seatbelt.ROOM / name, tmp_path)
    monkeypatch.setattr(seatbelt, "ROOM", tmp_path)
    refused = {"memory_bytes": "current limit exceeds maximum limit"}
    assert seatbelt.refused_limits(box._python) == refused
    assert Seatbelt(load_profile("stdlib"), command=box._command).confinement.limits_refused.keys() >= refused.keys()


def test_an_interpreter_that_does_not_start_is_a_refusal(tmp_path):
    with pytest.raises(SandboxUnavailable, match="does not start"):
        seatbelt.refused_limits(["/usr/bin/false"])


CHILDREN = """
import os, time
def solve(x):
    try:
        found = []
        for own_session in {sessions}:
            pid = os.fork()
            if pid == 0:
                if own_session: os.setsid()
                os.closerange(0, 64)
                time.sleep(60)
            found.append(pid)
        print(*found, flush=True)
        time.sleep({seconds})
        return found
    except OSError as error:
        return error.errno
"""


@pytest.mark.parametrize(
    ("sessions", "seconds", "wall_s"),
    # A daemon whose parent has ended well is beyond the host's sight: on a Mac, the profile lets there be none.
    [((False, False), 0.2, 20.0), ((False, True), 20, 0.5)],
)
def test_nothing_is_alive_when_a_run_returns(box, sessions, seconds, wall_s):
    done = box.run(job_of(CHILDREN.format(sessions=sessions, seconds=seconds), wall_s=wall_s))
    if MAC:
        assert value(done) == errno.EPERM
        return
    assert done.status == ("ok" if wall_s > 1 else "timeout")
    children = [int(word) for word in done.log_tail.split()]
    assert len(children) == 2
    alive = [process for process in psutil.process_iter(["status"]) if process.pid in children]
    assert [process for process in alive if process.info["status"] != psutil.STATUS_ZOMBIE] == []


def test_a_run_that_is_closed_ends_at_once_and_is_lost(box):
    job = job_of("import time\ndef solve(x): time.sleep(600)", wall_s=300.0)
    with ThreadPoolExecutor(2) as executor:
        runs = [executor.submit(box.run, job) for _ in range(2)]
        time.sleep(0.5)
        box.close()
        assert {run.result(timeout=30).status for run in runs} == {"sandbox_lost"}
    assert box.run(job).status == "sandbox_lost"


def test_a_process_that_does_not_end_is_a_lost_sandbox_that_names_it(box, monkeypatch):
    cells = []
    monkeypatch.setattr("progevo.sandbox.cell.REAP_S", 0.3)
    monkeypatch.setattr("progevo.sandbox.seatbelt.Jailed.kill", lambda cell: cells.append(cell))
    done = box.run(job_of("import time\ndef solve(x): time.sleep(600)", wall_s=0.3))
    process = cells[0]._process
    try:
        assert (done.status, f"not all of it was gone: {process.pid} (" in done.reason) == ("sandbox_lost", True)
    finally:
        process.kill()
        process.wait()


def test_a_host_that_cannot_start_it_loses_the_sandbox_and_not_the_program(tmp_path, monkeypatch):
    (tmp_path / "sandbox-exec").write_text("#!/bin/sh\necho 'sandbox-exec: invalid data type' >&2\nexit 65\n")
    (tmp_path / "sandbox-exec").chmod(0o755)
    box = Seatbelt(load_profile("stdlib"), command=str(tmp_path / "sandbox-exec"))
    done = box.run(job_of("def solve(x): return 7"))
    assert done.status == "sandbox_lost"
    assert "invalid data type" in done.reason
    (tmp_path / "sandbox-exec").unlink()
    assert box.run(job_of("def solve(x): return 7")).status == "sandbox_lost"


def test_the_confinement_says_what_it_is(box):
    seen = box.confinement
    assert (seen.backend, seen.rung, seen.profile) == ("seatbelt", "cold", "stdlib")
    if MAC:
        assert seen.version[0].isdigit()
    strict = dataclasses.replace(load_profile("stdlib"), refused_calls=("fork",))
    assert "refused_calls" in Seatbelt(strict, command=box._command).confinement.limits_refused


def test_a_memory_limit_that_the_profile_cannot_live_with_is_a_configuration_error(box):
    with pytest.raises(ConfigError, match="memory_bytes is 1048576; the profile 'stdlib' needs"):
        box.run(job_of("def solve(x): return 1", memory_bytes=MIB))


# ---- choosing it


def test_on_macos_the_probe_takes_seatbelt(monkeypatch, sandbox_exec):
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(probe, "Seatbelt", functools.partial(Seatbelt, command=sandbox_exec.path))
    for form in ("auto", "cold"):
        assert probe.open_sandbox("stdlib", form).confinement.backend == "seatbelt"
    with pytest.raises(ConfigError, match="the forms are auto, cold"):
        probe.open_sandbox("stdlib", "warm")


def test_on_macos_a_failing_probe_is_a_refusal_in_the_words_of_the_tool(monkeypatch, tmp_path):
    (tmp_path / "sandbox-exec").write_text("#!/bin/sh\necho 'sandbox_apply: Operation not permitted' >&2\nexit 71\n")
    (tmp_path / "sandbox-exec").chmod(0o755)
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(probe, "Seatbelt", functools.partial(Seatbelt, command=str(tmp_path / "sandbox-exec")))
    with pytest.raises(SandboxUnavailable, match=r"Seatbelt failed here: (?s:.*)sandbox_apply") as refused:
        probe.open_sandbox("stdlib")
    assert "AppArmor" not in str(refused.value)


def test_a_system_without_a_sandbox_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "plan9")
    with pytest.raises(SandboxUnavailable, match="Bubblewrap for Linux and Seatbelt for macOS"):
        probe.open_sandbox("stdlib")
    with pytest.raises(SandboxUnavailable, match="every macOS has it"):
        Seatbelt(load_profile("stdlib"), command=str(tmp_path / "nothing"))


# ---- the folder of a run


def test_a_path_is_given_in_the_kernels_own_spelling(monkeypatch, tmp_path):
    """Where the kernel can be asked for it: a stand-in for the call that macOS has."""
    (tmp_path / "Name").touch()

    def fcntl(descriptor: int, command: int, buffer: bytes) -> bytes:
        assert command == 50
        return os.fsencode(tmp_path / "Name").ljust(len(buffer), b"\0")

    monkeypatch.setattr(private_folder, "fcntl", SimpleNamespace(F_GETPATH=50, fcntl=fcntl))
    assert canonical(tmp_path / "Name") == tmp_path / "Name"


def test_a_frameworks_library_and_homebrews_libraries_can_be_read(monkeypatch, tmp_path):
    tree = Tree(tmp_path / "opt" / "Cellar")
    (tmp_path / "opt" / "opt").mkdir()
    application = tree.prefix / "Resources" / "Python.app" / "Contents" / "MacOS"
    application.mkdir(parents=True)
    (application / "Python").touch()
    monkeypatch.setattr(sys, "base_prefix", str(tree.prefix))
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: "Python")
    profile = tree.profile()
    assert agreed(profile, "file-map-executable", str(tree.prefix / "Python"))
    assert agreed(profile, "file-map-executable", str(tree.top / "openssl" / "lib" / "libssl.dylib"))
    assert agreed(profile, "file-read-metadata", str(canonical(tmp_path / "opt" / "opt") / "openssl"))
    assert agreed(profile, "process-exec", str(application / "Python"))


def test_any_tree_is_removed_and_no_link_is_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("keep me")
    top = tmp_path / "top"
    (top / "scratch" / "moved-0" / "moved-1").mkdir(parents=True)
    (top / "scratch" / "moved-0" / "link").symlink_to(outside)
    (top / "scratch" / "link").symlink_to(outside / "keep")
    os.mkfifo(top / "scratch" / "fifo")
    locked = top / "scratch" / "locked" / "within"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    locked.chmod(0)
    locked.parent.chmod(0)
    at = os.open(top / "scratch", os.O_RDONLY)  # far deeper than any path or recursion can be
    for _ in range(3000):
        os.mkdir("a-name-of-some-length", dir_fd=at)
        below = os.open("a-name-of-some-length", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    remove(top)
    assert not top.exists()
    assert (outside / "keep").read_text() == "keep me"


def test_a_folder_that_has_become_a_link_is_not_followed(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "keep").touch()
    (tmp_path / "top").symlink_to(tmp_path / "outside")
    remove(tmp_path / "top")
    assert (tmp_path / "outside" / "keep").exists()


def test_scratch_is_weighed_by_its_blocks_and_its_entries(tmp_path):
    assert weight(tmp_path, MIB) == 0
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").write_bytes(b"x" * MIB)
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "link").symlink_to("/")
    assert MIB < weight(tmp_path, 1 << 50) < 2 * MIB
    for number in range(100):
        (tmp_path / f"empty{number}").touch()
    assert weight(tmp_path, 1 << 50) > MIB + 100 * 4096
    assert weight(tmp_path, 1000) < MIB  # it does not look further than it must


# ---- on a Mac: every promise attacked, and the same attack with that one rule given away

LISTEN = "(allow network*)"
ANY_READ = '(allow file-read* file-test-existence (subpath "/"))'

#: name -> (program, whose X is the argument; the rule that would let it through). Signal 16 is SIGURG: nobody minds it.
ATTACKS = {
    "a secret is read": ("open(X['secret']).read()", ANY_READ),
    "a secret is seen": ("__import__('os').stat(X['secret'])", ANY_READ),
    "the home is listed": ("__import__('os').listdir(X['home'])", ANY_READ),
    "the checkout is read": ("open(X['checkout']).read()", ANY_READ),
    "the password file is read": ("open('/etc/passwd').read()", ANY_READ),
    "a file is written": ("open(X['folder'] + '/new', 'w').write('x')", '(allow file-write* (subpath "/"))'),
    "an input is written": ("open('../inputs/x', 'w').write('x')", '(allow file-write* (subpath "/"))'),
    "the runner is written": ("open('../progevo/runner.py', 'w').write('x')", '(allow file-write* (subpath "/"))'),
    "an immutable file is made": (
        "open('mine', 'w'), __import__('os').chflags('mine', 2), __import__('os').chflags('mine', 0)",
        "(allow file-write-flags)",
    ),
    "TCP": ("__import__('socket').create_connection(('127.0.0.1', X['tcp']), 2)", LISTEN),
    "UDP": ("__import__('socket').socket(2, 2).sendto(b'x', ('127.0.0.1', X['udp']))", LISTEN),
    "a UNIX socket": ("__import__('socket').socket(1, 1).connect(X['unix'])", f"{LISTEN}\n{ANY_READ}"),
    "a fork": ("__import__('os').fork() or __import__('os')._exit(0)", "(allow process-fork)"),
    "a spawn": ("__import__('os').posix_spawn('/usr/bin/true', ['true'], {})", "(allow process*)\n" + ANY_READ),
    "a signal": ("__import__('os').kill(X['victim'], 16)", "(allow signal)"),
    "a signal to the host": ("__import__('os').kill(__import__('os').getppid(), 16)", "(allow signal)"),
}
ATTEMPT = """
def solve(X):
    try:
        {attack}
    except OSError as error:
        return error.errno
    return 'reached'
"""


@contextmanager
def targets(folder: Path) -> Iterator[tuple[dict[str, Any], Callable[[], list[str]]]]:
    """What the attacks go for, all of it really within reach of this user, and a question: what has been reached?"""
    (folder / "secret").write_text("token 4711")
    victim = subprocess.Popen(["/bin/sleep", "600"], stdin=subprocess.DEVNULL)
    short = tempfile.mkdtemp(dir="/tmp")  # the name of a socket has little room
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        udp.bind(("127.0.0.1", 0))
        unix.bind(f"{short}/s")
        unix.listen()
        listeners = {"tcp": tcp, "udp": udp, "unix": unix}

        def reached() -> list[str]:
            hits = [] if victim.poll() is None else ["the victim is dead"]
            for kind, listener in listeners.items():
                with suppress(BlockingIOError):
                    if listener is udp:
                        listener.recv(1 << 16)
                    else:
                        listener.accept()[0].close()
                    hits.append(kind)
            return hits

        for listener in listeners.values():
            listener.setblocking(False)
            with socket.socket(listener.family, listener.type) as client:
                client.connect(listener.getsockname())
                client.send(b"hello")
        time.sleep(0.05)
        assert reached() == list(listeners)  # what nobody could reach anyhow would prove nothing
        reach = {
            "secret": str(folder / "secret"),
            "folder": str(folder),
            "home": str(Path.home()),
            "checkout": str(HERE / "plain_harness.py"),
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "unix": f"{short}/s",
            "victim": victim.pid,
        }
        try:
            yield reach, reached
        finally:
            victim.kill()
            victim.wait()
            shutil.rmtree(short)


def attack(name: str, box: Seatbelt, folder: Path) -> Any:
    (folder / "x").write_text("public")
    with targets(folder) as (reach, reached):
        source = ATTEMPT.format(attack=ATTACKS[name][0])
        found = value(box.run(job_of(source, request=reach, files={"x": folder / "x"})))
        assert found == "reached" or reached() == []
        return found


@on_a_mac
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_stopped_by_the_kernel_and_by_that_rule_alone(name, box, tmp_path, monkeypatch):
    assert attack(name, box, tmp_path) in (errno.EPERM, errno.EACCES)
    whole = rendered

    def weakened(*arguments: Any) -> tuple[str, dict[str, str]]:
        text, parameters = whole(*arguments)
        return f"{text}\n{ATTACKS[name][1]}\n", parameters

    monkeypatch.setattr(seatbelt, "rendered", weakened)
    assert attack(name, box, tmp_path) == "reached"


@on_a_mac
def test_no_file_of_the_interpreter_gets_a_second_name_in_scratch(box):
    library = os.__file__
    done = box.run(job_of(ATTEMPT.format(attack=f"__import__('os').link({library!r}, 'mine')")))
    assert value(done) in (errno.EPERM, errno.EACCES, errno.EXDEV)


@on_a_mac
def test_another_run_and_its_folder_are_out_of_sight(box, no_folder_is_left):
    with ThreadPoolExecutor(1) as executor:
        other = executor.submit(
            box.run, job_of("import time\nopen('mine', 'w').write('4711')\ndef solve(x): time.sleep(3)")
        )
        time.sleep(1.5)
        (folder,) = [path for path in no_folder_is_left.iterdir() if path.name.startswith("progevo-")]
        for attempt in (f"open({str(folder / 'scratch' / 'mine')!r})", f"__import__('os').listdir({str(folder)!r})"):
            assert value(box.run(job_of(ATTEMPT.format(attack=attempt)))) in (errno.EPERM, errno.EACCES)
        assert other.result().status == "ok"


@on_a_mac
@pytest.mark.parametrize("profile", ["stdlib", "numeric", "tabular"])
def test_the_probe_runs_with_every_profile(profile):
    box = probe.open_sandbox(profile)
    assert box.confinement.backend == "seatbelt"
    assert box.confinement.version[0].isdigit()


@on_a_mac
def test_scikit_learn_fits_with_threads(sandbox_exec):
    box = Seatbelt(load_profile("tabular"), command=sandbox_exec.path)
    fit = """
import numpy as np, pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
def solve(x):
    X = np.random.default_rng(0).normal(size=(200, 2))
    RandomForestRegressor(10, n_jobs=2).fit(X, X[:, 0])
    HistGradientBoostingRegressor(max_iter=5).fit(pd.DataFrame(X), X[:, 0])
    return 7
"""
    assert value(box.run(job_of(fit, wall_s=60.0, cpu_s=60))) == 7


# ---- on a Mac: the shared battery


def battery_cases() -> list[Any]:
    """The cases of the shared battery that are for every system; they are judged as in its Linux arm."""
    judge = _beside("test_battery")
    return [
        (judge, case)
        for case in judge._cases()
        if re.search(r"^# os: any", case.source, re.MULTILINE) or not re.search(r"^# os:", case.source, re.MULTILINE)
    ]


BATTERY = battery_cases() if MAC else []


class Host:
    """What a case may go for on a Mac, and whether it got there."""

    def __init__(self, root: Path, reach: dict[str, Any], reached: Callable[[], list[str]]) -> None:
        self.root, self.probe, self.reached = root, root / "probe", reached
        self.values = [value / 3 - 2 for value in range(16)]
        noise = [((7919 * number) % 200 - 100) / 100 for number in range(1, 17)]
        self.labels = [2 * value + 1 + off for value, off in zip(self.values, noise, strict=True)]
        self.token = "PETOK314159265358"
        for name, text in {
            "outside/keep.txt": "keep me",
            "home/.ssh/id_ed25519": self.token,
            "truth.json": json.dumps(self.labels),
            "driver_open.txt": "open in the host",
        }.items():
            (self.probe / name).parent.mkdir(parents=True, exist_ok=True)
            (self.probe / name).write_text(text)
        self.reach = reach

    def state(self) -> dict[str, str]:
        return {
            str(path): f"{path.lstat().st_mode:o} {path.read_bytes() if path.is_file() else ''!r}"
            for path in self.probe.rglob("*")
        }

    def argument(self, name: str, run: int) -> dict[str, Any]:
        probe = {"tcp": self.reach["tcp"], "tcp6": 9, "udp": self.reach["udp"], "dir": str(self.probe), "abstract": "x"}
        probe |= {
            "vsock": 1 << 20,
            "victim_pid": self.reach["victim"],
            "driver_pid": os.getpid(),
            "tag": self.root.name,
        }
        return {"v": self.values, "probe": {**probe, "case": name, "run": run, "bare": False}}

    def score(self, answered: list[float]) -> float:
        return -sum((a - b) ** 2 for a, b in zip(answered, self.labels, strict=True)) / len(self.labels)

    def observe(self, box: Seatbelt, source: str, name: str, run: int, limits: dict[str, Any]) -> dict[str, Any]:
        """One run of one case, with the evidence that the judges of `test_battery` ask for."""
        outputs: list[Any] = []

        def score(split: str, answered: list[Any]) -> float:
            outputs.append(answered[0])
            return self.score(numbers(answered[0], len(self.labels)))

        domain = Domain(
            name="battery",
            entrypoint="solve",
            seed=Program("def solve(x): return x['v']"),
            metric=Metric(name="MSE", direction="minimize"),
            gate=GatePolicy(imports=frozenset(), permissive=True, max_bytes=10_000_000),
            limits=Limits(**limits),
            evaluator=Calls(cases={"search": [self.argument(name, run)]}, score=score),
            splits=("search",),
        )
        files, me = self.state(), psutil.Process()
        alive = {process.pid for process in me.children(recursive=True)}
        before, started = me.memory_info().rss, time.monotonic()
        raised, outcome = "", Outcome(status="no_program", reason="evaluate raised")
        try:
            outcome = evaluate(domain, Candidate(program=Program(source), origin="battery"), "search", box)
        except BaseException:
            raised = traceback.format_exc()
        first = outputs[0] if outputs else None
        plain = isinstance(first, list) and len(first) <= 16 and all(type(item) in (int, float) for item in first)
        left = {process.pid for process in me.children(recursive=True)} - alive
        return {
            "status": outcome.status,
            "score": outcome.score,
            "honest": self.score([2 * value + 1 for value in self.values]),
            "metrics": dict(outcome.metrics),
            "reason": outcome.reason,
            "log": outcome.log_tail[-2000:],
            "usage": dataclasses.asdict(outcome.usage),
            "outputs": first if plain else [] if first is None else [type(first).__name__],
            "raised": raised,
            "leaked": ["a token"] * (self.token[5:] in json.dumps([outputs, outcome.log_tail], default=str)),
            "wall_s": time.monotonic() - started,
            "cpu_s": outcome.usage.cpu_s or 0.0,
            # Watched ten times a second and not enforced by the kernel: see docs/macos.md.
            "memory": (outcome.usage.max_rss_bytes or 0) / 2,
            "late_s": 0.0,
            "scratch": 0,
            "grew": me.memory_info().rss - before,
            "victim": None,
            "reached": self.reached(),
            "changed": sorted(name for name, _ in files.items() ^ self.state().items()),
            "survivors": sorted(left),
            "segments": 0,
            "terminal": "",
        }


@on_a_mac
def test_the_battery_is_there():
    assert len(BATTERY) > 60, "the battery has to lie beside the checkout, in ../shared/battery"


@pytest.mark.parametrize("number", range(len(BATTERY)), ids=lambda number: BATTERY[number][1].name)
def test_a_case_of_the_battery_ends_as_its_header_says(number, sandbox_exec, tmp_path):
    judge, case = BATTERY[number]
    box = Seatbelt(load_profile("tabular"), command=sandbox_exec.path)
    with targets(tmp_path) as (reach, reached):
        host = Host(tmp_path, reach, reached)
        for run in range(case.runs):
            evidence = host.observe(box, case.source, case.name, run, case.limits)
            assert not list(judge.standing_faults(case, evidence)), evidence
            assert not list(judge.faults(case, evidence)), evidence


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("def solve(x): return [2 * v + 1 for v in x['v']]", "ok"),
        ("def solve(x): raise ValueError('none')", "crashed"),
    ],
)
def test_the_hosts_side_of_that_arm_works(source, status, box, tmp_path):
    """With harmless programs of this file, on every system: so that on a Mac it is the cases that are tried."""
    judge = _beside("test_battery")
    case = judge.Case(name="plain", source=source, oracles=("right" if status == "ok" else "fail",), runs=1)
    with targets(tmp_path) as (reach, reached):
        evidence = Host(tmp_path, reach, reached).observe(box, source, "plain", 0, case.limits)
    assert evidence["status"] == status
    assert list(judge.standing_faults(case, evidence)) == []
    assert list(judge.faults(case, evidence)) == []
