"""Commands in a Modal sandbox: settings and keys in, a place out. The SDK is only loaded when
a sandbox is opened."""

from functools import partial
from importlib import import_module
from importlib.util import find_spec

from hermes.core.errors import SettingsError
from hermes.environments.errands.environment import ErrandEnvironment, granted
from hermes.environments.errands.errand import Box
from hermes.environments.open import Opening

KEYS = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")


def open_modal(opening: Opening) -> ErrandEnvironment:
    settings = opening.settings
    return ErrandEnvironment(
        "modal",
        settings.modal_image,
        partial(_lend, opening),
        settings=settings,
        variables=granted(opening),
    )


async def why_not(opening: Opening) -> str | None:
    """What is missing for a Modal sandbox; None when nothing is. Nothing is started."""
    if find_spec("modal") is None:
        return "the Modal SDK is not installed: `pip install 'hermes[modal]'`"
    missing = [name for name in KEYS if not opening.secrets.get(name)]
    if missing:
        return f"{' and '.join(missing)} must be set: make a token at modal.com/settings/tokens"
    return None


async def _lend(opening: Opening) -> Box:
    reason = await why_not(opening)
    if reason is not None:
        raise SettingsError(reason)
    lend = import_module("hermes.environments.modal_sdk").lend
    box: Box = await lend(opening.settings, *(opening.secrets[name] for name in KEYS))
    return box
