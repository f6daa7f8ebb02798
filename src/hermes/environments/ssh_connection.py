"""One kept connection to a machine by OpenSSH; each command gets a channel of its own."""

import contextlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import join

import anyio

from hermes.core.errors import PlaceFailed
from hermes.core.messages import Value
from hermes.environments.errands.client import Client
from hermes.environments.ssh_trouble import connect_trouble

_CONNECT = 15
_CALL = 10.0
_FOLDER = "hermes-ssh-"
_PERSIST = 3600
"""Seconds a connection stays that nobody uses; only one of an owner that was killed ends so."""
_LONGEST_SOCKET = 80
"""Bytes of its path: systems allow 104, and ssh adds 17 while it makes one."""

_ALWAYS = {
    "BatchMode": "yes",
    "ConnectTimeout": str(_CONNECT),
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "3",
    "StrictHostKeyChecking": "accept-new",
    "UpdateHostKeys": "no",
    "HashKnownHosts": "no",
    # What a person's own configuration may ask for, and must not happen here:
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "ControlPersist": str(_PERSIST),
    "LogLevel": "ERROR",
}


class Destination(Value, frozen=True):
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
    """Fulfils `remote.client.Client`. Host keys seen for the first time are kept in `known_hosts`;
    the person's own file is believed too, and never written."""

    def __init__(
        self,
        program: str,
        destination: Destination,
        known_hosts: Path,
        variables: Mapping[str, str],
    ) -> None:
        self.variables = _without_language(variables)
        self._client = Client(program, self.variables)
        self._to, self._known_hosts = destination, known_hosts
        self._connecting = anyio.Lock()
        self._stack = contextlib.ExitStack()
        self._socket: Path | None = None

    @property
    def place(self) -> str:
        return f"{self._to.name}:{self._to.port}"

    async def reach(self) -> None:
        if self._connected():
            return
        async with self._connecting:
            if not self._connected():
                await self._connect()

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        """`exec` so that the login shell does not stay; every shell knows it, and such quotes."""
        how = ["-tt"] if terminal else ["-T"]
        options = [*self._options(), "-o", "ControlMaster=no", *how]
        return [self._client.program, *options, "--", self._to.host, f"exec {join(argv)}"]

    async def broken(self, code: int, complaint: str, *, begun: bool) -> PlaceFailed | None:
        """Without a connection, what broke was that; with one, a channel alone has ended."""
        if await self._answers():
            return None
        await self._disconnect()
        if not begun:
            return None  # the next attempt connects anew, and says why if it cannot
        return PlaceFailed(
            f"the connection to {self._to.name} was lost while the command ran: how it ended is "
            "not known, and it may still be running there. The next command connects anew"
        )

    def elsewhere(self, place: str) -> None:
        """Only the machine that this connection is to."""

    async def close(self, *, spare: bool) -> None:
        await self._disconnect()
        self._stack.close()
        self._socket = None

    async def _connect(self) -> None:
        self._known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        words = [*self._options(), "-o", "ControlMaster=yes", "-f", "-N", "--", self._to.host]
        said = await self._client.call(words, timeout=4 * _CONNECT)
        if said.code != 0:
            raise connect_trouble(self._to.name, self._to.known_as, said.complaint)

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
            return (await self._client.call(words, timeout=_CALL)).code
        except PlaceFailed:
            return 255

    def _connected(self) -> bool:
        """Whether somebody listens on the socket: far cheaper than asking with ssh."""
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
            **_ALWAYS,
            "UserKnownHostsFile": f"{_path(self._known_hosts)} ~/.ssh/known_hosts",
            "ControlPath": _path(self._socket),
        }
        words = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
        words += ["-p", str(self._to.port)]
        words += ["-l", self._to.user] if self._to.user else []
        words += ["-i", self._to.key, "-o", "IdentitiesOnly=yes"] if self._to.key else []
        return words


def _path(path: Path) -> str:
    return '"{}"'.format(str(path).replace("%", "%%"))


def _private_folder() -> "tempfile.TemporaryDirectory[str]":
    """A short path, for the sake of the socket in it."""
    prefix, there = f"{_FOLDER}{os.getpid()}-", tempfile.gettempdir()
    short = there if len(f"{there}/{prefix}12345678/c".encode()) <= _LONGEST_SOCKET else "/tmp"
    _sweep(Path(short))
    return tempfile.TemporaryDirectory(prefix=prefix, dir=short, ignore_cleanup_errors=True)


def _sweep(there: Path) -> None:
    """Remove what owners that were killed have left, once their connections have ended too."""
    for folder in there.glob(f"{_FOLDER}*-*"):
        owner = folder.name.removeprefix(_FOLDER).partition("-")[0]
        with contextlib.suppress(OSError):
            old = time.time() - folder.stat().st_mtime > _PERSIST
            if old and owner.isdigit() and not Path(f"/proc/{owner}").exists():
                shutil.rmtree(folder, ignore_errors=True)


def _without_language(variables: Mapping[str, str]) -> dict[str, str]:
    """What many configurations send along (`SendEnv LANG LC_*`) must not be there to be sent."""
    needed = ("PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "TMPDIR")
    return {name: variables[name] for name in needed if name in variables}
