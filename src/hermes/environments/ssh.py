"""Opens an environment on another host with OpenSSH."""

import contextlib
import os
import re
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import join

import anyio

from hermes.core.actions import KernelSupport
from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.core.messages import Value
from hermes.environments.open import EnvironmentOpening
from hermes.environments.processes.process_tree import remove_stale_folders
from hermes.environments.remote.client import ClientProgram, require_program
from hermes.environments.remote.confined import (
    ConfiningRemoteEnvironment,
    unknown_kernel_support,
)
from hermes.environments.sudo import PASSWORD_VARIABLE, open_password_agent

_OFFENDING_KEY = re.compile(r"Offending [\w-]+ key in (.+?):(\d+)")
_UNREACHABLE_ERROR = re.compile(
    r"connection refused|timed out|no route to host|network is unreachable|could not resolve|"
    r"name or service not known|host is down|connection reset|closed by",
    re.IGNORECASE,
)


def explain_connect_error(target: str, host: str, complaint: str) -> EnvironmentFailed:
    """`host` is the name in known_hosts."""
    if "IDENTIFICATION HAS CHANGED" in complaint or "Host key verification failed" in complaint:
        return _host_key_changed_error(target, host, complaint)
    if "Permission denied" in complaint or "Too many authentication failures" in complaint:
        return EnvironmentFailed(
            f"{target} refused to let us in: is the public half of terminal.ssh_key "
            "(TERMINAL_SSH_KEY) in the account's authorized_keys, is the key without a "
            "passphrase or held by an agent, is the account there and not locked (`passwd -S`)? "
            f"ssh said: {_last_line(complaint)}"
        )
    if "bad permissions" in complaint or "UNPROTECTED PRIVATE KEY" in complaint:
        return EnvironmentFailed(
            f"others may read terminal.ssh_key, so ssh will not use it: {complaint}"
        )
    if _UNREACHABLE_ERROR.search(complaint):
        return EnvironmentFailed(
            f"{target} cannot be reached: is it up, and are terminal.ssh_host and "
            f"terminal.ssh_port right? ssh said: {_last_line(complaint)}"
        )
    return EnvironmentFailed(f"cannot connect to {target}: {complaint or 'ssh did not say why'}")


def _host_key_changed_error(target: str, host: str, complaint: str) -> EnvironmentFailed:
    found = _OFFENDING_KEY.search(complaint)
    if found is None:
        return EnvironmentFailed(
            f"the host key of {target} could not be verified, so we do not connect: {complaint}"
        )
    file, line = found.groups()
    return EnvironmentFailed(
        f"the host key of {target} has CHANGED, so we do not connect: somebody may be listening "
        f"in, or the machine was reinstalled. Ask who runs it; if it is right, remove the old key "
        f"in {file}, line {line}: ssh-keygen -R '{host}' -f '{file}'"
    )


def _last_line(complaint: str) -> str:
    lines = [line for line in complaint.splitlines() if not line.startswith("Warning: Permanently")]
    return lines[-1].strip() if lines else "nothing"


_CONNECT_TIMEOUT_S = 15
_CALL_TIMEOUT_S = 10.0
_SOCKET_FOLDER_PREFIX = "hermes-ssh-"
_PERSIST_S = 3600
"""Seconds that an unused connection stays open, if its owner was killed."""
_MAX_SOCKET_PATH_BYTES = 80
"""Systems allow 104 bytes, and ssh adds 17 while it creates the socket."""

_SSH_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": str(_CONNECT_TIMEOUT_S),
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "3",
    "StrictHostKeyChecking": "accept-new",
    "UpdateHostKeys": "no",
    "HashKnownHosts": "no",
    # Options of the user's own configuration that must not apply here:
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "ControlPersist": str(_PERSIST_S),
    "LogLevel": "ERROR",
}


class SshDestination(Value, frozen=True):
    host: str
    user: str = ""
    port: int = 22
    key: str = ""

    @property
    def name(self) -> str:
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def known_as(self) -> str:
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"


