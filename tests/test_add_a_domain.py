"""docs/add-a-domain.md: the page, done from scratch as it says, gives what it says."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from progevo import find_domain, run
from progevo.check_task import check_task
from progevo.new_task import new_task
from progevo.sandbox.probe import open_sandbox


@pytest.fixture(scope="module")
def page(repo):
    return (repo / "docs" / "add-a-domain.md").read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def answer(page: str, command: str) -> list[list[str]]:
    """What the page says that a command answers, each time; what depends on the machine left out."""
    found = [block.splitlines() for block in blocks(page, "console") if block.startswith(f"$ progevo {command}")]
    return [[line for line in lines[1:] if "% of" not in line] for lines in found]


def test_the_page_is_what_happens(page, tmp_path, monkeypatch):
    monkeypatch.setattr("progevo.check_task.ENDLESS_S", 1)
    new_task("tour", tmp_path)
    folder = tmp_path / "tour"

    def checked() -> list[str]:
        with closing(open_sandbox("stdlib")) as box:
            found = check_task(lambda: find_domain(str(folder)), lambda _: box)
        return [f"{each.word:<6} {each.about}: {each.text}" for each in found if "% of" not in each.text]

    assert {line.split()[0] for line in checked()} == {"ok"}
    seed, task, no_moves, length, moves = blocks(page.split("## Options")[0], "python")
    for name, text in (("seed.py", seed), ("task.py", task), ("moves.py", no_moves)):
        (folder / name).write_text(text)
    first, second = answer(page, "check-task")
    assert checked() == first

    (folder / "prompt.md").write_text(blocks(page, "text")[0])
    task = task.replace("score=sum(", "score=-sum(")
    (folder / "task.py").write_text(task)
    assert [line for line in checked() if line.startswith("wrong")] == second

    head = length.splitlines()[0] + "\n"
    assert head in task
    task = task.replace(head, length).replace("import Domain", "import BadOutput, Domain")
    (folder / "task.py").write_text(task)
    (folder / "moves.py").write_text(moves)
    assert {line.split()[0] for line in checked()} == {"ok"}

    result = run(find_domain(str(folder)), search="era", iterations=20, seed=0, out=tmp_path / "run")
    ((_, test, gain),) = answer(page, "run")
    assert f"seed {result['seed_program']['test']:.5f}, best {result['best']['test']:.5f}" in test
    assert f"{result['gain']['test']:+.5f} ± {result['gain']['test_se']:.5f}" in gain
