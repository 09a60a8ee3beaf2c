"""What tokens cost: by the user's word, else by the table of the package genai-prices (extra `prices`), else unknown.

What a provider itself reports comes before either (`progevo.propose.llm`). progevo has no price table of its own, and
an unknown price is `None`, never 0.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from progevo.errors import ConfigError
from progevo.types import Tokens

MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars for a million tokens, and who says so."""

    prompt: float
    completion: float
    #: For prompt tokens from a cache, where they are cheaper.
    cached: float | None = None
    source: str

    def cost_usd(self, tokens: Tokens) -> float | None:
        """What tokens cost; `None` where their number is not known."""
        if tokens.prompt is None or tokens.completion is None:
            return None
        cached = min(tokens.cached or 0, tokens.prompt) if self.cached is not None else 0
        whole = tokens.prompt - cached
        return (whole * self.prompt + cached * (self.cached or 0.0) + tokens.completion * self.completion) / MILLION


def read_price(text: str) -> Price:
    """PROMPT/COMPLETION in dollars for a million tokens; 0/0 is a local model's. Raises `ConfigError`."""
    try:
        prompt, completion = map(float, text.split("/"))
    except ValueError:
        prompt = completion = -1.0
    if not (0 <= prompt < float("inf") and 0 <= completion < float("inf")):
        raise ConfigError(
            f"--price takes [NAME=]PROMPT/COMPLETION, dollars for a million tokens, such as 1.25/10; "
            f"it was given {text!r}"
        )
    return Price(prompt=prompt, completion=completion, source="given")


def table_price(model: str, base_url: str) -> Price | None:
    """The price of a model at the provider behind a base URL, by genai-prices; `None` if it is not in its table.

    A tiered price is taken at its dearest for a million tokens, so that a budget holds.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None

    def asked(**usage: int) -> float | None:
        with contextlib.suppress(LookupError, ValueError):
            return float(calc_price(Usage(**usage), model, provider_api_url=base_url).total_price)
        return None

    prompt, completion = asked(input_tokens=MILLION, output_tokens=0), asked(input_tokens=0, output_tokens=MILLION)
    if prompt is None or completion is None:
        return None
    source = "genai-prices"
    with contextlib.suppress(PackageNotFoundError):
        source += f" {version('genai-prices')}"
    cached = asked(input_tokens=MILLION, output_tokens=0, cache_read_tokens=MILLION)
    return Price(prompt=prompt, completion=completion, cached=cached, source=source)
