"""Every step that a recovered reply can name, and what it did."""

from __future__ import annotations

from collections.abc import Mapping

from progevo.propose.reply.repairs import REPAIRS
from progevo.propose.reply.wrappings import WRAPPINGS

#: What was taken off, left aside or put together; the steps below it, in `STEPS`, are repairs of the text itself.
STRUCTURE: Mapping[str, str] = {
    "turns": "a chat template's marks, or turns that the model repeated or made up",
    "channels": "the final channel taken out of OpenAI's harmony format",
    "unopened-reasoning": "reasoning whose opening tag was missing",
    "parent-passed-over": "a block that holds the parent again, beside one that does not",
    "last-of-several": "the last of several programs",
    "joined-blocks": "a program in several blocks, put together in order",
    "inner-fence": "a fence within the program, which does not end it",
    "glued-fence": "a fence that does not stand on a line of its own",
    "code-on-fence-line": "code on the line of the opening fence",
    "unclosed-fence": "a fence that is not closed, in a reply that was not cut off",
    "unopened-fence": "a fence that is not opened (a server was given its beginning)",
    "half-fence": "a closing fence of which only the beginning arrived",
    "search-replace": "SEARCH/REPLACE blocks applied to the parent, where a whole program was asked for",
    "unified-diff": "a unified diff applied to the parent",
    "apply-patch": "an apply_patch envelope applied to the parent",
    "outside-restored": "changes outside the EVOLVE-BLOCK regions were not taken",
    "tool-call": "the program was an argument of a tool call",
    "text-completion-body": "a body of OpenAI's older completions",
    "anthropic-body": "a body of Anthropic's messages",
    "responses-body": "a body of OpenAI's responses",
    "gemini-body": "a body of Google's generateContent",
    "ollama-body": "a body of Ollama's own chat or generate",
}

STEPS: Mapping[str, str] = (
    dict(STRUCTURE)
    | {wrapping.name: wrapping.about for wrapping in WRAPPINGS}
    | {repair.name: repair.about for repair in REPAIRS}
)
