"""evaluators.equations: measures with stated rules, formulas without execution, fits that find the true form."""

from __future__ import annotations

import json
import math
import struct
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.domain import SEARCH, TEST
from progevo.errors import BadOutput, DataError, TaskError
from progevo.evaluators.equations import Equations, Problem, Samples, expression, harness, measures, symbolic
from progevo.evaluators.equations.expression import NotAnExpression, compute, parse, plain
from progevo.evaluators.equations.problem import FITTED
from progevo.evaluators.equations.reading import formula_of
from progevo.types import Answer

FINITE = st.floats(-1e6, 1e6)
#: Of sizes that lie less than some digits apart, so that no squared error leaves the doubles.
PLAIN = st.integers(-(10**6), 10**6).map(lambda number: number / 1000)


def array(*values):
    return np.array(values, dtype=np.float64)


class TestMeasures:
    def test_nmse_by_hand(self):
        # Errors 0, 1, -1, 0: sum of squares 2. Deviations from the mean of 2.5: 1.5, 0.5, 0.5, 1.5: 5.
        assert measures.nmse(array(1, 3, 2, 4), array(1, 2, 3, 4)) == pytest.approx(2 / 5)

    @pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
    def test_nmse_of_the_mean_is_one_at_any_scale(self, scale):
        target = array(1, 2, 3, 6) * scale
        assert measures.nmse(np.full(4, 3.0 * scale), target) == pytest.approx(1.0)

    def test_constant_targets_have_no_nmse_even_where_their_mean_is_rounded(self):
        target = np.full(1000, 0.1)
        assert target.mean() != 0.1 or target.var() >= 0  # whichever way this numpy rounds
        assert measures.nmse(target, target) is None
        assert measures.lenient_nmse(np.full(1000, 0.3), target) is None

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_a_prediction_that_is_not_finite_fails_and_the_lenient_figure_leaves_out_nan_alone(self, bad):
        predicted, target = array(1, 3, bad, 4), array(1, 2, 3, 4)
        assert measures.nmse(predicted, target) is None
        assert measures.accuracy(predicted, target) == 0.0
        lenient = measures.lenient_nmse(predicted, target)
        if math.isnan(bad):
            # Of the rows that are left: one error of 1; their mean is 7/3, deviations 4/3, 1/3, 5/3.
            assert lenient == pytest.approx(1 / ((16 + 1 + 25) / 9))
        else:
            assert lenient is None

    def test_all_nan(self):
        predicted = np.full(3, math.nan)
        assert measures.nmse(predicted, array(1, 2, 3)) is None
        assert measures.lenient_nmse(predicted, array(1, 2, 3)) is None
        assert measures.accuracy(predicted, array(1, 2, 3)) == 0.0

    @settings(deadline=None)
    @given(st.lists(st.tuples(FINITE, FINITE, st.booleans()), min_size=3, max_size=30))
    def test_lenient_is_what_the_release_computes(self, rows):
        target = np.array([row[0] for row in rows])
        predicted = np.array([math.nan if row[2] else row[1] for row in rows])
        kept = [index for index in range(len(rows)) if not math.isnan(predicted[index])]
        # What is left of the digits of a difference between numbers of such a size is noise.
        if not kept or np.ptp(target[kept]) <= max(1e-100, 1e-6 * np.abs(target).max()):
            return
        var = np.var(target[kept])
        right = np.mean((target[kept] - predicted[kept]) ** 2) / var
        assert measures.lenient_nmse(predicted, target) == pytest.approx(right, rel=1e-6, abs=1e-12)

    def test_zero_targets_are_met_by_zero_alone(self):
        target = array(0.0, 1.0, -2.0)
        assert measures.accuracy(array(0.0, 1.09, -2.19), target) == 1.0
        assert measures.accuracy(array(1e-300, 1.0, -2.0), target) == 0.0
        assert measures.within(array(1e-300, 1.0, -2.0), target) == pytest.approx(2 / 3)

    def test_accuracy_looks_at_the_worst_row(self):
        target = np.ones(1000)
        assert measures.accuracy(np.full(1000, 1.0999), target) == 1.0
        assert measures.accuracy(np.append(np.ones(999), 1.1001), target) == 0.0

    def test_errors_beyond_the_doubles(self):
        assert measures.nmse(array(1e200, 2.0), array(1.0, 2.0)) is None

    @given(st.lists(st.tuples(PLAIN, PLAIN), min_size=2, max_size=40))
    def test_the_mean_of_the_cases_is_the_digits(self, rows):
        predicted, target = (np.array(column) for column in zip(*rows, strict=True))
        found = measures.shares(predicted, target)
        if found is None:
            assert measures.constant(target)
            return
        cases = measures.digit_cases(found)
        digits = measures.digits(float(found.mean()))
        assert math.fsum(cases) / len(cases) == pytest.approx(digits, rel=1e-9, abs=1e-9)
        assert digits <= measures.MOST

    def test_the_spread_of_the_cases_is_that_of_the_digits(self):
        rng = np.random.default_rng(1)
        target = rng.normal(size=4000)
        error = 1e-3 * rng.standard_t(8, size=4000)
        found = measures.shares(target + error, target)
        expected = np.std(measures.digit_cases(found)) / math.sqrt(4000)
        # Against digits computed anew from rows drawn again.
        draws = [found[rng.integers(0, 4000, 4000)].mean() for _ in range(500)]
        assert np.std(-np.log10(draws)) == pytest.approx(expected, rel=0.15)


