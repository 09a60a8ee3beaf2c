"""Function minimization: its trials, its score against numbers by hand, its moves, and its programs in the sandbox."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
import random
import types
from contextlib import closing
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from progevo import find_domain
from progevo.domain import SEARCH, TEST
from progevo.errors import BadOutput, DataError
from progevo.evaluate import evaluate
from progevo.evaluators.minimization import Minimization
from progevo.evaluators.minimization.score import Found, measures, pseudo_values
from progevo.sandbox.probe import open_sandbox
from progevo.tasks.function_minimization import landscape
from progevo.tasks.function_minimization.moves import END, MOVES, START
from progevo.types import Answer, Candidate, Count, Program

DOMAIN = find_domain("function_minimization")
EVALUATOR = cast(Minimization, DOMAIN.evaluator)
TRIALS = EVALUATOR.trials


def answer(points) -> Answer:
    return Answer(value=[None] * len(points), arrays=([number for point in points for number in point],))


def score_here(source: str, split: str) -> float:
    """What a trusted program scores, by its functions in this process; a call beyond the budget fails its trial."""
    module = types.ModuleType("program")
    exec(compile(source, "program", "exec"), module.__dict__)
    points = []
    for trial in TRIALS[split]:
        left = iter(range(EVALUATOR.budget))
        f = landscape.function(trial.parameters)
        try:
            points.append(
                module.run_search(lambda x, y, f=f, left=left: (next(left), f(x, y))[1], (-5.0, 5.0), 200, trial.seed)
            )
        except StopIteration:
            points.append((math.nan, math.nan))
    return EVALUATOR.score(split, answer(points)).score


def test_the_minimum_is_the_least_value_and_stays_inside_wherever_the_function_is_moved():
    x, y, value = landscape.MINIMUM
    f = landscape.function([0.0, 0.0])
    assert (round(x, 3), round(y, 3), round(value, 3)) == (-1.704, 0.678, -1.519)
    assert f(x, y) == pytest.approx(value, abs=1e-12)
    for dx, dy in ((1e-4, 0), (-1e-4, 0), (0, 1e-4), (0, -1e-4)):
        assert f(x + dx, y + dy) > value
    grid = [n / 10 for n in range(-70, 71)]  # all that a moved function can show of itself
    assert min(f(a, b) for a in grid for b in grid) > value
    assert all(abs(x + dx) < 5 and abs(y + dy) < 5 for dx in (-2, 2) for dy in (-2, 2))


def test_trials_of_search_and_test_share_neither_offset_nor_seed():
    offsets = {split: {tuple(trial.parameters) for trial in trials} for split, trials in TRIALS.items()}
    seeds = {split: {trial.seed for trial in trials} for split, trials in TRIALS.items()}
    assert len(offsets[SEARCH]) == len(seeds[SEARCH]) == len(TRIALS[TEST]) == 32
    assert not offsets[SEARCH] & offsets[TEST]
    assert not seeds[SEARCH] & seeds[TEST]
    assert all(-2 <= number <= 2 for of in offsets.values() for pair in of for number in pair)


def test_everybody_has_the_same_trials():
    """Whatever the order of sets and the version of Python: the generator's own draws are the same everywhere."""
    drawn = [[split, trial.parameters, trial.seed] for split, of in TRIALS.items() for trial in of]
    digest = hashlib.sha256(json.dumps(drawn).encode()).hexdigest()
    assert digest == "32a252610f95ac88c82e112a03d9ceecd1a6b76189ac93da6352ac2011d92b97"


def test_what_is_told_to_the_candidate_holds_no_offset():
    inputs = EVALUATOR.inputs(TEST)
    assert set(inputs.request) == {"bounds", "budget", "seeds"}
    assert inputs.black_box.problems == tuple(trial.parameters for trial in TRIALS[TEST])
    assert inputs.black_box.budget == 200


def test_perfect_points_score_the_ceiling():
    points = [trial.minimum[:2] for trial in TRIALS[SEARCH]]
    scored = EVALUATOR.score(SEARCH, answer(points))
    assert scored.score == pytest.approx(1.5, abs=1e-12)
    assert scored.metrics["reliability"] == 1.0


