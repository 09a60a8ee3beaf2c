"""report.html: one file that needs nothing else, says what the journal says, and lets nothing that it shows act."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import re
from dataclasses import dataclass

import msgspec
import pytest

from progevo import Candidate, Metric, Program, run
from progevo.journal import read_run
from progevo.report import write_page
from progevo.report.header import command, number
from progevo.report.page import fill
from progevo.report.reading import read
from progevo.types import Draw
from progevo.visible import HIDDEN, visible
from tests.plain_run import Number, StandIn, program, task
from tests.report.conftest import parse

#: What a page is made of; nothing that loads, frames, submits or plays is among it.
ELEMENTS = set(
    """html head meta link title style body a header h1 h2 div span button p dl dt dd small details summary main
    section pre code table thead tbody tr th td noscript script""".split()
)

TAG = "</script></noscript></title></style><img src=x onerror=alert(1)><script>alert(2)</script>"
BIDI = "safe \u202e\u2066 evil \u200b\ufeff \u2028\u2029 \U000e0041"
HALF = "half \ud800 \udfff pair"
NASTY = f"{TAG} {BIDI} \x00\x07\x1b[31m ]]> <!-- --> {{{{table}}}} \" ' ` ${{1}} &lt; "


@dataclass
class Hostile:
    """Proposes programs that work, and carry what would act if it were not data."""

    name: str = "hostile"

    def propose(self, brief):
        text = [f"# {NASTY}", f"# {HALF}", f"WORD = {TAG!r}", "# " + "\u202e" * 3, "#\r\n# crlf\r"][brief.step % 5]
        source = None if brief.step % 7 == 6 else program(brief.step % 4) + text + "\n"
        draw = Draw(model=NASTY, verdict="damaged", kind=NASTY, fault="model", steps=(NASTY,), file=f"llm/{TAG}")
        made = Program(source) if source is not None else None
        return Candidate(program=made, origin=NASTY + HALF, reason=NASTY + HALF, draws=(draw,))


@dataclass
class Measures(Number):
    """Reports metrics by names that are none, and values that are no number."""

    def score(self, split, answer):
        found = super().score(split, answer)
        return type(found)(
            score=found.score, cases=found.cases, metrics={NASTY: math.nan, f"{TAG} 2": math.inf, "three": 3.0}
        )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "run <img src=x onerror=alert(3)>"
    metric = Metric(name=f"RMSE {NASTY}", direction="minimize", unit=TAG, aggregate="mean")
    domain = task(metric=metric, name=f"task {NASTY}", evaluator=Measures())
    run(domain, proposer=Hostile(), iterations=20, sandbox=StandIn(), out=folder)
    (folder / "logs" / "000003.txt").write_bytes(
        NASTY.encode("utf-8", "surrogatepass") * 70_000 + b"the end of it \xff"
    )
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().split("\n") if line]
    for line in lines:
        if line["event"] == "node" and line["index"] == 3:
            line["measured"]["log"] = "logs/000003.txt"
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_nothing_that_a_run_holds_becomes_markup(hostile):
    assert (hostile / "logs" / "000003.txt").stat().st_size > 10_000_000
    page = write_page(hostile).read_text("utf-8")
    parsed = parse(page)
    assert {tag for tag, _ in parsed.elements} <= ELEMENTS
    assert len(parsed.of("script")) == 2
    assert len(parsed.of("style")) == 1
    for tag, attributes in parsed.elements:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("style", "src", "srcdoc", "action")
        ]
        for name in ("href", "data"):
            assert re.match(r"#|data:,$|data:text/x-python;base64,[A-Za-z0-9+/=]+$", attributes.get(name, "#")), tag
    assert len(page) < 500_000  # the log of ten megabytes stands there by its end


def test_what_hides_or_reorders_text_stands_there_by_its_number(hostile):
    page = write_page(hostile).read_text("utf-8")
    hidden = {chr(code) for first, last in HIDDEN for code in range(first, last + 1)}
    assert hidden & set(page) == set()
    text = parse(page).text("td")
    for written in (
        "\\u202e",
        "\\u2066",
        "\\u2028",
        "\\u0000",
        "\\ufeff",
        "\\u{e0041}",
        "<img src=x onerror=alert(1)>",
    ):
        assert written in text


def test_the_block_holds_every_text_as_it_was(hostile):
    parsed = parse(write_page(hostile).read_text("utf-8"))
    block, (programs, logs) = parsed.block, parsed.unpacked
    record = read_run(hostile)
    sources = {
        node.candidate.program.id: node.candidate.program.source for node in record.nodes if node.candidate.program
    }
    assert programs == sources
    assert any("\ud800" in source for source in programs.values())
    assert any("\r\n" in source for source in programs.values())
    words = block["words"]
    assert words[block["nodes"]["origin"][1]] == record.nodes[1].candidate.origin
    assert NASTY in words[block["nodes"]["origin"][1]]
    assert words[block["draws"]["1"][0]["model"]] == NASTY
    assert logs[3].endswith("the end of it \ufffd")
    assert len(logs[3].encode("utf-8")) < 10_000
    assert {name: values[0] for name, values in block["metrics"]} == {NASTY: None, f"{TAG} 2": None, "three": 3.0}
    assert all(character not in json.dumps(block["texts"]) for character in "<>&")


def test_the_policy_names_the_script_and_the_style_and_lets_nothing_else_in(hostile):
    parsed = parse(write_page(hostile).read_text("utf-8"))
    (written,) = [each["content"] for each in parsed.of("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in written.split("; "))
    (script,) = [text for text in parsed.texts["script"] if not text.startswith("{")]
    (style,) = parsed.texts["style"]

    def digest(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert rules == {
        "default-src": "'none'",
        "script-src": digest(script),
        "style-src": digest(style),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://", script
    )


def test_without_script_there_are_the_header_the_best_program_and_every_node(wandered):
    folder = wandered()
    record = read_run(folder)
    page = write_page(folder).read_text("utf-8")
    before_script = page[: page.index('<script type="application/json"')]
    parsed = parse(before_script)
    best = record.best_node()
    assert parsed.texts["h1"] == ["plain · era · seed 0"]
    assert "".join(parsed.texts["code"]) == best.candidate.program.source
    (link,) = [each["href"] for each in parsed.of("a") if each.get("download") == "best.py"]
    assert base64.b64decode(link.split(",")[1]).decode() == best.candidate.program.source
    facts = dict(zip(parsed.texts["dt"], parsed.texts["dd"], strict=True))
    assert facts["State"] == "ended: iterations"
    seed, found = record.tested[0][0], record.tested[best.index][0]
    assert facts["On search, what the search ranked by"] == f"{number(-record.nodes[0].score)} → {number(-best.score)}"
    assert facts["On test, held out"] == f"{number(-seed.score)} → {number(-found.score)}"
    assert facts["Gain on test, above 0 is better"].startswith(f"{number(found.score - seed.score, signed=True)} ")
    rows = re.findall(r"<tr><td>(\d+)<td>(\d*)<td>(\w+)<td>([^<]*)<td>", page)
    assert rows == [
        (
            str(node.index),
            "" if node.parent is None else str(node.parent),
            node.outcome.status,
            number(-node.score) if node.outcome.ok else "",
        )
        for node in record.nodes
    ]


def test_the_same_run_makes_the_same_page(wandered):
    folder = wandered()
    assert write_page(folder).read_bytes() == write_page(folder).read_bytes()


def test_what_is_filled_in_is_not_looked_at_again():
    assert fill("{{a}} {{b}}", {"a": "{{b}}", "b": "{{a}}"}) == "{{b}} {{a}}"


def test_visible_leaves_no_hidden_character_and_no_other_text_changed():
    assert visible("plain\ttext\nwith é and 日本") == "plain\ttext\nwith é and 日本"
    assert visible("a\u202eb\ud800c\U000e0001") == "a\\u202eb\\ud800c\\u{e0001}"
    assert visible("\r") == "\\u000d"


def test_the_command_that_runs_it_again(wandered):
    reading = read(wandered())
    assert reading.record.start is not None
    assert command(reading) == "the Python program that called progevo.run"
    for settings in ({"task": "s3e1"}, {"openevolve": ["program.py", "evaluator.py"]}):
        start = msgspec.structs.replace(reading.record.start, settings=settings)
        record = dataclasses.replace(reading.record, start=start)
        again = dataclasses.replace(reading, record=record)
        assert command(again) == "progevo run --config config.toml --out ../again"