NAMES = {"x": "x", "y": "y"}


def texts(depth=3):
    """Formulas that Python and numpy compute too."""
    leaf = st.sampled_from(["x", "y", "1.5", "2.0", "0.25", "pi", "3e0"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(st.sampled_from(["sin", "cos", "exp", "sqrt", "abs", "tanh"]), inner).map(
                lambda t: f"{t[0]}({t[1]})"
            ),
            inner.map(lambda text: f"-{text}"),
            inner.map(lambda text: f"({text})**2"),
        ),
        max_leaves=12,
    )


class TestExpression:
    @settings(deadline=None)
    @given(texts())
    def test_values_are_those_of_numpy(self, text):
        x, y = np.linspace(-3.0, 3.0, 7), np.linspace(0.5, 2.0, 7)
        known = {name: getattr(np, name) for name in ("sin", "cos", "exp", "sqrt", "abs", "tanh", "pi")}
        try:
            with np.errstate(all="ignore"):
                right = eval(text, {**known, "x": x, "y": y, "__builtins__": {}})
        except ArithmeticError:  # Python's own numbers know no infinity where they divide
            with pytest.raises(NotAnExpression, match="no finite number"):
                parse(text, NAMES)
            return
        try:
            found = compute(parse(text, NAMES), {"x": x, "y": y}, 7)
        except NotAnExpression:
            return  # numbers alone that make no finite number
        assert np.allclose(found, np.broadcast_to(right, 7), rtol=1e-12, atol=0, equal_nan=True)

    @pytest.mark.parametrize(
        ("text", "at", "value"),
        [
            ("3*x**2", -2.0, 12.0),  # a text in place of x would give -12
            ("-x**2", -2.0, -4.0),
            ("x**-1", 4.0, 0.25),
            ("np.power(x, 2) + math.sqrt(16)", 3.0, 13.0),
            ("ln(x)", math.e, 1.0),
            ("np.square(x) - np.reciprocal(x)", 2.0, 3.5),
            ("maximum(x, 0)", -1.0, 0.0),
        ],
    )
    def test_by_hand(self, text, at, value):
        assert compute(parse(text, NAMES), {"x": array(at)}, 1)[0] == pytest.approx(value)

    def test_a_number_has_a_value_in_every_row(self):
        assert compute(parse("2", NAMES), {}, 3).tolist() == [2.0, 2.0, 2.0]

    def test_where_there_is_no_real_value_there_is_none(self):
        found = compute(parse("sqrt(x) + x**0.5 + 1/x", NAMES), {"x": array(-1.0, 0.0)}, 2)
        assert np.isnan(found[0])
        assert np.isinf(found[1])

    @pytest.mark.parametrize(
        "text",
        [
            *("9**9**9", "9**9**9**9", "x + 10**400", "1e999", "1/0", "x*(0/0)"),
            *("(" * 150 + "x" + ")" * 150 + "**", "(" * 5000 + "x" + ")" * 5000, "-" * 5000 + "x", "x" + "+x" * 3000),
            *("sin(" * 160 + "x" + ")" * 160, "not " * 900 + "x", "x" * 10_001, "[" * 150 + "]" * 150),
            *("__import__('os')", "x.real", "x[0]", "[x]", "{x}", "f'{x}'", "x if y else 1", "lambda: x", "x := 1"),
            *("x and y", "x < y", "True", "None", "'x'", "1j", "sin(x, y)", "sin(*x)", "sin(x, out=y)", "z", "x^2"),
            *("open('f')", "np.load('f')", "np.linalg.norm(x)", "os.sin(x)", "sin", "", "x; y", "x = 1", "x\ny"),
        ],
    )
    def test_what_is_no_formula_is_refused_quickly(self, text):
        start = time.process_time()
        with pytest.raises(NotAnExpression):
            parse(text, NAMES)
        assert time.process_time() - start < 5.0  # 9**9**9 alone would take hours

    def test_brackets_cost_no_depth_and_long_sums_are_read(self):
        assert parse("(" * 100 + "x" + ")" * 100, NAMES) == "x"
        assert compute(parse("x" + "+x" * 120, NAMES), {"x": array(1.0)}, 1)[0] == 121.0

    def test_a_formula_that_shares_its_branches_is_counted_as_it_would_be_written(self):
        shared: expression.Expression = "x"
        for _ in range(9):
            shared = expression.call("multiply", shared, shared)
        assert isinstance(shared, expression.Call)
        assert shared.size == 2**10 - 1
        shared = expression.call("multiply", shared, "x")
        with pytest.raises(NotAnExpression, match="2000 parts"):
            expression.call("multiply", shared, shared)


