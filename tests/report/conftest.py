"""Runs to look at, made without a sandbox, and a page taken apart."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest

from progevo import run
from tests.plain_run import StandIn, Wanderer, task


@dataclass
class Parsed:
    """A page as an HTML parser sees it: its elements with attributes, and the text inside each kind of element."""

    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, tag: str) -> str:
        return "".join(self.texts.get(tag, []))

    @property
    def block(self):
        """The JSON block, read as strictly as a browser does."""
        (written,) = [text for text in self.texts["script"] if text.startswith("{")]
        return json.loads(written, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))

    @property
    def unpacked(self):
        """Programs by id, as whole texts, and logs by node."""
        content = json.loads(zlib.decompress(base64.b64decode(self.block["texts"])))
        programs = {each["id"]: "\n".join(content["lines"][n] for n in each["lines"]) for each in content["programs"]}
        return programs, {int(node): log for node, log in content["logs"].items()}


class Parser(HTMLParser):
    VOID = ("meta", "link", "img", "br", "hr", "input")

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.found, self.open = Parsed(), []

    def handle_starttag(self, tag, attrs):
        self.found.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        for tag in self.open[-1:]:
            self.found.texts.setdefault(tag, []).append(data)


def parse(page: str) -> Parsed:
    parser = Parser()
    parser.feed(page)
    parser.close()
    return parser.found


@pytest.fixture(scope="session")
def wandered(tmp_path_factory):
    """Makes a finished run in which everything happens, and remembers it by its search."""
    made = {}

    def make(search="era"):
        if search not in made:
            made[search] = tmp_path_factory.mktemp("runs") / search
            constants = {"migration_interval": 3, "num_islands": 3} if search == "openevolve" else {}
            run(
                task(),
                search=search,
                constants=constants,
                proposer=Wanderer(),
                iterations=80,
                sandbox=StandIn(),
                out=made[search],
            )
        return made[search]

    return make
