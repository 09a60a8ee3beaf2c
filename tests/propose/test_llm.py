"""propose.llm against a scripted endpoint: what is drawn again, what it costs, and what no file ever holds."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from progevo import Candidate, Node, Outcome, Program, run
from progevo.budget import Budget
from progevo.config import Llm
from progevo.errors import BudgetSpent, ConfigError, ProposerError
from progevo.propose import close
from progevo.propose.archive import read_recording
from progevo.propose.open import open_proposer
from progevo.types import Brief, Draw, Tokens

PROGRAM = "def solve(x):\n    return 7\n"
GOOD = f"Here it is.\n\n```python\n{PROGRAM}```\n"
KEY = "sk-proj-Zz0123456789/abc+DEF"


def node(index=0, source="def solve(x):\n    return 0\n", parent=None, draws=(), score=-1.0, status="ok"):
    outcome = Outcome(status="ok", score=score) if status == "ok" else Outcome(status=status, reason="it failed")
    program = Program(source) if source is not None else None
    candidate = Candidate(program=program, origin="x", draws=draws)
    return Node(index=index, step=index, parent=parent, candidate=candidate, outcome=outcome)


def brief(step=1, nodes=None, parent=-1, seed=0):
    nodes = nodes or (node(),)
    return Brief(step=step, parent=nodes[parent], history=nodes, rng=random.Random(f"{seed} {step}"))


@pytest.fixture
def asker(serve, served, toy, tmp_path):
    """Opens a proposer on a script of bodies, or of whole responses; the endpoint comes with it."""
    opened = []

    def make(script, *, budget=Budget(), folder=tmp_path, model=("m",), domain=None, **settings):
        def answer(number, request):
            found = script(number, request) if callable(script) else script[min(number, len(script) - 1)]
            return served(body=found) if isinstance(found, bytes) else found

        endpoint = serve(answer)
        said: list[str] = []
        proposer = open_proposer(
            "llm",
            domain or toy(),
            llm=Llm(model=model, base_url=endpoint.url, **settings),
            budget=budget,
            folder=folder,
            say=said.append,
        )
        opened.append(proposer)
        return proposer, endpoint, said

    yield make
    for proposer in opened:
        close(proposer)


def test_a_reply_becomes_a_program_and_a_draw(asker, chat, tmp_path):
    proposer, endpoint, _ = asker([chat(GOOD)], price=("2/10",))
    candidate = proposer.propose(brief(step=12))
    assert candidate.program == Program(PROGRAM)
    assert candidate.origin == "m"
    (draw,) = candidate.draws
    assert (draw.model, draw.verdict, draw.tokens) == ("m", "ok", Tokens(prompt=100, completion=20))
    assert draw.cost_usd == pytest.approx((100 * 2 + 20 * 10) / 1e6)
    assert draw.file == "llm/000012-1.json"
    kept = json.loads((tmp_path / draw.file).read_text())
    assert kept["request"] == endpoint.requests[0]
    assert kept["body"].encode() == chat(GOOD)
    assert (kept["step"], kept["attempt"], kept["status"]) == (12, 1, 200)


def test_a_damaged_reply_is_drawn_again_and_every_draw_counts(asker, chat):
    proposer, endpoint, _ = asker([chat("I cannot help with that."), chat("None"), chat(GOOD)])
    candidate = proposer.propose(brief())
    assert candidate.program == Program(PROGRAM)
    assert [draw.verdict for draw in candidate.draws] == ["damaged", "damaged", "ok"]
    assert [draw.file for draw in candidate.draws] == [f"llm/000001-{attempt}.json" for attempt in (1, 2, 3)]
    assert all(draw.kind and draw.fault == "model" for draw in candidate.draws[:2])
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_when_all_attempts_are_damaged_there_is_no_program_and_the_reason_says_which(asker, chat, attempts):
    proposer, endpoint, _ = asker([chat("I cannot help with that.")], reply_attempts=attempts)
    candidate = proposer.propose(brief())
    assert candidate.program is None
    assert len(candidate.draws) == len(endpoint.requests) == attempts
    assert candidate.draws[-1].kind in candidate.reason
    assert ("replies" in candidate.reason) == (attempts > 1)


@pytest.mark.parametrize(
    "source",
    ["def solve(x):\n    return 1 / 0\n", "import os\n\n\ndef solve(x):\n    while True:\n        os.getcwd()\n"],
)
def test_a_program_that_merely_fails_is_not_drawn_again(asker, chat, source):
    proposer, endpoint, _ = asker([chat(f"```python\n{source}```")])
    candidate = proposer.propose(brief())
    assert candidate.program == Program(source)
    assert len(endpoint.requests) == 1


CUT = "```python\ndef solve(x):\n    total = 0\n    for i in range("


def test_a_reply_that_was_cut_off_is_drawn_again_with_more_room(asker, chat):
    def script(number, request):
        return chat(CUT, finish="length") if request["max_tokens"] < 400 else chat(GOOD)

    proposer, endpoint, _ = asker(script, reply_tokens=100)
    assert proposer.propose(brief()).program == Program(PROGRAM)
    assert [request["max_tokens"] for request in endpoint.requests] == [100, 200, 400]


def test_a_reply_that_stays_cut_off_is_reported_and_not_repeated_alike(asker, chat):
    proposer, endpoint, _ = asker([chat(CUT, finish="length")], reply_tokens=100, reply_attempts=9)
    candidate = proposer.propose(brief())
    sizes = [request["max_tokens"] for request in endpoint.requests]
    assert len(set(sizes)) == len(sizes) == 3
    assert candidate.program is None
    assert "--reply-tokens" in candidate.reason
    assert candidate.draws[-1].fault == "budget"


def test_without_a_limit_of_ours_the_room_grows_from_what_the_server_gave(asker, chat):
    proposer, endpoint, _ = asker([chat(CUT, finish="length", usage=(9, 64)), chat(GOOD)])
    assert proposer.propose(brief()).program == Program(PROGRAM)
    assert [request.get("max_tokens") for request in endpoint.requests] == [None, 128]
    # Where it does not even say how much that was, another draw would be the same again.
    proposer, endpoint, _ = asker([chat(CUT, finish="length", usage=None)], folder=None)
    assert proposer.propose(brief()).program is None
    assert len(endpoint.requests) == 1


def test_an_edit_that_fits_nowhere_is_reported_back_to_the_model(asker, chat):
    block = "<<<<<<< SEARCH\n    return {}\n=======\n    return 7\n>>>>>>> REPLACE\n"
    proposer, endpoint, _ = asker([chat(block.format(99)), chat(block.format(0))], edit="diff")
    candidate = proposer.propose(brief())
    assert candidate.program == Program(PROGRAM)
    assert [draw.verdict for draw in candidate.draws] == ["damaged", "ok"]
    roles = [message["role"] for message in endpoint.requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert endpoint.requests[1]["messages"][2]["content"] == block.format(99)
    assert endpoint.requests[1]["messages"][:2] == endpoint.requests[0]["messages"]
    assert "SEARCH" in endpoint.requests[0]["messages"][1]["content"]


def test_a_seed_is_sent_only_when_asked_for_and_follows_from_the_step(asker, chat):
    def seeds(**settings):
        proposer, endpoint, _ = asker([chat("no")], folder=None, **settings)
        proposer.propose(brief(step=5))
        return [request.get("seed") for request in endpoint.requests]

    sent = seeds(model_seed=True)
    assert len(set(sent)) == 4
    assert seeds(model_seed=True) == sent
    assert seeds() == [None] * 4


def test_the_policy_decides_which_model_is_asked(asker, chat):
    """After a history in which only one of two models ever helped."""
    paid, idle = (
        [
            node(index=2 * k + at, source=f"x = {k}", parent=0, score=score, draws=(Draw(model=model, verdict="ok"),))
            for k in range(12)
        ]
        for at, score, model in ((1, 5.0, "b"), (2, -9.0, "a"))
    )
    nodes = (node(), *sorted((*paid, *idle), key=lambda each: each.index))
    shares = {}
    for policy in ("fixed", "bandit"):
        proposer, endpoint, _ = asker([chat(GOOD)], model=("a", "b"), model_policy=policy, folder=None)
        for step in range(25, 85):
            proposer.propose(brief(step=step, nodes=nodes))
        shares[policy] = sum(request["model"] == "b" for request in endpoint.requests) / 60
    assert shares["bandit"] > 0.9
    assert 0.3 < shares["fixed"] < 0.7


def test_a_provider_that_fails_is_no_node(asker, served):
    proposer, _, said = asker([served(status=500, body=b"oh no")], call_deadline=1.2, folder=Path("runs/some folder"))
    with pytest.raises(ProposerError) as caught:
        proposer.propose(brief())
    text = str(caught.value)
    assert "answered 500: oh no" in text
    assert "progevo resume 'runs/some folder'" in text
    assert any("trying again" in line for line in said)
    assert ["--base-url" in line for line in said if "trying again" in line][:2] in ([True], [True, False])


def test_a_run_whose_provider_dies_ends_with_exit_4_and_everything_recorded(asker, served, chat, toy, tmp_path):
    def script(number, request):
        return chat(GOOD) if number < 2 else served(status=503, body=b"gone")

    proposer, _, _ = asker(script, folder=tmp_path / "r", call_deadline=0.5)
    with pytest.raises(ProposerError, match="progevo resume") as caught:
        run(toy(), proposer=proposer, iterations=9, out=tmp_path / "r", settings={"reply_attempts": 4})
    assert caught.value.exit_code == 4
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    assert result["stop_reason"] == "proposer_failed"
    assert result["counts"]["ok"] == 3
    assert result["reply_damage"]["drawn"] == result["spent"]["calls"] == 2
    assert result["reply_damage"]["attempts_allowed"] == 4
    assert len(list((tmp_path / "r" / "llm").iterdir())) == 2


def test_replies_that_were_paid_for_before_a_crash_are_not_bought_again(asker, served, chat):
    """Two of three draws had arrived when the provider died; the next process asks for the third alone."""

    def dying(number, request):
        return chat(f"no {number}") if number < 2 else served(status=500)

    proposer, _, _ = asker(dying, call_deadline=0.4)
    with pytest.raises(ProposerError):
        proposer.propose(brief())
    proposer, endpoint, _ = asker([chat(GOOD)])
    candidate = proposer.propose(brief())
    assert candidate.program == Program(PROGRAM)
    assert [draw.verdict for draw in candidate.draws] == ["damaged", "damaged", "ok"]
    assert len(endpoint.requests) == 1
    # Another question of the same step is another matter.
    other = (node(), node(index=1, source="def solve(x):\n    return 5\n", parent=0))
    assert len(proposer.propose(brief(nodes=other)).draws) == 1
    assert len(endpoint.requests) == 2


def test_with_the_archive_off_nothing_is_written(asker, chat, tmp_path):
    proposer, _, _ = asker([chat(GOOD)], keep_replies=False)
    assert proposer.propose(brief()).draws[0].file is None
    assert list(tmp_path.iterdir()) == []


# ---- budgets


def test_a_budget_of_calls_ends_it_between_candidates_and_cuts_redraws(asker, chat):
    proposer, endpoint, _ = asker([chat("no")], budget=Budget(calls=6))
    assert len(proposer.propose(brief(step=1)).draws) == 4
    candidate = proposer.propose(brief(step=2))
    assert len(candidate.draws) == 2
    assert "budget of calls is spent" in candidate.reason
    with pytest.raises(BudgetSpent) as caught:
        proposer.propose(brief(step=3))
    assert caught.value.budget == "calls"
    assert len(endpoint.requests) == 6


def test_a_budget_of_tokens_holds_with_many_calls_in_flight(asker, chat):
    cap = 20_000
    proposer, endpoint, _ = asker([chat(GOOD, usage=(900, 400))], budget=Budget(tokens=cap), reply_tokens=500)
    lock, drawn, refused = threading.Lock(), [], []

    def work(step):
        try:
            candidate = proposer.propose(brief(step=step))
        except BudgetSpent as spent:
            with lock:
                refused.append(spent.budget)
        else:
            with lock:
                drawn.extend(candidate.draws)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 60)))
    spent = sum(draw.tokens.prompt + draw.tokens.completion for draw in drawn)
    assert spent <= cap
    assert len(drawn) == len(endpoint.requests) >= 8
    assert set(refused) == {"tokens"}


def test_a_budget_of_money_ends_before_it_would_be_passed(asker, chat):
    proposer, _, _ = asker(
        [chat(GOOD, usage=(1000, 500))], budget=Budget(cost_usd=0.05), reply_tokens=500, price=("m=1/10",)
    )
    costs: list[float] = []

    def spend():
        while True:
            costs.append(proposer.propose(brief(step=1 + len(costs))).draws[0].cost_usd)

    with pytest.raises(BudgetSpent) as caught:
        spend()
    assert caught.value.budget == "cost_usd"
    assert 0.03 < sum(costs) <= 0.05


def test_what_a_provider_says_it_cost_comes_before_any_price(asker, chat):
    proposer, _, _ = asker([chat(GOOD, usage=(1000, 500), cost=0.125)], price=("1/10",))
    assert proposer.propose(brief()).draws[0].cost_usd == 0.125
    proposer, _, _ = asker([chat(GOOD)], folder=None)
    assert proposer.propose(brief()).draws[0].cost_usd is None  # no price is known, which is not 0
    proposer, _, _ = asker([chat(GOOD)], folder=None, price=("0/0",))
    assert proposer.propose(brief()).draws[0].cost_usd == 0.0


def test_a_resumed_run_goes_on_from_what_it_has_drawn_before(asker, chat):
    proposer, _, _ = asker([chat(GOOD)], budget=Budget(calls=4))
    proposer.restore([Draw(model="m", verdict="ok", tokens=Tokens(prompt=9, completion=1)) for _ in range(3)])
    proposer.propose(brief(step=2))
    with pytest.raises(BudgetSpent):
        proposer.propose(brief(step=3))


@pytest.mark.parametrize(
    ("budget", "settings", "word"),
    [
        (Budget(tokens=10_000), {}, "--reply-tokens"),
        (Budget(cost_usd=1.0), {}, "--reply-tokens"),
        (Budget(cost_usd=1.0), {"reply_tokens": 100}, "price of 'm' is unknown"),
        (Budget(tokens=500), {"reply_tokens": 400}, "does not cover a single call"),
        (Budget(cost_usd=0.001), {"reply_tokens": 4000, "price": ("1/10",)}, "does not cover a single call"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused_at_the_start(asker, chat, budget, settings, word):
    with pytest.raises(ConfigError, match=word):
        asker([chat(GOOD)], budget=budget, **settings)


# ---- the context, the key, and the numbers


def test_a_parent_that_is_too_long_for_the_context_is_a_node_and_a_seed_is_an_error(asker, served, chat):
    overflow = served(
        status=400, body=json.dumps({"error": {"type": "exceed_context_size_error", "message": "too big"}}).encode()
    )

    def script(number, request):
        return overflow if len(request["messages"][1]["content"]) > 2500 else chat(GOOD)

    seed, best = node(), node(index=1, source=f"# {'b' * 2000}\n{PROGRAM}", parent=0, score=5.0)
    long, middle = (node(index=2, source=f"# {'x' * size}\n{PROGRAM}", parent=0, score=-2.0) for size in (9000, 1200))
    # Without the best program it fits.
    proposer, endpoint, _ = asker(script)
    assert proposer.propose(brief(step=3, nodes=(seed, best, middle))).program == Program(PROGRAM)
    assert len(endpoint.requests) == 2
    candidate = proposer.propose(brief(step=4, nodes=(seed, best, long)))
    assert candidate.program is None
    assert "too long for the context of m: too big" in candidate.reason
    proposer, _, _ = asker([overflow], folder=None)
    with pytest.raises(ProposerError, match="too big"):
        proposer.propose(brief())


def test_the_key_is_in_no_file_no_line_and_no_error(asker, served, chat, toy, tmp_path, monkeypatch, capfd):
    """A server that quotes the key wherever it can, in replies, in errors and in headers."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def script(number, request):
        quoted = f"{KEY} Bearer {KEY}"
        if number == 1:
            return served(status=429, body=json.dumps({"error": {"message": quoted}}).encode(), headers={"X": quoted})
        if number == 2:
            return served(status=500, body=quoted.encode())
        if number == 3:
            return chat(f"{quoted} is no program")
        if number < 7:
            return chat(f"```python\n# {quoted}\n{PROGRAM}```")
        return served(status=401, body=json.dumps({"error": {"message": f"Incorrect API key: {quoted}"}}).encode())

    proposer, endpoint, said = asker(script, folder=tmp_path / "r")
    with pytest.raises(ProposerError) as caught:
        run(toy(), proposer=proposer, iterations=9, out=tmp_path / "r", settings={"model": ["m"]})
    assert all(headers["Authorization"] == f"Bearer {KEY}" for headers in endpoint.headers)
    assert "401" in str(caught.value)
    captured = capfd.readouterr()
    texts = [str(caught.value), *said, captured.out, captured.err]
    files = [path for path in (tmp_path / "r").rglob("*") if path.is_file()]
    assert len(files) > 8
    texts += [path.read_bytes().decode("utf-8", "replace") for path in files]
    assert any("[the key]" in text for text in texts)
    for text in texts:
        assert "Zz0123456789" not in text
        assert "abc+DEF" not in text


