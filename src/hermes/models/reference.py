"""Turns what a person calls a model into who serves it.

`provider:model` says all. An alias (`sonnet`) stands for one. Anything else is a model of the
default provider, which is the one that the default model comes from.
"""

from typing import Literal

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.core.plugins import names
from hermes.models.catalogue import Card, Provider, catalogue, nearest, references
from hermes.models.settings import ModelSettings

Role = Literal["default", "cheap", "strong", "summary"]


class Target(Value, frozen=True, kw_only=True):
    """A model and the provider to ask for it."""

    reference: str
    """`provider:model`: its name everywhere else."""
    model: str
    """As the provider calls it."""
    provider: Provider
    card: Card

    @property
    def window(self) -> int:
        return self.card.window or self.provider.window


def for_role(role: Role, settings: ModelSettings) -> str:
    """The reference that was set for a role; the default's where none was."""
    return getattr(settings, role) or settings.default


def resolve(reference: str, settings: ModelSettings) -> Target:
    """Raises `SettingsError` with the nearest name when nobody can be meant."""
    reference = reference.strip() or settings.default
    reference = catalogue().aliases.get(reference, reference)
    name, colon, model = reference.partition(":")
    if not colon or "/" in name:  # `vendor/model:free` has a colon of its own
        name, model = _default_provider(settings), reference
        _check_bare(model, name)
    provider = _provider(name, settings)
    if not model and provider.base_url:
        raise SettingsError(f"{reference!r} names no model; write {name}:MODEL")
    known = provider.models.get(model) or Card(window=provider.window)
    return Target(reference=f"{name}:{model}", model=model, provider=provider, card=known)


def _default_provider(settings: ModelSettings) -> str:
    default = catalogue().aliases.get(settings.default, settings.default)
    name, colon, _ = default.partition(":")
    return name if colon and "/" not in name else catalogue().default


def _check_bare(model: str, provider: str) -> None:
    # OpenRouter's models are all called vendor/model; a bare word is a misspelt alias.
    if provider == "openrouter" and "/" not in model:
        known = [*catalogue().aliases, *references()]
        short = {reference.rpartition("/")[2]: reference for reference in references()}
        guess = nearest(model, [*known, *short])
        raise SettingsError(
            f"no model is called {model!r}"
            + (f"; did you mean {short.get(guess, guess)!r}?" if guess else "")
            + " Write provider:model, or see `hermes model list`."
        )


def _provider(name: str, settings: ModelSettings) -> Provider:
    known = catalogue().providers
    if name in known or name in settings.providers:
        return _merged(name, known.get(name), settings)
    if name in names("models"):
        return Provider(name=name, title=name, dialect=name)
    offered = [*known, *settings.providers]
    guess = nearest(name, offered)
    raise SettingsError(
        f"no model provider is called {name!r}"
        + (f"; did you mean {guess!r}?" if guess else "")
        + f" There are: {', '.join(sorted(offered))}; "
        f"add one with model.providers.{name}.base_url."
    )


def _merged(name: str, known: Provider | None, settings: ModelSettings) -> Provider:
    provider = msgspec.structs.replace(known or Provider(title=name), name=name)
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
    )
    if not provider.base_url.startswith(("http://", "https://")):
        raise SettingsError(
            f"model.providers.{name}.base_url is {provider.base_url!r}; "
            "it must begin with http:// or https://"
        )
    return provider
