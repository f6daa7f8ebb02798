"""Opens an environment in a Modal sandbox. The SDK is loaded only then."""

from functools import partial
from importlib import import_module
from importlib.util import find_spec

from hermes.core.errors import SettingsError
from hermes.environments.cloud.environment import CloudEnvironment
from hermes.environments.cloud.remote_calls import CloudBox
from hermes.environments.open import EnvironmentOpening, granted_variables

TOKEN_VARIABLES = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")


def open_modal(opening: EnvironmentOpening) -> CloudEnvironment:
    settings = opening.settings
    return CloudEnvironment(
        "modal",
        settings.modal_image,
        partial(_create_box, opening),
        settings=settings,
        variables=granted_variables(opening),
    )


async def why_not(opening: EnvironmentOpening) -> str | None:
    """What is missing for a Modal sandbox, or None. Nothing is started."""
    if find_spec("modal") is None:
        return "the Modal SDK is not installed: `pip install 'hermes-oncall[modal]'`"
    missing = [name for name in TOKEN_VARIABLES if not opening.secrets.get(name)]
    if missing:
        return f"{' and '.join(missing)} must be set: make a token at modal.com/settings/tokens"
    return None


async def _create_box(opening: EnvironmentOpening) -> CloudBox:
    reason = await why_not(opening)
    if reason is not None:
        raise SettingsError(reason)
    create_sandbox = import_module("hermes.environments.cloud.modal_sdk").create_sandbox
    box: CloudBox = await create_sandbox(
        opening.settings, *(opening.secrets[name] for name in TOKEN_VARIABLES)
    )
    return box
