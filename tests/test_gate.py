"""The gate: what it refuses and where, what it must let pass, and what hostile texts cost."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import textwrap
import threading
import warnings
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from progevo.gate import Finding, Verdict, check
from progevo.types import GatePolicy

IMPORTS = frozenset(
    [
        "collections",
        "copy",
        "dataclasses",
        "functools",
        "itertools",
        "joblib",
        "math",
        "numpy",
        "pandas",
        "random",
        "scipy",
        "sklearn",
        "statistics",
        "time",
        "typing",
        "warnings",
    ]
)
POLICY = GatePolicy(imports=IMPORTS)
PERMISSIVE = GatePolicy(imports=frozenset(), permissive=True)
SOLVE = "\ndef solve(x):\n    return x\n"


def _rules(source: str | bytes, policy: GatePolicy = POLICY) -> set[tuple[int, str]]:
    return {(finding.line, finding.rule) for finding in check(source, policy, "solve").findings}


def _code(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


# What is refused: the construct (an entry point is appended), the rule, the line

REFUSED = [
    # inside Python by dunders, strings and frames
    ("().__class__", "attribute", 1),
    ("k = object().__class__.__base__.__subclasses__()", "attribute", 1),
    ("def f(): pass\ng = f.__globals__", "attribute", 2),
    ("g = f'{print.__self__}'", "attribute", 1),
    ("b = __builtins__", "name", 1),
    ("b = __loader__", "name", 1),
    ("n = {}['__builtins__']", "string", 1),
    ("n = ['__globals__', 1]", "string", 1),
    ("t = (i for i in [])\nt.gi_frame.f_back", "attribute", 2),
    ("async def c(): pass\nc().cr_frame", "attribute", 2),
    ("async def c(): yield\nc().ag_frame", "attribute", 2),
    ("def f(e): return e.tb_frame", "attribute", 1),
    ("def f(): pass\nf.func_globals", "attribute", 2),
    ("def f(g): return g.f_builtins, g.f_globals, g.f_locals", "attribute", 1),
    ("def f(c): return c.co_consts", "attribute", 1),
    ("match print:\n    case object(__self__=m): pass", "attribute", 2),
    ("match print:\n    case object(gi_frame=m): pass", "attribute", 2),
    # built-ins that run text or reach by name, wherever they stand
    ("eval('1')", "name", 1),
    ("x = 1\nexec('x = 2')", "name", 2),
    ("run = [compile]", "name", 1),
    ("@exec\n@input\ndef f(): pass", "name", 1),
    ("@exec\n@input\ndef f(): pass", "name", 2),
    ("def f(g=getattr): pass", "name", 1),
    ("def f(g: eval): pass", "name", 1),
    ("if (g := getattr): pass", "name", 1),
    ("f = lambda: globals()", "name", 1),
    ("class A:\n    call = exec", "name", 2),
    ("a = f'{open(1)}'", "name", 1),
    ("setattr(1, 'a', 2)", "name", 1),
    ("delattr(1, 'a')", "name", 1),
    ("vars(1), dir(1), locals()", "name", 1),
    ("breakpoint()", "name", 1),
    ("exit()", "name", 1),
    ("h = hasattr", "name", 1),
    ("hasattr(print, 'a' + 'b')", "name", 1),
    ("hasattr(print, '__self__')", "name", 1),
    ("T = type('T', (), {})", "call", 1),
    ("T = type(*['T', (), {}])", "call", 1),
    # imports
    ("import os", "import", 1),
    ("import os as o", "import", 1),
    ("import\\\n os", "import", 1),
    ("import numpy, subprocess", "import", 1),
    ("def f():\n    if f:\n        import ctypes", "import", 3),
    ("from importlib import import_module", "import", 1),
    ("import numpyx", "import", 1),
    ("from . import a", "import", 1),
    ("from .numpy import a", "import", 1),
    ("from numpy import *", "import", 1),
    ("from random import _os", "import", 1),
    ("from numpy.f2py import os", "import", 1),
    ("from pandas.io.common import os as o", "import", 1),
    ("import sklearn.utils.os", "import", 1),
    ("import numpy._core", "import", 1),
    ("import numpy.lib._datasource as d", "import", 1),
    ("from sklearn.utils import _testing", "import", 1),
    ("from numpy import ctypeslib", "import", 1),
    ("from sklearn.datasets import fetch_california_housing", "import", 1),
    ("from joblib import load", "import", 1),
    ("from typing import get_type_hints", "import", 1),
    ("from functools import partial as eval\nimport operator", "import", 2),
    ("import codecs", "import", 1),
    ("import inspect", "import", 1),
    # modules behind attributes
    ("import random\nrandom._os", "attribute", 2),
    ("import random as r\nr._inst", "attribute", 2),
    ("import random\nr = random\nr._inst", "attribute", 3),
    ("import warnings\nm = warnings.sys.modules", "attribute", 2),
    ("import numpy as q\nq.os", "attribute", 2),
    ("import pandas as pd\npd.io.common.os", "attribute", 2),
    ("import numpy as np\nnp.ctypeslib", "attribute", 2),
    ("import scipy\nscipy._lib._ccallback", "attribute", 2),
    ("def f(a): return a.b.subprocess", "attribute", 1),
    ("def f(a): return a._sys", "attribute", 1),
    ("from sklearn import datasets\ndatasets.fetch_openml", "attribute", 2),
    ("def f(a): return a.attrgetter('b')", "attribute", 1),
    ("import typing\ntyping.get_type_hints(1)", "attribute", 2),
    # pickles
    ("import pandas as pd\npd.read_pickle('a')", "attribute", 2),
    ("def f(df): df.to_pickle('a')", "attribute", 1),
    ("import numpy as np\nnp.load('a', allow_pickle=True)", "call", 2),
    ("import numpy as np\nnp.load('a', None, 1)", "call", 2),
    ("def f(a, b): a.load('a', allow_pickle=b)", "call", 1),
    ("import joblib\njoblib.load('a')", "attribute", 2),
    # texts that are run, or that reach attributes
    ("s = '{0.__class__}'.format(1)", "string", 1),
    ("s = '{0[_a]}'.format({})", "string", 1),
    ("s = '{:{0._b}}'", "string", 1),
    ("s = '{a.gi_frame}'.format_map({})", "string", 1),
    ("def f(df): return df.query('a > 1 and @pd.io.common')", "call", 1),
    ("def f(df): return df.query('a.b > 1')", "call", 1),
    ("def f(df, t): return df.query(f'a > {t}')", "call", 1),
    ("def f(df, t):\n    q = 'a > ' + t\n    return df.query(expr=q)", "call", 3),
    ("def f(df): return df.eval('a.__len__')", "call", 1),
    ("import pandas as pd\ndef f(s): return pd.eval(s)", "call", 2),
    # patches of what was imported, in every place that binds
    ("import numpy as np\nnp.mean = len", "patch", 2),
    ("import math\nfor math.pi in [3]: pass", "patch", 2),
    ("import math\nwith f() as math.pi: pass", "patch", 2),
    ("import math\ndel math.pi", "patch", 2),
    ("import math\nmath.pi += 1", "patch", 2),
    ("import math\n[0 for math.pi in [3]]", "patch", 2),
    ("import numpy as np\n(a, np.random.rand) = 1, 2", "patch", 2),
    ("import random\nr = random\nr.random = len", "patch", 3),
    # hooks
    ("class A:\n    def __getattr__(self, n): pass", "definition", 2),
    ("class A:\n    def __init_subclass__(cls): pass", "definition", 2),
    ("class A:\n    def __class_getitem__(cls, k): pass", "definition", 2),
    ("class A:\n    def __set_name__(self, o, n): pass", "definition", 2),
    ("class A:\n    __getattribute__ = len", "name", 2),
    ("class A(metaclass=len): pass", "class", 1),
    ("class M(type): pass", "class", 1),
    # the text itself
    ("a = 'x\u202ey'", "character", 1),
    ("# a\n# zero\u200bwidth", "character", 2),
    ("a = 1\x0c", "character", 1),
    ("a = '\x1b[2J'", "character", 1),
    ("a = '\x00'", "encoding", 1),
    ("a = '\ud800'", "encoding", 1),
    ("\ufeffa = 1", "encoding", 1),
    ("# -*- coding: utf-7 -*-", "encoding", 1),
    ("#!/usr/bin/python\n# vim: set fileencoding=latin-1 :", "encoding", 2),
    ("\uff45val = 1", "character", 1),
    ("a = [\uff45val('1')]", "name", 1),
    ("class A: pass\nA.__\uff47lobals__", "attribute", 2),
    ("a = f'{\uff45val}'", "character", 1),
    # what does not parse
    ("def f(:", "syntax", 1),
    ("```python\na = 1\n```", "syntax", 1),
    ("a = 1\n  b = 2", "syntax", 2),
    ("a = " + "9" * 5000, "syntax", 1),
    ("a = " + "(" * 300, "syntax", 1),
    ("a = " + "1+" * 250 + "1", "syntax", 1),
    ("a = " + "-" * 9000 + "1", "syntax", 0),
]


@pytest.mark.parametrize(("source", "rule", "line"), REFUSED, ids=[ascii(row[0])[:60] for row in REFUSED])
def test_refused(source: str, rule: str, line: int) -> None:
    assert (line, rule) in _rules(source + SOLVE)


@pytest.mark.parametrize("source", ["import os", "eval('1')", "().__class__", "class M(type): pass", "from a import *"])
def test_a_permissive_policy_lets_every_construct_pass(source: str) -> None:
    assert check(source + SOLVE, PERMISSIVE, "solve").ok


# What must pass

BENIGN = [
    "import numpy as np\nrng = np.random.default_rng(0)\na = rng.normal(size=(3, 2)) @ np.ones(2)",
    "import numpy as np\nnp.r_[1:3], np.c_[[1], [2]], np.linalg.lstsq, np.random.seed(0), np.select, np.char, np.array",
    "from __future__ import annotations",
    "from sklearn.metrics import mean_squared_error as mse",
    "from sklearn.experimental import enable_iterative_imputer  # noqa\nfrom sklearn.impute import IterativeImputer",
    "from sklearn.utils import check_random_state\nfrom sklearn.utils.validation import check_X_y, check_is_fitted",
    "from sklearn.feature_selection import f_regression, SelectKBest\ns = SelectKBest(f_regression)",
    "from scipy import stats, signal, io, optimize\nstats.norm.cdf(0), signal.butter, optimize.minimize",
    "import scipy.spatial\ndef f(a, b):\n    tree = scipy.spatial.cKDTree(a)\n    return tree.query(b, k=5)",
    "def f(tree, X): return tree.query(X)",
    "def f(net, x):\n    net.eval()\n    return net.eval(x), net.modules()",
    "import warnings\nwarnings.filterwarnings('ignore')\nwith warnings.catch_warnings(): pass",
    "import pandas as pd\npd.options.mode.chained_assignment = None\npd.set_option('display.width', 100)",
    "def f(df): return df.query('MedInc > 3')",
    "def f(df): return df.query('MedInc > 3.5 and 0.25 < Age <= 1e3').eval('c = a + b')",
    "def f(x): return '{:.3f}'.format(x), '{0:>{1}}'.format(x, 3), '{a} {b[0]} {c.real}'.format(a=1, b=[2], c=3)",
    "def f(template, x): return template.format(x), template.format_map({'a': x})",
    "def f(x, w): return f'{x:.2f} {x!r:>{w}} {x=} {{x.y}}'",
    "def f(df, a): return df._x, a._cache, a.f_score, a.co_occurrence, a.tb_x, a.io, a.code, a.path, a.types, a.signal",
    "class Net:\n    def forward(self, input): return input",
    "def f(low, open): return low / open",
    "def f(m): return hasattr(m, 'predict_proba') and isinstance(m, object) and callable(m) and type(m) is not None",
    "def f(df): return df.fillna('__missing__')",
    "def f(e): print(e, type(e).__name__, e.__class__.__name__, sep=' ', end='')",
    "import sklearn\nv = sklearn.__version__\n__version__ = '1'\n__all__ = ['solve']\nd = print.__doc__",
    "if __name__ == '__main__':\n    print(solve([1.0]))",
    "\u03b1 = 0.5\nμs = {'β': \u03b1}",
    "# R² is 0.9, ﬁne; 3 m², naïve café\nr2 = '½ ﬁ'\nR2 = f'R² = {r2:>5}'",
    "naïve = 'é'",
    "# -*- coding: utf-8 -*-\n'''Docs: {a: [1]} and {'k': {\"v\": 1.5}}.'''",
    "a = '\\d+ \\w'  # an escape that Python warns about\nb = [1if 1else 2]",
    "a = 'x\\ty'\r\nb = 1\r\n",
    "import joblib\njoblib.Parallel(n_jobs=2)(joblib.delayed(abs)(i) for i in range(3))",
    "import numpy as np\ndef f(p): return np.load(p, allow_pickle=False)",
    "import functools\n@functools.lru_cache(maxsize=None)\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)",
    "def f(x):\n    match x:\n        case {'a': 1, **rest}: return rest\n        case complex(real=r): return r",
    "async def f(): return 1",
    "a = " + " + ".join(["1"] * 150),
    "def f(x):\n    if x == 0: return 0\n" + "".join(f"    elif x == {i}: return {i}\n" for i in range(100)),
    _code('''
        from dataclasses import dataclass, field
        from typing import Any, Callable, Optional

        @dataclass(frozen=True, order=True)
        class Point:
            """A point."""

            x: float
            y: float = 0.0
            tags: list[str] = field(default_factory=list)
            key: "Optional[Callable[..., Any]]" = None

            __slots__ = ("x",)

            def __post_init__(self) -> None:
                self._norm = (self.x**2 + self.y**2) ** 0.5

            def __add__(self, other: "Point") -> "Point":
                return Point(self.x + other.x, self.y + other.y)

            def __radd__(self, other): return self
            def __iadd__(self, other): return self
            def __repr__(self): return f"{self.__class__.__name__}({self.x:.2f})"
            def __lt__(self, other): return self.x < other.x
            def __hash__(self): return hash((self.x, self.y))
            def __len__(self): return 2
            def __iter__(self): yield from (self.x, self.y)
            def __getitem__(self, i): return [self.x, self.y][i]
            def __enter__(self): return self
            def __exit__(self, *exc): return False
            def __call__(self, t): return self.x * t
            def __matmul__(self, other): return self.x * other.x
            def __bool__(self): return True
    '''),
    _code("""
        import numpy as np
        import pandas as pd
        from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
        from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
        from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, StackingRegressor
        from sklearn.linear_model import RidgeCV
        from sklearn.model_selection import KFold, cross_val_score
        from sklearn.pipeline import Pipeline, make_pipeline
        from sklearn.preprocessing import FunctionTransformer, StandardScaler

        class Geo(BaseEstimator, TransformerMixin):
            CITIES = {"LA": (34.05, -118.24), "SF": (37.77, -122.42)}

            def __init__(self, k: int = 8, *, seed=0):
                super().__init__()
                self.k = k
                self.seed = seed

            def fit(self, X, y=None):
                self._mean = X.mean(axis=0)
                self.centers_ = self._kmeans(X)
                return self

            def _kmeans(self, X):
                rng = np.random.default_rng(self.seed)
                return X.to_numpy()[rng.choice(len(X), self.k)]

            def transform(self, X):
                X = X.copy()
                X["rooms_per"] = (X.AveRooms / X["AveBedrms"]).clip(0, 50).replace([np.inf, -np.inf], np.nan)
                for name, (lat, lon) in self.CITIES.items():
                    X[f"d_{name}"] = np.hypot(X["Latitude"] - lat, X["Longitude"] - lon)
                return X.fillna(X.median())

        class Blend(RegressorMixin, BaseEstimator):
            def __init__(self, models=()):
                self.models = models

            def __sklearn_tags__(self):
                return super().__sklearn_tags__()

            def fit(self, X, y):
                self.models_ = [clone(m).fit(X, y) for m in self.models]
                return self

            def predict(self, X):
                return np.mean([m.predict(X) for m in self.models_], axis=0)

        def solve(train: pd.DataFrame, test: pd.DataFrame, target: str = "MedHouseVal") -> np.ndarray:
            y = np.log1p(train.pop(target).values)
            trees = RandomForestRegressor(n_estimators=50, n_jobs=-1, random_state=0)
            boost = HistGradientBoostingRegressor(max_iter=200, learning_rate=0.05)
            model = make_pipeline(Geo(), StandardScaler(), Blend([trees, boost, RidgeCV()]))
            try:
                print("cv %.4f" % -cross_val_score(model, train, y, cv=KFold(3), scoring="r2").mean())
            except (ValueError, FloatingPointError) as error:
                print(f"cv failed: {error}")
            pred = np.expm1(model.fit(train, y).predict(test))
            return np.clip(pred, 0.15, 5.0).tolist()
    """),
]


@pytest.mark.parametrize("source", BENIGN, ids=[ascii(text)[:60] for text in BENIGN])
def test_ordinary_code_passes(source: str) -> None:
    assert check(source + SOLVE, POLICY, "solve").findings == ()


# The entry point


@pytest.mark.parametrize(
    "source",
    [
        "def solve(x): return x",
        "solve = lambda x: x",
        "import functools\nsolve = functools.partial(max, 1)",
        "class solve: pass",
        "solve: object = max",
        "solve, other = max, min",
        "other = solve = max",
        "if 1:\n    def solve(x): return x\nelse:\n    def solve(x): return -x",
        "try:\n    import numpy\nexcept ImportError:\n    def solve(x): return x",
        "try:\n    pass\nfinally:\n    with f():\n        solve = max",
        "match 1:\n    case _:\n        solve = max",
        "from math import sqrt as solve",
        "def solve(x): return 1\nimport math\nsolve = lambda x: 2",
        "solve = None\ndef solve(x): return x",
    ],
)
def test_an_entry_point_at_the_top_level(source: str) -> None:
    assert check(source, POLICY, "solve").ok


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ("", 0, "empty"),
        ("# nothing\n", 0, "empty"),
        ("def solution(x): return x", 0, "does not define"),
        ("def f():\n    def solve(x): return x", 0, "does not define"),
        ("class A:\n    solve = max", 0, "does not define"),
        ("a = {}\na[solve] = 1", 0, "does not define"),
        ("solve: object", 0, "does not define"),
        ("a = 1\nasync def solve(x): return x", 2, "async"),
        ("solve = 3", 1, "function"),
        ("def solve(x): return x\nsolve = [1]", 2, "function"),
    ],
)
def test_no_entry_point(source: str, line: int, word: str) -> None:
    (finding,) = check(source, POLICY, "solve").findings
    assert (finding.line, finding.rule) == (line, "entrypoint")
    assert word in finding.message
    assert check(source, PERMISSIVE, "solve").findings == (finding,)


# Policies


def test_an_allowed_name_allows_itself_and_its_public_submodules_only() -> None:
    policy = GatePolicy(imports=frozenset({"os.path", "numpy.linalg"}))
    assert not _rules(
        "import os.path\nfrom os import path\nos.path.join\nimport numpy.linalg as la\nla.norm" + SOLVE, policy
    )
    assert _rules("import os" + SOLVE, policy) == {(1, "import")}
    assert _rules("from os import system" + SOLVE, policy) == {(1, "import")}
    assert _rules("import os.path\nos.system('a')" + SOLVE, policy) == {(2, "attribute")}
    assert _rules("import numpy.linalg\nnumpy.load" + SOLVE, policy) == {(2, "attribute")}
    assert _rules("from numpy.linalg import _umath_linalg" + SOLVE, policy) == {(1, "import")}
    assert _rules("import numpy.linalgebra" + SOLVE, policy) == {(1, "import")}


def test_a_module_that_the_domain_imports_is_no_longer_refused_as_an_attribute() -> None:
    policy = GatePolicy(imports=frozenset({"pickle", "numpy"}))
    assert not _rules("import pickle\ndef f(a): return a.pickle" + SOLVE, policy)


def test_a_policy_adds_to_the_lists_and_takes_single_names_out() -> None:
    source = "import sklearn\nsklearn.datasets.load_iris\nfrom sklearn import svm\nsvm.SVR().fit(print)" + SOLVE
    assert not _rules(source)
    more = dataclasses.replace(
        POLICY,
        refused_modules=frozenset({"sklearn.datasets"}),
        refused_names=frozenset({"print"}),
        refused_attributes=frozenset({"SVR"}),
    )
    assert _rules(source, more) == {(2, "attribute"), (4, "name"), (4, "attribute")}
    assert _rules("from sklearn.datasets import load_iris" + SOLVE, more) == {(1, "import")}
    refused = "getattr(1, 'real')\ndef f(a): return a.__dict__, a.os\nb = '__dict__'" + SOLVE
    assert _rules(refused) == {(1, "name"), (2, "attribute"), (3, "string")}
    assert not _rules(refused, dataclasses.replace(POLICY, allowed_names=frozenset({"getattr", "__dict__", "os"})))


def test_the_size_is_counted_in_bytes_of_utf_8() -> None:
    source = "# é" + SOLVE
    fits = dataclasses.replace(POLICY, max_bytes=len(source) + 1)
    assert check(source, fits, "solve").ok
    assert check(source.encode(), fits, "solve").ok
    for text in (source + "\n", (source + "\n").encode()):
        assert _rules(text, fits) == {(0, "size")}


def test_bytes_are_read_as_strict_utf_8() -> None:
    assert check(("# é" + SOLVE).encode(), POLICY, "solve").ok
    assert _rules(b"a = 1\r\nb = '\xff'\n") == {(2, "encoding")}
    assert _rules(b"a = '\xed\xa0\x80'\n") == {(1, "encoding")}


# Verdicts and messages


def test_every_finding_is_given_once_in_order_of_lines() -> None:
    verdict = check("import os\nx = eval\ny = (eval, eval)\nimport sys\n", POLICY, "solve")
    assert [(f.line, f.rule) for f in verdict.findings] == [
        (0, "entrypoint"), (1, "import"), (2, "name"), (3, "name"), (4, "import"),
    ]  # fmt: skip
    assert not verdict.ok
    assert Verdict().ok


def test_messages_say_what_was_found_and_what_to_do() -> None:
    policy = GatePolicy(imports=frozenset({"math", "numpy"}))
    (finding,) = check("import os" + SOLVE, policy, "solve").findings
    assert finding.message == "import of 'os' is not allowed here; allowed: math, numpy"
    assert str(finding) == f"line 1: {finding.message}"
    assert str(Finding(line=0, rule="size", message="too large")) == "too large"
    (finding,) = check("def f(a): return getattr(a, 'b')" + SOLVE, policy, "solve").findings
    assert "hasattr" in finding.message
    (finding,) = check("a = " + "x" * 5000 + ".__dict__" + SOLVE, policy, "solve").findings
    assert len(finding.message) < 400
    (finding,) = check("```python" + SOLVE + "```", policy, "solve").findings
    assert "code fence" in finding.message


def test_values_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Verdict().findings = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        Finding(1, "a", "b")  # type: ignore[call-arg]


@pytest.mark.parametrize("action", ["error", "always"])
def test_warnings_of_the_parser_about_a_candidate_stay_silent(action: Literal["error", "always"]) -> None:
    source = "a = '\\d'\nb = [1if 1else 0]" + SOLVE
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        assert check(source, POLICY, "solve").ok
        size = len(warnings.filters)
        assert check(source, POLICY, "solve").ok
        assert len(warnings.filters) == size
    assert not caught


# Properties

_FRAGMENTS = st.sampled_from(
    [
        *(
            "import os",
            "from a.b import c",
            "def f(x):\n",
            "    return 1\n",
            "class A(type):\n",
            "solve",
            "type",
            "eval",
        ),
        *(
            "getattr",
            "__class__",
            "lambda",
            "for",
            "in",
            "if",
            "elif",
            "else",
            "try",
            "match",
            "case",
            "async",
            "await",
        ),
        *(
            ".",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "=",
            ":",
            ",",
            "@",
            "*",
            "#",
            "\\",
            "'",
            '"',
            "f'{",
            "}'",
            "'{0.__a}'",
            "```",
        ),
        *("\n", "\r", " ", "  ", "\0", "\ufeff", "\u202e", "\u00e9", "\uff45", "1", "0x", "coding: x"),
    ]
)


@given(st.one_of(st.text(), st.binary(), st.lists(_FRAGMENTS, max_size=30).map("".join)))
@settings(max_examples=300, deadline=None)
def test_no_text_raises_and_a_refusal_always_has_words(source: str | bytes) -> None:
    verdict = check(source, POLICY, "solve")
    assert verdict.ok is (verdict.findings == ())
    assert all(f.message and f.rule and f.line >= 0 for f in verdict.findings)
    assert [f.line for f in verdict.findings] == sorted(f.line for f in verdict.findings)
    assert check(source, POLICY, "solve") == verdict
    if verdict.ok:
        assert check(source, PERMISSIVE, "solve").ok


@given(st.sampled_from([*BENIGN, *(row[0] for row in REFUSED if row[1] not in ("syntax", "encoding"))]), st.text())
@settings(max_examples=150, deadline=None)
def test_a_comment_at_the_end_changes_nothing(source: str, words: str) -> None:
    comment = "".join(c for c in words if c.isprintable())
    program = source + SOLVE
    assert check(f"{program}# {comment}", POLICY, "solve") == check(program, POLICY, "solve")


# What hostile texts cost (at the size cap, in a process of their own)

_COSTS = """
import json, resource, sys, threading, time
from progevo.gate import check
from progevo.types import GatePolicy