def test_a_key_that_a_reply_spells_in_pieces_or_escapes_gets_into_no_program(asker, served, tmp_path, monkeypatch):
    """Its bytes hold no key; the text that they decode to does."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    escaped = "".join(f"\\u{ord(character):04x}" for character in KEY)
    whole = json.dumps({"choices": [{"message": {"content": f"# KEY\n{PROGRAM}"}, "finish_reason": "stop"}]})
    pieces = [
        json.dumps({"choices": [{"delta": {"content": text}}]}) for text in ("# ", KEY[:9], KEY[9:], f"\n{PROGRAM}")
    ]
    stream = "".join(f"data: {piece}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    proposer, _, _ = asker(
        [
            served(body=whole.replace("KEY", escaped).encode()),
            served(body=stream.encode(), headers={"Content-Type": "text/event-stream"}),
        ]
    )
    for step in (1, 2):
        program = proposer.propose(brief(step)).program
        assert program is not None
        assert program.source.rstrip() == f"# [the key]\n{PROGRAM}".rstrip()


def test_one_interrupt_ends_the_waiting_for_a_provider_that_is_gone(asker, served, chat, toy, tmp_path):
    stop = threading.Event()

    def script(number, request):
        if number:
            stop.set()
        return chat(GOOD) if not number else served(status=503, body=b"gone")

    proposer, endpoint, _ = asker(script, folder=tmp_path / "r", call_deadline=600.0)
    result = run(toy(), proposer=proposer, iterations=9, out=tmp_path / "r", stop=stop)
    assert result["stop_reason"] == "interrupted"
    assert result["counts"]["ok"] == 2
    assert len(endpoint.requests) <= 4


def test_the_key_is_not_in_the_environment_of_a_candidate(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    from dataclasses import replace

    spy = (
        "import os\n\n\ndef solve(x):\n    text = repr(dict(os.environ))\n    for pid in ('self', '1'):\n"
        "        try:\n            text += open('/proc/%s/environ' % pid, 'rb').read().decode('latin-1')\n"
        "        except OSError:\n            pass\n    return 1.0 if 'OPENAI' in text or 'Zz01' in text else 0.0\n"
    )
    domain = toy()
    domain = replace(domain, seed=Program(spy), gate=replace(domain.gate, permissive=True))
    result = run(domain, iterations=0, out=tmp_path / "r")
    assert result["best"]["search"] == 100.0  # (0 - 10)²: it has seen nothing
    assert os.environ["OPENAI_API_KEY"] == KEY


WHOLE = '''\
import math


def ordered(values):
    """Largest first."""
    return sorted(values, key=lambda value: (-value, str(value)))


def solve(items):
    total, best = 0.0, {"count": 0, "name": 'none'}
    for index, item in enumerate(ordered([items, 2, 3])):
        if item > 0 and not math.isnan(item):
            total += math.sqrt(item) * (index + 1) / 2.5
            best["count"] += 1
    return round(total, 6)
'''
SPLICES = ["proceed</br>", "1 ", "\u2019", ")", "def ", "\n    ", "%&", "self", "$", "  ", "}", "\ufffd", "&lt;"]


def damage(text, rng):
    """A text with one damage of a random kind at a random place."""
    at, size = rng.randrange(1, len(text) - 1), rng.randrange(1, 12)
    match rng.randrange(5):
        case 0:
            return text[:at] + rng.choice(SPLICES) + text[at:]
        case 1:
            return text[:at] + text[at + size :]
        case 2:
            return text[:at] + text[at : at + 4 * size] + text[at:]
        case 3:
            return text[:at]
        case _:
            return text[:at] + text[at + size : at + 2 * size] + text[at : at + size] + text[at + 2 * size :]


def is_program(text):
    """Whether a text still parses and defines the entry point."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(found, ast.FunctionDef) and found.name == "solve" for found in tree.body)


