"""tasks.hyp2f1: points that anybody can draw again, values that an independent computation confirms, known scores."""

from __future__ import annotations

import json
import math
import random
import re
from contextlib import closing
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from importlib import resources
from pathlib import Path

import pytest

from progevo import Candidate, GatePolicy, Inputs, Program, evaluate, find_domain, gate
from progevo.domain import SEARCH, TEST
from progevo.errors import TaskError
from progevo.sandbox.probe import open_sandbox
from progevo.tasks.hyp2f1 import points, task
from progevo.tasks.hyp2f1.points import Point, Unclear

SHIPPED = (Path(task.__file__).parent / "reference.json").read_text("utf-8")
ROWS = json.loads(SHIPPED)
#: The last of 25 digits is rounded: next to 1.000... that is half a unit in 10^24.
ROUNDED = Decimal("5.01e-25")
WIDE = Context(prec=150)


def off(value, true) -> Decimal:
    """A relative error, of decimal texts."""
    return WIDE.divide(WIDE.subtract(Decimal(value), Decimal(true)), Decimal(true)).copy_abs()


def by_series(a: float, b: float, c: float, z: float) -> Decimal:
    """2F1 by its power series in 150 digits, after Pfaff's transformation where z is negative. No mpmath in it."""
    front, number = Decimal(1), Decimal(z)
    first, second, third = map(Decimal, (a, b, c))
    if z < 0:
        front = WIDE.power(WIDE.subtract(1, number), -first)
        second, number = WIDE.subtract(third, second), WIDE.divide(number, WIDE.subtract(number, 1))
    total = term = Decimal(1)
    n = 0
    while n < 200 or WIDE.abs(term) > WIDE.multiply(WIDE.abs(total), Decimal("1e-45")):
        above = WIDE.multiply(WIDE.add(first, n), WIDE.add(second, n))
        below = WIDE.multiply(WIDE.add(third, n), Decimal(n + 1))
        term = WIDE.multiply(WIDE.multiply(term, WIDE.divide(above, below)), number)
        total = WIDE.add(total, term)
        n += 1
    return WIDE.multiply(front, total)


