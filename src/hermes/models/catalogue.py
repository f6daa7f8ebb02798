"""What is known about providers and models: data to look up, never code to change.

Whatever is not in `catalogue.json` still works: an unknown model gets the window of its provider
and no price. No price is None, never 0, so that nobody takes an unknown cost for a free model.
"""

import difflib
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.core.messages import Usage, Value

MILLION = 1_000_000


class Price(Value, frozen=True, array_like=True):
    """US dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Input read from the provider's cache; None: the price of other input."""
    written: float | None = None
    """Input written to the provider's cache; None: the price of other input."""

    def of(self, usage: Usage, written: int = 0) -> float:
        fresh = max(0, usage.input_tokens - usage.cached_tokens - written)
        cached = self.input if self.cached is None else self.cached
        stored = self.input if self.written is None else self.written
        return (
            fresh * self.input
            + usage.cached_tokens * cached
            + written * stored
            + usage.output_tokens * self.output
        ) / MILLION


class Card(Value, frozen=True, kw_only=True):
    """One model as its provider offers it."""

    window: int = 0
    max_output: int = 0
    """Longest answer in tokens; 0 when unknown."""
    price: Price | None = None
    thinking: Literal["", "adaptive", "budget"] = ""
    """How an Anthropic model is asked to think."""
    cache_control: bool = False
    """True when an OpenAI-speaking router caches prompts of this model only if asked to."""


class Provider(Value, frozen=True, kw_only=True):
    """Somebody who serves models."""

    name: str = ""
    title: str = ""
    dialect: str = "openai"
    base_url: str = ""
    key_variable: str = ""
    """Empty when it wants no key."""
    window: int = 32_768
    headers: dict[str, str] = {}
    extra: dict[str, Any] = {}
    """Put into every request body."""
    output_limit: str = "max_tokens"
    reasoning_content: bool = True
    """False when it refuses messages that carry `reasoning_content`."""
    reasoning_details: bool = False
    """True when it hands out `reasoning_details` and wants them back (OpenRouter)."""
    hint: str = ""
    """What to look at when nobody answers there."""
    models: dict[str, Card] = {}


class Catalogue(Value, frozen=True, kw_only=True):
    default: str
    aliases: dict[str, str]
    providers: dict[str, Provider]


@cache
def catalogue() -> Catalogue:
    text = Path(__file__).with_name("catalogue.json").read_bytes()
    return msgspec.json.decode(text, type=Catalogue)


def references() -> list[str]:
    """Every catalogued model as `provider:model`."""
    known = catalogue().providers
    return [f"{name}:{model}" for name, provider in known.items() for model in provider.models]


def card(reference: str) -> Card | None:
    """What is known about `provider:model`; None for a model outside the catalogue."""
    name, _, model = reference.partition(":")
    provider = catalogue().providers.get(name)
    return provider.models.get(model) if provider else None


def price(reference: str, usage: Usage) -> float | None:
    """US dollars for that much of that model, or None when its price is unknown."""
    found = card(reference)
    return found.price.of(usage) if found and found.price else None


def nearest(name: str, known: list[str]) -> str:
    """The one of `known` that `name` was probably meant to be, or an empty string."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return found[0] if found else ""
