"""Commands in a Daytona sandbox: settings and a key in, a place out. The SDK is only loaded
when a sandbox is opened."""

from functools import partial
from importlib import import_module
from importlib.util import find_spec

from hermes.core.errors import SettingsError
from hermes.environments.errands.environment import ErrandEnvironment, granted
from hermes.environments.errands.errand import Box
from hermes.environments.open import Opening

KEY = "DAYTONA_API_KEY"


def open_daytona(opening: Opening) -> ErrandEnvironment:
    settings = opening.settings
    return ErrandEnvironment(
        "daytona",
        settings.daytona_image,
        partial(_lend, opening),
        settings=settings,
        variables=granted(opening),
    )


async def why_not(opening: Opening) -> str | None:
    """What is missing for a Daytona sandbox; None when nothing is. Nothing is started."""
    if find_spec("daytona") is None:
        return "the Daytona SDK is not installed: `pip install 'hermes[daytona]'`"
    if not opening.secrets.get(KEY):
        return f"{KEY} must be set: make a key in the dashboard of Daytona"
    return None


async def _lend(opening: Opening) -> Box:
    reason = await why_not(opening)
    if reason is not None:
        raise SettingsError(reason)
    lend = import_module("hermes.environments.daytona_sdk").lend
    box: Box = await lend(opening.settings, opening.secrets[KEY])
    return box