class TestPoints:
    def test_the_generator_reproduces_the_shipped_file_byte_for_byte(self):
        assert points.reference() == SHIPPED

    def test_there_are_as_many_as_the_task_promises(self):
        assert [len(ROWS[split]) for split in (SEARCH, TEST)] == [1000, 1000]
        names = [name for name, *_ in ROWS["edge"]]
        assert len(names) == len(set(names)) >= 80
        drawn = [tuple(row[:4]) for split in (SEARCH, TEST) for row in ROWS[split]]
        assert len(set(drawn)) == 2000

    @pytest.mark.parametrize("split", [SEARCH, TEST])
    def test_they_fill_the_ranges_evenly(self, split):
        for place, (low, high) in enumerate([(-30, 30), (-30, 30), (-30, 30), (-40, 0.999)]):
            shares = sorted((row[place] - low) / (high - low) for row in ROWS[split])
            assert shares[0] > 0
            assert shares[-1] < 1
            # Kolmogorov's bound at one in a million for 1,000 points is 0.085.
            assert max(abs(share - (n + 0.5) / 1000) for n, share in enumerate(shares)) < 0.085

    def test_a_series_without_mpmath_confirms_the_values(self):
        rows = random.Random(0).sample([*ROWS[SEARCH], *ROWS[TEST]], 60)
        assert [row for row in rows if off(row[4], by_series(*row[:4])) > ROUNDED] == []

    def test_closed_forms_confirm_the_edge_set(self):
        log, root = WIDE.ln, WIDE.sqrt
        for name, a, b, c, z, value in ROWS["edge"]:
            at, exact = Decimal(z), None
            if (a, b, c) == (1.0, 1.0, 2.0):
                exact = -log(1 - at) / at  # DLMF 15.4.1
            elif (a, b, c) == (0.5, 1.0, 1.5) and z > 0:
                exact = log((1 + root(at)) / (1 - root(at))) / (2 * root(at))  # DLMF 15.4.2
            elif a == c == -1.0:
                exact = 1 + Decimal(b) * at
            elif z == 0.0:
                exact = Decimal(1)
            if exact is not None:
                # Decimal's operators work in 28 digits.
                assert off(value, exact) < Decimal("1e-23"), name

    def test_kinds_of_edge_points_are_what_they_are_called(self):
        kinds: dict[str, list] = {kind: [] for kind in points.EDGE}
        for name, *row, _ in ROWS["edge"]:
            kinds[next(kind for kind in kinds if name.startswith(kind))].append(row)
        assert all(any(x <= 0 and x.is_integer() for x in row[:2]) for row in kinds["terminating series"])
        assert all((a - b).is_integer() for a, b, _, _ in kinds["a - b an integer"])
        assert all(abs(x - round(x)) < 1e-9 for a, b, c, _ in kinds["c - a - b an integer"] for x in [c - a - b])
        assert all(0 < abs(c - round(c)) < 1e-3 and c < 0 for _, _, c, _ in kinds["c near a non-positive integer"])
        assert all(z >= 0.99 for *_, z in kinds["z near 1"])
        assert all(kinds.values())

    @pytest.mark.parametrize(
        ("point", "right"),
        [
            ((-1.0, 2.34, -1.0, 0.5), Fraction(1) + Fraction(2.34) / 2),
            ((-2.0, 3.0, -2.0, 1.0), Fraction(1 + 3 + 6)),
            ((3.0, -2.0, -2.0, -1.0), Fraction(1 - 3 + 6)),
            ((-2.0, -3.0, 1.0, 1.0), Fraction(10)),
            ((0.0, 7.0, -5.0, 0.3), Fraction(1)),
            # From issues of SciPy: it says 3.4e83.
            ((1000.0, -1000.0, 2000.0, 0.5), None),
        ],
    )
    def test_series_that_end(self, point, right):
        found = points.value(Point(*point))
        if right is None:
            assert points.text(found).startswith("2.30704833489523410")
        else:
            assert found == right

    @pytest.mark.parametrize(
        ("point", "right"),
        [
            ((0.3, 0.7, 1.9, 0.6), "1.0895"),
            ((-2.3, -2.3, 4.1, -6.0), "0.7448"),
            ((-1.0, 2.34, -1.0, 0.5), "2.17"),
            ((1000.0, -1000.0, 2000.0, 0.5), "2.30704833489523410e-114"),
        ],
    )
    def test_where_programs_were_found_to_be_wrong_there_is_an_edge_point(self, point, right):
        """The first two lie in branches of a published program that its 3,000 points never ran."""
        (value,) = [value for _, *at, value in ROWS["edge"] if tuple(at) == point]
        assert off(value, right) < Decimal("1e-4")

    @pytest.mark.parametrize("point", [(-3.0, 1.5, -2.0, 0.5), (1.5, 2.5, -2.0, 0.5)])
    def test_a_series_that_meets_a_pole_has_no_value(self, point):
        with pytest.raises(Unclear):
            points.value(Point(*point))

    def test_values_that_others_handed_over(self, shared):
        stress = json.loads((shared / "hyp2f1" / "hyp2f1_stress.json").read_text())
        edge = json.loads((shared / "hyp2f1" / "edge_points.json").read_text())["points"]
        drawn = [row for shard in stress["shards"] for row in shard[:20]]
        for row in [*drawn, *edge]:
            point = Point(*(float(row[name]) for name in "abcz"))
            assert off(points.text(points.value(point)), row["value"]) < Decimal("1.01e-24"), row


class TestGate:
    @pytest.mark.parametrize(
        "line",
        [
            "import mpmath",
            "from mpmath import hyp2f1 as f",
            "import decimal",
            "from decimal import Decimal",
            "import fractions",
            "import sympy",
            "import statistics",
            "from scipy.special import _precompute",
            "import numpy as np\nx = np.fractions",
            "import scipy\nx = scipy.special.mpmath",
            "import progevo.tasks.hyp2f1.points",
            "import json\nx = 1",
        ],
    )
    def test_what_would_hold_more_digits_or_the_answers_is_refused(self, line):
        seed = find_domain("hyp2f1").seed.source
        assert not gate.check(f"{line}\n{seed}", task.GATE, "hyp2f1").ok

    def test_what_the_prompt_allows_passes(self):
        source = "import cmath, math\nimport numpy as np\nfrom scipy import special, integrate\n"
        assert gate.check(source + find_domain("hyp2f1").seed.source, task.GATE, "hyp2f1").ok

    def test_a_data_file_is_refused(self, tmp_path):
        with pytest.raises(TaskError, match="takes no data file"):
            find_domain("hyp2f1", data=tmp_path)


@pytest.fixture(scope="module")
def box():
    with closing(open_sandbox("numeric")) as made:
        yield made


def judged(source, split, box, **changes):
    domain = replace(find_domain("hyp2f1"), **changes)
    return evaluate(domain, Candidate(program=Program(source), origin="test"), split, box)


#: Looks through every file that can be read for its own points, and answers with what stands behind them.
READ_THE_VALUES = """
import json, os

def find():
    for folder, _, names in os.walk("/"):
        if folder.startswith(("/proc", "/sys")):
            continue
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".json") and os.path.getsize(path) < 10**7:
                text = open(path, errors="replace").read()
                if '"edge"' in text and '"search"' in text:
                    return json.loads(text)
    return {}

KNOWN = {tuple(row[-5:-1]): float(row[-1]) for rows in find().values() for row in rows}

def hyp2f1(a, b, c, z):
    return KNOWN.get((a, b, c, z), 0.0)
"""


