"""A Python process inside an environment that we can talk with, in whichever way the place allows.

Where processes can be started, over its standard input and output. Elsewhere over files, which
costs a look at the place for each exchange, and needs nothing but `run`, `read` and `write`.
"""

import secrets
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from hermes.core.errors import PlaceFailed, ToolError
from hermes.core.protocols import Environment, Process, StartsProcesses
from hermes.tools.inside import source


@asynccontextmanager
async def interpreter(
    environment: Environment, token: str, *, timeout: float
) -> AsyncGenerator[Process, None]:
    """The runner, started; it is gone, with all it started, when the block ends."""
    words = ["python3", "-c", source("runner"), token]
    if isinstance(environment, StartsProcesses):
        process = await environment.start(shlex.join(words))
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await process.kill()
                with anyio.move_on_after(2):  # heard out, it leaves nothing behind
                    while await process.output():
                        pass
    else:
        async with _polled(environment, words, timeout) as process:
            yield process


@asynccontextmanager
async def _polled(
    environment: Environment, words: list[str], timeout: float
) -> AsyncGenerator[Process, None]:
    folder = f"/tmp/hermes-code-{secrets.token_hex(8)}"  # inside the place, not on the host
    process = PolledProcess(environment, folder)
    made = await environment.run(f"mkdir -m 700 {folder}")
    if made.exit_code != 0:
        raise PlaceFailed(f"no temporary folder can be made: {made.output.strip()}")
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(process.run, shlex.join([*words, folder]), timeout)
            yield process
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await environment.run(f"rm -rf {folder}")


class PolledProcess:
    """A `Process` made of one long `run` and files beside it."""

    pid: int | None = None

    def __init__(self, environment: Environment, folder: str) -> None:
        self.handle = folder
        self._environment = environment
        self._position = self._written = 0
        self._left = b""
        self._exit_code: int | None = None
        self._ended = anyio.Event()

    async def run(self, command: str, timeout: float) -> None:
        result = await self._environment.run(command, timeout=timeout + 5)
        self._left, self._exit_code = result.output.encode(), result.exit_code
        self._ended.set()

    async def output(self) -> bytes:
        pause = 0.01
        while True:
            over = self._ended.is_set()  # asked first: what is written before the end is read
            if data := await self._read():
                return data
            if over:
                data, self._left = self._left, b""
                return data
            with anyio.move_on_after(pause):
                await self._ended.wait()
            pause = min(0.25, pause * 1.5)

    async def write(self, data: bytes) -> None:
        self._written += 1
        await self._environment.write(f"{self.handle}/in-{self._written}", data)

    async def wait(self) -> int | None:
        await self._ended.wait()
        return self._exit_code

    async def kill(self) -> None:
        """The block that started it ends it."""

    async def _read(self) -> bytes:
        try:
            data = await self._environment.read(f"{self.handle}/out", offset=self._position)
        except ToolError:
            return b""  # not there yet
        self._position += len(data)
        return data
