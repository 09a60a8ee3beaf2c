"""An OpenAI-compatible endpoint: one call in, one reply that arrived out. The one layer that tries again.

Again: connecting and reading that failed, the status codes `AGAIN`, and an error under status 200, with growing
waits or those that the server names, until `Llm.call_deadline` is over. Never again: any other status, which only a
person can mend. A 400 that names an optional parameter is answered by leaving it out, or giving it its other name,
once and from then on.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from progevo.config import Llm
from progevo.errors import ProposerError
from progevo.prompt import Message
from progevo.propose.models import Model
from progevo.propose.reply import Reply
from progevo.propose.transport import GivenUp, Response, Send, Unreachable, parsed
from progevo.sandbox.outcome import clean
from progevo.types import Json

AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 529}
#: Seconds between tries: the first, the longest of our own, and while a local server loads its model.
FIRST_WAIT_S, LONGEST_WAIT_S, LOADING_WAIT_S = 1.0, 60.0, 2.0

#: What a provider's fault may be and still is a reply: another draw may pass its filter.
DRAWN = {"content_filter"}

#: Parameters that may be left out, and the other name of those that have one.
OPTIONAL: Mapping[str, str | None] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": None,
    "seed": None,
    "reasoning_effort": None,
}
#: Codes of an error under status 200 that no second try mends.
FOR_GOOD = {400, 401, 402, 403, 404, 422}

_OVERFLOW = re.compile(r"context[ _-]?(length|size|window)|exceed_context|prompt is too long", re.IGNORECASE)
_LOADING = re.compile(r"loading model|model is loading|currently loading", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One question to a model."""

    step: int
    attempt: int
    model: Model
    messages: Sequence[Message]
    reply_tokens: int | None
    seed: int | None

    def question(self, llm: Llm) -> dict[str, Json]:
        """The body of its request, before it is suited to what the endpoint refuses."""
        found: dict[str, Any] = {
            "model": self.model.name,
            "messages": [{"role": role, "content": content} for role, content in self.messages],
            "temperature": self.model.temperature,
            "max_tokens": self.reply_tokens,
            "reasoning_effort": llm.reasoning_effort,
            "seed": self.seed,
        }
        return {**{name: value for name, value in found.items() if value is not None}, **llm.extra_body}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A reply that arrived, the request that brought it, and how long that one took."""

    request: Mapping[str, Json]
    response: Response
    reply: Reply
    seconds: float


class Overflow(Exception):
    """The prompt, with the reply that was asked for, is longer than the model's context."""


