"""Stand-in for the Daytona SDK, as far as Hermes uses it; see stand_in_machine."""

from pathlib import Path
from typing import Any

from stand_in_machine import Machine, as_recorded


class DaytonaError(Exception):
    pass


class DaytonaAuthenticationError(DaytonaError):
    pass


class DaytonaNotFoundError(DaytonaError):
    pass


class _Given:
    """A bundle of named values, of which the real one would know each."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class DaytonaConfig(_Given):
    @as_recorded("daytona", "DaytonaConfig")
    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


class Resources(_Given):
    @as_recorded("daytona", "Resources")
    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


class CreateSandboxFromImageParams(_Given):
    @as_recorded("daytona", "CreateSandboxFromImageParams")
    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


class AsyncDaytona:
    @as_recorded("daytona", "AsyncDaytona")
    def __init__(self, config: DaytonaConfig) -> None:
        self.closed = False
        if not config.api_key.startswith("dtn_"):
            self.refusal: str | None = "Invalid credentials"
        else:
            self.refusal = None

    @as_recorded("daytona", "AsyncDaytona.create")
    async def create(
        self, params: CreateSandboxFromImageParams, *, timeout: float
    ) -> "AsyncSandbox":
        if self.refusal:
            raise DaytonaAuthenticationError(self.refusal)
        assert isinstance(params.resources, Resources)
        return AsyncSandbox()

    @as_recorded("daytona", "AsyncDaytona.close")
    async def close(self) -> None:
        self.closed = True


class AsyncSandbox:
    def __init__(self) -> None:
        self.machine = Machine()
        self.id = self.machine.id
        self.process = AsyncProcess(self.machine)
        self.fs = AsyncFileSystem(self.machine)

    @as_recorded("daytona", "AsyncSandbox.delete")
    async def delete(self) -> None:
        if self.machine.lost:
            raise DaytonaNotFoundError("Sandbox not found")
        self.machine.end()


class ExecuteResponse(_Given):
    exit_code: int
    result: str


class AsyncProcess:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @as_recorded("daytona", "_async.process.AsyncProcess.exec")
    async def exec(self, command: str, *, timeout: int) -> ExecuteResponse:
        """Some shell reads it, and the answer is text of both streams: so is the real one."""
        if self._machine.lost:
            raise DaytonaNotFoundError("Sandbox not found")
        assert isinstance(timeout, int)
        shell = ["sh", "-c", command]
        code, said = await self._machine.exec(shell, b"", timeout=timeout, mixed=True)
        return ExecuteResponse(exit_code=code, result=said.decode("utf-8", "replace"))


class AsyncFileSystem:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @as_recorded("daytona", "_async.filesystem.AsyncFileSystem.upload_file")
    async def upload_file(self, src: bytes, dst: str) -> None:
        if self._machine.lost:
            raise DaytonaNotFoundError("Sandbox not found")
        Path(dst).write_bytes(src)  # noqa: ASYNC240 - nobody else is waiting
