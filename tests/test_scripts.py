"""What the set-up of scripts/demo and scripts/test decides, with stand-ins on PATH: no network, nothing installed."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.browser import NAMES

#: The real tools that the set-up may use; everything else on PATH is a stand-in.
REAL = ("bash", "cat", "chmod", "cksum", "dirname", "env", "grep", "ls", "mkdir", "rm", "sh", "touch")

#: Makes an environment whose interpreter is real, but for a pip that only writes down what it was asked for.
PYTHON = f"""
case "$*" in
"-m venv "*)
  echo made >>"$STATE/venv"
  mkdir -p "$3/bin"
  cat >"$3/bin/python" <<'end'
#!/bin/sh
case "$*" in
"-m pip "*) echo "$PWD: $*" >>"$STATE/pip"; exit "${{PIP_FAILS:-0}}" ;;
"-m pytest "*) echo "$*" >>"$STATE/pytest"; exit ;;
esac
exec {sys.executable!r} "$@"
end
  for tool in progevo ruff mypy lint-imports sphinx-build; do
    printf '#!/bin/sh\necho "%s $*"\n' "$tool" >"$3/bin/$tool"
    chmod +x "$3/bin/$tool"
  done
  chmod +x "$3/bin/python"
  ;;
*) exec {sys.executable!r} "$@" ;;
esac
"""

#: The same on a system that split it in two: it makes no environment until another package is there.
SPLIT = 'case "$*" in *ensurepip*) [ -e "$STATE/installed" ]; exit ;; esac\n' + PYTHON

OLD = """
case "$*" in *base_prefix*) echo "3.10.12 /usr" ;; *) exit 1 ;; esac
"""

BROKEN_SHIM = """
echo "pyenv: command not found" >&2; exit 127
"""

INSTALL = """
echo "${0##*/} $*" >>"$STATE/installs"
case "$*" in *install*|*add*|*-S*) touch "$STATE/installed" ;; esac
"""


class Host:
    """A small world of stand-ins: what is on PATH, who one is, and a checkout of the scripts."""

    def __init__(self, folder: Path, repo: Path) -> None:
        self.bin, self.state = folder / "bin", folder / "state"
        self.checkout = folder / "a check out"  # a space, as anywhere
        for made in (self.bin, self.state, self.checkout):
            made.mkdir()
        shutil.copytree(repo / "scripts", self.checkout / "scripts")
        for name in ("constraints.txt", "pyproject.toml"):
            shutil.copy(repo / name, self.checkout / name)
        for name in REAL:
            found = shutil.which(name)
            assert found, name
            (self.bin / name).symlink_to(found)
        self.has(id="echo 0", uname="echo Linux", bwrap="")

    def has(self, **commands: str) -> None:
        """Puts stand-ins on PATH; `python3_11` is python3.11, `apt_get` is apt-get."""
        for name, body in commands.items():
            name = name.replace("python3_", "python3.").replace("_", "-")
            path = self.bin / name
            path.write_text(f"#!{self.bin}/bash\n{body}\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def lacks(self, *names: str) -> None:
        for name in names:
            (self.bin / name).unlink()

    def ordinary_user(self) -> None:
        """Someone without root, whose sudo (if any) wants a password."""
        self.has(id="echo 1000", sudo="exit 1")

    def demo(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs scripts/demo from elsewhere."""
        return self._script("demo", *arguments, **environment)

    def test(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs scripts/test from elsewhere."""
        return self._script("test", *arguments, **environment)

    def _script(self, name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.checkout / "scripts" / name, *arguments],
            cwd=self.state,
            env={"PATH": str(self.bin), "STATE": str(self.state), "HOME": str(self.state), **environment},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def record(self, name: str) -> list[str]:
        """The lines that stand-ins wrote down."""
        path = self.state / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def host(tmp_path: Path, repo: Path) -> Host:
    return Host(tmp_path, repo)


def test_first_run_sets_up_and_runs(host: Host) -> None:
    host.has(python3=PYTHON)
    result = host.demo("--out", "here")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "progevo run era --task s3e1 --iterations 30 --workers 2 --seed 0 --out here\n"
    first, second = host.record("pip")
    assert first.startswith(f"{host.checkout}: ")
    assert first.endswith("-c constraints.txt setuptools")
    assert second.endswith("-c constraints.txt --no-build-isolation -e .")


def test_a_ready_environment_is_used_again(host: Host) -> None:
    host.has(python3=PYTHON)
    host.demo()
    result = host.demo()
    assert result.returncode == 0
    assert result.stderr == ""
    assert len(host.record("venv")) == 1
    assert len(host.record("pip")) == 2


def test_new_locked_versions_are_installed_into_it(host: Host) -> None:
    host.has(python3=PYTHON)
    host.demo()
    with (host.checkout / "constraints.txt").open("a") as lock:
        lock.write("another==1.0\n")
    assert host.demo().returncode == 0
    assert len(host.record("venv")) == 1
    assert len(host.record("pip")) == 4


def test_a_moved_checkout_gets_a_new_environment(host: Host) -> None:
    host.has(python3=PYTHON)
    host.demo()
    host.checkout = host.checkout.rename(host.checkout.parent / "moved")
    assert host.demo().returncode == 0
    assert len(host.record("venv")) == 2


def test_a_failed_install_is_not_taken_for_ready(host: Host) -> None:
    host.has(python3=PYTHON)
    result = host.demo(PIP_FAILS="1")
    assert result.returncode == 2
    assert "pip could not install" in result.stderr
    assert host.demo().returncode == 0
    assert len(host.record("venv")) == 1


def test_a_folder_of_someone_else_is_left_alone(host: Host) -> None:
    host.has(python3=PYTHON)
    theirs = host.state / "theirs"
    theirs.mkdir()
    (theirs / "pyvenv.cfg").write_text("home = /usr/bin\n")
    result = host.demo(PROGEVO_VENV="theirs")
    assert result.returncode == 2
    assert f"{theirs} was not made by these scripts" in result.stderr
    assert [path.name for path in theirs.iterdir()] == ["pyvenv.cfg"]


def test_an_old_python_alone_is_refused_in_words(host: Host) -> None:
    host.has(python3=OLD, apt_get=INSTALL)
    result = host.demo()
    assert result.returncode == 2
    assert "needs Python 3.11 or newer. Found: python3 (3.10.12)." in result.stderr
    assert "sudo apt-get install python3.11 python3.11-venv" in result.stderr
    assert host.record("installs") == []


def test_no_python_at_all_is_said(host: Host) -> None:
    result = host.demo()
    assert result.returncode == 2
    assert "Found: no Python at all." in result.stderr


def test_a_shim_without_its_python_is_passed_over(host: Host) -> None:
    host.has(python3_13=BROKEN_SHIM, python3_12=OLD, python3=PYTHON)
    assert host.demo().returncode == 0


def test_an_interpreter_that_can_make_environments_is_preferred(host: Host) -> None:
    host.has(python3_13=SPLIT, python3=PYTHON, apt_get=INSTALL)
    assert host.demo().returncode == 0
    assert host.record("installs") == []


def test_a_named_python_is_the_one(host: Host) -> None:
    host.has(python3=BROKEN_SHIM, mine=PYTHON, old=OLD)
    assert host.demo(PYTHON=str(host.bin / "mine")).returncode == 0
    old = host.demo(PYTHON=str(host.bin / "old"))
    assert (old.returncode, "is Python 3.10.12; progevo needs 3.11" in old.stderr) == (2, True)
    gone = host.demo(PYTHON="/nowhere/python")
    assert (gone.returncode, "PYTHON=/nowhere/python does not run" in gone.stderr) == (2, True)


def test_root_installs_the_missing_ensurepip(host: Host) -> None:
    host.has(python3=SPLIT, apt_get=INSTALL)
    result = host.demo()
    assert result.returncode == 0, result.stderr
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    update, install = host.record("installs")
    assert update == "apt-get update -qq"
    assert install.startswith(f"apt-get install -y python{minor}-venv ")


def test_an_ordinary_user_is_told_how_to_get_ensurepip(host: Host) -> None:
    host.has(python3=SPLIT, apt_get=INSTALL)
    host.ordinary_user()
    result = host.demo()
    assert result.returncode == 2
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"    sudo apt-get install -y python{minor}-venv\n" in result.stderr
    assert host.record("installs") == []


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt_get", "apt-get install -y bubblewrap"),
        ("dnf", "dnf install -y bubblewrap"),
        ("pacman", "pacman -Sy --noconfirm bubblewrap"),
        ("apk", "apk add bubblewrap"),
    ],
)
def test_missing_bubblewrap(host: Host, manager: str, command: str) -> None:
    host.has(python3=PYTHON, **{manager: INSTALL})
    host.lacks("bwrap")
    assert host.demo().returncode == 0
    assert host.record("installs")[-1].startswith(command)

    (host.state / "installs").unlink()
    host.ordinary_user()
    result = host.demo()
    assert result.returncode == 3
    assert f"    sudo {command}\n" in result.stderr
    assert host.record("installs") == []


def test_missing_bubblewrap_with_a_free_sudo(host: Host) -> None:
    host.has(python3=PYTHON, apt_get=INSTALL, true="", id="echo 1000", sudo='shift; "$@"')
    host.lacks("bwrap")
    assert host.demo().returncode == 0
    assert host.record("installs")[-1].startswith("apt-get install -y bubblewrap")


def test_missing_bubblewrap_without_a_manager(host: Host) -> None:
    host.has(python3=PYTHON)
    host.lacks("bwrap")
    result = host.demo()
    assert result.returncode == 3
    assert "Install bubblewrap with this system's package manager" in result.stderr


def test_nothing_is_installed_on_macos(host: Host) -> None:
    host.has(python3=PYTHON, uname="echo Darwin")
    host.lacks("bwrap")
    assert host.demo().returncode == 0


PYTEST = "-m pytest -n 3 --dist loadfile tests/report"


def test_ci_installs_the_browser_that_tests_look_at_the_page_in(host: Host) -> None:
    host.has(python3=PYTHON, apt_get=INSTALL)
    result = host.test("tests/report", CI="true")
    assert result.returncode == 0, result.stderr + result.stdout
    update, install = host.record("installs")
    assert update == "apt-get update -qq"
    assert install.startswith("apt-get install -y chromium --no-install-recommends ")
    assert host.record("pytest") == [PYTEST]
    assert "skipped" not in result.stderr


def test_what_cannot_be_fetched_is_a_failure_and_the_other_steps_are_taken(host: Host) -> None:
    """It comes beside the other steps, in a process of its own: what it says and how it ends are to be heard."""
    lost = 'case "$*" in *propose/model.txt*) echo "no such wheel" >&2; exit 1 ;; esac\n'
    host.has(python3=PYTHON.replace("#!/bin/sh\n", f"#!/bin/sh\n{lost}"))
    result = host.test("tests/report")
    assert result.returncode == 1
    assert "no such wheel" in result.stderr
    said, _, summary = result.stdout.partition("-- summary")
    steps = ["lint", "format", "types", "layers", "docs", "browser", "model", "tests"]
    assert re.findall("^-- (.*)", said, re.MULTILINE) == steps
    wanted = [(name, "FAILED" if name == "model" else "ok") for name in ["set-up", *steps]]
    assert re.findall(r"^ {3}(\S+) +(\S+) +\d+ s$", summary, re.MULTILINE) == wanted
    assert host.record("pytest") == [PYTEST]


def test_nobody_gets_a_browser_unasked(host: Host) -> None:
    host.has(python3=PYTHON, apt_get=INSTALL)
    for environment in ({}, {"CI": ""}):
        assert host.test(**environment).returncode == 0
    assert host.record("installs") == []


@pytest.mark.parametrize("name", ["chromium", "chromium_browser", "google_chrome"])
def test_the_browser_that_is_there_is_used(host: Host, name: str) -> None:
    host.has(python3=PYTHON, apt_get=INSTALL, **{name: ""})
    assert host.test(CI="true").returncode == 0
    assert host.record("installs") == []


def test_tests_go_on_where_no_browser_can_be_had(host: Host) -> None:
    said = "Going on without Chromium: tests/report/test_browser.py will be skipped."
    host.has(python3=PYTHON, apt_get=INSTALL + 'case "$*" in *chromium*) exit 100 ;; esac\n')
    failing = host.test("tests/report", CI="true")
    assert (failing.returncode, said in failing.stderr) == (0, True), failing.stderr
    assert "That failed. Run this" in failing.stderr
    assert len(host.record("installs")) == 2

    host.ordinary_user()
    refused = host.test("tests/report", CI="true")
    assert (refused.returncode, said in refused.stderr) == (0, True), refused.stderr
    assert "    sudo apt-get install -y chromium\n" in refused.stderr
    assert len(host.record("installs")) == 2

    host.lacks("apt-get")
    none = host.test("tests/report", CI="true")
    assert (none.returncode, said in none.stderr) == (0, True), none.stderr
    assert host.record("pytest") == [PYTEST] * 3


def test_both_look_for_the_same_browsers(repo: Path) -> None:
    """A browser that the script takes for enough is one that the tests find."""
    wanted = re.search(r"for name in (chromium .*); do", (repo / "scripts" / "lib.sh").read_text())
    assert wanted is not None
    assert wanted[1].split() == list(NAMES)


@pytest.mark.parametrize("word", ["--help", "-h"])
@pytest.mark.parametrize(("script", "told"), [("test", "go on to pytest"), ("demo", "go on to `progevo run`")])
def test_help_prints_a_few_lines_and_sets_nothing_up(host: Host, script: str, told: str, word: str) -> None:
    host.has(python3=PYTHON, apt_get=INSTALL)
    host.lacks("bwrap")
    result = host.demo(word) if script == "demo" else host.test(word)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == f"usage: scripts/{script} [ARGUMENT]..."
    assert 3 <= len(lines) <= 8
    assert told in " ".join(lines)
    assert not any(line.startswith("#") for line in lines)
    for name in ("venv", "pip", "pytest", "installs"):
        assert host.record(name) == []


def test_help_of_the_lock_prints_its_lines_and_makes_nothing(host: Host) -> None:
    before = (host.checkout / "constraints.txt").read_bytes()
    result = host._script("lock", "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: scripts/lock PYTHON...\n")
    nothing = host._script("lock")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert nothing.stderr.startswith("usage: scripts/lock PYTHON...\n")
    assert (host.checkout / "constraints.txt").read_bytes() == before
