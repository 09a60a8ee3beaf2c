"""evaluators.tabular: what the harness takes for predictions, and what the host makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from progevo.errors import BadOutput, TaskError
from progevo.evaluators.tabular import Tabular, harness
from progevo.types import Answer, Score

TRUTH = (1.0, 2.0, 4.0)


def tabular(truth: tuple[float, ...] = TRUTH) -> Tabular:
    return Tabular(train_csv=Path("train"), feature_csv={"search": Path("features")}, truth={"search": truth})


def judged(entry: Callable[..., Any], truth: tuple[float, ...] = TRUTH) -> Score:
    """The whole way of an answer, without the sandbox."""
    value, arrays = harness.run(entry, {}, "/inputs")
    return tabular(truth).score("search", Answer(value=value, arrays=tuple(map(tuple, arrays))))


class Lazy(list[float]):
    def __iter__(self) -> Any:
        return iter([1.0, 2.0, 4.0])

    def __len__(self) -> int:
        return 3


class Array:
    def __array__(self, *args: object, **kwargs: object) -> Any:
        return np.array(TRUTH)

    def __float__(self) -> float:
        return 1.0


class Liar(float):
    def __float__(self) -> float:
        return 2.0


async def coroutine() -> list[float]:
    return [1.0, 2.0, 4.0]


def closed(value: Any) -> Any:
    value.close()
    return value


def itself() -> list[Any]:
    answer: list[Any] = [1.0, 2.0]
    answer.append(answer)
    return answer


def raising() -> Any:
    class Broken(pd.Series):
        def to_numpy(self, *args: object, **kwargs: object) -> Any:
            raise RuntimeError("no")

    return Broken([1.0, 2.0, 4.0])


class TestInputs:
    def test_the_candidate_is_given_two_paths(self) -> None:
        def entry(*paths: str) -> list[float]:
            assert paths == ("/inputs/train.csv", "/inputs/test.csv")
            return [1.0, 2.0, 4.0]

        judged(entry)

    def test_the_truth_is_in_none_of_them(self) -> None:
        inputs = tabular().inputs("search")
        assert dict(inputs.request) == {}
        assert dict(inputs.files) == {"train.csv": Path("train"), "test.csv": Path("features")}

    def test_the_harness_is_a_file_of_the_standard_library_alone(self) -> None:
        source = tabular().harness.read_text()
        imports = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
        assert imports == [
            "from __future__ import annotations",
            "import os",
            "import sys",
            "from collections.abc import Callable, Mapping",
            "from typing import Any",
        ]


class TestAccepted:
    @pytest.mark.parametrize(
        "answer",
        [
            [1.0, 2.0, 3.0],
            (1, 2, 3),
            [1, np.float32(2), np.int8(3)],
            [np.float64(1), np.longdouble(2), np.uint64(3)],
            np.array([1.0, 2.0, 3.0]),
            np.array([1, 2, 3], dtype=np.int16),
            np.array([1, 2, 3], dtype=np.float16),
            np.array([1, 2, 3], dtype=np.longdouble),
            np.array([1, 2.0, 3], dtype=object),
            np.arange(6.0).reshape(3, 2)[:, 0] / 2 + 1,
            pd.Series([1, 2, 3], index=[7, 7, 7]),
            pd.Series([1, 2, 3], dtype="Int64"),
            pd.DataFrame({"p": [1.0, 2.0, 3.0]})["p"],
        ],
        ids=lambda answer: f"{type(answer).__name__}-{getattr(answer, 'dtype', '')}",
    )
    def test_one_flat_sequence_of_real_numbers(self, answer: object) -> None:
        _, (floats,) = harness.run(lambda *_: answer, {}, "/inputs")
        assert {type(value) for value in floats} == {float}
        score = judged(lambda *_: answer)
        assert score.score == -math.sqrt(1 / 3)
        assert score.metrics == {"rmse": math.sqrt(1 / 3)}
        assert score.cases == (0.0, 0.0, 1.0)

    def test_the_answer_is_copied_at_once(self) -> None:
        answer = [1.0, 2.0, 4.0]
        _, (floats,) = harness.run(lambda *_: answer, {}, "/inputs")
        answer[:] = []
        assert floats == [1.0, 2.0, 4.0]

    @settings(deadline=None)  # a busy machine is no fault
    @given(st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 2), min_size=1, max_size=30))
    def test_rmse_is_what_a_hand_computes(self, pairs: list[tuple[float, float]]) -> None:
        predictions, truth = [p for p, _ in pairs], tuple(t for _, t in pairs)
        score = judged(lambda *_: predictions, truth)
        by_hand = math.sqrt(sum((p - t) ** 2 for p, t in pairs) / len(pairs))
        assert math.isclose(score.metrics["rmse"], by_hand, rel_tol=1e-12, abs_tol=1e-150)
        assert score.score == -score.metrics["rmse"]
        assert score.cases == tuple((p - t) * (p - t) for p, t in pairs)

    @settings(deadline=None)
    @given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), st.data())
    def test_no_row_is_left_out(self, truth: list[float], data: st.DataObject) -> None:
        """Right but for one row, whichever it is, is worth what that row is off."""
        row, off = data.draw(st.integers(0, len(truth) - 1)), data.draw(st.floats(0.01, 1e3))
        predictions = [*truth[:row], truth[row] + off, *truth[row + 1 :]]
        assert judged(lambda *_: truth, tuple(truth)).score == 0.0
        spoilt = judged(lambda *_: predictions, tuple(truth)).score
        assert spoilt == pytest.approx(-off / math.sqrt(len(truth)), rel=1e-9)


class TestRefused:
    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: None, "got None"),
            (lambda: 1.0, "got a float"),
            (lambda: "124", "got a str"),
            (lambda: {0: 1.0, 1: 2.0, 2: 4.0}, "got a dict"),
            (lambda: {1.0, 2.0, 4.0}, "got a set"),
            (lambda: (x for x in TRUTH), "got a generator"),
            (lambda: map(float, TRUTH), "got a map"),
            (lambda: closed(coroutine()), "got a coroutine"),
            (lambda: Lazy(TRUTH), "got a Lazy"),
            (Array, "got an Array"),
            (lambda: pd.Index(TRUTH), "got an Index"),
            (lambda: pd.DataFrame({"p": TRUTH}), "got a DataFrame"),
            (lambda: np.array(TRUTH).reshape(3, 1), r"shape \(3, 1\); flatten it with .ravel\(\)"),
            (lambda: np.array([TRUTH]), r"shape \(1, 3\)"),
            (lambda: np.array(3.0), r"shape \(\)"),
            (lambda: np.zeros((3, 3)), r"shape \(3, 3\)$"),
            (lambda: [[1.0], [2.0], [4.0]], "prediction 0 must be a real number, got a list"),
            (lambda: [1.0, np.array([2.0]), 4.0], "prediction 1 .* got a ndarray"),
            (itself, "prediction 2 .* got a list"),
            (lambda: [1.0, None, 4.0], "prediction 1 .* got None"),
            (lambda: [True, 2.0, 4.0], "prediction 0 .* got a bool"),
            (lambda: [1.0, np.True_, 4.0], "prediction 1 .* got a bool"),
            (lambda: np.array([True, True, False]), "got a bool"),
            (lambda: ["1", "2", "4"], "prediction 0 .* got a str"),
            (lambda: np.array(["1", "2", "4"]), "got a str"),
            (lambda: [1 + 0j, 2.0, 4.0], "got a complex"),
            (lambda: np.array(TRUTH) + 0j, "got a complex"),
            (lambda: [np.complex128(1), 2.0, 4.0], "got a complex128"),
            (lambda: np.array([1, 2, 4], dtype="m8[ns]"), "timedelta64"),
            (lambda: [np.timedelta64(1, "ns"), 2.0, 4.0], "got a timedelta64"),
            (lambda: pd.Series([1.0, 2.0, 4.0], dtype="datetime64[ns]"), "datetime64"),
            (lambda: pd.Series([1, 2, None], dtype=object), "prediction 2 .* got None"),
            (lambda: np.ma.masked_array(TRUTH, [False, True, False]), "prediction 1 .* got None"),
            (lambda: [Decimal(1), 2.0, 4.0], "got a Decimal"),
            (lambda: [Fraction(1), 2.0, 4.0], "got a Fraction"),
            (lambda: [Liar(1.0), 2.0, 4.0], "got a Liar"),
            (lambda: [Array(), 2.0, 4.0], "got an Array"),
            (lambda: [1.0, 10**10_000, 4.0], "prediction 1 is a whole number too large"),
            (raising, "could not be turned into numbers: a RuntimeError"),
        ],
    )
    def test_inside(self, make: Callable[[], Any], words: str) -> None:
        with pytest.raises(harness.BadOutput, match=words):
            harness.run(lambda *_: make(), {}, "/inputs")

    def test_a_candidate_that_raises_is_not_taken_for_a_bad_answer(self) -> None:
        def entry(train: str, test: str) -> None:
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            harness.run(entry, {}, "/inputs")

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            ([], "got 0 predictions for 3 rows"),
            ([1.0, 2.0], "got 2 predictions for 3 rows"),
            ([2.0], "got 1 predictions for 3 rows"),
            ([1.0] * 29_709, "got 29709 predictions for 3 rows"),
            ([1.0, math.nan, 4.0], "prediction 1 is nan"),
            ([1.0, 2.0, math.inf], "prediction 2 is inf"),
            ([1.0, 2.0, -math.inf], "prediction 2 is -inf"),
            ([1e200, 2.0, 4.0], "prediction 0 is 1e\\+200, so large"),
            ([1.3e154, 1.3e154, 1.3e154], "RMSE is infinite"),
            (np.array([1.0, np.nan, 4.0]), "prediction 1 is nan"),
            (pd.Series([1.0, None, 4.0]), "prediction 1 is nan"),
        ],
    )
    def test_on_the_host(self, answer: object, words: str) -> None:
        with pytest.raises(BadOutput, match=words):
            judged(lambda *_: answer)

    @pytest.mark.parametrize("arrays", [(), (TRUTH, TRUTH), ((), TRUTH)])
    def test_not_exactly_one_array(self, arrays: tuple[tuple[float, ...], ...]) -> None:
        with pytest.raises(BadOutput, match=f"got {len(arrays)} lists"):
            tabular().score("search", Answer(value={"predictions": 3}, arrays=arrays))

    def test_what_the_answer_says_of_itself_counts_for_nothing(self) -> None:
        forged = Answer(value={"predictions": 3, "score": 1e9, "rmse": 0.0}, arrays=((0.0, 0.0, 0.0),))
        assert tabular().score("search", forged).score == -math.sqrt(7)


class TestConstruction:
    def test_truth_may_be_an_array(self) -> None:
        made = Tabular(train_csv=Path("t"), feature_csv={"search": Path("f")}, truth={"search": np.array(TRUTH)})
        assert made.truth == {"search": TRUTH}

    @pytest.mark.parametrize("truth", [{}, {"test": TRUTH}, {"search": ()}, {"search": (1.0, math.nan)}])
    def test_mistakes_are_named(self, truth: dict[str, tuple[float, ...]]) -> None:
        with pytest.raises(TaskError, match="split"):
            Tabular(train_csv=Path("t"), feature_csv={"search": Path("f")}, truth=truth)


class TestWarmUp:
    def test_it_fits_a_model_to_the_first_rows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shapes = []
        fit = LinearRegression.fit

        def spy(model: LinearRegression, features: pd.DataFrame, target: pd.Series) -> LinearRegression:
            shapes.append(features.shape)
            return fit(model, features, target)

        monkeypatch.setattr(LinearRegression, "fit", spy)
        (tmp_path / "train.csv").write_text("a,b,y\n" + "1,2,3\n2,5,4\n" * 500)
        harness.warm_up(tmp_path)
        assert shapes == [(200, 2)]

    @pytest.mark.parametrize("text", [None, "", "a,y\nx,z\n", "\x00\x01"])
    def test_it_never_raises(self, tmp_path: Path, text: str | None) -> None:
        if text is not None:
            (tmp_path / "train.csv").write_text(text)
        harness.warm_up(tmp_path)
