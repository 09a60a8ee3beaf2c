"""Repairs: small changes, each undoing one known way in which a text is damaged, with no choice to make.

A repair says how a text would read if it had been damaged in that way, or `None` where it shows no sign of it. Whether
to believe that is not its business: the reader takes the result only where the text did not parse and the result does.
Changes of single characters keep out of strings and comments, where the same characters may be meant.
"""

from __future__ import annotations

import ast
import html
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import NamedTuple

from progevo.gate.text import parse
from progevo.propose.reply.blocks import LANGUAGE
from progevo.propose.reply.prose import without_prose_after, without_prose_before


class Repair(NamedTuple):
    """One repair.

    `anywhere`: the damage may have hit fences and wrappings too, so whole replies are tried with it. `sign` is
    what it undoes, where fewer than `MIN_LEAKS` of them may as well stand in place of something that was lost.
    """

    name: str
    mend: Callable[[str], str | None]
    about: str
    anywhere: bool = False
    sign: re.Pattern[str] | None = None

    def doubtful(self, text: str) -> bool:
        """Whether the damage shows so seldom in a text that what it makes of it must be looked at twice."""
        return self.sign is not None and len(self.sign.findall(text)) < MIN_LEAKS


# --- characters -----------------------------------------------------------------------------------------------------

#: Comments and strings, closed or not; what follows each other here cannot be scanned twice, so this is linear.
_OPAQUE = (
    r"#[^\r\n]*+|\"\"\"(?:\\.|(?!\"\"\")[^\\])*+(?:\"\"\"|\Z)|'''(?:\\.|(?!''')[^\\])*+(?:'''|\Z)"
    r"|\"(?:\\.|[^\"\\\r\n])*+\"?|'(?:\\.|[^'\\\r\n])*+'?"
)
_LEXEME = re.compile(rf"(?P<opaque>{_OPAQUE})|(?P<other>[^\x00-\x7f])", re.DOTALL)
_SMART = re.compile(
    rf"[“„‟″](?P<double>[^“”„‟″\"\r\n]*+)[“”„‟″\"]|[‘‚‛′](?P<single>[^‘’‚‛′'\r\n]*+)[‘’‚‛′']|’(?P<right>[^’'\r\n]*+)’"
    rf"|”(?P<twice>[^”\"\r\n]*+)”|(?P<opaque>{_OPAQUE})",
    re.DOTALL,
)
_SPACES = dict.fromkeys("\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))), " ")
_INVISIBLE = dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff\u180e\ufe0f", "")
_UNSEEN = re.compile("[" + "".join(_INVISIBLE) + "]")
_FULL_WIDTH = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {"、": ",", "。": ".", "．": "."}
_DASHES = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63", "-")
_OPERATORS = {"≥": ">=", "≤": "<=", "≠": "!=", "⩾": ">=", "⩽": "<=", "×": "*", "÷": "/", "∗": "*", "→": "->", "∕": "/"}


def in_code(table: Mapping[str, str]) -> Callable[[str], str | None]:
    """A repair that puts other characters for some, outside of strings and comments."""

    def mend(text: str) -> str | None:
        if not any(character in text for character in table):
            return None
        return _LEXEME.sub(lambda found: found[0] if found["opaque"] else table.get(found[0], found[0]), text)

    return mend


def wide_spaces(text: str) -> str | None:
    """No-break spaces and their like. Whoever makes them of the blanks of code makes them of those of strings too."""
    return "".join(_SPACES.get(one, one) for one in text) if in_code(_SPACES)(text) not in (None, text) else None


def byte_order_mark(text: str) -> str | None:
    return text.lstrip("\ufeff") if text.startswith("\ufeff") else None


def smart_quotes(text: str) -> str | None:
    """Typographic quotation marks that stand where only a string can begin become straight ones."""

    def straight(found: re.Match[str]) -> str:
        if found["opaque"] is not None:
            return found[0]
        inner = next(group for group in found.groups() if group is not None)
        mark = '"' if found["double"] is not None or found["twice"] is not None else "'"
        return f"{mark}{inner}{mark}"

    return _SMART.sub(straight, text) if re.search("[“”„‟″‘’‚‛′]", text) else None


def lone_surrogates(text: str) -> str | None:
    """Half characters, which no file can hold, become U+FFFD; in code that is no repair, in a comment it is one."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text) if re.search("[\ud800-\udfff]", text) else None


def mojibake(text: str) -> str | None:
    """UTF-8 that was read as Windows-1252 or Latin-1."""

    def again(found: re.Match[str]) -> str:
        try:
            raw = [one.encode("cp1252", "ignore") or one.encode("latin-1") for one in found[0]]
            return b"".join(raw).decode("utf-8")
        except UnicodeError:
            return found[0]

    return re.sub(r"[\x80-\uffff]{2,200}", again, text) if re.search("[ÂÃâïã][\x80-\uffff]", text) else None


# --- leaks of the machinery -----------------------------------------------------------------------------------------


#: Fewer marks than this may as well stand for something that they took the place of.
MIN_LEAKS = 3


def byte_alphabet() -> dict[str, int]:
    """The characters that GPT-2's tokenizer writes for bytes (`bytes_to_unicode` in openai/gpt-2's encoder.py)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(others)}