class TestSandbox:
    @pytest.mark.parametrize("split", [SEARCH, TEST])
    def test_scipy_scores_what_it_is_said_to(self, box, split):
        outcome = judged(find_domain("hyp2f1").seed.source, split, box)
        assert outcome.status == "ok"
        assert outcome.score == pytest.approx(9.8, abs=0.3)
        assert outcome.metrics["solved"] == pytest.approx(656, abs=60)
        assert len(outcome.cases) == 1000

    @pytest.mark.parametrize("split", [SEARCH, TEST])
    def test_choosing_by_estimated_cancellation_reaches_its_figure(self, box, split):
        source = Path(__file__).with_name("choose_2f1.py").read_text("utf-8")
        outcome = judged(source, split, box)
        assert outcome.status == "ok"
        assert outcome.score == pytest.approx(11.9, abs=0.06)
        assert outcome.metrics["lost"] <= 2

    def test_a_wrong_program_scores_nothing(self, box):
        outcome = judged("def hyp2f1(a, b, c, z):\n    return 0.0\n", SEARCH, box)
        assert (outcome.score, outcome.metrics["lost"], outcome.metrics["edge_digits"]) == (0.0, 1000.0, 0.0)

    def test_a_branch_that_raises_costs_its_points_alone(self, box):
        seed = find_domain("hyp2f1").seed.source
        broken = seed.replace("    return", "    if z > -20.0:\n        return 1 / 0\n    return")
        whole, part = judged(seed, SEARCH, box), judged(broken, SEARCH, box)
        assert part.status == "ok"
        for row, before, after in zip(ROWS[SEARCH], whole.cases, part.cases, strict=True):
            assert after == (0.0 if row[3] > -20.0 else before)
        assert "ZeroDivisionError" in part.log_tail

    def test_a_wrong_branch_that_the_mean_hardly_sees_shows_beside_it(self, box):
        seed = find_domain("hyp2f1").seed.source
        wrong = seed.replace("    return", "    if max(abs(a), abs(b), abs(c)) < 2.0:\n        return 1.0\n    return")
        whole, part = judged(seed, SEARCH, box), judged(wrong, SEARCH, box)
        assert part.score > whole.score - 0.05
        assert part.metrics["edge_digits"] < whole.metrics["edge_digits"] - 1.0
        assert part.metrics["edge_solved"] < whole.metrics["edge_solved"] - 10

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ("return 1 / 0", "crashed"),
            ("return 'x'", "bad_output"),
            ("return (1.0, 0.0)", "bad_output"),
            ("return None", "bad_output"),
        ],
    )
    def test_a_program_without_one_number_fails(self, box, body, status):
        outcome = judged(f"def hyp2f1(a, b, c, z):\n    {body}\n", SEARCH, box)
        assert (outcome.status, outcome.score) == (status, -math.inf)

    def test_what_computes_with_more_digits_is_out_of_reach_whatever_the_gate_lets_pass(self, box, tmp_path):
        source = "from mpmath import hyp2f1 as f\n\ndef hyp2f1(a, b, c, z):\n    return float(f(a, b, c, z))\n"
        open_gate = {"gate": GatePolicy(imports=frozenset(), permissive=True)}
        attack = judged(source, TEST, box, **open_gate)
        assert (attack.status, attack.reason) == ("crashed", "ModuleNotFoundError: No module named 'mpmath' (line 1)")
        # The twin: the same profile, which hides nothing.
        shipped = Path(str(resources.files("progevo.sandbox_profiles") / "numeric.toml")).read_text("utf-8")
        (tmp_path / "plain.toml").write_text(re.sub(r"^hidden = .*$", "hidden = []", shipped, flags=re.MULTILINE))
        with closing(open_sandbox(str(tmp_path / "plain.toml"))) as plain:
            assert judged(source, TEST, plain, **open_gate).score > 11.99

    def test_the_values_are_nowhere_to_be_read(self, box, tmp_path):
        open_gate = {"gate": GatePolicy(imports=frozenset(), permissive=True)}
        attack = judged(READ_THE_VALUES, SEARCH, box, **open_gate)
        assert (attack.status, attack.score) == ("ok", 0.0)
        # The twin: with the shipped file among its inputs the same program knows everything.
        real = find_domain("hyp2f1").evaluator
        file = tmp_path / "reference.json"
        file.write_text(SHIPPED)
        file.chmod(0o644)

        class Leaking:
            harness = real.harness
            score = real.score

            def inputs(self, split, /):
                return Inputs(request=real.inputs(split).request, files={"reference.json": file})

        twin = judged(READ_THE_VALUES, SEARCH, box, **open_gate, evaluator=Leaking())
        assert twin.score == 12.0
