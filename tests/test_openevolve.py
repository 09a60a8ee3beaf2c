"""OpenEvolve's pairs: what their evaluators may return, how their configurations are read, and one whole run."""

from __future__ import annotations

import json
import math
import sys
import tomllib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from progevo import gate, prompt
from progevo.cli import main
from progevo.config import read_settings
from progevo.domain import SEARCH, Stage
from progevo.errors import BadOutput, ConfigError, TaskError
from progevo.evaluate import climb, evaluate
from progevo.openevolve import IMPORTED, read_pair
from progevo.openevolve.keys import TAKEN, flat
from progevo.openevolve.pair import fitness
from progevo.propose.reply import read_text
from progevo.sandbox.probe import open_sandbox
from progevo.types import Answer, Candidate, Program

PROGRAM = "# EVOLVE-BLOCK-START\nVALUE = 3\n# EVOLVE-BLOCK-END\n"
LOAD = """
import importlib.util
def load(path):
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""
DICT = LOAD + "def evaluate(path):\n    return {'combined_score': load(path).VALUE / 10, 'extra': 7, 'flag': True}\n"


@pytest.fixture
def pair(tmp_path):
    """Writes a pair into a folder of its own, and reads it."""

    def make(evaluator: str, config: str | None = None, drop: tuple[str, ...] = (), program: str = PROGRAM):
        (tmp_path / "program.py").write_text(program)
        (tmp_path / "evaluator.py").write_text(evaluator)
        if config is not None:
            (tmp_path / "config.yaml").write_text(config)
        configuration = None if config is None else tmp_path / "config.yaml"
        return read_pair(tmp_path / "program.py", tmp_path / "evaluator.py", configuration=configuration, drop=drop)

    return make


@pytest.fixture(scope="module")
def box():
    with closing(open_sandbox("stdlib", "cold")) as box:  # quicker to start, and all that these need
        yield box


def outcome_of(pair, box, source: str = PROGRAM):
    return evaluate(pair.domain, Candidate(program=Program(source), origin="test"), SEARCH, box)


# ---- what evaluators return


def test_a_dict_is_taken_at_its_word_and_a_flag_is_no_number(pair, box):
    outcome = outcome_of(pair(DICT), box)
    assert outcome.score == 0.3
    assert outcome.metrics == {"combined_score": 0.3, "extra": 7.0}


def test_an_object_with_artifacts_comes_from_the_stand_in(pair, box):
    outcome = outcome_of(
        pair(
            "from openevolve.evaluation_result import EvaluationResult\n"
            "def evaluate(path):\n"
            "    result = EvaluationResult(metrics={'combined_score': 0.5}, artifacts={'word': 'hello', 'raw': b'x'})\n"
            "    assert result.has_artifacts() and result.get_artifact_keys() == ['word', 'raw']\n"
            "    assert result.get_artifact_size('word') == 5 and result.get_total_artifact_size() == 6\n"
            "    assert EvaluationResult.from_dict({'a': 1}).to_dict() == {'a': 1}\n"
            "    return result\n"
        ),
        box,
    )
    assert outcome.score == 0.5
    assert "artifact word: hello" in outcome.log_tail


def test_files_beside_the_evaluator_can_be_imported_and_hidden_ones_and_settings_cannot_be_read(pair, box, tmp_path):
    (tmp_path / "helper.py").write_text("NUMBER = 0.25\n")
    (tmp_path / ".env").write_text("KEY=secret\n")
    (tmp_path / "settings.yaml").write_text("api_key: secret\n")
    evaluator = (
        "import os, helper\n"
        "def evaluate(path):\n"
        "    here = os.listdir(os.path.dirname(__file__))\n"
        "    return {'combined_score': helper.NUMBER, 'hidden': sum(n in here for n in ('.env', 'settings.yaml'))}\n"
    )
    assert outcome_of(pair(evaluator), box).metrics == {"combined_score": 0.25, "hidden": 0.0}


@pytest.mark.parametrize(
    ("evaluator", "status", "word"),
    [
        (
            "def evaluate(path): return {'combined_score': 0.0, 'error': 'all trials failed'}",
            "bad_output",
            "all trials",
        ),
        ("def evaluate(path): return {'combined_score': 0.9, 'timeout': True}", "bad_output", "reports: True"),
        ("def evaluate(path): return {'combined_score': float('nan')}", "bad_output", "nan"),
        ("def evaluate(path): return {'word': 'none'}", "bad_output", "no number"),
        ("def evaluate(path): return 0.5", "bad_output", "returned float"),
        ("def evaluate(path): return 1 / 0", "crashed", "ZeroDivisionError"),
        ("import no_such_package\ndef evaluate(path): return {}", "crashed", "no_such_package"),
        ("import os\ndef evaluate(path): os._exit(3)", "crashed", "status 3"),
    ],
)
def test_a_failure_is_an_outcome_with_a_cause_and_never_a_score(pair, box, evaluator, status, word):
    outcome = outcome_of(pair(evaluator), box)
    assert (outcome.status, outcome.score) == (status, -math.inf)
    assert word in outcome.reason


def test_negative_scores_are_scores(pair, box):
    assert outcome_of(pair("def evaluate(path): return {'combined_score': -5.5}"), box).score == -5.5


def test_without_a_combined_score_the_mean_of_what_is_no_axis_counts():
    assert fitness({"a": 1.0, "b": 3.0, "size": 100.0, "error": 0.0}, ("size",)) == 2.0
    assert fitness({"size": 4.0}, ("size",)) == 4.0
    assert fitness({"a": 1.0, "combined_score": 0.125}, ()) == 0.125
    with pytest.raises(BadOutput):
        fitness({}, ())


def test_an_answer_that_is_not_whole_is_refused(pair):
    evaluator = pair(DICT).domain.evaluator
    for answer in (Answer(), Answer(value={"names": ["a"]}, arrays=((),)), Answer(value=[1], arrays=((1.0,),))):
        with pytest.raises(BadOutput):
            evaluator.score(SEARCH, answer)


def test_the_candidate_is_run_by_its_evaluator_alone_and_nothing_runs_on_the_host(pair, box, tmp_path):
    mark = tmp_path / "ran"
    evaluator = f"open({str(mark)!r}, 'w')\n" + DICT
    assert pair(evaluator).domain.trust == "self_reported"
    assert not mark.exists()
    once = "import builtins\nVALUE = builtins.runs = getattr(builtins, 'runs', 0) + 1\n"
    assert outcome_of(pair(DICT.replace("/ 10", "* 1")), box, PROGRAM).score == 3
    permissive = pair(DICT.replace("/ 10", "* 1"))
    domain = replace(permissive.domain, gate=replace(IMPORTED, permissive=True))
    assert evaluate(domain, Candidate(program=Program(once), origin="t"), SEARCH, box).score == 1


# ---- stages

STAGED = (
    LOAD
    + """
