"""Remote environments that confine commands to their verdict, where the remote kernel can.

One that cannot is a plain `RemoteEnvironment`, which does not fulfil `ConfinesCommands`.
"""

from typing import Self

from hermes.core.actions import BlockedAccess, ConfinementProfile, KernelSupport
from hermes.core.protocols import BackgroundProcess, CommandResult, ConfinedEnvironment
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.remote.session import RemoteConfinement
from hermes.environments.sandboxing.confined_commands import ConfinedProcess


def unknown_kernel_support(kind: str) -> KernelSupport:
    return KernelSupport(
        reason=f"whether the far side of {kind} can confine commands (python3 and Landlock are "
        "needed there) is only known once Hermes has connected"
    )


class ConfiningRemoteEnvironment(RemoteEnvironment):
    """Sends the launcher of confined commands to the host when it is first needed."""

    async def kernel_support(self) -> KernelSupport:
        return (await self.session.launcher()).support

    def confined(self, profile: ConfinementProfile) -> ConfinedEnvironment:
        return ConfinedRemoteEnvironment(self, profile)


class ConfinedRemoteEnvironment:
    """A `RemoteEnvironment` whose commands are confined to a profile, in the same session."""

    def __init__(self, environment: RemoteEnvironment, profile: ConfinementProfile) -> None:
        self.name, self.target = environment.name, environment.target
        self.isolated = environment.isolated
        self._environment, self._profile = environment, profile
        self._confinement = None if profile.unrestricted else RemoteConfinement(profile)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Processes that still run continue and report their refusals themselves."""

    def collect(self) -> list[BlockedAccess]:
        return self._confinement.blocked() if self._confinement is not None else []

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        return await self._environment.run_under(
            self._confinement, command, timeout=timeout, stdin=stdin, cwd=cwd
        )

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        return await self._environment.read(path, offset=offset, limit=limit)

    async def write(self, path: str, data: bytes) -> None:
        if self._confinement is None:
            await self._environment.write(path, data)
        else:
            await self._environment.write_under(self._confinement, path, data)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> BackgroundProcess:
        own = None if self._confinement is None else RemoteConfinement(self._profile)
        process = await self._environment.start_under(own, command, pty=pty, cwd=cwd)
        if own is None:
            return process
        own.refusals = process.blocked
        return ConfinedProcess(process, own)

    async def find(self, handle: str) -> BackgroundProcess | None:
        return await self._environment.find(handle)

    @property
    def folder(self) -> str:
        return self._environment.folder
