"""Opens an environment in a Daytona sandbox. The SDK is loaded only then."""

from importlib.util import find_spec

from hermes.environments.cloud.environment import CloudEnvironment, open_cloud_environment
from hermes.environments.open import EnvironmentOpening

API_KEY_VARIABLE = "DAYTONA_API_KEY"


def open_daytona(opening: EnvironmentOpening) -> CloudEnvironment:
    image = opening.settings.daytona_image
    return open_cloud_environment("daytona", image, opening, why_not, (API_KEY_VARIABLE,))


async def why_not(opening: EnvironmentOpening) -> str | None:
    """Return what is missing for a Daytona sandbox, or None. Nothing is started."""
    if find_spec("daytona") is None:
        return "the Daytona SDK is not installed: `pip install 'hermes-oncall[daytona]'`"
    if not opening.secrets.get(API_KEY_VARIABLE):
        return f"{API_KEY_VARIABLE} must be set: make a key in the dashboard of Daytona"
    return None
