"""tasks.s3e1.moves: one small change each, on whatever program they get, and within the rules of the prompt."""

from __future__ import annotations

import ast
import difflib
import io
import random
import re
from pathlib import Path
from typing import Any

import libcst as cst
import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from progevo import gate
from progevo.rewrite import parse
from progevo.tasks.s3e1 import table, task
from progevo.tasks.s3e1.estimators import KINDS, estimators, model
from progevo.tasks.s3e1.moves import COLUMNS, MOVES, PLACES, TARGET, tables
from progevo.types import Move, Program

SEED = (Path(task.__file__).parent / "seed.py").read_text("utf-8")
BY_NAME = {move.name: move for move in MOVES}
#: Moves that find nothing to change in the seed, and why.
NOT_ON_THE_SEED = {
    "set-parameter": "a straight line has no parameter worth setting",
    "set-neighbours": "a straight line has no neighbours",
    "average-seeds": "a straight line has no random state",
}
BOOSTED = SEED.replace("LinearRegression()", "HistGradientBoostingRegressor(max_iter=50, random_state=0)").replace(
    "sklearn.linear_model import LinearRegression", "sklearn.ensemble import HistGradientBoostingRegressor"
)
NEIGHBOURS = SEED.replace("LinearRegression()", "KNeighborsRegressor(n_neighbors=2)").replace(
    "sklearn.linear_model import LinearRegression", "sklearn.neighbors import KNeighborsRegressor"
)
#: Programs to which those moves do apply.
AFTER = {"set-parameter": BOOSTED, "set-neighbours": NEIGHBOURS, "average-seeds": BOOSTED}
#: Written by somebody else: other names, tables read in one line and changed at once, helpers, an own pipeline.
FOREIGN = """\
import numpy as np, pandas
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn import ensemble, neighbors

SEED = 7


def prepare(df):
    df["x"] = df["AveRooms"]  # kept
    return df


def train_and_predict(train_path, test_path):
    test_df, train_df = pandas.read_csv(test_path).copy(), pandas.read_csv(train_path)
    for df in (train_df, test_df):
        prepare(df)
    y = train_df.pop("MedHouseVal").values
    m = make_pipeline(
        StandardScaler(),
        neighbors.KNeighborsRegressor(15),  # enough
    )
    m2 = ensemble.ExtraTreesRegressor(
        n_estimators=40,
        random_state=SEED,
    )
    return (m.fit(train_df, y).predict(test_df) + m2.fit(train_df, y).predict(test_df)) / 2
"""
ODD = {
    "empty": "",
    "no Python": "def train_and_predict(:\n",
    "a class only": "class Model:\n    def fit(self):\n        pass\n",
    "one line": "train_and_predict = lambda a, b: []\n",
    "one-line function": "def train_and_predict(a, b): return []\n",
    "one table": "import pandas as pd\ndef train_and_predict(a, b):\n    t = pd.read_csv(a)\n    return t\n",
    "the same name twice": "def f(a, b):\n    t = read_csv(a)\n    t = read_csv(b)\n    return t\n",
    "three tables": "def f(a, b):\n    t, u, v = read_csv(a), read_csv(b), read_csv(b)\n    return t\n",
    "reads into attributes": "def f(self, a, b):\n    self.t, self.u = read_csv(a), read_csv(b)\n",
    "no return": "def f(a, b):\n    t = read_csv(a)\n    u = read_csv(b)\n    print(t, u)\n",
    "bare return": "def f(a, b):\n    t = read_csv(a)\n    u = read_csv(b)\n    return\n",
    "star arguments": "m = KNeighborsRegressor(*a, **b)\n",
    "all kinds at once": "m = StackingRegressor([" + ", ".join(f"{kind}()" for kind in KINDS) + "])\n",
    "huge": SEED + "\n\nx = 1" * 20_000,
}


def parsed(source: str) -> cst.Module:
    tree = parse(source)
    assert tree is not None
    return tree


def inserted(before: str, after: str) -> list[str]:
    return [line[2:] for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line.startswith("+ ")]


