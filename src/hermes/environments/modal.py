"""Opens an environment in a Modal sandbox. The SDK is loaded only then."""

from importlib.util import find_spec

from hermes.environments.cloud.environment import CloudEnvironment, open_cloud_environment
from hermes.environments.open import EnvironmentOpening

TOKEN_VARIABLES = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")


def open_modal(opening: EnvironmentOpening) -> CloudEnvironment:
    image = opening.settings.modal_image
    return open_cloud_environment("modal", image, opening, why_not, TOKEN_VARIABLES)


async def why_not(opening: EnvironmentOpening) -> str | None:
    """Return what is missing for a Modal sandbox, or None. Nothing is started."""
    if find_spec("modal") is None:
        return "the Modal SDK is not installed: `pip install 'hermes-oncall[modal]'`"
    missing = [name for name in TOKEN_VARIABLES if not opening.secrets.get(name)]
    if missing:
        return f"{' and '.join(missing)} must be set: make a token at modal.com/settings/tokens"
    return None