def read(body, head="import numpy as np\n", arguments="a, b, params"):
    return formula_of(
        f"{head}\ndef equation({arguments}):\n    {body}\n", "equation", ("x", "y"), [float(n) for n in range(10)]
    )


class TestReading:
    @pytest.mark.parametrize(
        ("body", "head"),
        [
            ("return params[2] * a + np.sin(b)", "import numpy as np"),
            ("return numpy.sin(b) + a * params[2]", "import numpy"),
            ("k = params[2]\n    s = np.sin(b)\n    return k * a + s", "import numpy as np"),
            ("_, _, k = params[:3]\n    s = a\n    s *= k\n    return s + sin(b)", "from numpy import sin"),
            ('"""Words."""\n    s, k = np.sin(b), 2\n    s += a * k\n    return s', "import numpy as np"),
            ("return K * a + wave(b)", "K = 2.0\nfrom numpy import sin as wave"),
            ("return params[-8] * a + np.sin(b)", "import numpy as np"),
        ],
    )
    def test_ways_to_write_one_formula(self, body, head):
        x, y = np.linspace(-1, 1, 5), np.linspace(0, 2, 5)
        found = compute(read(body, head), {"x": x, "y": y}, 5)
        assert np.allclose(found, 2 * x + np.sin(y))

    def test_a_negative_parameter_stays_whole_in_a_power(self):
        source = "def equation(a, params):\n    return params[0] ** 2 * a\n"
        assert compute(formula_of(source, "equation", ("x",), [-2.0]), {"x": array(1.0)}, 1)[0] == 4.0

    @pytest.mark.parametrize(
        "body",
        [
            *("for n in range(3):\n        a = a + 1\n    return a", "if a.sum() > 0:\n        return a\n    return b"),
            *("return np.where(a > 0, a, b)", "return np.convolve(a, b)", "return helper(a)", "return params @ params"),
            *(
                "return np.dot(params[:2], params[:2]) * a",
                "return a.mean() + b",
                "return params[n] * a",
                "pass",
                "return",
            ),
            *("a[0] = 1\n    return a", "return params[12]", "c += a\n    return c", "a, b = b\n    return a"),
        ],
    )
    def test_what_is_not_followed_says_so(self, body):
        with pytest.raises(NotAnExpression):
            read(body)

    @pytest.mark.parametrize("arguments", ["*args", "a, params", "a, b, c, params", "a, b, *, params"])
    def test_other_arguments(self, arguments):
        with pytest.raises(NotAnExpression, match="does not take 2 inputs"):
            read("return 1.0", arguments=arguments)


