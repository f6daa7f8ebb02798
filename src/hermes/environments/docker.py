"""Commands in a container of docker or podman, started for the session and hardened."""

from pathlib import PurePosixPath

from hermes.core.errors import PlaceFailed, SettingsError
from hermes.environments.docker_container import DockerContainer, host
from hermes.environments.docker_trouble import daemon_trouble
from hermes.environments.errands.client import Client, find_program
from hermes.environments.errands.environment import granted
from hermes.environments.open import Opening
from hermes.environments.remote.environment import RemoteEnvironment

PROGRAMS = ("docker", "podman")
_CALL = 30.0


def open_docker(opening: Opening) -> RemoteEnvironment:
    """`terminal.cwd` is a folder in the container; "." is the image's own. Raises `SettingsError`
    for one that cannot be, and `PlaceFailed` when neither docker nor podman is here."""
    settings = opening.settings
    if settings.cwd not in ("", ".") and not PurePosixPath(settings.cwd).is_absolute():
        raise SettingsError(
            f"terminal.cwd is {settings.cwd!r}: in a container it must be an absolute path, or "
            '"." for the image\'s own folder'
        )
    return RemoteEnvironment(
        "docker",
        settings.docker_image,
        DockerContainer(_client(opening), settings),
        settings=settings,
        isolated=True,
        variables=granted(opening),
    )


async def why_not(opening: Opening) -> str | None:
    """What is missing for a container; None when nothing is. Nothing is started."""
    try:
        client = _client(opening)
        where = host(client.program, opening.settings)
        said = await client.call(
            [*where, "version", "--format", "{{.Server.Version}}"], timeout=_CALL
        )
    except PlaceFailed as error:
        return str(error)
    if said.code == 0:
        return None
    return str(daemon_trouble(client.program, said.complaint) or said.complaint)


def _client(opening: Opening) -> Client:
    chosen = opening.settings.docker_program
    program = find_program([chosen] if chosen else PROGRAMS, opening.variables)
    if program is None:
        raise PlaceFailed(
            f"{chosen or 'neither docker nor podman'} is not on the PATH: install one "
            "(`apt install docker.io`, `apt install podman`, or see docs.docker.com/engine)"
        )
    return Client(program, dict(opening.variables))