class Endpoint:
    """Asks models; called from several threads at once.

    Args:
        llm: the settings.
        send: the seam to the network (`progevo.propose.transport`).
        say: hears in one line what the endpoint does that a person should know of.
        clock: seconds that only grow.
        pause: waits some seconds, and returns true if the run is being ended meanwhile.
    """

    def __init__(
        self,
        llm: Llm,
        send: Send,
        *,
        say: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        self._llm, self._send, self._say, self._clock = llm, send, say, clock
        self._ending = threading.Event()
        self._pause = pause or self._ending.wait
        #: By model: parameters that its endpoint refuses, and what is sent in their place (`None`: nothing).
        self._suited: dict[str, dict[str, str | None]] = {}
        self._lock = threading.Lock()

    def drain(self) -> None:
        """Waits for no further try: who has asked gets the answer that is on its way, or a `ProposerError`."""
        self._ending.set()

    def close(self) -> None:
        """Ends all waiting, here and in the transport: whoever waits gets a `ProposerError`."""
        self.drain()
        end = getattr(self._send, "close", None)
        if callable(end):
            end()

    def ask(self, call: Call, read: Callable[[Response], Reply]) -> Arrival:
        """The first reply that is one, damaged or not; `read` says what a body under status 200 holds.

        Raises `ProposerError` when the endpoint refuses for good or past the deadline, and `Overflow`.
        """
        began, tries = self._clock(), 0
        jitter = random.Random(f"progevo wait {call.step} {call.attempt}")  # in no result: it spreads the load alone
        question = call.question(self._llm)
        while True:
            tries += 1
            left = began + self._llm.call_deadline - self._clock()
            request = self._suit(call.model.name, question)
            started = self._clock()
            response: Response | None = None
            try:
                response = self._send(json.dumps(request).encode(), min(self._llm.call_timeout, max(left, 1.0)))
            except Unreachable as error:
                trouble, for_good = f"could not be reached: {error}", ""
            except GivenUp:
                raise ProposerError("the run was ended while a model was asked") from None
            else:
                seconds = self._clock() - started
                if response.status == 200:
                    reply = read(response)
                    if reply.fault != "provider" or reply.kind in DRAWN:
                        return Arrival(request=request, response=response, reply=reply, seconds=seconds)
                    trouble = f"answered 200 with an error ({reply.kind}): {excerpt(response.body)}"
                    for_good = _advice(reply.error_code or 0) if reply.error_code in FOR_GOOD else ""
                else:
                    if response.status == 400 and self._adapt(call.model.name, question, request, response):
                        continue
                    if response.status == 413 or (response.status == 400 and _OVERFLOW.search(_words(response.body))):
                        raise Overflow(excerpt(response.body))
                    trouble = f"answered {response.status}: {excerpt(response.body)}"
                    again = response.status in AGAIN and "insufficient_quota" not in _words(response.body)
                    for_good = "" if again else _advice(response.status)
            if for_good:
                raise ProposerError(f"{self._who(call)} {trouble}; {for_good}")
            wait = self._wait(response, tries, jitter)
            left = began + self._llm.call_deadline - self._clock()
            if wait > left:
                raise ProposerError(
                    f"{self._who(call)} gave no reply within {self._llm.call_deadline:g} s (call_deadline) and {tries} "
                    f"tries; the last time it {trouble}"
                )
            who, hint = call.model.name, ""
            if tries == 1:
                who, hint = self._who(call), "; --base-url says where the model is, --call-deadline how long to try"
            self._say(f"{who} {trouble}; trying again in {wait:.1f} s (giving up in {left:.0f} s{hint})")
            if self._pause(wait):
                raise ProposerError("the run was ended while a model was asked")

    def _wait(self, response: Response | None, tries: int, jitter: random.Random) -> float:
        """Seconds until the next try: what the server asks for, or twice as long each time, spread by chance."""
        if response is not None:
            named = _retry_after(response.retry_after)
            if named is not None:
                return named
            if response.status == 503 and _LOADING.search(_words(response.body)):
                return LOADING_WAIT_S
        return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(tries - 1, 16)) * jitter.uniform(0.5, 1.0)

    def _suit(self, model: str, question: Mapping[str, Json]) -> dict[str, Json]:
        with self._lock:
            changes = dict(self._suited.get(model, {}))
        request = dict(question)
        for name, other in changes.items():
            if name in request:
                value = request.pop(name)
                if other is not None:
                    request[other] = value
        return request

    def _adapt(self, model: str, question: Mapping[str, Json], request: Mapping[str, Json], response: Response) -> bool:
        """Whether a 400 named a parameter that can be done without; it is, from then on."""
        if _OVERFLOW.search(_words(response.body)):
            return False
        sent = [name for name in OPTIONAL if name in request]
        name = _named_parameter(response.body, sent)
        if name is None:
            return False
        with self._lock:
            changes = self._suited.setdefault(model, {})
            known = name in changes or name in changes.values()
            if not known:
                changes[name] = OPTIONAL[name]
        if known:  # another call has learned it while this one was under way, or it is refused under both its names
            return self._suit(model, question) != request
        instead = f"{OPTIONAL[name]} is sent instead" if OPTIONAL[name] else "it is left out"
        self._say(f"{model}: the endpoint refuses {name}; {instead} from now on ({excerpt(response.body)})")
        return True

    def _who(self, call: Call) -> str:
        return f"the model {call.model.name!r} at {self._llm.base_url}"


def excerpt(body: bytes, length: int = 300) -> str:
    """What a body says, in one line: the message of an error, else the beginning of its text."""
    error = _error_of(body)
    said = error.get("message") if isinstance(error, dict) else error
    text = said if isinstance(said, str) and said.strip() else body[: 4 * length].decode("utf-8", "replace")
    line = " ".join(clean(text, 10 * length).split())
    return line[:length] or "(nothing)"


def _error_of(body: bytes) -> Any:
    """The error object of a body that holds one and no choices; else `None`."""
    found = parsed(body)
    if isinstance(found, dict) and not found.get("choices"):
        error = found.get("error")
        if error is None and found.get("object") == "error":  # older vLLM
            error = found
        return error or None
    return None


def _words(body: bytes) -> str:
    return body[:65536].decode("utf-8", "replace")


def _named_parameter(body: bytes, sent: Sequence[str]) -> str | None:
    """The one of the parameters sent that a 400 is about, by its `param`, else as the first word that names one."""
    error = _error_of(body)
    param = error.get("param") if isinstance(error, dict) else None
    if param in sent:
        return str(param)
    words = _words(body)
    places = [(found.start(), name) for name in sent if (found := re.search(rf"\b{name}\b", words))]
    return min(places)[1] if places else None


def _retry_after(value: str) -> float | None:
    """Seconds that the header asks for, given as a number or as a date; `None` for anything else."""
    value = value.strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < float("inf") else None


def _advice(status: int) -> str:
    match status:
        case 401 | 403:
            return "check OPENAI_API_KEY and what it may be used for"
        case 404:
            return "check --model and --base-url (it mostly ends with /v1)"
        case 402 | 429:
            return "the account has no means left"
        case code if 300 <= code < 400:
            return "it sends elsewhere, where a key would not be safe; name the final --base-url"
        case _:
            return "a second try would not mend it"