GRID = Samples(
    inputs=np.vstack([np.linspace(0.1, 60, 40), np.linspace(0.5, 50, 40)[::-1]]), target=np.arange(40, dtype=np.float64)
)
PAIR = {"t": "t", "P": "P"}


def judged(ours, truth):
    return symbolic.judge(parse(ours, PAIR), parse(truth, PAIR), ("t", "P"), GRID)


class TestSymbolic:
    @pytest.fixture(autouse=True)
    def _needs_sympy(self):
        pytest.importorskip("sympy", reason="SymPy is not installed (the extra srbench)")

    @pytest.mark.parametrize(
        ("ours", "truth"),
        [
            ("2*t + P", "P + t + t"),
            ("0.95*P - 0.0098*P*P + 0.95*cbrt(P)", "0.95*(1 - P/96.93877551)*P + 0.95*P**0.333333333333333"),
            (
                "0.3156*P/exp(0.054051*t) + 0.03197*P*P/(P + 0.10131)",
                "0.3156*P*exp(-0.05405*t) + 0.3156*P**2/(9.871*P + 1)",
            ),
            ("exp(1.2 - 0.3*t)*P", "3.3201169*P*exp(-0.3*t)"),
            ("sin(2*t)*P", "2*P*sin(t)*cos(t)"),
            ("P + 1e-9*t", "P"),
            ("(P**2 - 1)/(P - 1)", "P + 1"),
        ],
    )
    def test_the_same_formula_in_another_form(self, ours, truth):
        assert judged(ours, truth) == (1.0, "")

    @pytest.mark.parametrize(("ours", "truth"), [("2*t", "2*t + 0.1*P"), ("P", "P**1.01"), ("sqrt(0 - P)", "P")])
    def test_another_formula(self, ours, truth):
        assert judged(ours, truth) == (0.0, "")

    def test_what_cannot_be_shown_is_unknown(self):
        # A polynomial so close to a sine that no sample here tells them apart.
        found = judged("0.001*t - (0.001*t)**3/6 + (0.001*t)**5/120", "sin(0.001*t)")
        assert found.same is None
        assert "no normal form" in found.why

    def test_too_much_time_is_unknown(self):
        hard = plain(parse("(" + "+".join(f"sin({n}.5*t+P)" for n in range(40)) + ")**30", PAIR))
        found = symbolic.asked({"ours": hard, "truth": "t", "points": [{"t": 1.0, "P": 2.0}]}, wall_s=2.0)
        assert found.same is None
        assert "2 s" in found.why

    def test_too_much_memory_is_unknown(self):
        hard = plain(parse("(" + "+".join(f"t**{n}*P" for n in range(40)) + ")**40", PAIR))
        found = symbolic.asked({"ours": hard, "truth": "t", "points": []}, wall_s=60.0, memory_bytes=200 * 2**20)
        assert found.same is None
        assert "MiB" in found.why

    def test_a_name_is_never_run(self, tmp_path):
        name = f"__import__('pathlib').Path({str(tmp_path / 'made')!r}).touch()"
        symbolic.asked({"ours": ["add", name, 1.0], "truth": ["add", 1.0, name], "points": []})
        assert not (tmp_path / "made").exists()