POLICY = GatePolicy(imports=frozenset({"math", "numpy"}))
HEAD = "def solve(x): return "

def fill(piece, head=HEAD, tail=""):
    return head + piece * ((POLICY.max_bytes - len((head + tail).encode())) // len(piece.encode())) + tail

TEXTS = {
    "import": fill(".a", "import a"),
    "from": fill(".a", "from a", " import b"),
    "import in parts": fill(".\\\\\\n a", "import a"),
    "minus": fill("-", tail="1"),
    "not": fill("not ", tail="1"),
    "attributes": fill(".a", HEAD + "x"),
    "calls": fill("()", HEAD + "x"),
    "sums": fill("+1", HEAD + "1"),
    "powers": fill("**1", HEAD + "1"),
    "comparisons": fill("<1", HEAD + "1"),
    "elif": fill("elif 1:pass\\n", HEAD + "1\\nif 1:pass\\n"),
    "lambda": fill("lambda:", tail="1"),
    "ternaries": fill("1 if 1 else ", tail="1"),
    "brackets": fill("("),
    "many brackets": fill("[" * 99 + "]" * 99 + "\\n", HEAD + "1\\n"),
    "f-string": fill("{x}", HEAD + 'f"', '"'),
    "nested f-strings": fill("f'{", tail="1"),
    "digits": fill("9"),
    "statements": fill("a\\n", HEAD + "1\\n"),
    "statements, then an error": fill("a\\n", HEAD + "1\\n", "1 1"),
    "refused names": fill("eval\\n", HEAD + "1\\n"),
    "members": fill("numpy.a.b.c.d\\n", "import numpy\\n" + HEAD + "1\\n"),
    "chains": fill("numpy" + ".a" * 90 + "\\n", "import numpy\\n" + HEAD + "1\\n"),
    "controls": fill("\\x01\\n"),
    "folding": fill("\\ufb01=1\\n", HEAD + "1\\n"),
    "dots": fill("a.", tail="0"),
    "fields": fill("{a.b", HEAD + "'", "'"),
    "quotes": fill("'", HEAD + "\\ufb01,"),
    "indents": "if 1:\\n" + "".join(" " * i + "if 1:\\n" for i in range(1, 430)),
}

def run():
    for name, text in TEXTS.items():
        start = time.process_time()
        verdict = check(text, POLICY, "solve")
        costs[name] = [time.process_time() - start, verdict.ok, len(text.encode())]

costs = {}
check("a", POLICY, "a")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
threading.stack_size(1 << 20)
thread = threading.Thread(target=run)
thread.start()
thread.join()
unit = 1 if sys.platform == "darwin" else 1024
peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit
print(json.dumps({"costs": costs, "peak": peak}))
"""


def test_texts_made_to_cost_stay_cheap_in_a_thread_with_a_small_stack() -> None:
    done = subprocess.run([sys.executable, "-c", _COSTS], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stderr
    report = json.loads(done.stdout)
    # The worst are about 1 s and 150 MiB; import chains alone would cost 2.7 GB and 6 s in CPython's parser.
    assert report["peak"] < 300 * 1024 * 1024
    slow = {name: cpu for name, (cpu, _, _) in report["costs"].items() if cpu > 4}
    assert not slow
    assert all(size <= 100_000 for _, _, size in report["costs"].values())
    for name in ("import", "from", "import in parts", "minus", "not", "attributes", "lambda", "brackets", "elif"):
        assert report["costs"][name][1] is False, name


def test_threads_check_at_the_same_time() -> None:
    verdicts: list[bool] = []
    source = "a = '\\d'" + SOLVE

    def work() -> None:
        verdicts.extend(check(source, POLICY, "solve").ok for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == [True] * 200
