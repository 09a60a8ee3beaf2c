"""Whose words a text holds: the model's reasoning, its answer, and turns that it made up or repeated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think|antthinking"
_TAG = re.compile(
    rf"(?:<\|?|\[|◁)(?P<end>/?)(?:{_NAMES})(?:\|?>|\]|▷)"
    r"|<\|(?P<word>begin|end)_of_thought\|>|<\|channel>thought|(?P<gemma><channel\|>)",
    re.IGNORECASE,
)
#: Marks of a chat template: where a turn begins or ends. `<|...|>` covers most families.
_TOKEN = re.compile(
    r"<\|[a-z_]{2,30}\|>|<｜[^｜\s]{2,30}｜>|</?s>|<(?:start_of_turn|end_of_turn|eos|bos|pad|unk)>|\[/?INST\]"
)
_SPEAKER = re.compile(
    r"(?:#{1,4}[ \t]*|\*\*)?(?P<role>User|Human|Assistant|AI|System|Instruction|Response)"
    r"(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*",
    re.IGNORECASE,
)
_ROLE = re.compile(r"\s*(?P<role>user|assistant|system|human|model|tool)\b:?[ \t]*(?:\n|(?=<\|)|$)", re.IGNORECASE)
_OTHERS = ("user", "human", "system", "instruction", "tool")
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The parts of a text that are the model's own answer, in order."""

    answers: tuple[str, ...]
    steps: tuple[str, ...] = ()
    #: The text ends before its reasoning does.
    unfinished: bool = False


def speech(text: str) -> Speech:
    """The answer in a text, without reasoning, and without the turns of others.

    Reasoning between a pair of tags is part of the envelope, as a fence is, and no repair.
    """
    steps: list[str] = []
    if "<|channel|>" in text or re.match(r"\s*(?:assistant)?analysis[A-Z].*?assistantfinal", text[:400_000], re.DOTALL):
        final = _channels(text)
        if final is None:
            return Speech(answers=(), unfinished=True)
        text = final
        steps.append("channels")
    text, opened, unfinished = _without_reasoning(text)
    if not opened:
        steps.append("unopened-reasoning")
    answers, split = _turns(text)
    if split:
        steps.append("turns")
    return Speech(answers=tuple(answers), steps=tuple(steps), unfinished=unfinished)


def _channels(text: str) -> str | None:
    """What stands in the final channel of OpenAI's harmony format; `None` where the text does not get to it."""
    for piece in text.split("<|channel|>")[1:]:
        name, found, content = piece.partition("<|message|>")
        if found and name.split("<", 1)[0].strip().lower() == "final":
            return re.split(r"<\|(?:end|return|start|call)\|>", content, maxsplit=1)[0]
    _, found, content = text.rpartition("assistantfinal")  # the marks themselves were lost
    return content if found else None


def _without_reasoning(text: str) -> tuple[str, bool, bool]:
    """The text without reasoning; whether each was opened as it should; whether the last one is unfinished."""
    kept: list[str] = []
    at, inside, opened = 0, False, True
    for tag in _TAG.finditer(text):
        closes = bool(tag["end"] or tag["gemma"] or (tag["word"] or "").lower() == "end")
        if closes and inside:
            at, inside = tag.end(), False
        elif closes and not inside and _on_an_edge(text, tag):
            kept, at, opened = [], tag.end(), False
        elif not closes and not inside and not text[at : tag.start()].rpartition("\n")[2].strip():
            if len(_FENCE.findall(text, at, tag.start())) % 2:
                continue  # within a code block
            kept.append(text[at : tag.start()])
            inside = True
    if not inside:
        kept.append(text[at:])
    return "".join(kept), opened, inside


def _on_an_edge(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark begins or ends a line; within a string of a program it does neither."""
    before = text[max(0, mark.start() - 200) : mark.start()].rpartition("\n")[2]
    after = text[mark.end() : mark.end() + 200].partition("\n")[0]
    return not before or not after.strip() or bool(_TOKEN.match(after))


def _turns(text: str) -> tuple[list[str], bool]:
    """The answers among the turns of a text, and whether there was anything to tell apart."""
    answers: list[str] = []
    split = False
    for role, words in _spoken(text):
        split = split or role != ""
        if role not in _OTHERS and words.strip():
            answers.append(words)
    return answers, split


def _spoken(text: str) -> Iterator[tuple[str, str]]:
    """Roles and their words; the role is "" for what comes before any mark."""
    at, role = 0, ""
    marks = [mark for mark in _TOKEN.finditer(text) if _on_an_edge(text, mark)][:200]
    for mark in [*marks, None]:
        end = mark.start() if mark else len(text)
        yield from _by_name(role, text[at:end])
        if mark is None:
            return
        at = mark.end()
        name = _ROLE.match(text, at, at + 40) or re.search("user|assistant|system", mark[0], re.IGNORECASE)
        role = (name["role"] if name and name.re is _ROLE else name[0] if name else "assistant").lower()
        if name and name.re is _ROLE:
            at = name.end()


def _by_name(role: str, text: str) -> Iterator[tuple[str, str]]:
    """A turn split again where a line outside of code names a speaker."""
    at, fence = 0, ""
    for line in re.finditer(r"[^\n]*+(?:\n|\Z)", text):
        mark = _FENCE.match(line[0])
        if mark and (not fence or (mark[1][0] == fence[0] and len(mark[1]) >= len(fence))):
            fence = "" if fence else mark[1]
        speaker = None if fence or mark else _SPEAKER.match(line[0])
        if speaker:
            yield role, text[at : line.start()]
            at, role = line.start() + speaker.end(), speaker["role"].lower()
    yield role, text[at:]
