"""tasks.integrals: closed forms that quadrature confirms, limits that bite one integral alone, known scores."""

from __future__ import annotations

import hashlib
import json
import math
import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import mpmath
import pytest
from mpmath import mp, mpf

from progevo import Candidate, GatePolicy, Program, evaluate, find_domain, gate
from progevo.domain import SEARCH, TEST
from progevo.evaluators.integration import Integration
from progevo.sandbox.probe import open_sandbox
from progevo.tasks.integrals import families, problems, task

PROBLEMS = {split: problems.drawn(split, sets) for split, sets in task.SETS.items()}
#: sha256 of all parameters, in 12 digits.
DIGEST = "89541b2d58d8ca57c1a0cf04f369979ce57f9811016152f21a091d93a6918be4"
ALL = [*PROBLEMS[SEARCH], *PROBLEMS[TEST]]

#: The integrands once more, in mpmath.
INTEGRANDS = {
    "ends": lambda x, al, be: x ** (al - 1) * (1 - x) ** (be - 1),
    "log_power": lambda x, s, n: x ** (s - 1) * mp.log(1 / x) ** n,
    "log_wave": lambda x, s, w: x ** (s - 1) * mp.cos(w * mp.log(x)),
    "needle": lambda x, width, place: width / ((x - place) ** 2 + width**2),
    "damped_sine": lambda x, p, q: mp.exp(-p * x) * mp.sin(q * x) / x,
    "fresnel": lambda x, scale, sine: mp.sin(scale * x**2) if sine else mp.cos(scale * x**2),
    "gamma_wave": lambda x, s, b: x ** (s - 1) * mp.exp(-x) * mp.cos(b * x),
    "gauss_wave": lambda x, b, m: mp.exp(-((x - m) ** 2)) * mp.cos(b * x),
    "tail": lambda x, s: x ** (s - 1) / (1 + x),
}

#: Their closed forms in mpmath.
CLOSED = {
    "ends": lambda al, be: mp.beta(al, be),
    "log_power": lambda s, n: mp.factorial(n) / s ** (n + 1),
    "log_wave": lambda s, w: s / (s**2 + w**2),
    "needle": lambda width, place: mp.atan((1 - place) / width) + mp.atan(place / width),
    "damped_sine": lambda p, q: mp.atan(q / p),
    "fresnel": lambda scale, sine: mp.sqrt(mp.pi / (2 * scale)) / 2,
    "gamma_wave": lambda s, b: mp.gamma(s) * mp.cos(s * mp.atan(b)) / (1 + b**2) ** (s / 2),
    "gauss_wave": lambda b, m: mp.sqrt(mp.pi) * mp.exp(-(b**2) / 4) * mp.cos(b * m),
    "tail": lambda s: mp.pi / mp.sin(mp.pi * s),
}


def ends(al, be):
    """x = u^(1/al) on the left half, 1 - x = u^(1/be) on the right one."""
    left = mp.quad(lambda u: (1 - u ** (1 / al)) ** (be - 1), [0, mpf(2) ** -al]) / al
    return left + mp.quad(lambda u: (1 - u ** (1 / be)) ** (al - 1), [0, mpf(2) ** -be]) / be


def log_wave(s, w):
    """x = exp(-t); one period of the cosine, and the geometric series of all the others."""
    period = 2 * mp.pi / w
    return mp.quad(lambda t: mp.exp(-s * t) * mp.cos(w * t), [0, period / 2, period]) / (1 - mp.exp(-s * period))


def needle(width, place):
    """x - place = width sinh t."""
    low, high = -mp.asinh(place / width), mp.asinh((1 - place) / width)
    return mp.quad(mp.sech, [low, *(mpf(n) for n in range(-8, 9, 4)), high])


def fresnel(scale, sine):
    """x = t exp(i pi/4)."""
    turned = mp.expjpi(mpf(1) / 4) * mp.quad(lambda t: mp.exp(-scale * t**2), [0, 2, 12])
    return turned.imag if sine else turned.real


def gamma_wave(s, b):
    """x = t / (1 - ib), then t = u^(1/s)."""
    top = mpf(90) ** s
    return (mpmath.mpc(1, -b) ** -s * mp.quad(lambda u: mp.exp(-(u ** (1 / s))), mp.linspace(0, top, 12)) / s).real


