"""Runs commands on this machine that the kernel confines to their verdict.

Loaded with the first of them: many conversations run no command.
"""

from functools import partial
from typing import Self

from anyio import to_thread
from msgspec.structs import replace

from hermes.core.actions import BlockedAccess, ConfinementProfile
from hermes.core.errors import ToolError
from hermes.core.protocols import BackgroundProcess, CommandResult
from hermes.environments.local import LocalEnvironment, real_path, write_bytes
from hermes.environments.sandboxing.confined_commands import CommandConfinement, ConfinedProcess


class ConfinedLocalEnvironment:
    """A `LocalEnvironment` whose commands are confined to a profile, in the same shell session."""

    isolated = False

    def __init__(self, environment: LocalEnvironment, profile: ConfinementProfile) -> None:
        self.name, self.target = environment.name, environment.target
        self._environment, self._profile = environment, profile
        self._confinement: CommandConfinement | None = None
        if not (profile.unrestricted or profile.root_launcher):
            self._confinement = CommandConfinement(
                profile, environment.server, environment.temporary
            )
        self._session = replace(environment.session, confinement=self._confinement)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Processes that still run continue; their refusals are no longer collected."""
        if self._confinement is not None:
            self._confinement.close()

    def collect(self) -> list[BlockedAccess]:
        return self._confinement.blocked() if self._confinement is not None else []

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        self._set_folder(cwd)
        return await self._environment.run_in(
            self._session, command, timeout=timeout, stdin=stdin, cwd=cwd
        )

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        return await self._environment.read(path, offset=offset, limit=limit)

    async def write(self, path: str, data: bytes) -> None:
        if self._confinement is None:
            await self._environment.write(path, data)
            return
        real = await to_thread.run_sync(real_path, self._environment.path(path))
        try:
            self._confinement.check_write(str(self._environment.path(path)))
            self._confinement.check_write(str(real))
        except OSError as error:
            raise ToolError(f"cannot write {path}: it changes at this moment") from error
        # If a folder becomes a link after the check, nothing is written.
        await to_thread.run_sync(partial(write_bytes, real, data, follow=False))

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> BackgroundProcess:
        if self._confinement is None:
            return await self._environment.start_in(self._session, command, pty=pty, cwd=cwd)
        # The process may run longer than this object exists.
        own = CommandConfinement(
            self._profile,
            self._environment.server,
            self._environment.temporary,
            background=True,
        )
        own.folder = str(self._environment.path(cwd)) if cwd else self.folder
        session = replace(self._session, confinement=own)
        process = await self._environment.start_in(session, command, pty=pty, cwd=cwd)
        self._environment.keep_confinement(own)
        return ConfinedProcess(process, own)

    async def find(self, handle: str) -> BackgroundProcess | None:
        return await self._environment.find(handle)

    @property
    def folder(self) -> str:
        return self._environment.folder

    def _set_folder(self, cwd: str) -> None:
        if self._confinement is not None:
            self._confinement.folder = str(self._environment.path(cwd)) if cwd else self.folder
