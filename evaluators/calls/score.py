"""Calls: the entry point is called once per case, and a function of your own scores the outputs on the host."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from progevo.errors import BadOutput, TaskError
from progevo.evaluators.calls.harness import INT_BITS, MAX_DEPTH
from progevo.types import Answer, Inputs, Json, Score

HARNESS = Path(__file__).resolve().with_name("harness.py")

#: `score(split, outputs)`: what the outputs, one per case, are worth. Larger is better.
ScoreOutputs: TypeAlias = Callable[[str, "list[Any]"], "Score | float"]


class Calls:
    """An `Evaluator` for programs of the form `entry(argument) -> plain data`, for any task at all.

    Args:
        cases: for each split the arguments, as JSON data. They are readable by the candidate; what is secret (the
            right answers, say) belongs into the score function alone.
        score: gets the split and the list of outputs, one per case: None, booleans, whole numbers, floats, strings,
            lists and dicts of these; tuples and arrays have become lists. It returns a `Score` or a number, larger is
            better. Outputs are a claim of the candidate's: `numbers` checks the commonest shape, and `BadOutput` is
            what to raise for an answer that is not one.
        finite: outputs with a NaN or an infinity in them are refused, and `score` never sees one: NaN is neither above
            nor below any bound, and passes whatever test asks for an error that is too large.

    Raises:
        TaskError: a split has no cases, or a case is not JSON data.
    """

    def __init__(self, *, cases: Mapping[str, Sequence[Any]], score: ScoreOutputs, finite: bool = True) -> None:
        self._cases = {split: [_json(split, n, case) for n, case in enumerate(of)] for split, of in cases.items()}
        self._score, self._finite = score, finite
        for split, of in self._cases.items():
            if not of:
                raise TaskError(f"split {split!r} has no cases: give at least one")

    @property
    def harness(self) -> Path:
        return HARNESS

    def inputs(self, split: str, /) -> Inputs:
        cases: list[Json] = [json.loads(case) for case in self._cases[split]]
        return Inputs(request={"cases": cases})

    def score(self, split: str, answer: Answer, /) -> Score:
        """What the score function makes of the outputs.

        Raises:
            BadOutput: the answer is not one output per case; it holds a number that is not finite; the score function
                raised it, or failed on arithmetic that the outputs led it into (an overflow, a division by zero); or
                its score is not finite.
        """
        outputs = plain(answer)
        if len(outputs) != len(self._cases[split]):
            raise BadOutput(f"got {len(outputs)} outputs for {len(self._cases[split])} cases, the rule is one per case")
        if self._finite:
            for case, output in enumerate(outputs):
                for value in _floats(output):
                    if not math.isfinite(value):
                        raise BadOutput(f"output {case} holds {value}, the rule is finite numbers")
        try:
            result = self._score(split, outputs)
            score = result if isinstance(result, Score) else Score(score=_number(result))
        except ArithmeticError as error:
            raise BadOutput(f"the outputs cannot be scored: {error or type(error).__name__}") from error
        if not math.isfinite(score.score):
            raise BadOutput(f"the score of these outputs is {score.score}, the rule is a finite number")
        return score


def numbers(output: object, count: int) -> list[float]:
    """The output as a list of exactly `count` finite floats. Raises `BadOutput` where it is not one."""
    if not isinstance(output, list):
        raise BadOutput(f"got {type(output).__name__}, the rule is a list of {count} numbers")
    if len(output) != count:
        raise BadOutput(f"got {len(output)} numbers, the rule is {count}")
    for place, value in enumerate(output):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            shown = value if isinstance(value, bool | float) else type(value).__name__
            raise BadOutput(f"number {place} is {shown}, the rule is a finite number")
    return [float(value) for value in output]


def plain(answer: Answer) -> list[Any]:
    """The outputs that the harness packed (see there). Raises `BadOutput` where they were not packed by it."""
    if not isinstance(answer.value, list) or len(answer.arrays) != 1:
        raise BadOutput("the answer is not a list of outputs with one array of floats")
    floats = iter(answer.arrays[0])
    outputs = [_unpacked(node, floats, 0) for node in answer.value]
    if next(floats, None) is not None:
        raise BadOutput("the answer holds more floats than its outputs name")
    return outputs


def _floats(output: Any) -> Iterator[float]:
    """Every float in an output."""
    if isinstance(output, float):
        yield output
    elif isinstance(output, list | dict):
        for item in output.values() if isinstance(output, dict) else output:
            yield from _floats(item)


def _unpacked(node: Json, floats: Iterator[float], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise BadOutput(f"the answer is nested more than {MAX_DEPTH} deep")
    if isinstance(node, list):
        return [_unpacked(item, floats, depth + 1) for item in node]
    if isinstance(node, dict):
        match node:
            case {"dict": dict(items)} if len(node) == 1:
                return {key: _unpacked(item, floats, depth + 1) for key, item in items.items()}
            case {"floats": int(count)} if len(node) == 1 and 0 < count < 2**INT_BITS:
                run = list(islice(floats, count))
                if len(run) == count:
                    return run
            case {} if not node:
                for value in floats:
                    return value
        raise BadOutput("the answer names floats that are not there, or is not in the form of its harness")
    if isinstance(node, float) or (isinstance(node, int) and node.bit_length() > INT_BITS):
        raise BadOutput("the answer holds a number that is not in the form of its harness")
    return node


def _json(split: str, number: int, case: object) -> str:
    try:
        return json.dumps(case, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TaskError(f"case {number} of split {split!r} is not JSON data: {error}") from error


def _number(result: object) -> float:
    """The score function's number; anything else is a mistake in that function, not in the candidate."""
    if isinstance(result, bool) or not hasattr(result, "__float__"):
        raise TypeError(f"a score function returns a Score or a number, got {type(result).__name__}")
    return float(result)
