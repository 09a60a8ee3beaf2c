"""What became of a reply, and the words for what can be wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from progevo.types import Tokens

Verdict = Literal["ok", "recovered", "damaged"]

#: Whose doing a damage is. `model`: it wrote something else. `channel`: what it wrote was changed on the way.
#: `budget`: it was not given the room to finish. `provider`: the server answered with something that is no reply.
Fault = Literal["model", "channel", "budget", "provider", ""]


class Kind(NamedTuple):
    """One kind of damage: whose fault it is taken for, and what it means."""

    fault: Fault
    about: str


KINDS: Mapping[str, Kind] = {
    # No reply at all.
    "http_status": Kind("provider", "the server answered with an HTTP status other than 2xx"),
    "error_body": Kind("provider", "an error object, whatever the status, or an error in the middle of a stream"),
    "html_page": Kind("provider", "a web page (a proxy's, a login) where JSON was due"),
    "not_json": Kind("provider", "a body that is neither JSON nor an event stream"),
    "no_choices": Kind("provider", "well-formed JSON that holds no reply"),
    "content_filter": Kind("provider", "the provider withheld the reply or what was left of it"),
    "empty_body": Kind("provider", "a body of no bytes, or of blanks only"),
    "body_too_large": Kind("provider", "a body of more bytes than any reply has; it was not read"),
    # Damaged on the way.
    "body_cut": Kind("channel", "JSON or compressed bytes that end too early, or do not decode"),
    "stream_cut": Kind(
        "channel", "an event stream that ended without a word of being finished, and no whole program in it"
    ),
    "control_characters": Kind("channel", "NUL or other control characters in the code"),
    "replacement_characters": Kind("channel", "U+FFFD or lone surrogates in the code: bytes were lost"),
    "token_leak": Kind("channel", "a tokenizer's own marks in the code that could not be undone for certain"),
    "doubled_chunk": Kind("channel", "a piece that stands there twice and breaks the code"),
    "splice": Kind("channel", "code that is whole but for one place which no writer of Python would produce"),
    # Not enough room.
    "cut": Kind("budget", "the text ends before the program does"),
    "unfinished_reasoning": Kind("budget", "the reply ends while the model still reasons"),
    # Written so by the model.
    "empty": Kind("model", "no text"),
    "filler": Kind("model", "the same few characters over and over until the end"),
    "refusal": Kind("model", "the model declines"),
    "question": Kind("model", "the model asks something back"),
    "prose": Kind("model", "text without any code"),
    "no_program": Kind("model", "code or data that defines nothing: a constant, a comment, a JSON object"),
    "no_entrypoint": Kind("model", "Python that parses and does not define the entry point"),
    "elided": Kind("model", "parts left out: `...`, `# rest unchanged`"),
    "conflict_markers": Kind("model", "merge conflict markers in the code"),
    "edit_failed": Kind("model", "a SEARCH/REPLACE block, diff or patch that has no place in the parent"),
    "outside_region": Kind("model", "a rewrite that cannot be told apart from what lies outside the EVOLVE-BLOCK"),
    "python2": Kind("model", "Python 2"),
    "other_language": Kind("model", "code in another language"),
    "pseudocode": Kind("model", "code-like text that is no Python throughout"),
    "syntax": Kind("model", "Python with a mistake that writers of Python make"),
    "too_deep": Kind("model", "code nested or chained too deeply to be parsed"),
    "too_long": Kind("model", "a text longer than any program may be"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What arrived, and what of it is a program.

    `source` is there if and only if `verdict` is not `"damaged"`. `"ok"`: only fences, prose or the protocol's
    envelope were taken off. `"recovered"`: `steps` names what else had to be done, in order.
    """

    verdict: Verdict
    source: str | None = None
    #: One of `KINDS`, and whose doing it was taken for; "" unless damaged.
    kind: str = ""
    fault: Fault = ""
    steps: tuple[str, ...] = ()
    #: For people and, where an edit failed, for the model: what was wrong, in a sentence.
    reason: str = ""
    #: The program is the parent again, comments and layout aside: no success, and nothing to run.
    no_op: bool = False
    #: The reply's own text, as far as there was one; never the model's reasoning.
    text: str = ""
    tokens: Tokens = Tokens()
    #: The name that the server says has answered.
    model: str | None = None
    finish_reason: str | None = None
    #: US dollars, where the provider reports them.
    cost_usd: float | None = None
    #: The number in an error object or, failing that, the HTTP status that was no success.
    error_code: int | None = None
