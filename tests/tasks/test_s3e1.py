"""tasks.s3e1: facts of the real file, where every part of it goes, and the generated table that stands in for it."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from progevo import dataset
from progevo.domain import SEARCH, TEST, Domain
from progevo.errors import BadOutput, DataError
from progevo.evaluators.tabular import Tabular, harness
from progevo.tasks.s3e1 import table, task
from progevo.types import Answer, Score

REAL = Path(os.environ.get("PROGEVO_S3E1_CSV") or Path(__file__).parents[3] / "shared" / "s3e1" / "train.csv")
needs_real = pytest.mark.skipif(
    not REAL.is_file(), reason=f"the real S3E1 table is not shipped, and {REAL} is not there (set PROGEVO_S3E1_CSV)"
)
FEATURES = table.HEADER.split(",")[:-1]


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGEVO_DATA", str(tmp_path / "data"))


@pytest.fixture(params=["real", "synthetic"])
def domain(request: pytest.FixtureRequest) -> Domain:
    if request.param == "synthetic":
        return task.domain()
    if not REAL.is_file():
        pytest.skip(f"{REAL} is not there")
    return task.domain(data=REAL)


def rows_of(path: Path) -> list[list[str]]:
    with open(path, newline="") as file:
        return list(csv.reader(file))


def judged(domain: Domain, split: str, entry: Callable[[str, str], Any], folder: Path) -> Score:
    """Runs a function as a candidate would be run, but in this process."""
    inputs = domain.evaluator.inputs(split)
    for name, path in inputs.files.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(path)
    value, arrays = harness.run(entry, inputs.request, folder)
    return domain.evaluator.score(split, Answer(value=value, arrays=tuple(map(tuple, arrays))))


def linear(train_path: str, test_path: str) -> Any:
    pandas = pytest.importorskip("pandas")
    from sklearn.linear_model import LinearRegression

    train, test = pandas.read_csv(train_path), pandas.read_csv(test_path)
    return LinearRegression().fit(train.drop(columns="MedHouseVal"), train["MedHouseVal"]).predict(test)


def boosted(train_path: str, test_path: str) -> Any:
    pandas = pytest.importorskip("pandas")
    from sklearn.ensemble import HistGradientBoostingRegressor

    train, test = pandas.read_csv(train_path), pandas.read_csv(test_path)
    model = HistGradientBoostingRegressor(max_iter=50, random_state=0)
    return model.fit(train.drop(columns="MedHouseVal"), train["MedHouseVal"]).predict(test)


class TestDomain:
    def test_what_it_says_of_itself(self, domain: Domain) -> None:
        assert domain.name == task.NAME == "s3e1"
        assert domain.entrypoint == "train_and_predict"
        assert "def train_and_predict" in domain.seed.source
        assert domain.prompt.strip()
        assert (domain.metric.name, domain.metric.direction, domain.metric.aggregate) == (
            "RMSE",
            "minimize",
            "root_mean",
        )
        assert (domain.limits.wall_s, domain.limits.cpu_s, domain.limits.memory_bytes) == (60.0, 60, 2 << 30)
        assert domain.splits == (SEARCH, TEST)
        assert domain.moves

    def test_what_the_gate_is_told(self, domain: Domain) -> None:
        assert {"numpy", "pandas", "scipy", "sklearn", "math"} <= domain.gate.imports
        assert not {"os", "sys", "io", "progevo", "xgboost", "lightgbm", "operator"} & domain.gate.imports
        assert domain.gate.refused_names >= {"GridSearchCV", "RandomizedSearchCV"}

    def test_listing_the_task_is_quick(self) -> None:
        code = (
            "import sys, progevo.tasks.s3e1.task as t; assert t.NAME and t.ABOUT and '\\n' not in t.ABOUT; "
            "sys.exit(any(m in sys.modules for m in ('numpy', 'pandas', 'sklearn', 'scipy', 'libcst')))"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

    def test_making_the_domain_needs_no_numpy(self) -> None:
        code = "import sys; from progevo.tasks.s3e1.task import domain; domain(); sys.exit('numpy' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class TestFiles:
    def test_sizes_and_ids(self, domain: Domain) -> None:
        files = {split: domain.evaluator.inputs(split).files for split in domain.splits}
        assert files[SEARCH]["train.csv"] == files[TEST]["train.csv"]
        train = rows_of(files[SEARCH]["train.csv"])
        assert train[0] == [*FEATURES, "MedHouseVal"]
        assert [row[0] for row in train[1:]] == [str(n) for n in range(29_709)]
        for split, first, count in ((SEARCH, 29_709, 4_952), (TEST, 34_661, 2_476)):
            features = rows_of(files[split]["test.csv"])
            assert features[0] == FEATURES
            assert [row[0] for row in features[1:]] == [str(n) for n in range(first, first + count)]
            assert {len(row) for row in features} == {9}
        assert task.DATASET.rows == 34_661 + 2_476

    def test_the_truth_of_the_tail_is_in_no_file(self, domain: Domain) -> None:
        given = {
            path: path.read_bytes() for split in domain.splits for path in domain.evaluator.inputs(split).files.values()
        }
        assert len(given) == 3
        # A scored row is known by its id: it stands in its own feature file, with nine cells, and nowhere else.
        for path, text in given.items():
            scored = [line for line in text.splitlines()[1:] if int(line.split(b",")[0]) >= task.HEAD]
            assert all(line.count(b",") == 8 for line in scored)
            assert not scored or path.name != "train.csv"
        assert not any(domain.evaluator.inputs(split).request for split in domain.splits)
        assert {path.name for path in next(iter(given)).parent.iterdir()} == {path.name for path in given}

    def test_cells_are_the_bytes_of_the_table(self, domain: Domain) -> None:
        raw = REAL.read_bytes() if domain.data.source == "s3e1" else table.text().encode()
        search, test = (domain.evaluator.inputs(split).files for split in (SEARCH, TEST))
        assert raw.startswith(search["train.csv"].read_bytes())
        tail = search["test.csv"].read_bytes().splitlines()[1:] + test["test.csv"].read_bytes().splitlines()[1:]
        evaluator = domain.evaluator
        assert isinstance(evaluator, Tabular)
        truth = [*evaluator.truth[SEARCH], *evaluator.truth[TEST]]
        whole = raw.splitlines()[1 + task.HEAD :]
        assert len(tail) == len(truth) == len(whole) == 7_428
        for cells, target, line in zip(tail, truth, whole, strict=True):
            before, _, last = line.rpartition(b",")
            assert (before, float(last)) == (cells, target)

    def test_another_user_may_read_them(self, domain: Domain) -> None:
        for path in domain.evaluator.inputs(SEARCH).files.values():
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755

    def test_they_go_when_the_process_ends_and_not_when_its_child_does(self) -> None:
        code = (
            "import os, sys; from progevo.tasks.s3e1.task import domain\n"
            "path = domain().evaluator.inputs('search').files['train.csv']\n"
            "assert domain().evaluator.inputs('test').files['train.csv'] == path\n"
            "if (child := os.fork()) == 0: sys.exit()\n"
            "os.waitpid(child, 0); assert path.exists(); print(path.parent)"
        )
        ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
        assert not Path(ended.stdout.strip()).exists()


class TestScore:
    @needs_real
    def test_linear_regression_on_the_real_table(self, tmp_path: Path) -> None:
        real = task.domain(data=REAL)
        assert judged(real, TEST, linear, tmp_path).metrics["rmse"] == pytest.approx(0.72968, abs=1e-4)
        assert judged(real, SEARCH, linear, tmp_path).metrics["rmse"] == pytest.approx(0.73607, abs=1e-4)

    def test_one_error_per_row(self, domain: Domain, tmp_path: Path) -> None:
        score = judged(domain, TEST, lambda *_: [2.0] * 2_476, tmp_path)
        assert len(score.cases) == 2_476
        assert -score.score == score.metrics["rmse"] == math.sqrt(math.fsum(score.cases) / 2_476)

    def test_predictions_for_the_wrong_rows(self, domain: Domain, tmp_path: Path) -> None:
        for count in (0, 2_475, 4_952, 7_428, 29_709):
            with pytest.raises(BadOutput, match=f"got {count} predictions for 2476 rows"):
                judged(domain, TEST, lambda *_, count=count: [2.0] * count, tmp_path)


class TestData:
    @needs_real
    def test_the_real_file(self) -> None:
        dataset.verify(REAL, task.DATASET)
        raw = REAL.read_bytes()
        rows = list(csv.reader(io.StringIO(raw.decode())))[1:]
        assert len(rows) == task.DATASET.rows == 37_137
        assert [row[0] for row in rows] == [str(n) for n in range(37_137)]
        assert raw.startswith(b"id,")
        assert raw.endswith(b"\n")
        assert b"\r" not in raw
        assert all(math.isfinite(float(cell)) for row in rows for cell in row)
        targets = [float(row[-1]) for row in rows]
        assert (min(targets), max(targets), len(set(targets))) == (0.14999, 5.00001, 3_723)
        data = task.domain(data=REAL).data
        assert (data.source, data.sha256, data.rows) == ("s3e1", task.DATASET.sha256, 37_137)

    @needs_real
    def test_an_installed_file_is_used(self) -> None:
        assert task.domain().data.source == "s3e1-synthetic"
        path = dataset.get(task.DATASET, from_file=REAL)
        assert task.domain().data.source == "s3e1"
        path.write_bytes(REAL.read_bytes()[:-1])
        with pytest.raises(DataError, match="progevo data get s3e1"):
            task.domain()

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.csv"
        path.write_text(table.text())
        with pytest.raises(DataError) as caught:
            task.domain(data=path)
        for words in (
            task.DATASET.sha256,
            hashlib.sha256(path.read_bytes()).hexdigest(),
            "progevo data get s3e1",
            str(path),
        ):
            assert words in str(caught.value)
        path.write_text("id,MedHouseVal\n0,1\n")
        with pytest.raises(DataError, match="header"):
            task.domain(data=path)
        with pytest.raises(DataError, match="does not exist"):
            task.domain(data=tmp_path / "none.csv")


class TestTable:
    def test_the_same_bytes_everywhere(self) -> None:
        text = table.standard_text()
        assert hashlib.sha256(text.encode()).hexdigest() == (
            "a62c7429eed0ab77a00599d67ad919a755f6f9068f5fdc2d40f9c3361558eb73"
        )
        data = task.domain().data
        assert (data.source, data.rows) == ("s3e1-synthetic", 37_137)
        assert data.sha256 == hashlib.sha256(text.encode()).hexdigest()

    def test_form_and_ranges(self) -> None:
        header, *rows = csv.reader(io.StringIO(table.standard_text()))
        assert ",".join(header) == task.DATASET.header
        assert [row[0] for row in rows] == [str(n) for n in range(37_137)]
        columns = dict(zip(header, zip(*[map(float, row) for row in rows], strict=True), strict=True))
        for name, low, high in (
            ("MedInc", 0.4999, 15.0001),
            ("HouseAge", 2, 52),
            ("AveRooms", 0.8, 29),
            ("AveBedrms", 0.5, 5.9),
            ("Population", 3, 35_682),
            ("AveOccup", 0.95, 503),
            ("Latitude", 32.55, 41.95),
            ("Longitude", -124.35, -114.55),
            ("MedHouseVal", 0.14999, 5.00001),
        ):
            assert low <= min(columns[name]) < max(columns[name]) <= high
        assert all(
            east >= table.coast(north) for north, east in zip(columns["Latitude"], columns["Longitude"], strict=True)
        )

    def test_the_noise_floor_is_what_it_says(self) -> None:
        scored = [[*map(float, row)] for row in csv.reader(io.StringIO(table.standard_text())) if row[0] != "id"][
            task.HEAD :
        ]
        floor = math.sqrt(math.fsum(table.variance(*row[1:9]) for row in scored) / len(scored))
        assert floor == pytest.approx(table.NOISE_RMSE, abs=5e-5)
        # The best predictor there is comes out there, up to the luck of 7,428 draws (standard error 0.004).
        best = math.sqrt(math.fsum((table.expected(*row[1:9]) - row[9]) ** 2 for row in scored) / len(scored))
        assert best == pytest.approx(table.NOISE_RMSE, abs=0.012)

    def test_expected_is_the_mean_over_the_noise(self) -> None:
        normal = NormalDist().inv_cdf
        draws = [normal((n + 0.5) / 20_000) for n in range(20_000)]
        for features in (
            (1.0, 50.0, 4.0, 1.0, 900.0, 3.0, 36.8, -119.8),
            (14.0, 20.0, 8.0, 1.0, 900.0, 2.0, 37.8, -122.4),
        ):
            value = table.price(*features)
            cut = [min(max(value + table.NOISE_SD * z, table.LOW), table.CAP) for z in draws]
            mean = math.fsum(cut) / len(cut)
            assert table.expected(*features) == pytest.approx(mean, abs=1e-4)
            assert table.variance(*features) == pytest.approx(
                math.fsum((v - mean) ** 2 for v in cut) / len(cut), abs=1e-4
            )

    def test_there_is_something_to_find(self, tmp_path: Path) -> None:
        domain = task.domain()
        for split in (SEARCH, TEST):
            line, boost = (judged(domain, split, entry, tmp_path).metrics["rmse"] for entry in (linear, boosted))
            assert table.NOISE_RMSE + 0.04 < boost < line - 0.15
