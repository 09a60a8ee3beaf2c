"""The shape of the package: three links, what a wheel carries, and what starting up may import."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import progevo

LINKED = ("tasks", "evaluators", "sandbox_profiles")

#: The public surface: what it takes to write a task and to run it. A change here is a change for users.
PUBLIC = """
Answer BadOutput BlackBox Budget BudgetSpent Candidate ConfigError Count DataError Domain Evaluator GatePolicy Inputs
Limits Metric Move Node Outcome ProgevoError Program ProposerError RunError SandboxUnavailable Score Stage TaskError
evaluate find_domain resume run
""".split()


def python(*arguments: str, cwd: Path) -> str:
    """What an interpreter of its own prints, started in `cwd`."""
    result = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def sources(repo: Path) -> set[str]:
    """Every file of the three linked folders, as it is called inside the package."""
    files = (path for name in LINKED for path in (repo / name).rglob("*") if path.is_file())
    return {f"progevo/{path.relative_to(repo).as_posix()}" for path in files if "__pycache__" not in path.parts}


@pytest.mark.parametrize("name", LINKED)
def test_links_are_links(repo: Path, name: str) -> None:
    link = repo / "progevo" / name
    assert link.is_symlink(), f"progevo/{name} must be a link: a copy of the tree without links breaks the package"
    assert os.readlink(link) == f"../{name}"


@pytest.mark.parametrize("name", LINKED)
def test_every_folder_with_code_is_a_package(repo: Path, name: str) -> None:
    folders = {path.parent for path in (repo / name).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


@pytest.fixture(scope="module")
def archives(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and an sdist, built without the network from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "checkout"
    copy.mkdir()
    names = ["pyproject.toml", "README.md", "LICENSE", "progevo", *LINKED]
    subprocess.run(["cp", "-a", *(str(repo / name) for name in names), str(copy)], check=True)
    build = "from setuptools import build_meta as b; b.build_wheel('..'); b.build_sdist('..')"
    python("-W", "ignore", "-c", build, cwd=copy)
    return folder


def test_wheel_holds_one_name_and_every_file(repo: Path, archives: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")]
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"progevo"}
    assert sources(repo) <= set(names)
    # Read as files, never imported as a package: what new-task copies.
    assert {f"progevo/starter/{name}" for name in ("moves.py", "prompt.md", "seed.py", "task.py")} <= set(names)
    assert "progevo/py.typed" in names
    page = {path.relative_to(repo).as_posix() for path in (repo / "progevo/report/browser").iterdir()}
    assert page
    assert page <= set(names)


def test_a_wheel_of_the_sdist_is_the_same(archives: Path) -> None:
    (sdist,) = archives.glob("*.tar.gz")
    (wheel,) = archives.glob("*.whl")
    there = archives / "from_sdist"
    there.mkdir()
    python("-W", "ignore", "-c", f"import shutil; shutil.unpack_archive({str(sdist)!r})", cwd=there)
    (unpacked,) = there.iterdir()
    python("-W", "ignore", "-c", "from setuptools import build_meta as b; b.build_wheel('..')", cwd=unpacked)
    (again,) = there.glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("name", LINKED)
def test_no_top_level_name_but_progevo(tmp_path: Path, name: str) -> None:
    code = f"from importlib.util import find_spec; print(find_spec({name!r}), find_spec('progevo.{name}').name)"
    assert python("-c", code, cwd=tmp_path) == f"None progevo.{name}"


def test_public_names() -> None:
    assert sorted(progevo.__all__) == PUBLIC
    assert [name for name in PUBLIC if not hasattr(progevo, name)] == []


def test_command_line_starts_light(tmp_path: Path) -> None:
    heavy = ("numpy", "pandas", "sklearn", "scipy", "libcst", "rich", "asyncio", "dask", "distributed")
    code = f"import sys, progevo.cli; print(*[name for name in {heavy!r} if name in sys.modules])"
    assert python("-c", code, cwd=tmp_path) == ""


def test_no_path_of_a_machine(repo: Path) -> None:
    machine = re.compile(r"(^|[^\w.])/(root|work)/")  # generic examples in docs/ may name them
    if not (repo / ".git").exists() or not shutil.which("git"):
        pytest.skip("no git, or not its checkout: which files are progevo's own is unknown")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=repo, capture_output=True, text=True, check=True
    ).stdout
    found = []
    for name in filter(None, listed.split("\0")):
        if name.startswith("docs/") or (repo / name).is_symlink() or not (repo / name).is_file():
            continue
        text = (repo / name).read_bytes().decode("utf-8", "replace")
        found += [f"{name}:{n}" for n, line in enumerate(text.splitlines(), 1) if machine.search(line)]
    assert found == []