_BYTES = byte_alphabet()


def byte_level_tokens(text: str) -> str | None:
    """`Ġ` for a space, `Ċ` for a line end: the text in a byte-level tokenizer's own alphabet, throughout or in part."""
    if len(re.findall("[ĠĊĉ]", text)) < MIN_LEAKS:
        return None
    if (
        " " not in text
        and "\n" not in text.strip()
        and all(character in _BYTES or character.isspace() for character in text)
    ):
        whole = bytes(_BYTES.get(character, ord(character) & 0xFF) for character in text)
        return whole.decode("utf-8", "replace")
    return text.replace("Ġ", " ").replace("Ċ", "\n").replace("ĉ", "\t")


def sentencepiece_tokens(text: str) -> str | None:
    """`▁` for a space and `<0x0A>` for a byte: SentencePiece's own way to write them."""
    if len(re.findall("▁|<0x[0-9A-F]{2}>", text)) < MIN_LEAKS:
        return None
    text = re.sub(
        "(?:<0x[0-9A-F]{2}>)+",
        lambda found: bytes.fromhex(found[0].replace("<0x", "").replace(">", "")).decode("utf-8", "replace"),
        text,
    )
    return re.sub(r"\A▁(?!▁)", "", text).replace("▁", " ")  # the first word's own blank is none of the text's


def ansi_escapes(text: str) -> str | None:
    """Colours and cursor movements of a terminal."""
    plain = re.sub(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)", "", text)
    return plain if plain != text else None


def line_ends(text: str) -> str | None:
    """Unicode's own line and paragraph separators for line ends."""
    return re.sub("[\u2028\u2029\u0085]", "\n", text) if re.search("[\u2028\u2029\u0085]", text) else None


# --- escapes --------------------------------------------------------------------------------------------------------


_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,20});")


def entities(text: str) -> str | None:
    """HTML's entities, one level of them; only well-formed ones."""
    found = _ENTITY.findall(text)
    meant = {html.unescape(entity) for entity in found}
    if not found or (len(found) == 1 and any(character in _ENTITY.sub("", text) for character in meant)):
        return None  # whoever escapes one escapes all: this one came in otherwise
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text.replace("&nbsp;", " "))


def escaped_line_ends(text: str) -> str | None:
    r"""A text that was escaped as a string is: `\n`, `\t`, `\"` and `\\` by two characters each."""
    if text.count("\\n") < 2 or text.count("\\n") <= text.strip().count("\n"):
        return None
    plain = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "\\": "\\", "/": "/"}
    return re.sub(r"\\(.)", lambda found: plain.get(found[1], found[0]), text)


def markdown_escapes(text: str) -> str | None:
    r"""`\_` and `\*` for what Markdown would take for its own marks: those that occur outside of strings."""
    code = re.sub(_OPAQUE, "", text, flags=re.DOTALL)
    found = re.findall(r"\\([_*#\[\](){}<>~`|+\-.!=&])", code)
    if not found or (len(found) == 1 and code.count(found[0]) > 1):
        return None
    escaped = set(found)
    return re.sub(rf"\\([{re.escape(''.join(sorted(escaped)))}])", r"\1", text)


# --- lines ----------------------------------------------------------------------------------------------------------


def unindent(text: str) -> str | None:
    plain = textwrap.dedent(text)
    return plain if plain != text and plain.strip() else None


def unquote(text: str) -> str | None:
    """A quotation: every line begins with `>`."""
    lines = text.split("\n")
    if sum(bool(line.strip()) for line in lines) < 2 or any(line.strip() and line[0] != ">" for line in lines):
        return None
    return "\n".join(re.sub(r"^> ?", "", line) for line in lines)


def language_label(text: str) -> str | None:
    """A first line that is nothing but the name of the language: a fence's, without the fence."""
    first, _, rest = text.lstrip("\r\n").partition("\n")
    rest = re.sub(r"\A(?:Copy(?: code)?|Edit|Run)[ \t]*\n", "", rest)  # the buttons of a web page
    label = LANGUAGE.match(first)
    return rest if label and rest.strip() and not first[label.end() :].strip(" \t\r:") else None


def prompts(text: str) -> str | None:
    """A session in Python's shell: `>>>` and `...` before every line of code, results between them."""
    mark = re.compile(r"[ \t]{0,8}(?:>>>|\.{3,}:|\.\.\.|In \[\d+\]:) ?")
    lines = text.split("\n")
    if not any(re.match(r"[ \t]{0,8}(?:>>>|In \[\d+\]:)", line) for line in lines):
        return None
    return "\n".join(mark.sub("", line, count=1).rstrip("\r") for line in lines if mark.match(line)) + "\n"


