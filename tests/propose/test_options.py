"""The command line with a model: every option is read somewhere, and says so in the request or in the run folder."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from progevo.cli import main

TASK = """
from progevo import Domain, GatePolicy, Limits, Metric, Program
from progevo.evaluators.calls import Calls

def domain(*, data=None):
    return Domain(
        name="mine",
        entrypoint="solve",
        seed=Program("def solve(x):\\n    return 21\\n"),
        metric=Metric(name="error", direction="minimize"),
        gate=GatePolicy(imports=frozenset()),
        evaluator=Calls(cases={"search": [0], "test": [1]}, score=lambda split, found: -abs(found[0] - 30.0)),
        profile="stdlib",
        limits=Limits(wall_s=20.0, cpu_s=9),
    )
"""
GOOD = "```python\ndef solve(x):\n    return 7\n```"


@pytest.fixture
def task(tmp_path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(TASK)
    return path


@pytest.fixture
def progevo(monkeypatch):
    """Runs a command in this process: exit code, stdout, stderr."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments, **env):
        result = CliRunner().invoke(main, [str(word) for word in arguments], env=env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return call


@pytest.fixture
def answering(serve, served, chat):
    """An endpoint that answers with the same program each time, or with what it is given."""
    return lambda body=None: serve(lambda number, request: served(body=body or chat(GOOD, usage=(100, 20))))


#: option -> (words, what must hold for the requests, the result and config.toml)
OPTIONS = {
    "--model": (["--model", "second:8b=3"], lambda requests, result, config: config["model"] == ["m", "second:8b=3"]),
    "--temperature": (
        ["--temperature", "0.5"],
        lambda requests, result, config: requests[0]["temperature"] == 0.5 and config["temperature"] == ["0.5"],
    ),
    "--reply-tokens": (["--reply-tokens", "77"], lambda requests, result, config: requests[0]["max_tokens"] == 77),
    "--reasoning-effort": (
        ["--reasoning-effort", "high"],
        lambda requests, result, config: requests[0]["reasoning_effort"] == "high",
    ),
    "--model-seed": (["--model-seed"], lambda requests, result, config: 0 <= requests[0]["seed"] < 2**31),
    "--extra-body": (
        ["--extra-body", '{"top_k": 4, "options": {"num_ctx": 9}}'],
        lambda requests, result, config: requests[0]["options"] == {"num_ctx": 9} == config["extra_body"]["options"],
    ),
    "--edit": (
        ["--edit", "diff"],
        lambda requests, result, config: "<<<<<<< SEARCH" in requests[0]["messages"][1]["content"],
    ),
    "--reply-attempts": (
        ["--reply-attempts", "2"],
        lambda requests, result, config: result["reply_damage"]["attempts_allowed"] == 2 == config["reply_attempts"],
    ),
    "--no-keep-replies": (["--no-keep-replies"], lambda requests, result, config: config["keep_replies"] is False),
    "--model-policy": (
        ["--model-policy", "bandit"],
        lambda requests, result, config: config["model_policy"] == "bandit",
    ),
    "--max-calls": (["--max-calls", "9"], lambda requests, result, config: result["budget"]["calls"] == 9),
    "--max-tokens": (
        ["--max-tokens", "90000"],
        lambda requests, result, config: result["budget"]["tokens"] == 90_000,
    ),
    "--max-cost": (
        ["--max-cost", "2.5"],
        lambda requests, result, config: result["budget"]["cost_usd"] == 2.5,
    ),
    "--price": (
        ["--price", "10/100"],
        lambda requests, result, config: result["spent"]["cost_usd"] == pytest.approx(0.003),
    ),
    "--call-timeout": (["--call-timeout", "55"], lambda requests, result, config: config["call_timeout"] == 55.0),
    "--call-deadline": (["--call-deadline", "66"], lambda requests, result, config: config["call_deadline"] == 66.0),
}


@pytest.mark.parametrize("apart", [{"--edit", "--no-keep-replies"}, set(OPTIONS) - {"--edit", "--no-keep-replies"}])
def test_every_option_is_read_as_a_flag_and_from_a_file(tmp_path, task, progevo, answering, apart):
    chosen = {option: given for option, given in OPTIONS.items() if option not in apart}
    words = [word for given, _ in chosen.values() for word in given]
    endpoint = answering()
    fixed = ("run", "era", "--task", task, "--base-url", endpoint.url, "--iterations", 1, "--json")
    code, out, err = progevo(*fixed, "--model", "m", *words, "--out", tmp_path / "r")
    assert code == 0, err
    config = tomllib.loads((tmp_path / "r" / "config.toml").read_text())
    assert [
        option for option, (_, seen) in chosen.items() if not seen(endpoint.requests, json.loads(out), config)
    ] == []
    # What a run wrote down starts the same run again.
    endpoint.requests.clear()
    code, out, err = progevo("run", "--config", tmp_path / "r" / "config.toml", "--out", tmp_path / "again", "--json")
    assert code == 0, err
    config = tomllib.loads((tmp_path / "again" / "config.toml").read_text())
    assert [
        option for option, (_, seen) in chosen.items() if not seen(endpoint.requests, json.loads(out), config)
    ] == []


def test_a_run_with_a_model_from_the_environment_to_the_last_key(tmp_path, task, progevo, answering, repo):
    endpoint = answering()
    environment = {"OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": "sk-0123456789abcdef-secret"}
    code, out, err = progevo(
        "run", "--task", task, "--model", "m", "--iterations", 2, "--out", tmp_path / "r", "--json", **environment
    )
    assert code == 0, err
    result = json.loads(out)
    jsonschema.Draft202012Validator(json.loads((repo / "progevo" / "result.schema.json").read_text())).validate(result)
    assert result["proposer"]["name"] == "llm"
    assert result["proposer"]["usage"][0]["tokens"]["prompt"] == 200
    assert result["proposer"]["models"] == ["m"]
    assert result["spent"]["tokens"] == 240
    assert result["spent"]["cost_usd"] is None
    assert result["reply_damage"]["drawn"] == 2
    assert "models    m (weight 1" in err
    assert "price unknown" in err
    assert endpoint.headers[0]["Authorization"] == "Bearer sk-0123456789abcdef-secret"
    folder = tmp_path / "r"
    assert sorted(path.name for path in (folder / "llm").iterdir()) == ["000001-1.json", "000002-1.json"]
    for path in folder.rglob("*"):
        assert path.is_dir() or b"0123456789abcdef-secret" not in path.read_bytes()
    code, out, _ = progevo("show", folder, "--replies")
    assert code == 0
    assert "2 drawn: 0 damaged, 0 recovered" in out
    assert "llm/000002-1.json" in out
    found = json.loads(progevo("show", folder, "--replies", "--json")[1])
    assert found["reply_damage"] == result["reply_damage"]
    assert found["models"] == result["proposer"]["usage"]
    assert [reply["attempt"] for reply in found["replies"]] == [1, 1]
    assert "replies   2 drawn" in progevo("show", folder)[1]
    # The same replies again, without the endpoint.
    code, out, err = progevo(
        "run", "--task", task, "--proposer", f"recorded:{folder}", "--iterations", 2, "--out", tmp_path / "s", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["best"] == result["best"]
    assert json.loads(out)["reply_damage"] == result["reply_damage"]
    assert len(endpoint.requests) == 2


def test_no_keep_replies_leaves_no_folder(tmp_path, task, progevo, answering):
    endpoint = answering()
    fixed = ("run", "--task", task, "--model", "m", "--base-url", endpoint.url, "--iterations", 1)
    assert progevo(*fixed, "--no-keep-replies", "--out", tmp_path / "r")[0] == 0
    assert not (tmp_path / "r" / "llm").exists()
    assert json.loads(progevo("show", tmp_path / "r", "--replies", "--json")[1])["replies"][0]["file"] is None


def test_a_provider_that_refuses_ends_with_4_and_the_line_that_resumes(tmp_path, task, progevo, serve, served):
    endpoint = serve(lambda number, request: served(status=401, body=b'{"error": {"message": "who are you"}}'))
    code, out, err = progevo(
        "run", "--task", task, "--model", "m", "--base-url", endpoint.url, "--iterations", 2, "--out", tmp_path / "r"
    )
    assert (code, out) == (4, "")
    assert "who are you" in err
    assert "OPENAI_API_KEY" in err
    assert f"progevo resume {tmp_path / 'r'}" in err
    assert "Traceback" not in err
    assert json.loads((tmp_path / "r" / "result.json").read_text())["stop_reason"] == "proposer_failed"


def test_a_run_whose_server_dies_resumes_and_ends_as_if_nothing_had_happened(
    tmp_path, task, progevo, serve, served, chat
):
    """The server dies in the middle of a candidate's redraws; what was paid for before is not asked for again."""

    def program(request):
        size = sum(map(len, (message["content"] for message in request["messages"])))
        return f"```python\ndef solve(x):\n    return {request['seed'] % 1000} + {size}\n```"

    def script(number, request):
        # By its seed, a third of all requests gets no program, whoever asks when.
        return served(body=chat("no" if request["seed"] % 3 == 0 else program(request)))

    whole, dead = serve(script), 4

    def dying(number, request):
        return script(number, request) if number < dead else served(status=503, body=b"gone")

    words = ["--task", task, "--model", "m", "--model-seed", "--iterations", 6, "--call-deadline", 0.3, "--seed", 3]
    code, out, err = progevo("run", *words, "--base-url", whole.url, "--out", tmp_path / "whole", "--json")
    assert code == 0, err
    expected = json.loads(out)
    assert expected["reply_damage"]["damaged"] > 0
    mortal = serve(dying)
    code, _, err = progevo("run", *words, "--base-url", mortal.url, "--out", tmp_path / "r")
    assert code == 4
    assert f"progevo resume {tmp_path / 'r'}" in err
    new = serve(script)  # it comes back at another place
    code, out, err = progevo("resume", tmp_path / "r", "--base-url", new.url, "--json")
    assert code == 0, err
    found = json.loads(out)
    for name in ("counts", "best", "gain", "tree", "stop_reason"):
        assert found[name] == expected[name]
    for name in ("drawn", "damaged", "recovered", "by_kind", "by_fault"):
        assert found["reply_damage"][name] == expected["reply_damage"][name]
    assert found["spent"]["tokens"] == expected["spent"]["tokens"]
    assert dead + len(new.requests) == len(whole.requests) == expected["spent"]["calls"]


def test_a_dry_run_asks_nobody_and_writes_nothing(tmp_path, task, progevo):
    before = sorted(tmp_path.iterdir())
    words = ["run", "--task", task, "--model", "m=3", "--model", "n", "--reply-tokens", 500, "--iterations", 10]
    words += ["--base-url", "http://127.0.0.1:9/v1", "--price", "m=1/10", "--dry-run", "--out", tmp_path / "r"]
    code, out, err = progevo(*words)
    assert (code, err) == (0, "")
    for part in ("---- system", "---- user", "return 21", "10 iterations", "m: share 0.75", "US dollars unknown"):
        assert part in out
    plan = json.loads(progevo(*words, "--price", "n=2/20", "--json")[1])
    guess = plan["estimate"]
    assert guess["estimated"] is True
    assert guess["calls"] == 10
    size = sum(len(message["content"]) for message in plan["prompt"]) // 4
    assert guess["prompt_tokens_a_call"] == size
    m, n = (size * 1 + 500 * 10) / 1e6, (size * 2 + 500 * 20) / 1e6
    assert guess["cost_usd"] == pytest.approx(10 * (0.75 * m + 0.25 * n))
    assert all(model["call_usd_at_most"] > model["call_usd"] for model in plan["models"])
    assert sorted(tmp_path.iterdir()) == before
    code, out, _ = progevo("run", "--task", task, "--dry-run")
    assert code == 0
    assert "no model is asked" in out


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["--model", "m=0"], "weight above 0"),
        (["--model", "m", "--proposer", "mutate"], "asks no model"),
        (["--proposer", "llm"], "--model NAME"),
        (["--proposer", "oracle"], "the proposers are mutate, llm (with --model NAME) and recorded:FILE"),
        (["--proposer", "recorded:nothing"], "cannot be read"),
        (["--model", "m", "--base-url", "localhost:8080"], "is none"),
        (["--model", "m", "--base-url", "http://me:secret@host/v1"], "OPENAI_API_KEY"),
        (["--model", "m", "--base-url", "http://host/v1?key=secret"], "OPENAI_API_KEY"),
        (["--model", "m", "--extra-body", "{"], "JSON object"),
        (["--model", "m", "--extra-body", "[1]"], "JSON object"),
        (["--model", "m", "--extra-body", '{"messages": []}'], "which progevo sets"),
        (["--model", "m", "--extra-body", '{"n": 2}'], "which progevo sets"),
        (["--model", "m", "--extra-body", '{"a": [{"stop": null}]}'], "holds a null"),
        (["--model", "m", "--extra-body", '{"a": [{"b": NaN}]}'], "NaN or an infinity"),
        (["--model", "m", "--extra-body", '{"a": 1e999}'], "NaN or an infinity"),
        (["--model", "m", "--call-timeout", "1e12"], "call_timeout is 1000000000000.0; it must be"),
        (["--model", "m", "--call-deadline", "inf"], "call_deadline is inf; it must be"),
        (["--model", "m", "--reply-attempts", "0"], "above 0"),
        (["--model", "m", "--max-cost", "nan"], "at least 0"),
        (["--model", "m", "--max-tokens", "4096"], "--reply-tokens"),
        (["--model", "m", "--max-cost", "1", "--reply-tokens", "9"], "price of 'm' is unknown"),
        (["--model", "m", "--temperature", "other=1"], "no model of this run"),
        (["--model", "m", "--edit", "patch"], "Invalid value"),
    ],
)
def test_wrong_use_ends_with_2_before_anything_is_written(tmp_path, task, progevo, words, word):
    before = sorted(tmp_path.iterdir())
    base = () if "--base-url" in words else ("--base-url", "http://127.0.0.1:9/v1")
    code, out, err = progevo("run", "--task", task, *words, *base, "--out", tmp_path / "r")
    assert (code, out) == (2, "")
    assert word in err
    assert "secret" not in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_key_that_cannot_be_one_is_not_quoted(tmp_path, task, progevo):
    code, _, err = progevo(
        "run", "--task", task, "--model", "m", "--out", tmp_path / "r", OPENAI_API_KEY="sk-0123 not a key"
    )
    assert code == 2
    assert "OPENAI_API_KEY" in err
    assert "0123" not in err
