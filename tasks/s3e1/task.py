"""S3E1: predict Californian house values, Kaggle's Playground Series season 3, episode 1 (see docs/s3e1.md)."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from progevo import dataset
from progevo.dataset import Dataset
from progevo.domain import SEARCH, TEST, Domain, Usual
from progevo.evaluators.tabular import Tabular
from progevo.tasks.s3e1 import table
from progevo.types import MIB, DataSource, GatePolicy, Limits, Metric, Program

NAME = "s3e1"
ABOUT = "Regression on Californian house values: train_and_predict(train_path, test_path), scored by RMSE."

DATASET = Dataset(
    name=NAME,
    url="https://raw.githubusercontent.com/google-research/era/796b7d86d728fb9bbaa25313ab797350e89a3f9e"
    "/implementation/data/playground-series-s3e1/train.csv",
    sha256="043cce98df4225f4527565e6b949f95212e3eace85a49c0272bc6871d812491a",
    file_name="train.csv",
    header=table.HEADER,
    rows=37_137,
    about="Kaggle Playground Series S3E1, train.csv; its licence is not established, so progevo ships no row of it.",
)

#: The cut of ERA's implementation/playground_s3e1.py at commit 796b7d8: the head trains, the tail is scored.
HEAD = int(0.8 * DATASET.rows)
#: The tail in twelve shards of 619 rows: the search ranks on the first eight, the last four are seen once at the end.
SCORED = {SEARCH: slice(HEAD, HEAD + 8 * 619), TEST: slice(HEAD + 8 * 619, HEAD + 12 * 619)}

#: What of the standard library computes, and neither reads, writes nor starts anything.
STANDARD = frozenset(
    {"__future__", "abc", "bisect", "collections", "copy", "dataclasses", "enum", "functools", "heapq", "itertools"}
    | {"math", "random", "statistics", "time", "typing", "warnings"}
)

GATE = GatePolicy(
    imports=frozenset({"numpy", "pandas", "scipy", "sklearn"}) | STANDARD,
    # Ready-made tables, the original California housing among them, are not a way to predict.
    refused_modules=frozenset({"sklearn.datasets", "sklearn.externals", "scipy.datasets"}),
    # Upstream's prompt rules these out: a grid of fits does not end within the limits.
    refused_names=frozenset({"GridSearchCV", "RandomizedSearchCV"}),
    refused_attributes=frozenset({"GridSearchCV", "RandomizedSearchCV"}),
)


def domain(*, data: Path | None = None) -> Domain:
    """The task on the file `data`, else on the installed dataset, else on the generated table.

    Raises:
        DataError: the file is not the dataset's (`progevo.dataset.read`).
    """
    from progevo.tasks.s3e1.moves import MOVES  # a listing of the tasks needs none of what these import

    path = data or dataset.installed(DATASET)
    raw = table.standard_text().encode() if path is None else dataset.read(path, DATASET)
    here = Path(__file__).parent
    return Domain(
        name=NAME,
        entrypoint="train_and_predict",
        seed=Program((here / "seed.py").read_text("utf-8")),
        prompt=(here / "prompt.md").read_text("utf-8"),
        ask=(here / "ask.md").read_text("utf-8"),
        metric=Metric(name="RMSE", direction="minimize", unit="100,000 USD", aggregate="root_mean"),
        gate=GATE,
        limits=Limits(wall_s=60.0, cpu_s=60, memory_bytes=2048 * MIB),
        profile="tabular",
        evaluator=_evaluator(raw),
        data=DataSource(
            source=NAME if path else f"{NAME}-synthetic", sha256=hashlib.sha256(raw).hexdigest(), rows=DATASET.rows
        ),
        moves=tuple(MOVES),
        case_ids={split: range(where.start, where.stop) for split, where in SCORED.items()},  # rows of the table
        # Six runs of 40 iterations (docs/s3e1-moves.md); the error of seed against histogram boosting.
        usual=Usual(gain=0.17, test_se=0.011),
    )


class Cut(NamedTuple):
    """The table in the parts that go different ways: two kinds into the sandbox, the truth not."""

    train: bytes
    features: Mapping[str, bytes]
    truth: Mapping[str, tuple[float, ...]]


def cut(raw: bytes) -> Cut:
    """Splits the CSV text by lines, so that every cell reaches the candidate as it was written."""
    header, *rows = raw.splitlines(keepends=True)
    parts = {split: [line.rpartition(b",") for line in rows[where]] for split, where in SCORED.items()}
    columns = header.rpartition(b",")[0]
    return Cut(
        train=header + b"".join(rows[:HEAD]),
        features={
            split: b"\n".join([columns, *(cells for cells, _, _ in part)]) + b"\n" for split, part in parts.items()
        },
        truth={split: tuple(float(target) for _, _, target in part) for split, part in parts.items()},
    )


@functools.lru_cache(maxsize=2)  # the real table and the generated one
def _evaluator(raw: bytes) -> Tabular:
    """Lays out the files for the sandbox, in a folder that lasts as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix=f"progevo-{NAME}-"))
    atexit.register(_remove, folder, os.getpid())
    folder.chmod(0o755)  # the sandbox may read as another user; nothing in here is secret
    parts = cut(raw)
    return Tabular(
        train_csv=_written(folder / "train.csv", parts.train),
        feature_csv={split: _written(folder / f"{split}.csv", text) for split, text in parts.features.items()},
        truth=parts.truth,
    )


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o644)
    return path


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends must not take its parent's files along
        shutil.rmtree(folder, ignore_errors=True)