def line_numbers(text: str) -> str | None:
    """Numbers from a listing, one up with every line."""
    found = [
        re.match(r"[ \t]*(\d{1,5})(?:[ \t]?[:|.)│]|(?=[ \t]|$))(.*)", line) for line in text.strip("\n").split("\n")
    ]
    numbers = [int(match[1]) for match in found if match]
    if len(numbers) < 3 or len(numbers) != len(found) or numbers != [*range(numbers[0], numbers[0] + len(numbers))]:
        return None
    return textwrap.dedent("\n".join(match[2] for match in found if match)) + "\n"


def notebook_lines(text: str) -> str | None:
    """Lines of a notebook that are no Python: `%%writefile`, `%time`, `!pip install`."""
    lines = text.split("\n")
    kept = [line for line in lines if not re.match(r"(?:%%?[a-zA-Z]\w*|!\w+)(?:\s|$)", line)]
    return "\n".join(kept) if len(kept) < len(lines) else None


def tabs(text: str) -> str | None:
    """Tabs and spaces mixed, where only one width of a tab makes sense of them, or any width makes the same."""
    if not re.search(r"^ *\t", text, re.MULTILINE) or len(text) > 50_000:
        return None
    read: dict[str, str] = {}
    for width in (4, 8, 2):
        wide = "\n".join(_margin(line, width) for line in text.split("\n"))
        tree = parse(wide)
        if isinstance(tree, ast.Module):
            try:
                read.setdefault(ast.dump(tree), wide)
            except RecursionError:
                return None
    return next(iter(read.values())) if len(read) == 1 else None


def _margin(line: str, width: int) -> str:
    rest = line.lstrip(" \t")
    return line[: len(line) - len(rest)].expandtabs(width) + rest


def heredoc(text: str) -> str | None:
    """A shell's here-document that writes the program to a file."""
    begin = re.match(r"\s*\w[^\n]{0,200}<<-?[ \t]*(['\"]?)(\w{1,40})\1[^\n]*\n", text)
    end = begin and re.compile(rf"^[ \t]*{begin[2]}[ \t]*$", re.MULTILINE).search(text, begin.end())
    return text[begin.end() : end.start()] if begin and end else None


#: What may be around a program without breaking it as text, and can only end it when it runs: a name by itself, or
#: `cat > solve.py << 'EOF'`, which Python reads as a comparison. These alone are taken off a text that parses.
HUSKS: tuple[Repair, ...] = (
    Repair("language-label", language_label, "the language's name, left of a fence, as a first line"),
    Repair("heredoc", heredoc, "a shell's here-document"),
)

#: These leave something out, which must be nothing that the program needs.
OMISSIONS: tuple[Repair, ...] = (
    Repair("notebook-lines", notebook_lines, "`%magic` and `!shell` lines"),
    Repair("prose-before", without_prose_before, "sentences before the code, without a fence"),
    Repair("prose-after", without_prose_after, "sentences after the code, without a fence"),
)

REPAIRS: tuple[Repair, ...] = (
    *HUSKS,
    Repair("byte-order-mark", byte_order_mark, "a byte order mark at the very start"),
    Repair("unindent", unindent, "a program indented as a whole, or a block in a list"),
    Repair("unquote", unquote, "a quotation (`>` before every line)"),
    Repair("ansi-escapes", ansi_escapes, "colours of a terminal", anywhere=True),
    Repair("line-ends", line_ends, "U+2028, U+2029 or U+0085 for line ends", anywhere=True),
    Repair("byte-level-tokens", byte_level_tokens, "`Ġ`, `Ċ`, `ĉ` for blanks and line ends", anywhere=True),
    Repair("sentencepiece-tokens", sentencepiece_tokens, "`▁` and `<0x0A>` for blanks and bytes", anywhere=True),
    Repair("entities", entities, "`&lt;` for `<` and its like", anywhere=True, sign=_ENTITY),
    Repair("escaped-line-ends", escaped_line_ends, r"`\n` by two characters, throughout", anywhere=True),
    Repair("mojibake", mojibake, "UTF-8 read as Windows-1252 or Latin-1", anywhere=True),
    Repair("no-break-spaces", wide_spaces, "no-break and other wide spaces, in code and so everywhere"),
    Repair("invisible", in_code(_INVISIBLE), "zero-width characters and byte order marks in code", sign=_UNSEEN),
    Repair("smart-quotes", smart_quotes, "typographic quotation marks around strings"),
    Repair("full-width", in_code(_FULL_WIDTH), "full-width punctuation, letters and digits in code"),
    Repair("dashes", in_code(_DASHES), "a minus sign or dash for `-` in code"),
    Repair("operators", in_code(_OPERATORS), "`≥`, `≠`, `×` and their like in code"),
    Repair("lone-surrogates", lone_surrogates, "half characters in comments and strings"),
    Repair("markdown-escapes", markdown_escapes, r"`\_`, `\*` as Markdown escapes them", sign=re.compile(r"\\\W")),
    Repair("prompts", prompts, "`>>>` and `...` of a Python session"),
    Repair("line-numbers", line_numbers, "the line numbers of a listing"),
    Repair("tabs", tabs, "tabs and spaces mixed, where that has one meaning"),
    *OMISSIONS,
)