def evaluate(path): return {'combined_score': 100.0}
def evaluate_stage1(path): return {'combined_score': load(path).VALUE / 10}
def evaluate_stage2(path): return {'combined_score': load(path).VALUE / 5}
def evaluate_stage3(path): return {'combined_score': load(path).VALUE * 1.0}
"""
)


@pytest.mark.parametrize(
    ("config", "stages", "last"),
    [
        (None, [("evaluate_stage1", 0.5), ("evaluate_stage2", 0.75)], "evaluate_stage3"),
        ("evaluator: {cascade_thresholds: [0.2]}", [("evaluate_stage1", 0.2)], "evaluate_stage2"),
        ("evaluator: {cascade_evaluation: false}", [], "evaluate"),
        ("evaluator: {cascade_thresholds: []}", [], "evaluate"),
    ],
)
def test_a_cascade_becomes_stages(pair, config, stages, last):
    domain = pair(STAGED, config).domain
    assert domain.stages == tuple(Stage(split=split, threshold=threshold) for split, threshold in stages)
    assert domain.evaluator.inputs(SEARCH).request["function"] == last


def test_a_candidate_ends_at_the_stage_that_it_fails_and_the_seed_is_scored_in_full(pair, box):
    domain = pair(STAGED, "evaluator: {cascade_thresholds: [0.5, 1.3]}").domain
    reached = {}
    for value in (3, 6, 7):
        outcome = climb(domain, Candidate(program=Program(f"VALUE = {value}"), origin="t"), box)
        reached[value] = (outcome.status, outcome.stage, outcome.score)
    assert reached == {
        3: ("stage_failed", "evaluate_stage1", -math.inf),
        6: ("stage_failed", "evaluate_stage2", -math.inf),
        7: ("ok", "search", 7.0),
    }
    assert evaluate(domain, Candidate(program=domain.seed, origin="seed"), SEARCH, box).score == 3.0


# ---- configurations

CONFIG = """
max_iterations: 7
random_seed: 5
max_code_length: 900
prompt: {system_message: Pack circles.}
database:
  population_size: 50
  num_islands: 3
  feature_bins: {complexity: 4, extra: 2}
  feature_dimensions: [complexity, extra]
