"""The programs that the documentation shows do what it says they do."""

from __future__ import annotations

import re
import subprocess
import sys


def blocks(path):
    return re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL)


def test_the_task_in_the_readme_runs_and_improves(repo, tmp_path):
    (source,) = blocks(repo / "README.md")
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    best = eval(done.stdout)
    seed = abs(1.5 - 2**0.5) + abs(2 - 3**0.5) + abs(3 - 5**0.5)
    assert best["search"] < seed
    assert best["test"] is not None


def test_the_task_of_the_tutorial_runs_and_improves(repo, tmp_path):
    task, use = blocks(repo / "docs" / "tutorial.md")
    (tmp_path / "roots.py").write_text(task)
    source = use.replace("print", "import json\nprint").replace('result["gain"]', "json.dumps(result)")
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    null = None
    result = eval(done.stdout, {"null": null, "true": True, "false": False})
    assert result["gain"]["search"] > 0
    assert result["gain"]["test_se"] is not None
