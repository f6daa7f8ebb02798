"""Commands on another machine by OpenSSH, over one kept connection. Not isolated: it is real."""

from pathlib import Path

from hermes.core.errors import PlaceFailed, SettingsError
from hermes.environments.errands.client import find_program
from hermes.environments.open import Opening
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.ssh_connection import Destination, SshConnection
from hermes.environments.sudo import VARIABLE, desk_for

_NO_HOST = (
    "no machine is named: set terminal.ssh_host and terminal.ssh_user (TERMINAL_SSH_HOST, "
    "TERMINAL_SSH_USER)"
)


def open_ssh(opening: Opening) -> RemoteEnvironment:
    """`terminal.cwd` is a folder over there; "." is the account's home. Raises `SettingsError` or
    `PlaceFailed` when something is missing on this side."""
    to = _destination(opening)
    cwd = opening.settings.cwd
    return RemoteEnvironment(
        "ssh",
        to.name,
        _connection(opening, to),
        settings=opening.settings,
        isolated=False,
        start="" if cwd == "." else cwd,
        sudo=desk_for(opening.secrets.get(VARIABLE, "")),
    )


async def why_not(opening: Opening) -> str | None:
    """What is missing to get to the machine, found by connecting; None when nothing is."""
    try:
        connection = _connection(opening, _destination(opening))
    except (PlaceFailed, SettingsError) as error:
        return str(error)
    try:
        await connection.reach()
    except PlaceFailed as error:
        return str(error)
    finally:
        await connection.close(spare=False)
    return None


def _destination(opening: Opening) -> Destination:
    settings = opening.settings
    if not settings.ssh_host:
        raise SettingsError(_NO_HOST)
    if settings.ssh_host.startswith("-"):
        raise SettingsError(f"terminal.ssh_host is {settings.ssh_host!r}, which is no machine")
    key = Path(settings.ssh_key).expanduser() if settings.ssh_key else None
    if key is not None and not key.is_file():
        raise SettingsError(f"terminal.ssh_key (TERMINAL_SSH_KEY) is {key}, and there is no file")
    return Destination(
        settings.ssh_host, settings.ssh_user, settings.ssh_port, str(key) if key else ""
    )


def _connection(opening: Opening, to: Destination) -> SshConnection:
    program = find_program(["ssh"], opening.variables)
    if program is None:
        raise PlaceFailed(
            "ssh is not on the PATH: install it (`apt install openssh-client`, "
            "`dnf install openssh-clients`)"
        )
    return SshConnection(program, to, opening.home / "known_hosts", opening.variables)
