"""The text itself: its characters, its encoding, and whether it parses at all."""

from __future__ import annotations

import ast
import bisect
import re
import threading
import unicodedata
import warnings
from collections.abc import Iterator

from progevo.gate.verdict import Finding, cut, short

#: `import a.a.a...`: CPython joins dotted names pairwise and keeps every step, 2.7 GB at 100 kB of text. Every other
#: text of that size that was tried costs it below 160 MB and 1 s (3.11 to 3.13), so this alone is looked for first.
_LONG_DOTTED = re.compile(r"\b(?:\w++[\s\\]*+\.[\s\\]*+){100}")

_LINE_END = re.compile(r"\r\n|\r|\n")
_COOKIE = re.compile(r"[ \t]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)  # PEP 263
_LEXEME = re.compile(
    r"""#[^\r\n]*|(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"{3}|'{3}|"|')(?:\\.|(?!(?P=quote))[^\\])*(?P=quote)|(?P<word>\w+)""",
    re.DOTALL,
)
_FSTRING_FIELD = re.compile(r"\{[^{}]*\}")
_FILE = "<candidate>"
_QUIET_LOCK = threading.Lock()


def encoded(source: str | bytes) -> bytes:
    """The bytes of a text, lone surrogates included."""
    return source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")


def line_of(text: str, position: int) -> int:
    """The line of a position, as Python counts lines."""
    return 1 + sum(1 for _ in _LINE_END.finditer(text, 0, position))


def character_findings(text: str) -> Iterator[Finding]:
    """Characters that show nothing, or make the shown text differ from the one that is read."""
    unwanted = {
        character: "encoding" if character in "\0\ufeff" or category == "Cs" else "character"
        for character in set(text)
        if (category := unicodedata.category(character)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in "\n\t\r"
    }
    if not unwanted:
        return
    for number, line in enumerate(_LINE_END.split(text), 1):
        for character in sorted(unwanted.keys() & set(line)):
            name = unicodedata.name(character, "a lone surrogate" if character >= "\ud800" else "a control character")
            message = f"U+{ord(character):04X} ({name.lower()}) in the text; remove it, or write it as an escape"
            yield Finding(line=number, rule=unwanted[character], message=message)


def cookie_findings(text: str) -> Iterator[Finding]:
    """Encoding declarations other than UTF-8: whoever reads the file by them reads another program."""
    for number, line in enumerate(_LINE_END.split(text, 2)[:2], 1):
        if match := _COOKIE.match(line):
            encoding = match[1].lower().replace("_", "-")
            if encoding not in ("utf-8", "utf8") and not encoding.startswith("utf-8-"):
                message = f"the comment declares the encoding {short(match[1])}; programs are UTF-8: remove it"
                yield Finding(line=number, rule="encoding", message=message)
            return
        if line.strip() and not line.lstrip().startswith("#"):
            return


def folding_findings(text: str) -> Iterator[Finding]:
    """Identifiers that Python reads as another spelling (NFKC); Greek and accented letters stay as they are."""
    if all(unicodedata.is_normalized("NFKC", word) for word in set(re.findall(r"\w+", text))):
        return
    ends = [match.end() for match in _LINE_END.finditer(text)]
    for lexeme in _LEXEME.finditer(text):
        if "f" in (lexeme["prefix"] or "").lower():
            words = [word for field in _FSTRING_FIELD.findall(lexeme[0]) for word in re.findall(r"\w+", field)]
        else:
            words = [lexeme["word"]] if lexeme["word"] else []
        for word in words:
            if (folded := unicodedata.normalize("NFKC", word)) != word:
                message = f"Python reads the identifier {short(word)} as {short(folded)}; write it that way"
                yield Finding(line=1 + bisect.bisect(ends, lexeme.start()), rule="character", message=message)


def parse(text: str) -> ast.Module | Finding:
    """The syntax tree, or why there is none."""
    if match := _LONG_DOTTED.search(text):
        return Finding(line=line_of(text, match.start()), rule="syntax", message="a dotted name of over 100 parts")
    _silence_warnings()
    try:
        return ast.parse(text, _FILE)
    except SyntaxError as error:
        fence = any(line.lstrip().startswith("```") for line in _LINE_END.split(text))
        hint = "; remove the Markdown code fence" if fence else ""
        return Finding(line=error.lineno or 0, rule="syntax", message=f"not valid Python: {cut(error.msg)}{hint}")
    except (RecursionError, MemoryError):
        return Finding(line=0, rule="syntax", message=too_deep("too deeply for the parser"))
    except (ValueError, OverflowError, SystemError) as error:
        return Finding(line=0, rule="syntax", message=f"not valid Python: {cut(str(error))}")


def too_deep(how: str) -> str:
    return f"the code is nested {how}; split long chains of operators, calls or elif into statements"


def _silence_warnings() -> None:
    """Keeps parser warnings about candidates off the host's stderr, and from becoming errors there.

    `warnings.catch_warnings` swaps process-wide state and is no use among threads. A filter for a file name that
    nothing else uses concerns nobody else and can stay; it must only be in front, whatever was put there since.
    """
    with _QUIET_LOCK:
        first = warnings.filters[0] if warnings.filters else None
        if not (first and first[0] == "ignore" and getattr(first[3], "pattern", None) == re.escape(_FILE)):
            warnings.filterwarnings("ignore", module=re.escape(_FILE))
