"""Page: the template filled in, under a policy that lets nothing run or load but what was built into it.

The style sheet and the script are put together from the files in `browser/`; their sha256 stand in the page's content
security policy, so that no other script or style can take effect, wherever it came from.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from progevo.files import write_file
from progevo.report.block import build_block, to_text
from progevo.report.header import header, title
from progevo.report.plain import best_html, download, header_html, table_html
from progevo.report.reading import Reading, read
from progevo.visible import markup

FILE = "report.html"

#: In this order; each only names what stands before it, and `main.js` starts.
SCRIPTS = (
    "words.js",
    "run.js",
    "paint.js",
    "plot.js",
    "layout.js",
    "tree.js",
    "islands.js",
    "diff.js",
    "code.js",
    "inspector.js",
    "table.js",
    "summaries.js",
    "live.js",
    "main.js",
)


def write_page(folder: str | Path) -> Path:
    """Writes `report.html` of a run folder, finished or not; returns its path. Raises `RunError`."""
    folder = Path(folder)
    write_file(folder / FILE, build_page(read(folder)).encode("utf-8"))
    return folder / FILE


def build_page(reading: Reading, *, live: bool = False) -> str:
    """The page as text. A live one may also ask its own server for news, and nobody else."""
    script, style = piece("script"), piece("style")
    return fill(
        part("page.html"),
        {
            "policy": markup(policy(live=live)),
            "title": markup(title(reading)),
            "mode": "live" if live else "file",
            "style": style,
            "header": header_html(header(reading)),
            "download": download(reading),
            "best": best_html(reading),
            "table": table_html(reading),
            "block": to_text(build_block(reading)),
            "script": script,
        },
    )


def policy(*, live: bool) -> str:
    """The content security policy: what may run or load at all."""
    rules = [
        "default-src 'none'",
        f"script-src '{digest(piece('script'))}'",
        f"style-src '{digest(piece('style'))}'",
        "img-src data:",
        *(["connect-src 'self'"] if live else []),
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",  # no text becomes HTML or code, not even by mistake
        "trusted-types 'none'",
    ]
    return "; ".join(rules)


def still_policy() -> str:
    """The policy of a page without a script."""
    style = f"style-src '{digest(piece('style'))}'"
    return f"default-src 'none'; {style}; img-src data:; base-uri 'none'; form-action 'none'"


@functools.cache
def piece(name: str) -> str:
    """The whole script, or the whole style sheet."""
    if name == "style":
        return part("page.css")
    whole = "\n".join(part(script) for script in SCRIPTS)
    return f'(() => {{\n"use strict";\n{whole}\n}})();\n'


def part(name: str) -> str:
    """One file of `browser/`."""
    return (resources.files("progevo.report") / "browser" / name).read_text("utf-8")


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with each `{{name}}` replaced, in one pass: what is put in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def digest(text: str) -> str:
    """How a policy names a text: its sha256 in base 64."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"