def walk(seed: int, steps: int = 25) -> list[tuple[Move, str, str]]:
    """A walk from the seed program by moves drawn at random: the move, the text before and after."""
    rng = random.Random(f"walk {seed}")
    taken: list[tuple[Move, str, str]] = []
    source = SEED
    while len(taken) < steps:
        move = rng.choice(MOVES)
        changed = move.rewrite(source, rng)
        if changed is not None:
            taken.append((move, source, changed))
            source = changed
    return taken


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds a few rows of the generated table as `train.csv` and `test.csv`."""
    path = tmp_path_factory.mktemp("s3e1")
    frame = pd.read_csv(io.StringIO("\n".join(table.standard_text().splitlines()[:1_301])))
    frame[:1_100].to_csv(path / "train.csv", index=False)
    frame[1_100:].drop(columns=TARGET).to_csv(path / "test.csv", index=False)
    return path


def run(source: str, folder: Path, **given: object) -> Any:
    """What a program predicts, on one thread; `given` are names that it finds defined."""
    names = dict(given)
    exec(compile(source, "program", "exec"), names)
    with threadpool_limits(1):
        return names["train_and_predict"](folder / "train.csv", folder / "test.csv")


def runs(source: str, folder: Path) -> bool:
    predicted = np.asarray(run(source, folder))
    return predicted.shape == (200,) and bool(np.isfinite(predicted).all())


class TestMoves:
    def test_names_and_descriptions(self) -> None:
        assert len(BY_NAME) == len(MOVES) >= 10
        assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", move.name) and move.about.endswith(".") for move in MOVES)

    @pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
    def test_every_move_applies_to_the_seed_or_it_is_known_why_not(self, move: Move) -> None:
        changed = move.rewrite(SEED, random.Random(0))
        assert (changed is None) == (move.name in NOT_ON_THE_SEED)
        if changed is None:
            assert move.rewrite(AFTER[move.name], random.Random(0)) is not None

    @pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
    def test_the_same_draw_gives_the_same_text(self, move: Move) -> None:
        for seed in range(5):
            assert move.rewrite(BOOSTED, random.Random(seed)) == move.rewrite(BOOSTED, random.Random(seed))

    @pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
    def test_what_it_makes_of_the_seed_runs(self, move: Move, folder: Path) -> None:
        for seed in range(3):
            changed = move.rewrite(AFTER.get(move.name, SEED), random.Random(seed))
            assert changed is not None
            assert runs(changed, folder)

    @pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
    @pytest.mark.parametrize("source", ODD.values(), ids=ODD.keys())
    def test_odd_programs_are_changed_or_left_but_never_raise(self, move: Move, source: str) -> None:
        for seed in range(4):
            changed = move.rewrite(source, random.Random(seed))
            assert changed is None or (changed != source and ast.parse(changed))

    @pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
    def test_a_foreign_program_keeps_its_comments_and_its_layout(self, move: Move) -> None:
        for seed in range(8):
            changed = move.rewrite(FOREIGN, random.Random(seed))
            if changed is not None:
                assert "# kept" in changed
                assert len(inserted(FOREIGN, changed)) <= 15
                assert tables(parsed(changed)) is not None


class TestWalks:
    @pytest.mark.parametrize("seed", range(6))
    def test_each_step_is_small_passes_the_gate_and_stays_within_the_rules_of_the_prompt(self, seed: int) -> None:
        for move, before, after in walk(seed):
            assert 1 <= len(inserted(before, after)) <= 15, move.name
            assert Program(after).twin != Program(before).twin
            assert gate.check(after, task.GATE, "train_and_predict").ok, move.name
            comments = {line for line in before.splitlines() if line.strip().startswith("#")}
            assert comments <= set(after.splitlines())
            assert all(int(count) <= 50 for count in re.findall(r"\b(?:n_estimators|max_iter)=(\d+)", after))
            assert all(int(members) <= 8 for members in re.findall(r"in range\((\d+)\)", after))
            # No forest of 50 trees is averaged over seeds.
            averaged = re.findall(r'\(f"seed \{seed\}", (\w+)', after)
            assert all(KINDS[kind].light_and_random for kind in averaged)

    @pytest.mark.parametrize("seed", range(3))
    def test_the_end_of_a_walk_runs(self, seed: int, folder: Path) -> None:
        assert runs(walk(seed, steps=15)[-1][2], folder)


class TestColumns:
    @pytest.mark.parametrize("name", [*COLUMNS, *PLACES])
    def test_every_column_can_be_computed(self, name: str, folder: Path) -> None:
        frame = pd.read_csv(folder / "train.csv")
        text = {**COLUMNS, **PLACES}[name].replace("{frame}", "frame")
        assert np.isfinite(eval(text, {"np": np, "frame": frame})).all()

    def test_columns_share_one_loop_and_none_comes_twice(self) -> None:
        source: str | None = SEED
        rng = random.Random(0)
        for count in range(1, len(COLUMNS) + 1):
            assert source is not None
            source = BY_NAME["ratio-column"].rewrite(source, rng)
            assert source is not None
            assert source.count("for frame in (train, test):") == 1
            assert len(set(re.findall(r'frame\["(\w+)"\] =', source))) == count
        assert source is not None
        assert BY_NAME["ratio-column"].rewrite(source, rng) is None

    def test_no_training_row_sees_its_own_value_among_the_nearest(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        places = rng.uniform(33, 35, (50, 2))  # so few that each is shared by many rows
        frame = pd.DataFrame(places[rng.integers(0, 50, 2000)], columns=["Latitude", "Longitude"])
        frame[TARGET] = rng.normal(size=2000)
        frame.to_csv(tmp_path / "train.csv", index=False)
        frame.drop(columns=TARGET).to_csv(tmp_path / "test.csv", index=False)
        source = BY_NAME["nearest-column"].rewrite(SEED, random.Random(0))
        assert source is not None
        seen: list[pd.DataFrame] = []
        run(source.replace("    model = ", "    seen.append(train)\n    model = "), tmp_path, seen=seen)
        # The values are pure noise: a column that tells anything of a row's own value has read it.
        assert abs(seen[0]["nearest_value"].corr(seen[0][TARGET])) < 0.1

    def test_tables_are_found_whatever_their_names_and_order(self) -> None:
        where = tables(parsed(FOREIGN))
        assert where is not None
        assert (where.train, where.test, where.read) == ("train_df", "test_df", 1)


class TestModel:
    def test_the_model_is_the_last_that_is_built(self) -> None:
        source = "a = KNeighborsRegressor(3)\nb = VotingRegressor([('x', Ridge()), ('y', SVR())])\n"
        tree = parsed(source)
        assert [e.name for e in estimators(tree)] == ["KNeighborsRegressor", "VotingRegressor", "Ridge", "SVR"]
        assert [e.name for e in model(tree)] == ["VotingRegressor", "Ridge", "SVR"]

    def test_a_swap_keeps_the_random_state_of_an_average(self) -> None:
        averaged = BY_NAME["average-seeds"].rewrite(BOOSTED, random.Random(0))
        assert averaged is not None
        assert "random_state=seed))" in averaged
        for seed in range(20):
            swapped = BY_NAME["swap-estimator"].rewrite(averaged, random.Random(seed))
            assert swapped is None or "random_state=seed" in swapped

    def test_a_parameter_replaces_its_old_value(self) -> None:
        for seed in range(30):
            changed = BY_NAME["set-parameter"].rewrite(BOOSTED, random.Random(seed))
            assert changed is not None
            call = next(line for line in changed.splitlines() if "model = " in line)
            keywords = re.findall(r"(\w+)=", call)
            assert len(keywords) == len(set(keywords)) == 3

    def test_a_new_parameter_follows_the_layout_of_the_others(self) -> None:
        source = "m = KNeighborsRegressor(\n    p=1,\n    n_jobs=1,  # alone\n)\n"
        changed = BY_NAME["set-parameter"].rewrite(source, random.Random(0))
        assert changed is not None
        assert re.fullmatch(
            r"m = KNeighborsRegressor\(\n    p=1,\n    n_jobs=1,  # alone\n    n_neighbors=\d+,\n\)\n", changed
        )

    def test_a_parameter_given_by_position_is_left_alone(self) -> None:
        assert BY_NAME["set-parameter"].rewrite("m = KNeighborsRegressor(5)\n", random.Random(0)) is None

    def test_clipping_happens_once(self) -> None:
        once = BY_NAME["clip"].rewrite(SEED, random.Random(0))
        assert once is not None
        assert BY_NAME["clip"].rewrite(once, random.Random(0)) is None
