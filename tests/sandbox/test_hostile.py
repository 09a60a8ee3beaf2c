"""Our own hostile programs, in every arm; `test_battery` runs those of others where they are there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import psutil
import pytest


def _beside(name: str) -> ModuleType:
    """A module that lies beside this file: tests are no package."""
    spec = importlib.util.spec_from_file_location(f"sandbox_tests_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hostile = _beside("hostile")


@pytest.mark.parametrize("family", hostile.FAMILIES)
def test_a_hostile_program_gets_nowhere(arm, family):
    programs = hostile.FAMILIES[family]
    jobs = [{"source": each.source, "limits": each.limits} for each in programs.values()]
    ended = arm.run(*jobs, env={"PROGEVO_SECRET": hostile.TOKEN})
    wrong = {
        name: done
        for (name, each), done in zip(programs.items(), ended, strict=True)
        if (done["value"] if done["status"] == "ok" else done["status"]) != each.expect
        or (done["status"] == "ok") != (done["reason"] == "")
        or not all(letter.isprintable() or letter in "\n\t" for letter in done["reason"] + done["log"])
    }
    assert not wrong
    assert hostile.MARK not in [process.info["name"] for process in psutil.process_iter(["name"])]
