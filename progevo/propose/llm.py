"""The proposer that asks models: prompt, call, reply, and another draw where a reply arrived as no program.

    choose a model -> prompt.render -> Ledger.reserve -> Endpoint.ask -> Archive.keep -> read_reply -> Draw

Every reply becomes a `Draw` of its candidate, damaged ones and their tokens included. A program that merely fails is
never drawn again: that is a node. A provider that fails is never a node: the endpoint waits, and ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from progevo import channel, prompt
from progevo.budget import Budget
from progevo.config import Llm
from progevo.domain import Domain
from progevo.errors import BudgetSpent, ConfigError, ProposerError
from progevo.prompt import Message
from progevo.propose.archive import Archive, Recorded, fingerprint
from progevo.propose.draw import candidate_of, draw_of, read
from progevo.propose.endpoint import Call, Endpoint, Overflow
from progevo.propose.ledger import Ledger, Worst
from progevo.propose.models import Model, choose
from progevo.propose.reply import Reply, read_reply
from progevo.propose.transport import Response
from progevo.types import Brief, Candidate, Draw, Tokens

#: How often, for one candidate, a reply that was cut off is drawn again with twice the room.
GROWTHS = 2
#: Tokens that a chat template adds to a message, at the most.
MESSAGE_TOKENS = 32


class Asker:
    """Asks models for candidates: a `Proposer`, called from several threads at once.

    Args:
        domain: the task.
        llm: the settings.
        models: whom to ask, at least one.
        endpoint: where they are.
        archive: keeps replies as they arrive.
        budget: what all calls together may come to: its calls, tokens and dollars.
        again: what a person reads after a failure on how to go on.
        hide: takes the key out of a text: a reply may spell it so that its bytes do not hold it.

    Raises `ConfigError` for a budget that cannot be kept, or does not even cover a first call.
    """

    def __init__(
        self,
        *,
        domain: Domain,
        llm: Llm,
        models: Sequence[Model],
        endpoint: Endpoint,
        archive: Archive,
        budget: Budget = Budget(),
        again: str = "",
        hide: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._domain, self._llm, self._models = domain, llm, models
        self._endpoint, self._archive, self._again, self._hide = endpoint, archive, again, hide
        self._ledger = Ledger(budget)
        check_budget(domain, llm, models, budget)

    @property
    def name(self) -> str:
        return "llm"

    def propose(self, brief: Brief, /) -> Candidate:
        """A program of the first reply that holds one, or the word why none of them does.

        Raises `ProposerError` when the endpoint refuses or patience is over, and `BudgetSpent` when a first reply
        might pass a budget.
        """
        model = choose(self._models, self._llm.model_policy, brief.history, brief.rng)
        said = ""
        for lean in (False, True):
            messages = prompt.render(self._domain, brief, edit=self._llm.edit, lean=lean)
            try:
                return self._draw_until_whole(brief, model, messages)
            except Overflow as overflow:
                said = f"the program is too long for the context of {model.name}: {overflow}"
        if brief.parent.index == 0:
            raise ProposerError(f"{said}; --reply-tokens counts into it{self._again}")
        return Candidate(program=None, origin=model.name, reason=said)

    def restore(self, draws: Sequence[Draw]) -> None:
        """Counts what earlier sessions of the run have drawn."""
        messages = prompt.first(self._domain, edit=self._llm.edit)
        self._ledger.restore(draws, worst_case(self._models[0], messages, self._llm.reply_tokens))

    def drain(self) -> None:
        """Tries nothing again; what is in flight is waited for."""
        self._endpoint.drain()

    def close(self) -> None:
        """Gives up what is in flight."""
        self._endpoint.close()

    def _draw_until_whole(self, brief: Brief, model: Model, messages: tuple[Message, ...]) -> Candidate:
        """Draws until a reply holds a program, the attempts are used up, or another one would be the same again."""
        shown = prompt.program_node(brief).candidate.program
        parent = shown.source if shown is not None else None
        reply_tokens, growths, note = self._llm.reply_tokens, 0, ""
        draws: list[Draw] = []
        for attempt in range(1, self._llm.reply_attempts + 1):
            call = Call(
                step=brief.step,
                attempt=attempt,
                model=model,
                messages=messages,
                reply_tokens=reply_tokens,
                seed=brief.rng.getrandbits(31) if self._llm.model_seed else None,
            )
            try:
                draw, reply = self._draw(call, parent)
            except BudgetSpent as spent:
                if not draws:
                    raise
                note = f"; it was not drawn again: {spent}"
                break
            except Overflow as overflow:
                if not draws:
                    raise
                note = f"; it was not drawn again: {overflow}"
                break
            draws.append(draw)
            if reply.verdict != "damaged":
                break
            if reply.fault == "budget" and attempt < self._llm.reply_attempts:
                room = reply_tokens or reply.tokens.completion
                if room is None or growths == GROWTHS:
                    note = "; it was cut off, and not drawn again alike: --reply-tokens asks for longer ones"
                    break
                reply_tokens, growths = 2 * room, growths + 1
            if reply.kind == "edit_failed":
                messages = prompt.with_feedback(messages, reply.text, reply.reason)
        return candidate_of(reply, draws, note)

    def _draw(self, call: Call, parent: str | None) -> tuple[Draw, Reply]:
        """One reply, reserved for, kept and paid; an earlier process of this run may have drawn it already."""
        asked = fingerprint(call.question(self._llm))
        worst = worst_case(call.model, call.messages, call.reply_tokens)
        self._ledger.reserve(worst)
        try:
            recorded = self._archive.find(call.step, call.attempt, asked)
            if recorded is not None:
                reply = read(recorded, self._domain.mark, parent, edit=self._llm.edit == "diff")
            else:
                recorded, reply = self._ask(call, asked, parent)
        except BaseException:
            self._ledger.release(worst)
            raise
        source = self._hide(reply.source) if reply.source is not None else None
        reply = replace(reply, source=source, text=self._hide(reply.text), reason=self._hide(reply.reason))
        draw = draw_of(recorded, reply, call.model.price)
        self._ledger.settle(worst, channel.tokens(draw.tokens), draw.cost_usd)
        return draw, reply

    def _ask(self, call: Call, asked: str, parent: str | None) -> tuple[Recorded, Reply]:
        def reading(response: Response) -> Reply:
            return read_reply(
                response.body,
                status=response.status,
                content_type=response.content_type,
                entrypoint=self._domain.mark,
                parent=parent,
                edit=self._llm.edit == "diff",
            )

        try:
            arrival = self._endpoint.ask(call, reading)
        except ProposerError as error:
            raise ProposerError(f"{error}{self._again}") from None
        recorded = Recorded(
            step=call.step,
            attempt=call.attempt,
            model=call.model.name,
            status=arrival.response.status,
            content_type=arrival.response.content_type,
            body=arrival.response.body,
            seconds=arrival.seconds,
            asked=asked,
            request=arrival.request,
        )
        return self._archive.keep(recorded), arrival.reply


def worst_case(model: Model, messages: Sequence[Message], reply_tokens: int | None) -> Worst:
    """The most that a call may come to: no tokenizer makes more tokens of a text than it has bytes."""
    size = sum(len(message.content.encode("utf-8", "surrogatepass")) + MESSAGE_TOKENS for message in messages)
    if reply_tokens is None:
        return Worst(tokens=None, cost_usd=None)
    cost = model.price.cost_usd(Tokens(prompt=size, completion=reply_tokens)) if model.price is not None else None
    return Worst(tokens=size + reply_tokens, cost_usd=cost)


def check_budget(domain: Domain, llm: Llm, models: Sequence[Model], budget: Budget) -> None:
    """Raises `ConfigError` for a budget of tokens or money that cannot be kept, or does not cover one call."""
    if budget.tokens is None and budget.cost_usd is None:
        return
    if llm.reply_tokens is None:
        raise ConfigError(
            "a budget of tokens or money needs to know the most that one call may cost; "
            "add --reply-tokens N, the longest reply that is asked for (--max-tokens is for the whole run)"
        )
    messages = prompt.first(domain, edit=llm.edit)
    for model in models:
        worst = worst_case(model, messages, llm.reply_tokens)
        if budget.cost_usd is not None and worst.cost_usd is None:
            raise ConfigError(
                f"a budget of money was set (--max-cost), and the price of {model.name!r} is unknown; add "
                f"--price '{model.name}=PROMPT/COMPLETION' in dollars for a million tokens, or install progevo[prices]"
            )
        for word, cap, amount in (
            ("--max-tokens", budget.tokens, worst.tokens),
            ("--max-cost", budget.cost_usd, worst.cost_usd),
        ):
            if cap is not None and amount is not None and amount > cap:
                raise ConfigError(
                    f"{word} {cap:g} does not cover a single call to {model.name!r}, which may come to {amount:g} "
                    f"(its prompt, and a reply of --reply-tokens {llm.reply_tokens})"
                )