@pytest.mark.parametrize(
    ("distance", "factor"), [(0.0, 1.5), (0.49, 1.5), (0.5, 1.2), (1.5, 1.0), (3.0, 0.7), (99, 0.7)]
)
def test_the_score_by_hand(distance, factor):
    """Values 0.25 above the least, on three of four trials: value 0.8, distance 1 / (1 + d), reliability 0.75."""
    found = [Found(landscape.MINIMUM[2] + 0.25, float(distance))] * 3 + [None]
    expected = (0.5 * 0.8 + 0.3 / (1 + distance) + 0.2 * 0.75) * factor
    assert measures(found, TRIALS[SEARCH][:4])["combined"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("point", [(5.1, 0.0), (0.0, -5.000001), (math.nan, 0.0), (0.0, math.inf)])
def test_a_point_outside_fails_its_trial_alone(point):
    points = [trial.minimum[:2] for trial in TRIALS[SEARCH]]
    points[3] = point
    scored = EVALUATOR.score(SEARCH, answer(points))
    assert scored.metrics["reliability"] == 31 / 32
    assert scored.score == pytest.approx((0.5 + 0.3 + 0.2 * 31 / 32) * 1.5, abs=1e-12)
    with pytest.raises(BadOutput, match="no trial of 32"):
        EVALUATOR.score(SEARCH, answer([point] * 32))


def test_an_answer_of_another_length_is_refused_and_calls_are_the_black_box_s_own_count():
    with pytest.raises(BadOutput, match="one point for each of 32"):
        EVALUATOR.score(SEARCH, answer([(0.0, 0.0)] * 31))
    counts = tuple(Count(calls=10 * n, refused=0, cpu_s=0.0) for n in range(32))
    told = Answer(value=[], arrays=answer([(0.0, 0.0)] * 32).arrays, counts=counts)
    assert EVALUATOR.score(SEARCH, told).metrics["calls"] == 155.0


@given(st.lists(st.tuples(st.floats(0, 0.3), st.floats(0, 0.3)), min_size=8, max_size=12))
def test_pseudo_values_have_the_score_for_their_mean_and_the_jackknife_s_spread(pairs):
    found = [Found(landscape.MINIMUM[2] + value, distance) for value, distance in pairs]
    trials, count = TRIALS[SEARCH][: len(found)], len(found)
    values = pseudo_values(found, trials)
    assert math.fsum(values) / count == pytest.approx(measures(found, trials)["combined"], abs=1e-12)
    # By the book: n s - (n - 1) s_without_i, whose mean differs from s by the order of 1 / n.
    whole = measures(found, trials)["combined"]
    book = [
        count * whole - (count - 1) * measures(found[:i] + found[i + 1 :], trials[1:])["combined"] for i in range(count)
    ]
    assert math.fsum(book) / count == pytest.approx(whole, abs=0.02)
    assert [value - values[0] for value in values] == pytest.approx([each - book[0] for each in book], abs=1e-9)
    same = [found[0]] * 8
    assert pseudo_values(same, trials[:8]) == pytest.approx([measures(same, trials[:8])["combined"]] * 8)


def test_there_is_no_data_to_give(tmp_path):
    with pytest.raises(DataError, match="takes no data file"):
        find_domain("function_minimization", data=tmp_path / "x.csv")


# ---- moves


def programs(source: str, move, draws: int = 24) -> set[str]:
    drawn = (move.rewrite(source, random.Random(f"{move.name} {draw}")) for draw in range(draws))
    return {text for text in drawn if text is not None}


def outside(source: str) -> str:
    before, rest = source.split(START)
    return before + rest.split(END)[1]


@pytest.fixture(scope="module")
def reached() -> dict[str, set[str]]:
    """Programs that every move made, from the seed and from what moves made of it."""
    made: dict[str, set[str]] = {move.name: set() for move in MOVES}
    frontier, rng = [DOMAIN.seed.source], random.Random(0)
    for _ in range(3):
        found = set()
        for source, move in itertools.product(frontier, MOVES):
            new = programs(source, move, 4)
            made[move.name] |= new
            found |= new
        frontier = rng.sample(sorted(found), min(12, len(found)))
    return made


def test_every_move_applies_somewhere_and_changes_nothing_outside_the_block(reached):
    for name, sources in reached.items():
        assert sources, f"{name} never applied"
        for source in sources:
            compile(source, name, "exec")
            assert outside(source) == outside(DOMAIN.seed.source)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
def test_a_move_is_small_and_none_alone_makes_an_optimizer_of_the_seed(move):
    for source in sorted(programs(DOMAIN.seed.source, move)):
        lines = difflib.ndiff(DOMAIN.seed.source.splitlines(), source.splitlines())
        assert sum(line.startswith("+ ") and line.strip() != "+" for line in lines) <= 15
        assert max(score_here(source, split) for split in (SEARCH, TEST)) < 1.40


@pytest.mark.parametrize("text", ["", "def f(: pass", "x = 1\n", f"{START}\nx = 1\n", f"{END}\n{START}\n", "\0"])
def test_a_move_leaves_other_programs_alone(text):
    assert all(move.rewrite(text, random.Random(0)) is None for move in MOVES)


# ---- in the sandbox

OVERRUN = """
def run_search(objective, bounds, budget, seed):
    spent = seed % 2
    for _ in range(budget + spent):
        objective(0.0, 0.0)
    return 0.0, 0.0
"""
CONSTANT = "def run_search(objective, bounds, budget, seed):\n    return -1.7040828390594565, 0.6775078086259533\n"
RAISED_BUDGET = """
def run_search(objective, bounds, budget, seed):
    best = (9.0, 0.0, 0.0)
    for n in range(100_000):
        try:
            best = min(best, (objective(n % 317 / 32 - 5, n // 317 / 32 - 5), n % 317 / 32 - 5, n // 317 / 32 - 5))
        except Exception:
            break
    return best[1:]
"""


def test_programs_score_in_the_sandbox_what_they_score_here():
    with closing(open_sandbox(DOMAIN.profile, "warm")) as box:

        def run(source: str, split: str = SEARCH):
            return evaluate(DOMAIN, Candidate(program=Program(source), origin="test"), split, box)

        for split in (SEARCH, TEST):
            outcome = run(DOMAIN.seed.source, split)
            assert outcome.score == pytest.approx(score_here(DOMAIN.seed.source, split), abs=1e-12)
            assert 0.9 < outcome.score < 1.0
            assert outcome.metrics["calls"] == 200.0
            assert 0.4 < run(CONSTANT, split).score < 0.7
        odd = sum(trial.seed % 2 for trial in TRIALS[SEARCH])
        assert run(OVERRUN).metrics["reliability"] == (32 - odd) / 32
        greedy = run(RAISED_BUDGET)
        assert greedy.metrics["calls"] == 200.0
        nothing = run("def run_search(objective, bounds, budget, seed):\n    return 7.0, 7.0\n")
        assert nothing.status == "bad_output"
        assert "no trial of 32 ended with a point inside the bounds" in nothing.reason
