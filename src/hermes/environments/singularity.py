"""Commands in an Apptainer or Singularity instance, started for us and stopped at the end."""

from hermes.core.errors import PlaceFailed
from hermes.environments.errands.client import Client, find_program
from hermes.environments.errands.environment import granted
from hermes.environments.open import Opening
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.singularity_instance import Instance

PROGRAMS = ("apptainer", "singularity")
_CALL = 30.0


def open_singularity(opening: Opening) -> RemoteEnvironment:
    """`terminal.cwd` is a folder of the image; "." is where a program starts by itself. Raises
    `PlaceFailed` when neither program is here."""
    settings = opening.settings
    return RemoteEnvironment(
        "singularity",
        settings.singularity_image,
        Instance(_client(opening), settings),
        settings=settings,
        isolated=True,
        start="" if settings.cwd == "." else settings.cwd,
        variables=granted(opening),
    )


async def why_not(opening: Opening) -> str | None:
    """What is missing for an instance; None when nothing is. Nothing is started."""
    try:
        await _client(opening).expect("it does not run", ["version"], timeout=_CALL)
    except PlaceFailed as error:
        return str(error)
    return None


def _client(opening: Opening) -> Client:
    program = find_program(PROGRAMS, opening.variables)
    if program is None:
        raise PlaceFailed(
            "neither apptainer nor singularity is on the PATH: install one from apptainer.org or "
            "your distribution (`dnf install apptainer`, `apt install singularity-container`)"
        )
    return Client(program, dict(opening.variables))
