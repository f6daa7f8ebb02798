"""The catalog of providers and models, and how references such as `provider:model` are resolved.

A model that is not in `catalogue.json` still works: it gets the window of its provider and no
price. No price is None, never 0, so that an unknown cost is not taken for a free model.
"""

from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Usage, Value
from hermes.core.plugins import plugin_names
from hermes.models.settings import ModelSettings
from hermes.plumbing.problems import closest_name

PRICE_UNIT_TOKENS = 1_000_000


class ModelPrice(Value, frozen=True, array_like=True):
    """US dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Input read from the provider's cache; None: the price of other input."""
    written: float | None = None
    """Input written to the provider's cache; None: the price of other input."""

    def cost(self, usage: Usage, written: int = 0) -> float:
        fresh = max(0, usage.input_tokens - usage.cached_tokens - written)
        cached = self.input if self.cached is None else self.cached
        stored = self.input if self.written is None else self.written
        return (
            fresh * self.input
            + usage.cached_tokens * cached
            + written * stored
            + usage.output_tokens * self.output
        ) / PRICE_UNIT_TOKENS


class ModelCard(Value, frozen=True, kw_only=True):
    """One model as its provider offers it."""

    window: int = 0
    max_output: int = 0
    """Longest answer in tokens; 0 when unknown."""
    price: ModelPrice | None = None
    thinking: Literal["", "adaptive", "budget"] = ""
    """How an Anthropic model is asked to think."""
    cache_control: bool = False
    """True when an OpenAI-speaking router caches prompts of this model only on request."""
    vision: bool = False
    """Whether it takes pictures."""


class ModelProvider(Value, frozen=True, kw_only=True):
    """A service that offers models."""

    name: str = ""
    title: str = ""
    dialect: str = "openai"
    base_url: str = ""
    key_variable: str = ""
    """Empty when it needs no key."""
    window: int = 32_768
    headers: dict[str, str] = {}
    extra: dict[str, Any] = {}
    """Put into every request body."""
    output_limit: str = "max_tokens"
    reasoning_content: bool = True
    """False when it refuses messages that carry `reasoning_content`."""
    reasoning_details: bool = False
    """True when it returns `reasoning_details` and expects them back (OpenRouter)."""
    hint: str = ""
    """What to check when it cannot be reached."""
    vision: bool = False
    """Whether models of which nothing is known take pictures."""
    models: dict[str, ModelCard] = {}


class ModelCatalog(Value, frozen=True, kw_only=True):
    default: str
    aliases: dict[str, str]
    providers: dict[str, ModelProvider]


@cache
def model_catalog() -> ModelCatalog:
    text = Path(__file__).with_name("catalogue.json").read_bytes()
    return msgspec.json.decode(text, type=ModelCatalog)


def model_references() -> list[str]:
    """Every catalogued model as `provider:model`."""
    known = model_catalog().providers
    return [f"{name}:{model}" for name, provider in known.items() for model in provider.models]


def find_model_card(reference: str) -> ModelCard | None:
    """Return what is known about `provider:model`; None for a model outside the catalog."""
    name, _, model = reference.partition(":")
    provider = model_catalog().providers.get(name)
    return provider.models.get(model) if provider else None


def usage_cost(reference: str, usage: Usage) -> float | None:
    """US dollars for this usage of the model, or None when its price is unknown."""
    found = find_model_card(reference)
    return found.price.cost(usage) if found and found.price else None


ModelRole = Literal["default", "cheap", "strong", "summary"]


class ModelTarget(Value, frozen=True, kw_only=True):
    """A model and the provider that offers it."""

    reference: str
    """`provider:model`: its name everywhere else."""
    model: str
    """The provider's name for it."""
    provider: ModelProvider
    card: ModelCard

    @property
    def window(self) -> int:
        return self.card.window or self.provider.window


def reference_for_role(role: ModelRole, settings: ModelSettings) -> str:
    """The reference that was set for a role; the default where none was."""
    return getattr(settings, role) or settings.default


def resolve_reference(reference: str, settings: ModelSettings) -> ModelTarget:
    """Raises `SettingsError` with the closest name when there is no match."""
    reference = reference.strip() or settings.default
    reference = model_catalog().aliases.get(reference, reference)
    name, colon, model = reference.partition(":")
    if not colon or "/" in name:  # `vendor/model:free` has a colon of its own
        name, model = _default_provider(settings), reference
        _check_bare_name(model, name)
    provider = _find_provider(name, settings)
    if not model and provider.base_url:
        raise SettingsError(f"{reference!r} names no model; write {name}:MODEL")
    known = provider.models.get(model) or ModelCard(window=provider.window, vision=provider.vision)
    return ModelTarget(reference=f"{name}:{model}", model=model, provider=provider, card=known)


def _default_provider(settings: ModelSettings) -> str:
    default = model_catalog().aliases.get(settings.default, settings.default)
    name, colon, _ = default.partition(":")
    return name if colon and "/" not in name else model_catalog().default


def _check_bare_name(model: str, provider: str) -> None:
    # OpenRouter's models are all called vendor/model; a bare word is a misspelt alias.
    if provider == "openrouter" and "/" not in model:
        known = [*model_catalog().aliases, *model_references()]
        short = {reference.rpartition("/")[2]: reference for reference in model_references()}
        guess = closest_name(model, [*known, *short])
        raise SettingsError(
            f"no model is called {model!r}"
            + (f"; did you mean {short.get(guess, guess)!r}?" if guess else "")
            + " Write provider:model, or see `hermes model list`."
        )


def _find_provider(name: str, settings: ModelSettings) -> ModelProvider:
    known = model_catalog().providers
    if name in known or name in settings.providers:
        return _merge_provider(name, known.get(name), settings)
    if name in plugin_names("models"):
        return ModelProvider(name=name, title=name, dialect=name)
    offered = [*known, *settings.providers]
    guess = closest_name(name, offered)
    raise SettingsError(
        f"no model provider is called {name!r}"
        + (f"; did you mean {guess!r}?" if guess else "")
        + f" There are: {', '.join(sorted(offered))}; "
        f"add one with model.providers.{name}.base_url."
    )


def _merge_provider(
    name: str, known: ModelProvider | None, settings: ModelSettings
) -> ModelProvider:
    provider = msgspec.structs.replace(known or ModelProvider(title=name), name=name)
    mine = settings.providers.get(name)
    if mine is None:
        return provider
    key = mine.key_variable or provider.key_variable
    provider = msgspec.structs.replace(
        provider,
        base_url=mine.base_url or provider.base_url,
        dialect=mine.dialect or provider.dialect,
        key_variable="" if key == "none" else key,
        headers={**provider.headers, **mine.headers},
        window=mine.window or provider.window,
        vision=mine.vision or provider.vision,
    )
    if not provider.base_url.startswith(("http://", "https://")):
        raise SettingsError(
            f"model.providers.{name}.base_url is {provider.base_url!r}; "
            "it must begin with http:// or https://"
        )
    return provider