def test_without_sympy_the_symbolic_figure_is_unknown_and_says_why(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = judged("P", "P")
    assert found.same is None
    assert "progevo[srbench]" in found.why


def samples(function, columns, rows=300, seed=0, low=-2.0, high=2.0):
    inputs = np.random.default_rng(seed).uniform(low, high, (columns, rows))
    return Samples(inputs=inputs, target=np.asarray(function(*inputs), dtype=np.float64))


def problem(function, columns=2, truth=None, **changes):
    names = ("x", "y", "z")[:columns]
    made = {
        "name": "p",
        "group": "g",
        "inputs": names,
        "output": "f",
        "train": samples(function, columns),
        "test": samples(function, columns, 80, 1),
        "ood": samples(function, columns, 60, 2, 2.0, 4.0),
        "truth": None if truth is None else parse(truth, {name: name for name in names}),
    }
    return Problem(**{**made, **changes})


def answered(evaluator, entry, split=SEARCH, source=""):
    """What a program answers, after its way over the wire."""
    inputs = evaluator.inputs(split)
    request = json.loads(json.dumps(inputs.request, allow_nan=False))
    folder = next(iter(inputs.files.values())).parent
    value, arrays = harness.run(entry, request, folder)
    sent = tuple(struct.unpack(f"{len(each)}d", struct.pack(f"{len(each)}d", *each)) for each in arrays)
    return Answer(value=value, arrays=sent, source=source)


def driven(t, x, v):
    """The second oscillator of LLM-SR."""
    return 0.3 * np.sin(t) - 0.5 * v**3 - x * v - 5.0 * x * np.exp(0.5 * x)


def driven_form(t, x, v, p):
    return p[0] * np.sin(p[1] * t) + p[2] * v**3 + p[3] * x * v + p[4] * x * np.exp(p[5] * x)


class TestFit:
    def test_one_start_hides_the_true_form_and_several_find_it(self):
        made = problem(driven, 3, train=samples(driven, 3, 600, 0, -1.0, 1.0))
        times = made.train.inputs.copy()
        times[0] = 30.0 + 10.0 * (times[0] + 1.0)
        made = problem(driven, 3, train=Samples(inputs=times, target=driven(*times)))
        one = Equations(made, fit="bfgs")
        several = Equations(made)
        stuck = one.score(SEARCH, answered(one, driven_form))
        found = several.score(SEARCH, answered(several, driven_form))
        assert stuck.metrics["nmse"] > 1e-3
        assert found.metrics["nmse"] < 1e-20
        assert found.score == measures.MOST

    def test_linear_parameters_are_those_of_the_normal_equations(self):
        made = problem(lambda x, y: x**3 - 2 * y + 0.3 * np.sin(9 * x))
        for fit in ("least_squares", "bfgs"):
            evaluator = Equations(made, fit=fit)
            answer = answered(evaluator, lambda x, y, p: p[0] * x + p[1] * y + p[2])
            table = np.vstack([evaluator.fitted.inputs, np.ones(240)]).T
            right = np.linalg.lstsq(table, evaluator.fitted.target, rcond=None)[0]
            assert np.allclose(answer.arrays[0][:3], right, atol=1e-5)

    def test_bfgs_is_one_run_from_ones_on_the_mean_squared_error(self):
        from scipy.optimize import minimize

        made = problem(lambda x, y: np.exp(0.4 * x) * y)
        evaluator = Equations(made, fit="bfgs")

        def form(x, y, p):
            return p[0] * np.exp(p[1] * x) * y

        x, y = evaluator.fitted.inputs
        target = evaluator.fitted.target
        right = minimize(lambda p: np.mean((form(x, y, p) - target) ** 2), np.ones(10), method="BFGS")
        assert list(answered(evaluator, form).arrays[0]) == pytest.approx(right.x, abs=1e-9)

    def test_the_same_program_gives_the_same_answer(self):
        evaluator = Equations(problem(lambda x, y: x * np.exp(0.7 * y)))

        def form(x, y, p):
            return p[0] * x * np.exp(p[1] * y) + p[2]

        assert answered(evaluator, form) == answered(evaluator, form)

    def test_an_equation_may_use_no_parameter_or_have_no_value_in_places(self):
        evaluator = Equations(problem(lambda x, y: x * y))
        assert evaluator.score(SEARCH, answered(evaluator, lambda x, y, p: x * y)).score == measures.MOST
        found = evaluator.score(SEARCH, answered(evaluator, lambda x, y, p: x * y + p[0] * np.sqrt(9.0 + p[1])))
        assert found.score == measures.MOST

    @pytest.mark.parametrize(
        ("entry", "words"),
        [
            (lambda x, y, p: p[0], "float64"),
            (lambda x, y, p: 1.0, "got float"),
            (lambda x, y, p: (p[0] * x)[:, None], r"shape \(240,\), got shape \(240, 1\)"),
            (lambda x, y, p: np.outer(x, y), "got shape"),
            (lambda x, y, p: np.array([p[0]]), r"got shape \(1,\)"),
            (lambda x, y, p: (x * p[0]).tolist(), "got list"),
            (lambda x, y, p: x * 1j, "complex128"),
            (lambda x, y, p: x > 0, "bool"),
            (lambda x, y, p: x.view(type("Lazy", (np.ndarray,), {})), "array of"),
            (lambda x, y, p: None, "NoneType"),
        ],
    )
    def test_anything_but_one_number_a_row_is_refused(self, entry, words):
        evaluator = Equations(problem(lambda x, y: x * y))
        with pytest.raises(harness.BadOutput, match=words):
            answered(evaluator, entry)

    def test_inputs_cannot_be_destroyed(self):
        evaluator = Equations(problem(lambda x, y: x * y))

        def entry(x, y, p):
            x *= 2.0
            return x

        with pytest.raises(ValueError, match="read-only"):
            answered(evaluator, entry)

        def stubborn(x, y, p):
            x.flags.writeable = True
            return x

        with pytest.raises(ValueError, match="WRITEABLE"):
            answered(evaluator, stubborn)

    def test_an_eleventh_parameter_is_not_there(self):
        with pytest.raises(IndexError):
            answered(Equations(problem(lambda x, y: x * y)), lambda x, y, p: p[10] * x)

    def test_bfgs_that_ends_nowhere_fails(self):
        with pytest.raises(harness.BadOutput, match="not finite"):
            answered(Equations(problem(lambda x, y: x), fit="bfgs"), lambda x, y, p: p[0] * x * np.nan)


class TestScore:
    def test_no_target_of_a_row_to_predict_is_given(self):
        made = problem(lambda x, y: 1000.0 + x * y)
        evaluator = Equations(made)
        fitted, held = made.parts()
        assert (len(fitted), len(held)) == (round(FITTED * 300), 300 - round(FITTED * 300))
        for split, hidden in ((SEARCH, [held]), (TEST, [made.test, made.ood])):
            inputs = evaluator.inputs(split)
            given = b"".join(path.read_bytes() for path in inputs.files.values())
            numbers = set(np.frombuffer(given, dtype="<f8").tolist())
            assert set(fitted.target.tolist()) <= numbers
            for part in hidden:
                assert set(part.inputs.ravel().tolist()) <= numbers
                assert not set(part.target.tolist()) & numbers
            assert set(inputs.request) == {"columns", "fit", "seed", "predict"}

    def test_the_parts_are_reported_apart_with_their_own_names(self):
        evaluator = Equations(problem(lambda x, y: x * y + 0.1 * x**3))
        search = evaluator.score(SEARCH, answered(evaluator, lambda x, y, p: p[0] * x * y))
        assert set(search.metrics) == {"digits", "nmse", "nmse_lenient", "acc_0.1", "within_0.1"}
        test = evaluator.score(TEST, answered(evaluator, lambda x, y, p: p[0] * x * y, TEST))
        kinds = ("digits", "nmse", "acc_0.1", "within_0.1")
        assert set(test.metrics) == {
            *(f"{kind}_{part}" for kind in kinds for part in ("id", "ood")),
            *("nmse_id_lenient", "nmse_ood_lenient", "symbolic"),
        }
        assert test.score == test.metrics["digits_id"]
        assert test.metrics["nmse_ood"] != test.metrics["nmse_id"]
        assert len(test.cases) == 80

    def predicting(self, evaluator, split, change):
        """A right answer with some predictions changed."""
        parts = evaluator.parts[split]
        arrays = [list(part.target) for part in parts.values()]
        change(arrays)
        return evaluator.score(split, Answer(arrays=(tuple([1.0] * 10), *map(tuple, arrays))))

    def test_a_prediction_that_is_not_finite_fails_and_says_what_the_lenient_figure_would_be(self):
        evaluator = Equations(problem(lambda x, y: x * y))
        for split in (SEARCH, TEST):
            with pytest.raises(BadOutput, match=r"2 of \d+ predictions are not finite.*lenient.*NMSE is 0"):
                self.predicting(evaluator, split, lambda arrays: arrays[0].__setitem__(slice(0, 2), [math.nan] * 2))
        with pytest.raises(BadOutput, match="no rows are left"):
            self.predicting(evaluator, TEST, lambda arrays: arrays[0].__setitem__(slice(None), [math.nan] * 80))
        with pytest.raises(BadOutput, match="so large"):
            self.predicting(evaluator, TEST, lambda arrays: arrays[0].__setitem__(0, 1e300))

    def test_out_of_distribution_it_costs_that_part_alone(self):
        evaluator = Equations(problem(lambda x, y: x * y))
        found = self.predicting(evaluator, TEST, lambda arrays: arrays[1].__setitem__(0, math.nan))
        assert found.score == measures.MOST
        assert math.isnan(found.metrics["nmse_ood"])
        assert math.isnan(found.metrics["digits_ood"])
        assert (found.metrics["acc_0.1_ood"], found.metrics["nmse_ood_lenient"]) == (0.0, 0.0)
        assert found.metrics["acc_0.1_id"] == 1.0

    def test_constant_targets_out_of_distribution_have_no_nmse(self):
        flat = Samples(inputs=np.ones((2, 10)), target=np.full(10, 0.1))
        found = self.predicting(Equations(problem(lambda x, y: x * y, ood=flat)), TEST, lambda arrays: None)
        assert math.isnan(found.metrics["nmse_ood"])
        assert found.metrics["acc_0.1_ood"] == 1.0

    def test_zero_targets_are_counted(self):
        evaluator = Equations(problem(lambda x, y: np.where(x > 1.5, 0.0, x * y)))
        found = self.predicting(evaluator, TEST, lambda arrays: None)
        assert found.metrics["zero_targets_id"] > 0
        assert found.metrics["acc_0.1_id"] == 1.0

    @pytest.mark.parametrize(
        "arrays",
        [(), ((1.0,) * 10,), ((1.0,) * 9, (1.0,) * 60), ((1.0,) * 10, (1.0,) * 59), ((1.0,) * 10, (1.0,) * 60, ())],
    )
    def test_another_number_of_values_is_refused(self, arrays):
        with pytest.raises(BadOutput):
            Equations(problem(lambda x, y: x * y)).score(SEARCH, Answer(arrays=arrays))

    def test_constant_targets_that_are_to_be_found_are_refused(self):
        with pytest.raises(DataError, match="all the same"):
            problem(lambda x, y: np.full(len(x), 0.1))

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_samples_that_are_not_finite_are_refused(self, bad):
        with pytest.raises(DataError, match="not finite"):
            problem(lambda x, y: np.where(x > 1.9, bad, x))

    def test_a_row_of_the_test_part_does_not_rank(self):
        made = problem(lambda x, y: x * y)
        again = problem(lambda x, y: x * y, test=made.train)
        assert len(made.parts()[1]) == 60
        with pytest.raises(DataError, match="0 that are held back"):
            again.parts()

    def test_there_are_two_ways_to_fit(self):
        with pytest.raises(TaskError, match="least_squares and bfgs"):
            Equations(problem(lambda x, y: x * y), fit="adam")


SOURCE = """
import numpy as np

def equation(x, y, params):
    return {formula}
"""


class TestSymbolicFigure:
    def scored(self, formula, truth, claimed=None):
        pytest.importorskip("sympy", reason="SymPy is not installed (the extra srbench)")
        evaluator = Equations(problem(lambda x, y: 2.0 * x * y + np.exp(0.5 * y), truth=truth))
        names: dict = {}
        exec(SOURCE.format(formula=formula), names)
        source = SOURCE.format(formula=claimed or formula)
        found = evaluator.score(TEST, answered(evaluator, names["equation"], TEST, source))
        return found.metrics["symbolic"], found.note

    def test_the_true_form_is_recognised_with_its_fitted_parameters(self):
        formula = "params[3] * y * x + np.exp(params[0] * y) * params[1] + params[2] * x"
        assert self.scored(formula, "2*x*y + exp(y/2)") == (1.0, "")

    def test_another_form_is_not(self):
        assert self.scored("params[0] * x * y + params[1]", "2*x*y + exp(y/2)") == (0.0, "")

    def test_a_text_that_is_not_what_was_computed_shows_nothing(self):
        value, note = self.scored("params[0] * x * y", "2*x*y + exp(y/2)", claimed="2*x*y + np.exp(y/2)")
        assert math.isnan(value)
        assert "not what the program has computed" in note

    def test_no_plain_formula_and_no_known_truth_are_unknown(self):
        value, note = self.scored("np.where(x > 0, x, y)", "x")
        assert math.isnan(value)
        assert "no plain formula" in note
        value, note = self.scored("params[0] * x", None)
        assert math.isnan(value)
        assert "not known" in note