def test_of_200_calls_with_19_percent_damaged_the_run_counts_exactly_those(asker, chat, toy, tmp_path):
    """damaged + recovered = the replies whose program, as sent, is none any more; over all draws, redraws included."""
    rng, lock, sent = random.Random(19), threading.Lock(), []

    def script(number, request):
        with lock:
            text = WHOLE.replace("2.5", str(2 + number / 8))
            text = damage(text, rng) if rng.random() < 0.19 else text
            sent.append(text)
        end = "" if text.endswith("\n") else "\n"
        return chat(f"Here is a better one.\n\n```python\n{text}{end}```\n\nIt is faster.")

    proposer, endpoint, _ = asker(script, folder=tmp_path / "r", budget=Budget(calls=200), reply_attempts=4)
    candidates = []

    class Watched:
        name = "llm"

        def propose(self, brief):
            candidate = proposer.propose(brief)
            with lock:
                candidates.append(candidate)
            return candidate

    with contextlib.suppress(BudgetSpent, ProposerError):  # how a run ends at a spent budget is tested with the loop
        run(toy(), proposer=Watched(), iterations=400, workers=2, out=tmp_path / "r")
    assert len(endpoint.requests) == len(sent) == 200
    verdicts = Counter(draw.verdict for candidate in candidates for draw in candidate.draws)
    assert sum(verdicts.values()) == 200
    broken = sum(not is_program(text) for text in sent)
    assert 20 <= broken <= 50
    assert verdicts["damaged"] + verdicts["recovered"] == broken
    kept = read_recording(tmp_path / "r")
    assert sum(map(len, kept.values())) == 200