#: Each integral by mpmath's quadrature, after a substitution that takes what is hard about it away.
SUBSTITUTED = {
    "ends": ends,
    "log_power": lambda s, n: mp.quad(lambda t: mp.exp(-s * t) * t**n, mp.linspace(0, 90 / s, 10)),
    "log_wave": log_wave,
    "needle": needle,
    # exp(-px)/x is the integral of exp(-yx) over y from p on; the one over x comes first.
    "damped_sine": lambda p, q: mp.quad(lambda y: q / (q**2 + y**2), [p, q, mp.inf]),
    "fresnel": fresnel,
    "gamma_wave": gamma_wave,
    "gauss_wave": lambda b, m: mp.quad(lambda x: INTEGRANDS["gauss_wave"](x, b, m), mp.linspace(m - 10, m + 10, 21)),
    # x = exp(t)
    "tail": lambda s: mp.quad(lambda t: mp.exp(s * t) / (1 + mp.exp(t)), mp.linspace(-600, 600, 61)),
}


class TestProblems:
    def test_a_set_holds_one_of_each_family_in_an_order_of_its_own(self):
        orders = []
        for split, sets in task.SETS.items():
            assert len(PROBLEMS[split]) == 9 * sets
            for number in range(sets):
                names = [problem.parameters[0] for problem in PROBLEMS[split][9 * number : 9 * number + 9]]
                assert set(names) == set(families.FAMILIES)
                orders.append(tuple(names))
        assert len(set(orders)) == len(orders) == 12
        assert problems.drawn(SEARCH, 8) == PROBLEMS[SEARCH]
        assert len({str(problem.parameters) for problem in ALL}) == 108

    def test_everybody_has_the_same_ones(self):
        """Whatever the order of sets, the version of Python and the last bit of its logarithm."""
        drawn = [
            [split, problem.parameters[0], *(f"{number:.12g}" for number in problem.parameters[1:])]
            for split, of in PROBLEMS.items()
            for problem in of
        ]
        assert hashlib.sha256(json.dumps(drawn).encode()).hexdigest() == DIGEST

    @pytest.mark.parametrize("name", families.FAMILIES)
    def test_the_integrand_is_what_its_closed_form_is_about(self, name):
        rng = random.Random(name)
        for problem in [each for each in ALL if each.parameters[0] == name]:
            f = families.function(problem.parameters)
            for _ in range(20):
                x = rng.uniform(max(problem.a, -3.0), min(problem.b, 30.0))
                right = INTEGRANDS[name](mpf(x), *map(mpf, problem.parameters[1:]))
                assert f(x) == pytest.approx(float(right), rel=1e-11, abs=1e-12)

    @pytest.mark.parametrize("name", families.FAMILIES)
    def test_quadrature_confirms_the_closed_form_to_25_digits(self, name):
        for problem in [each for each in ALL if each.parameters[0] == name][:3]:
            with mp.workdps(40):
                parameters = [mpf(number) for number in problem.parameters[1:]]
                exact = CLOSED[name](*parameters)
                assert abs(SUBSTITUTED[name](*parameters) - exact) < abs(exact) * mpf(10) ** -25

    def test_every_value_is_right_to_the_last_digit_that_counts(self):
        for problem in ALL:
            with mp.workdps(40):
                exact = CLOSED[problem.parameters[0]](*map(mpf, problem.parameters[1:]))
                assert abs(problem.value - exact) < abs(exact) * mpf(10) ** -13

    def test_no_integrand_on_the_line_rewards_integrating_one_half_and_doubling_it(self):
        lines = [problem for problem in ALL if problem.a == -math.inf]
        assert len(lines) == 12
        for problem in lines:
            with mp.workdps(20):
                half = mp.quad(
                    lambda x, p=problem: INTEGRANDS["gauss_wave"](x, *p.parameters[1:]), mp.linspace(0, 12, 13)
                )
            assert abs(2 * half / problem.value - 1) > 1e-3

    def test_the_candidate_is_told_the_ends_alone(self):
        evaluator = find_domain("integrals").evaluator
        for split in (SEARCH, TEST):
            inputs = evaluator.inputs(split)
            assert set(inputs.request) == {"intervals", "cpu_s", "wall_s"}
            assert {tuple(ends) for ends in inputs.request["intervals"]} == {
                ("0.0", "1.0"), ("0.0", "inf"), ("-inf", "inf"),
            }  # fmt: skip
            assert inputs.files == {}


@pytest.fixture(scope="module")
def box():
    with closing(open_sandbox("numeric")) as made:
        yield made


def judged(source, box, split=TEST, **limits):
    domain = find_domain("integrals")
    assert isinstance(domain.evaluator, Integration)
    changed = replace(domain.evaluator, **limits)
    domain = replace(domain, evaluator=changed, gate=GatePolicy(imports=frozenset(), permissive=True))
    return evaluate(domain, Candidate(program=Program(source), origin="test"), split, box)