class SshConnection:
    """Implements `RemoteClient`. New host keys are saved in `known_hosts`; the user's own file is
    trusted too, and never written."""

    def __init__(
        self,
        program: str,
        destination: SshDestination,
        known_hosts: Path,
        variables: Mapping[str, str],
    ) -> None:
        self.variables = _without_language(variables)
        self._client = ClientProgram(program, self.variables)
        self._to, self._known_hosts = destination, known_hosts
        self._connecting = anyio.Lock()
        self._stack = contextlib.ExitStack()
        self._socket: Path | None = None

    @property
    def place(self) -> str:
        return f"{self._to.name}:{self._to.port}"

    async def connect(self) -> None:
        if self._connected():
            return
        async with self._connecting:
            if not self._connected():
                await self._connect()

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        """`exec` replaces the login shell; every shell supports it, and these quotes."""
        how = ["-tt"] if terminal else ["-T"]
        options = [*self._options(), "-o", "ControlMaster=no", *how]
        return [self._client.program, *options, "--", self._to.host, f"exec {join(argv)}"]

    async def find_failure(
        self, code: int, complaint: str, *, begun: bool
    ) -> EnvironmentFailed | None:
        """Without a connection, the connection broke; with one, only a channel ended."""
        if await self._answers():
            return None
        await self._disconnect()
        if not begun:
            return None  # the next attempt reconnects or explains the error
        return EnvironmentFailed(
            f"the connection to {self._to.name} was lost while the command ran: how it ended is "
            "not known, and it may still be running there. The next command reconnects"
        )

    def reopen(self, place: str) -> None:
        """Return None: a connection reaches one host only."""

    async def close(self, *, spare: bool) -> None:
        await self._disconnect()
        self._stack.close()
        self._socket = None

    async def _connect(self) -> None:
        self._known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        words = [*self._options(), "-o", "ControlMaster=yes", "-f", "-N", "--", self._to.host]
        result = await self._client.run(words, timeout=4 * _CONNECT_TIMEOUT_S)
        if result.code != 0:
            raise explain_connect_error(self._to.name, self._to.known_as, result.complaint)

    async def _disconnect(self) -> None:
        if self._connected():
            await self._master("exit")
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)

    async def _answers(self) -> bool:
        return self._connected() and await self._master("check") == 0

    async def _master(self, request: str) -> int:
        words = [*self._options(), "-O", request, "--", self._to.host]
        try:
            return (await self._client.run(words, timeout=_CALL_TIMEOUT_S)).code
        except EnvironmentFailed:
            return 255

    def _connected(self) -> bool:
        """Return whether the socket accepts connections; much faster than asking with ssh."""
        if self._socket is None:
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self._socket))
            except OSError:
                return False
        return True

    def _options(self) -> list[str]:
        if self._socket is None:
            self._socket = Path(self._stack.enter_context(_private_folder())) / "c"
        given = {
            **_SSH_OPTIONS,
            "UserKnownHostsFile": f"{_escape_path(self._known_hosts)} ~/.ssh/known_hosts",
            "ControlPath": _escape_path(self._socket),
        }
        words = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
        words += ["-p", str(self._to.port)]
        words += ["-l", self._to.user] if self._to.user else []
        words += ["-i", self._to.key, "-o", "IdentitiesOnly=yes"] if self._to.key else []
        return words


def _escape_path(path: Path) -> str:
    return '"{}"'.format(str(path).replace("%", "%%"))


def _private_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder with a short path, for the socket in it."""
    prefix, there = f"{_SOCKET_FOLDER_PREFIX}{os.getpid()}-", tempfile.gettempdir()
    short = (
        there if len(f"{there}/{prefix}12345678/c".encode()) <= _MAX_SOCKET_PATH_BYTES else "/tmp"
    )
    # Their connections have ended too.
    remove_stale_folders(Path(short), _SOCKET_FOLDER_PREFIX, min_age_s=_PERSIST_S)
    return tempfile.TemporaryDirectory(prefix=prefix, dir=short, ignore_cleanup_errors=True)


def _without_language(variables: Mapping[str, str]) -> dict[str, str]:
    """Many configurations send these variables (`SendEnv LANG LC_*`)."""
    needed = ("PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "TMPDIR")
    return {name: variables[name] for name in needed if name in variables}


_NO_HOST_MESSAGE = (
    "no machine is named: set terminal.ssh_host and terminal.ssh_user (TERMINAL_SSH_HOST, "
    "TERMINAL_SSH_USER)"
)


def expected_kernel_support() -> KernelSupport:
    return unknown_kernel_support("ssh")


def open_ssh(opening: EnvironmentOpening) -> ConfiningRemoteEnvironment:
    """`terminal.cwd` is a folder on the host; "." is the account's home. Raises `SettingsError` or
    `EnvironmentFailed` when something is missing on this machine."""
    to = _destination(opening)
    cwd = opening.settings.cwd
    return ConfiningRemoteEnvironment(
        "ssh",
        to.name,
        _open_connection(opening, to),
        settings=opening.settings,
        isolated=False,
        start="" if cwd == "." else cwd,
        sudo=open_password_agent(opening.secrets.get(PASSWORD_VARIABLE, "")),
    )


async def why_not(opening: EnvironmentOpening) -> str | None:
    """Return why the host cannot be reached, or None; tried by connecting."""
    try:
        connection = _open_connection(opening, _destination(opening))
    except (EnvironmentFailed, SettingsError) as error:
        return str(error)
    try:
        await connection.connect()
    except EnvironmentFailed as error:
        return str(error)
    finally:
        await connection.close(spare=False)
    return None


def _destination(opening: EnvironmentOpening) -> SshDestination:
    settings = opening.settings
    if not settings.ssh_host:
        raise SettingsError(_NO_HOST_MESSAGE)
    if settings.ssh_host.startswith("-"):
        raise SettingsError(f"terminal.ssh_host is {settings.ssh_host!r}, which is no machine")
    key = Path(settings.ssh_key).expanduser() if settings.ssh_key else None
    if key is not None and not key.is_file():
        raise SettingsError(f"terminal.ssh_key (TERMINAL_SSH_KEY) is {key}, and there is no file")
    return SshDestination(
        settings.ssh_host, settings.ssh_user, settings.ssh_port, str(key) if key else ""
    )


def _open_connection(opening: EnvironmentOpening, to: SshDestination) -> SshConnection:
    program = require_program(
        ["ssh"],
        opening.variables,
        advice="ssh is not on the PATH: install it (`apt install openssh-client`, "
        "`dnf install openssh-clients`)",
    )
    return SshConnection(program, to, opening.home / "known_hosts", opening.variables)
