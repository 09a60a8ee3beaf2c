"""evaluators.calls: plain data survives the way to the host exactly, and everything else is refused with a reason."""

from __future__ import annotations

import json
import math
import random
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.errors import BadOutput, TaskError
from progevo.evaluators.calls import Calls, harness, numbers
from progevo.evaluators.calls.score import plain
from progevo.types import Answer, Json, Score


def sent(value: Any, arrays: list[list[float]]) -> Answer:
    """What the wire makes of it: strict JSON, and raw float64."""
    text = json.dumps(value, allow_nan=False)
    return Answer(
        value=json.loads(text),
        arrays=tuple(struct.unpack(f"{len(a)}d", struct.pack(f"{len(a)}d", *a)) for a in arrays),
    )


def there(output: object) -> Any:
    """One output after its way to the host."""
    (back,) = plain(sent(*harness.run(lambda _: output, {"cases": [None]}, "/inputs")))
    return back


def same(a: Any, b: Any) -> bool:
    """Equal in value and in type, NaN included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return bool(a == b)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


class TestWire:
    @settings(deadline=None)  # a busy machine is no fault
    @given(PLAIN)
    def test_plain_data_comes_back_as_it_was(self, output: Any) -> None:
        assert same(there(output), output)

    @pytest.mark.parametrize(
        ("output", "back"),
        [
            ((1, 2.0), [1, 2.0]),
            (np.float32(0.5), 0.5),
            (np.int64(7), 7),
            (np.bool_(True), True),
            (np.str_("x"), "x"),
            (np.array(3.0), 3.0),
            (np.array([[1.0, 2.0], [3.0, math.inf]]), [[1.0, 2.0], [3.0, math.inf]]),
            (np.array([1, 2]), [1, 2]),
            (np.array([1, None, "x"], dtype=object), [1, None, "x"]),
            (np.longdouble(0.5), 0.5),
            ([np.float64(1.0), 2.0], [1.0, 2.0]),
            ({"floats": 1}, {"floats": 1}),
            ({"dict": {}}, {"dict": {}}),
            ({}, {}),
            ([], []),
        ],
    )
    def test_tuples_and_numpy_become_lists_and_numbers(self, output: object, back: object) -> None:
        assert same(there(output), back)

    def test_a_long_list_of_floats_costs_little_json(self) -> None:
        value, arrays = harness.run(lambda _: [0.5] * 1000, {"cases": [None]}, "/inputs")
        assert (value, len(arrays[0])) == ([{"floats": 1000}], 1000)


class F(float):
    pass


class L(list[float]):
    pass


def itself() -> list[Any]:
    answer: list[Any] = [0.0]
    answer.append(answer)
    return answer


def deep(levels: int) -> Any:
    answer: Any = 1
    for _ in range(levels):
        answer = [answer]
    return answer


async def coroutine() -> int:
    return 1


def closed(value: Any) -> Any:
    value.close()
    return value


class TestRefusedInside:
    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: {1, 2}, "got a set"),
            (lambda: (x for x in [1]), "got a generator"),
            (lambda: closed(coroutine()), "got a coroutine"),
            (object, "got an object"),
            (lambda: b"x", "got a bytes"),
            (lambda: 1j, "got a complex"),
            (lambda: F(1), "got a F"),
            (lambda: [F(1)], "got a F"),
            (lambda: L([1.0]), "got a L"),
            (lambda: OrderedDict(a=1), "got an OrderedDict"),
            (lambda: {1: 2}, "keys of a dict must be strings, got an int"),
            (lambda: 10**10_000, "more than 63 bits"),
            (lambda: [-(2**63)], "more than 63 bits"),
            (lambda: np.uint64(2**64 - 1), "more than 63 bits"),
            (lambda: "\ud800", "surrogate"),
            (lambda: {"\ud800": 1}, "surrogate"),
            (itself, "contains itself"),
            (lambda: deep(101), "nested more than 100 deep"),
            (lambda: np.array([1j]), "complex128"),
            (lambda: np.datetime64("2020-01-01"), "datetime64"),
        ],
    )
    def test_what_is_not_plain(self, make: Callable[[], Any], words: str) -> None:
        with pytest.raises(harness.BadOutput, match=f"case 1: .*{words}"):
            harness.run(lambda case: make() if case else 0, {"cases": [0, 1]}, "/inputs")

    def test_the_depth_that_passes(self) -> None:
        assert there(deep(100)) == deep(100)

    def test_a_candidate_that_raises_is_not_taken_for_a_bad_answer(self) -> None:
        with pytest.raises(ZeroDivisionError):
            harness.run(lambda x: x / 0, {"cases": [1]}, "/inputs")


class TestForged:
    @pytest.mark.parametrize(
        ("value", "arrays"),
        [
            (None, ((),)),
            ({"floats": 1}, ((1.0,),)),
            ([], ()),
            ([{}], ((),)),
            ([{}], ((1.0, 2.0),)),
            ([{"floats": 2}], ((1.0,),)),
            ([{"floats": 10**400}], ((1.0,),)),
            ([{"floats": -1}], ((1.0,),)),
            ([{"floats": "1"}], ((1.0,),)),
            ([{"floats": 1, "dict": {}}], ((1.0,),)),
            ([{"dict": [1]}], ((),)),
            ([{"other": 1}], ((),)),
            ([1.5], ((),)),
            ([math.nan], ((),)),
            ([10**400], ((),)),
            ([deep(101)], ((),)),
            ([1], ((), ())),
        ],
    )
    def test_an_answer_in_another_form(self, value: Json, arrays: tuple[tuple[float, ...], ...]) -> None:
        with pytest.raises(BadOutput):
            plain(Answer(value=value, arrays=arrays))


def planted(output: Any, value: float, rng: random.Random) -> Any:
    """The output with a value put somewhere inside it, where it has an inside; finite everywhere else."""
    if isinstance(output, list):
        at = rng.randrange(len(output) + 1)
        return [*map(tame, output[:at]), planted(output[at], value, rng) if at < len(output) else value]
    if isinstance(output, dict):
        return {**{key: tame(each) for key, each in output.items()}, "planted": value}
    return value


def tame(output: Any) -> Any:
    """The output with a 0 for every number that is not finite."""
    if isinstance(output, list):
        return list(map(tame, output))
    if isinstance(output, dict):
        return {key: tame(each) for key, each in output.items()}
    return output if not isinstance(output, float) or math.isfinite(output) else 0.0


def answered(score: Callable[[str, list[Any]], Any], *outputs: Any, finite: bool = True) -> Score:
    calls = Calls(cases={"search": list(range(len(outputs)))}, score=score, finite=finite)
    answer = sent(*harness.run(lambda case: outputs[case], calls.inputs("search").request, "/inputs"))
    return calls.score("search", answer)


class TestScore:
    def test_the_function_is_given_the_split_and_the_outputs(self) -> None:
        seen: list[Any] = []

        def score(*given: Any) -> float:
            seen.append(given)
            return -1

        assert answered(score, [1.0, math.nan], (2,), finite=False) == Score(score=-1.0)
        ((split, outputs),) = seen
        assert split == "search"
        assert same(outputs, [[1.0, math.nan], [2]])

    @pytest.mark.parametrize("result", [0.5, np.float32(0.5), Score(score=0.5)])
    def test_a_number_or_a_score(self, result: Any) -> None:
        assert answered(lambda *_: result, 1) == Score(score=0.5)

    @pytest.mark.parametrize("result", [math.nan, -math.inf, Score(score=math.inf)])
    def test_a_score_that_is_not_finite_is_a_bad_answer(self, result: Any) -> None:
        with pytest.raises(BadOutput, match="the rule is a finite number"):
            answered(lambda *_: result, 1)

    @settings(deadline=None)
    @given(PLAIN, st.sampled_from([math.nan, math.inf, -math.inf]), st.randoms(use_true_random=False))
    def test_a_number_that_is_not_finite_never_reaches_the_function(
        self, output: Any, value: float, rng: random.Random
    ) -> None:
        """Wherever it stands. A scorer that looks for errors above a bound finds none in a NaN."""

        def lenient(split: str, outputs: list[Any]) -> float:
            return -float(sum(abs(each - 1.0) > 0.5 for each in outputs if isinstance(each, float)))

        spoilt = planted(output, value, rng)
        with pytest.raises(BadOutput, match=f"output 1 holds {value}, the rule is finite numbers"):
            answered(lenient, 1.0, spoilt)
        assert answered(lenient, 1.0, math.nan, finite=False) == Score(score=0.0)  # the twin: as good as right

    @pytest.mark.parametrize("same_object", [True, False])
    def test_an_output_is_taken_as_it_was_when_it_was_returned(self, same_object: bool) -> None:
        """A program that goes on to change what it has returned, or its own arguments, changes no answer."""
        kept: list[float] = []

        def entry(case: list[float]) -> list[float]:
            for each in [kept] if same_object else given:
                each.clear()
            given.append(case)
            case.sort()
            kept.extend(case)
            return kept if same_object else case

        given: list[list[float]] = []

        def score(split: str, outputs: list[Any]) -> float:
            seen.extend(outputs)
            return 1.0

        seen: list[Any] = []
        calls = Calls(cases={"search": [[3.0, 1.0], [2.0, 0.0]]}, score=score)
        calls.score("search", sent(*harness.run(entry, calls.inputs("search").request, "/inputs")))
        assert seen == [[1.0, 3.0], [0.0, 2.0]]

    @given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
    def test_every_number_of_an_output_is_checked(self, place: tuple[int, int]) -> None:
        count, at = place
        good: list[Any] = [1.0] * count
        assert numbers(good, count) == good
        for bad in (math.nan, None, "1", True, [1.0]):
            with pytest.raises(BadOutput, match=f"number {at} is"):
                numbers([*good[:at], bad, *good[at + 1 :]], count)

    def test_arithmetic_that_fails_on_the_outputs_is_a_bad_answer(self) -> None:
        with pytest.raises(BadOutput, match="cannot be scored"):
            answered(lambda _, outputs: -(outputs[0] ** 2), 1e200)
        with pytest.raises(BadOutput, match="division by zero"):
            answered(lambda _, outputs: 1 / outputs[0], 0.0)

    def test_its_own_word_of_a_bad_answer_passes(self) -> None:
        def score(split: str, outputs: list[Any]) -> float:
            raise BadOutput("no")

        with pytest.raises(BadOutput, match=r"^no$"):
            answered(score, 1)

    @pytest.mark.parametrize("result", [None, "1", True, 1j])
    def test_a_mistake_in_the_function_is_not_the_candidates(self, result: Any) -> None:
        with pytest.raises(TypeError, match="a score function returns"):
            answered(lambda *_: result, 1)
        with pytest.raises(KeyError):
            answered(lambda _, outputs: outputs[0]["no"], {})

    def test_one_output_per_case(self) -> None:
        calls = Calls(cases={"search": [1, 2]}, score=lambda *_: 1.0)
        with pytest.raises(BadOutput, match="got 1 outputs for 2 cases"):
            calls.score("search", Answer(value=[1], arrays=((),)))

    def test_the_battery_contract(self) -> None:
        x = {"v": [n / 4 for n in range(16)], "probe": {}}
        labels = [2 * a + 1 for a in x["v"]]

        def score(split: str, outputs: list[Any]) -> float:
            (output,) = outputs
            return -sum((p - t) ** 2 for p, t in zip(numbers(output, 16), labels, strict=True)) / 16

        calls = Calls(cases={"search": [x]}, score=score)
        request = calls.inputs("search").request
        made = harness.run(lambda given: 2.0 * np.array(given["v"]) + 1.0, request, "/inputs")
        assert calls.score("search", sent(*made)) == Score(score=-0.0)
        answers: list[Any] = [[True] * 16, {}, None, ["1"] * 16, [1.0] * 15, [math.nan] * 16, [[1.0]] * 16]
        for bad in answers:
            made = harness.run(always(bad), request, "/inputs")
            with pytest.raises(BadOutput, match="the rule is"):
                calls.score("search", sent(*made))


def always(answer: Any) -> Callable[[Any], Any]:
    return lambda _: answer


class TestCases:
    def test_the_candidate_cannot_change_the_cases(self) -> None:
        mine = [[3, 1, 2]]
        calls = Calls(cases={"search": mine}, score=lambda *_: 1.0)
        harness.run(lambda case: case.sort(), calls.inputs("search").request, "/inputs")
        mine[0].append(4)
        assert calls.inputs("search").request == {"cases": [[3, 1, 2]]}

    @pytest.mark.parametrize("cases", [[], [math.nan], [{1, 2}], [itself()]])
    def test_mistakes_are_named(self, cases: list[Any]) -> None:
        with pytest.raises(TaskError, match="split 'search'"):
            Calls(cases={"search": cases}, score=lambda *_: 1.0)