SEED = find_domain("integrals").seed.source
TIGHT = SEED.replace("quad(f, a, b)", "quad(f, a, b, limit=2000, epsabs=1e-13, epsrel=1e-13)")
SPLIT = Path(__file__).with_name("split_integrals.py").read_text("utf-8")

#: A program that does one thing on the line and answers as the seed does elsewhere.
ON_THE_LINE = """
import math
{before}
from scipy.integrate import quad

def integrate(f, a, b):
    if a == -math.inf:
        {body}
    return quad(f, a, b)[0]
"""


class TestSandbox:
    @pytest.mark.parametrize(
        ("source", "digits", "solved"),
        [(SEED, 8.64, 23), (TIGHT, 10.25, 30), (SPLIT, 11.94, 36)],
        ids=["quad", "tight quad", "split at zeros"],
    )
    def test_programs_score_what_they_are_said_to(self, box, source, digits, solved):
        outcome = judged(source, box)
        assert outcome.status == "ok"
        # 36 problems: another build of SciPy may lose or win a digit on one of them.
        assert outcome.score == pytest.approx(digits, abs=0.1)
        assert outcome.metrics["solved"] == pytest.approx(solved, abs=1)
        assert outcome.metrics["overran"] == 0

    def test_an_array_answers_as_so_many_numbers(self, box):
        source = ON_THE_LINE.format(
            before="import numpy as np", body="x = np.linspace(-9.0, 11.0, 2001); return float(f(x).sum() * 0.01)"
        )
        outcome = judged(source, box)
        assert all(case > 11 for case, problem in zip(outcome.cases, PROBLEMS[TEST], strict=True) if problem.a < 0)

    @pytest.mark.parametrize(
        ("body", "overran"),
        [
            ("return 1 / 0", 0),
            ("return 'x'", 0),
            ("return (1.0, 0.0)", 0),
            ("return float('nan')", 0),
            # Spent in one go, and call by call with every refusal swallowed.
            ("import numpy as np; return float(f(np.zeros(5001)).sum())", 4),
            ("sum(spent(f) for _ in range(6000)); return 1.0", 4),
            ("while True: pass", 4),
            ("stubborn()", 4),
            # Tens of gigabytes for its own list.
            ("return quad(f, a, b, limit=10**9)[0]", 0),
        ],
    )
    def test_one_bad_integral_costs_itself_alone(self, box, body, overran):
        before = """
def spent(f):
    try:
        f(0.0)
    except Exception:
        pass
    return 0

def stubborn():
    while True:
        try:
            while True:
                pass
        except Exception:
            pass
"""
        good = judged(SEED, box)
        source = ON_THE_LINE.format(before=before, body=body)
        bad = judged(source, box, calls=5000, cpu_s=1.0)
        assert bad.status == "ok", bad.reason
        assert bad.metrics["overran"] == overran
        for problem, before_, after in zip(PROBLEMS[TEST], good.cases, bad.cases, strict=True):
            if problem.a == -math.inf:
                assert after == 0.0
            else:
                assert after == before_

    def test_a_program_that_integrates_one_half_and_doubles_it_is_wrong(self, box):
        outcome = judged(ON_THE_LINE.format(before="", body="return 2.0 * quad(f, 0.0, b)[0]"), box)
        assert all(case < 3 for case, problem in zip(outcome.cases, PROBLEMS[TEST], strict=True) if problem.a < 0)

    def test_a_clock_that_rings_in_the_middle_of_a_call_disturbs_no_other_integral(self, box):
        """The reply to the call that was cut short would else be taken for that to the next one, and so on."""
        good = judged(SEED, box, SEARCH)
        bad = judged(ON_THE_LINE.format(before="", body="while True: f(0.5)"), box, SEARCH, calls=10**6, cpu_s=0.1)
        assert bad.status == "ok", bad.reason
        lines = [problem.a == -math.inf for problem in PROBLEMS[SEARCH]]
        assert bad.cases == tuple(0.0 if line else case for line, case in zip(lines, good.cases, strict=True))

    @pytest.mark.parametrize(
        ("body", "overran"),
        [
            # It stops the clock in its process, and is right.
            ("stop(); burn(0.6); return value", 4),
            # The time of answers counts as well: about 0.4 s on the other side.
            ("stop(); burn(0.3); np.asarray([f(np.full(4000, 0.5)) for _ in range(50)]); return value", 4),
            ("stop(); burn(0.3); return value", 0),
        ],
    )
    def test_the_time_of_an_integral_is_that_of_both_sides_whatever_the_candidate_s_clock_says(
        self, box, body, overran
    ):
        before = """
import signal, time
import numpy as np

def stop():
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_PROF, 0)
    time.process_time = time.perf_counter = time.thread_time = lambda: 0.0

def burn(seconds, now=time.process_time):
    end = now() + seconds
    while now() < end:
        pass
"""
        source = ON_THE_LINE.format(before=before, body=f"value = quad(f, a, b)[0]; {body}")
        good, slow = judged(SEED, box), judged(source, box, cpu_s=0.5)
        assert slow.metrics["overran"] == overran
        for problem, plain, after in zip(PROBLEMS[TEST], good.cases, slow.cases, strict=True):
            assert after == (0.0 if overran and problem.a == -math.inf else plain)

    @pytest.mark.parametrize(
        "body",
        [
            "box.problem(number + 1)(0.5)",  # to work on the next one in the time of this one
            "box.problem(number - 1)(0.5)",  # or on the one before in the time of this one
            "box.hand_in(number, 1.0)",  # to be done with this one, and still at it
        ],
    )
    def test_no_problem_is_touched_out_of_its_turn(self, box, body):
        source = f"""
from scipy.integrate import quad
number = 0

def integrate(f, a, b):
    global number
    inside = dict(zip(f.__code__.co_freevars, (cell.cell_contents for cell in f.__closure__)))
    box = inside["self"]
    if number == 5:
        {body}
    number += 1
    return quad(f, a, b)[0]
"""
        outcome = judged(source, box)
        assert outcome.status == "crashed"
        assert "answers no more" in outcome.reason

    def test_it_has_one_process_and_one_thread_by_whose_clock_its_time_is_told(self, box):
        before = """
import os, threading

def tried(start):
    try:
        start()
    except (OSError, RuntimeError):
        return
    os._exit(0)
"""
        body = "tried(os.fork); tried(threading.Thread(target=int).start); return quad(f, a, b)[0]"
        assert judged(ON_THE_LINE.format(before=before, body=body), box).cases == judged(SEED, box).cases

    def test_outside_of_the_interval_there_is_nothing_and_no_harm(self, box):
        asking = "import numpy as np\n\n" + SEED.replace(
            "    return", "    assert a < 0 or np.isnan(f(np.array([-0.5, -1e300, float('nan')]))).all()\n    return"
        )
        assert judged(asking, box).cases == judged(SEED, box).cases

    def test_the_same_program_gives_the_same_answer(self, box):
        assert judged(SEED, box).answer_id == judged(SEED, box).answer_id

    def test_answers_that_take_too_long_cost_their_integral(self, box):
        body = "import numpy as np; return float(f(np.full(200_000, 0.5)).sum())"
        outcome = judged(ON_THE_LINE.format(before="", body=body), box, cpu_s=0.02)
        assert outcome.metrics["overran"] >= 4

    @pytest.mark.parametrize(
        ("body", "status"),
        [("return 1 / 0", "crashed"), ("return None", "bad_output"), ("return (1.0, 0.1)", "bad_output")],
    )
    def test_a_program_without_one_number_fails(self, box, body, status):
        assert judged(f"def integrate(f, a, b):\n    {body}\n", box).status == status

    def test_neither_families_nor_parameters_are_within_reach(self, box):
        source = f"""
import gc, os

NAMES = {sorted(families.FAMILIES)!r}
HERE = set(map(id, NAMES))

def integrate(f, a, b):
    seen = [each for each in gc.get_objects() if isinstance(each, (list, tuple, dict)) and each is not NAMES]
    held = [name for each in seen if len(each) < 50 for name in NAMES[:1] + NAMES[3:4] if name in list(each)]
    files = [path for path, _, names in os.walk("/") if "families.py" in names and not path.startswith("/proc")]
    raise RuntimeError(f"reached {{len([h for h in held])}} {{files}}")
"""
        outcome = judged(source, box, cpu_s=30.0)
        assert outcome.status == "crashed"
        assert "[]" in outcome.reason


def test_what_the_prompt_allows_passes_the_gate():
    source = "import cmath, math, statistics\nimport numpy as np\nfrom scipy import integrate as si, special\n"
    assert gate.check(source + SEED, task.GATE, "integrate").ok
    assert gate.check(SPLIT, task.GATE, "integrate").ok
    assert not gate.check("import mpmath\n" + SEED, task.GATE, "integrate").ok
