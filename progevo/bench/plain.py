"""Runs one built-in, trusted program in a plain interpreter, no sandbox around it: a yardstick for confinement.

Stands alone, as the runner does: the standard library, the profile's packages and the harness. It is given nothing but
programs that come with progevo. Standard input: `{"packages", "preload", "harness", "inputs", "source", "entrypoint",
"request"}`; standard output: how many numbers the answer holds.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path


def main() -> None:
    told = json.load(sys.stdin)
    sys.path.extend(told["packages"])
    for name in told["preload"]:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    spec = importlib.util.spec_from_file_location("harness", told["harness"])
    assert spec is not None and spec.loader is not None
    harness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(harness)
    module: dict[str, object] = {"__name__": "program"}
    exec(compile(told["source"], "program", "exec", dont_inherit=True), module)
    _, arrays = harness.run(module[told["entrypoint"]], told["request"], Path(told["inputs"]))
    print(sum(map(len, arrays)), flush=True)
    os._exit(0)  # as in the sandbox: giving an interpreter's memory back piece by piece would cost another tenth


if __name__ == "__main__":
    main()
