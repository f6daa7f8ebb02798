"""Parts that tests give to an agent in place of a host and a folder: nothing happens in them."""

from types import TracebackType
from typing import Self

from hermes.core.errors import ToolError
from hermes.core.protocols import CommandResult


class IdleEnvironment:
    """An environment in which every command succeeds and nothing happens."""

    name, target, isolated = "idle", "nowhere", True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        return CommandResult(exit_code=0, output="")

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        raise ToolError("nothing here")

    async def write(self, path: str, data: bytes) -> None: ...


class MemoryArtifacts:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def save(self, run: str, name: str, text: str) -> str:
        self.texts[f"artifact://{run}/{name}"] = text
        return f"artifact://{run}/{name}"

    async def load(self, reference: str) -> str:
        if reference not in self.texts:
            raise ToolError(f"there is no {reference}")
        return self.texts[reference]
