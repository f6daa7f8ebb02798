"""Opens an environment in a Daytona sandbox. The SDK is loaded only then."""

from functools import partial
from importlib import import_module
from importlib.util import find_spec

from hermes.core.errors import SettingsError
from hermes.environments.cloud.environment import CloudEnvironment
from hermes.environments.cloud.remote_calls import CloudBox
from hermes.environments.open import EnvironmentOpening, granted_variables

API_KEY_VARIABLE = "DAYTONA_API_KEY"


def open_daytona(opening: EnvironmentOpening) -> CloudEnvironment:
    settings = opening.settings
    return CloudEnvironment(
        "daytona",
        settings.daytona_image,
        partial(_create_box, opening),
        settings=settings,
        variables=granted_variables(opening),
    )


async def why_not(opening: EnvironmentOpening) -> str | None:
    """What is missing for a Daytona sandbox, or None. Nothing is started."""
    if find_spec("daytona") is None:
        return "the Daytona SDK is not installed: `pip install 'hermes-oncall[daytona]'`"
    if not opening.secrets.get(API_KEY_VARIABLE):
        return f"{API_KEY_VARIABLE} must be set: make a key in the dashboard of Daytona"
    return None


async def _create_box(opening: EnvironmentOpening) -> CloudBox:
    reason = await why_not(opening)
    if reason is not None:
        raise SettingsError(reason)
    create_sandbox = import_module("hermes.environments.cloud.daytona_sdk").create_sandbox
    box: CloudBox = await create_sandbox(opening.settings, opening.secrets[API_KEY_VARIABLE])
    return box
