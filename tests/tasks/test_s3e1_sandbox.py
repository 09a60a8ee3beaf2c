"""S3E1 in the real sandbox: what the seed is worth there, and that the answers are nowhere to be found."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace

import pytest

from progevo import Candidate, GatePolicy, Program, evaluate, find_domain
from progevo.domain import SEARCH, TEST
from progevo.sandbox.probe import open_sandbox
from progevo.types import Inputs

#: Walks every file that can be read, this process's memory of descriptors included, for the scored rows with their
#: target; where it finds none it answers with the mean, as an honest program would.
READ_THE_LABELS = """
import os

def train_and_predict(train_path, test_path):
    rows = open(test_path).read().splitlines()[1:]
    wanted = {row: place for place, row in enumerate(rows)}
    found = [None] * len(rows)
    for folder, _, names in os.walk("/"):
        if folder.startswith(("/proc/sys", "/sys")):
            continue
        for name in names:
            path = os.path.join(folder, name)
            if not name.endswith((".csv", ".txt", ".json", ".dat")) and "/fd" not in folder:
                continue
            try:
                if os.path.getsize(path) > 10**8:
                    continue
                text = open(path, errors="replace").read() if os.path.isfile(path) else ""
            except OSError:
                continue
            for line in text.splitlines():
                features, _, target = line.rpartition(",")
                if features in wanted:
                    try:
                        found[wanted[features]] = float(target)
                    except ValueError:
                        pass
    targets = [float(line.rpartition(",")[2]) for line in open(train_path).read().splitlines()[1:]]
    mean = sum(targets) / len(targets)
    return [mean if value is None else value for value in found]
"""

MEAN = """
import pandas as pd

def train_and_predict(train_path, test_path):
    mean = pd.read_csv(train_path)["MedHouseVal"].mean()
    return [float(mean)] * len(pd.read_csv(test_path))
"""


@pytest.fixture(scope="module")
def box():
    with closing(open_sandbox("tabular")) as made:
        yield made


def judged(domain, source, split, box):
    return evaluate(domain, Candidate(program=Program(source), origin="test"), split, box)


def with_the_answers(domain, folder):
    """The twin: the same domain, with the whole table among the readable inputs."""
    real = domain.evaluator
    table = folder / "whole.csv"
    features = real.inputs(SEARCH).files["test.csv"].read_text().splitlines()
    rows = [f"{row},{target!r}" for row, target in zip(features[1:], real.truth[SEARCH], strict=True)]
    table.write_text("\n".join([f"{features[0]},MedHouseVal", *rows]))
    table.chmod(0o644)

    class Leaking:
        harness = real.harness

        def inputs(self, split, /):
            return Inputs(files={**real.inputs(split).files, "whole.csv": table})

        def score(self, split, answer, /):
            return real.score(split, answer)

    return replace(domain, evaluator=Leaking())


def test_reading_the_labels_scores_what_an_honest_mean_scores(box, tmp_path):
    domain = find_domain("s3e1")
    attacked = replace(domain, gate=GatePolicy(imports=frozenset(), permissive=True))
    mean = judged(domain, MEAN, SEARCH, box)
    attack = judged(attacked, READ_THE_LABELS, SEARCH, box)
    assert attack.status == mean.status == "ok"
    assert attack.score == pytest.approx(mean.score, abs=1e-9)
    twin = judged(with_the_answers(attacked, tmp_path), READ_THE_LABELS, SEARCH, box)
    assert twin.score == 0.0


def test_a_result_line_on_stdout_changes_nothing(box):
    domain = find_domain("s3e1")
    forged = '{"status": "ok", "rmse": 0.0, "score": 0.0, "kind": "answer"}'
    program = f"{MEAN}\nprint({forged!r})\n".replace("return [", f"print({forged!r})\n    return [")
    honest, liar = judged(domain, MEAN, SEARCH, box), judged(domain, program, SEARCH, box)
    assert liar.score == honest.score
    assert liar.metrics == honest.metrics
    assert liar.log_tail.count(forged) == 2


@pytest.mark.parametrize("module", ["random._os", "numpy.os", "sklearn.utils.os"])
def test_a_module_inside_a_module_is_refused(box, module):
    root, _, name = module.rpartition(".")
    outcome = judged(find_domain("s3e1"), f"import {root}\n{MEAN}\nstolen = {root}.{name}\n", SEARCH, box)
    assert outcome.status == "gate_refused"
    assert name in outcome.reason


@pytest.mark.parametrize(
    "answer",
    ["[1.0] * 3", "[[1.0]] * {n}", "['x'] * {n}", "[float('nan')] * {n}", "[1e300] * {n}", "None", "[[1.0] * {n}]"],
)
def test_predictions_that_are_none_are_bad_output(box, answer):
    source = f"def train_and_predict(train_path, test_path):\n    return {answer.format(n=4952)}\n"
    outcome = judged(find_domain("s3e1"), source, SEARCH, box)
    assert outcome.status == "bad_output"
    assert outcome.score == -math.inf


def test_the_seed_on_the_real_table(box, shared):
    table = shared / "s3e1" / "train.csv"
    if not table.exists():
        pytest.skip("no s3e1/train.csv in ../shared")
    domain = find_domain("s3e1", data=table)
    seed = domain.seed.source
    assert judged(domain, seed, SEARCH, box).metrics["rmse"] == pytest.approx(0.73607, abs=1e-4)
    assert judged(domain, seed, TEST, box).metrics["rmse"] == pytest.approx(0.72968, abs=1e-4)