evaluator: {timeout: 20, memory_limit_mb: 1024, parallel_evaluations: 2}
"""


def test_keys_that_mean_something_here_are_taken(pair):
    made = pair(DICT, CONFIG)
    assert made.settings == {
        "task": made.domain.name,
        "iterations": 7,
        "seed": 5,
        "workers": 2,
        "limits": {"wall_s": 20, "memory_bytes": 1024 * 2**20},
        "constants": {
            "population_size": 50,
            "num_islands": 3,
            "feature_dimensions": ["complexity", "extra"],
            "feature_bins": {"complexity": 4, "extra": 2},
        },
    }
    assert made.domain.prompt == "Pack circles."
    assert made.domain.gate.max_bytes == 900
    assert made.domain.limits.cpu_s == 20


def test_every_key_that_is_taken_reaches_the_run(pair):
    """One value for each, none of which is the default: whatever is not in the task or the settings was thrown away."""
    values = {name: number for number, name in enumerate(TAKEN, start=2)}
    values |= {"language": "python", "file_suffix": ".py", "prompt.system_message": "words"}
    values |= {"llm.primary_model": "m", "llm.api_base": "http://h/v1", "llm.reasoning_effort": "low"}
    values |= {
        "database.feature_dimensions": ["complexity", "extra"],
        "evaluator.cascade_evaluation": False,
        "evaluator.cascade_thresholds": [0.11],
    }
    before, settled = pair(STAGED), ""
    for name, value in values.items():
        table, _, key = name.rpartition(".")
        line = f"{table}: {{{key}: {json.dumps(value)}}}" if table else f"{key}: {json.dumps(value)}"
        made = pair(STAGED, line)
        settled = repr((made.settings, made.domain))
        assert name in ("language", "file_suffix") or settled != repr((before.settings, before.domain)), name


def test_a_configuration_that_names_a_model_asks_it(pair):
    made = pair(DICT, "llm: {primary_model: m, api_base: 'http://127.0.0.1:9/v1', temperature: 0.7, max_tokens: 900}\n")
    settings = read_settings(None, {}, made.settings)
    assert settings.chosen_proposer == "llm"
    assert (settings.model, settings.base_url) == (("m",), "http://127.0.0.1:9/v1")
    assert (settings.temperature, settings.reply_tokens) == (("0.7",), 900)


def test_a_model_is_told_of_the_seeds_last_function_and_its_reply_known_by_that(pair):
    """A pair names no entry point: only its evaluator knows what is called."""
    domain = pair(
        DICT, program="import math\n\ndef helper():\n    return 1\n\ndef solve():\n    return helper()\n"
    ).domain
    assert domain.mark == "solve"
    assert "The program defines solve," in prompt.first(domain)[0].content
    assert read_text("def solve():\n    return 2\n", entrypoint=domain.mark).verdict == "ok"
    assert read_text("So it is.", entrypoint=domain.mark).verdict == "damaged"
    assert pair(DICT, program="VALUE = 1\n").domain.mark == ""


def test_all_other_keys_are_named_at_once_with_the_option_that_drops_them(pair):
    config = CONFIG + "llm: {secondary_model: m, top_p: 0.7}\ncheckpoint_interval: 5\n"
    with pytest.raises(ConfigError) as refused:
        pair(DICT, config)
    for name in ("llm.secondary_model", "llm.top_p", "checkpoint_interval"):
        assert f"--drop-key {name}" in str(refused.value)
    assert "max_iterations" not in str(refused.value)
    made = pair(DICT, config, drop=("llm", "checkpoint_interval", "evaluator.timeout"))
    assert made.settings["limits"] == {"memory_bytes": 2**30}


@pytest.mark.parametrize(
    ("config", "drop", "word"),
    [
        ("a: 1", ("b",), "has no such key"),
        ("- 1", (), "must be a table"),
        ("a: [", (), "cannot be read"),
        ("language: rust", (), "Python programs"),
        ("file_suffix: .rs", (), "Python programs"),
        ("max_code_length: 0", (), "max_code_length"),
        ("max_iterations: many", (), "whole number"),
        ("max_iterations: true", (), "whole number"),
        ("evaluator: {timeout: soon}", (), "number of seconds"),
        ("evaluator: {cascade_thresholds: [high]}", (), "cascade_thresholds"),
        ("database: {feature_dimensions: 3}", (), "list of names"),
        ("evaluator: {cascade_thresholds: high}", (), "cascade_thresholds"),
        (None, ("llm",), "--config"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(pair, config, drop, word):
    with pytest.raises(ConfigError, match=word):
        pair(DICT, config, drop)


def test_without_pyyaml_it_is_said_how_to_get_it(pair, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match=r"pip install 'progevo\[openevolve\]'"):
        pair(DICT, "max_iterations: 3")
    assert pair(DICT).settings  # a pair without a configuration needs no YAML


def test_nested_tables_are_named_by_their_path():
    assert flat({"a": {"b": {"c": 1}}, "d": 2}) == {"a.b.c": 1, "d": 2}


@pytest.mark.parametrize("evaluator", ["x = 1", "def evaluate(path:", "\0"])
def test_an_evaluator_without_evaluate_is_refused(pair, evaluator):
    with pytest.raises(TaskError, match=r"evaluate|not Python"):
        pair(evaluator)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TaskError, match=r"program\.py cannot be read"):
        read_pair(tmp_path / "program.py", tmp_path / "evaluator.py")


@pytest.mark.parametrize("line", ["import os", "import subprocess", "eval('1')", "().__class__"])
def test_the_policy_refuses_what_has_no_business_in_a_numeric_program(line):
    assert not gate.check(line, IMPORTED, "").ok


@pytest.mark.parametrize(
    "line", ["import numpy as np", "from scipy import optimize", "import time", "getattr(1, 'real')"]
)
def test_the_policy_passes_what_numeric_programs_use(line):
    assert gate.check(line, IMPORTED, "").ok


# ---- a whole run


def test_a_run_says_that_its_scores_are_self_reported(pair, tmp_path):
    pair(STAGED, "max_iterations: 9\nllm: {primary_model: m}\nevaluator: {cascade_thresholds: [0.1]}\n", drop=("llm",))
    files = [str(tmp_path / name) for name in ("program.py", "evaluator.py", "config.yaml")]
    arguments = ["run", "openevolve", "--openevolve", *files[:2], "--config", files[2], "--drop-key", "llm"]
    done = CliRunner().invoke(main, [*arguments, "--iterations", "3", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "self-reported" in done.output
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["trust"] == "self_reported"
    assert result["spent"]["iterations"] == 3  # a flag goes before the configuration
    assert result["seed_program"]["test"] is None
    assert result["gain"]["test"] is None
    written = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert written["ran_on"]["gate"] == "imported"
    assert written["drop_key"] == ["llm"]
    assert written["openevolve"] == [str((tmp_path / name).resolve()) for name in ("program.py", "evaluator.py")]


def test_a_run_of_a_pair_goes_on_with_its_thresholds(pair, tmp_path):
    """The seed is below the first threshold, so that what it reaches is what all others are held to, then as later."""
    pair(STAGED)
    files = [str(tmp_path / name) for name in ("program.py", "evaluator.py")]
    whole, short = tmp_path / "whole", tmp_path / "short"
    for folder, count in ((whole, "6"), (short, "2")):
        arguments = ["run", "era", "--openevolve", *files, "--iterations", count, "--out", str(folder)]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, ["resume", str(short), "--iterations", "+4"])
    assert done.exit_code == 0, done.output
    counts = [json.loads((folder / "result.json").read_text())["counts"] for folder in (whole, short)]
    assert counts[0] == counts[1]
    assert counts[0]["ok"] > 1


@pytest.mark.parametrize(
    "arguments", [["--config", "x.yaml", "--task", "s3e1"], ["--drop-key", "llm", "--task", "s3e1"]], ids=" ".join
)
def test_what_belongs_to_a_pair_is_refused_without_one(arguments):
    done = CliRunner().invoke(main, ["run", "era", *arguments])
    assert done.exit_code == 2
    assert "belong to --openevolve" in done.output


def test_a_pair_is_the_task(tmp_path):
    files = [str(tmp_path / "a.py"), str(tmp_path / "b.py")]
    done = CliRunner().invoke(main, ["run", "era", "--openevolve", *files, "--task", "s3e1"])
    assert done.exit_code == 2
    assert "leave out --task" in done.output
    assert Path(files[0]).exists() is False


HEAD = "import math\n\nSCALE = 2.0\n\n# EVOLVE-BLOCK-START\n"
INSIDE = "def inner(x):\n    return 3 * x + 1\n"
TAIL = "# EVOLVE-BLOCK-END\n\ndef value():\n    return SCALE * inner(4.0) + 5\n"
VALUE = LOAD + "def evaluate(path):\n    return {'combined_score': float(load(path).value())}\n"


@pytest.mark.parametrize("proposer", ["mutate", "recorded"])
def test_what_lies_outside_the_markers_of_a_pair_stays_to_the_byte_whoever_proposes(tmp_path, proposer):
    whole = HEAD.replace("2.0", "9.0") + INSIDE.replace("3", "7") + TAIL.replace("5", "50")
    replies = [
        f"```python\n{text}```" for text in (whole, INSIDE.replace("1", "2"), HEAD + INSIDE.replace("x", "y") + TAIL)
    ]
    (tmp_path / "replies.jsonl").write_text("".join(f"{json.dumps({'content': text})}\n" for text in replies))
    (tmp_path / "program.py").write_text(HEAD + INSIDE + TAIL)
    (tmp_path / "evaluator.py").write_text(VALUE)
    word = proposer if proposer == "mutate" else f"recorded:{tmp_path / 'replies.jsonl'}"
    files = [str(tmp_path / name) for name in ("program.py", "evaluator.py")]
    flags = ["--proposer", word, "--iterations", "3", "--out", str(tmp_path / "run")]
    found = CliRunner().invoke(main, ["run", "era", "--openevolve", *files, *flags])
    assert found.exit_code == 0, found.output
    programs = [path.read_text() for path in (tmp_path / "run" / "programs").iterdir()]
    assert len(programs) > 1
    for text in programs:
        assert text.startswith(HEAD)
        assert text.endswith(TAIL)
    if proposer == "recorded":
        assert {text[len(HEAD) : -len(TAIL)] for text in programs} == {
            INSIDE,
            INSIDE.replace("3", "7"),
            INSIDE.replace("1", "2"),
            INSIDE.replace("x", "y"),
        }


def test_markers_of_a_pair_that_do_not_pair_up_are_refused_before_anything_runs(tmp_path):
    (tmp_path / "program.py").write_text(HEAD + INSIDE)
    (tmp_path / "evaluator.py").write_text(VALUE)
    files = [str(tmp_path / name) for name in ("program.py", "evaluator.py")]
    found = CliRunner().invoke(main, ["run", "era", "--openevolve", *files, "--out", str(tmp_path / "run")])
    assert found.exit_code == 2
    assert "the EVOLVE-BLOCK markers do not pair up (near line 6)" in found.output
    assert not (tmp_path / "run").exists()
