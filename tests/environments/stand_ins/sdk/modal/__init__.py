"""Stand-in for the Modal SDK, as far as Hermes uses it; see stand_in_machine."""

from typing import Any

from stand_in_machine import Machine, as_recorded

from modal.exception import AuthError, Error, NotFoundError
from modal.stream_type import StreamType

__all__ = ["App", "Client", "Error", "Image", "Sandbox"]

LONGEST = 2**16
"""Bytes of arguments that the real SDK lets through."""


class Asynchronous:
    """The real methods block unless `.aio` is asked for; here there is only that."""

    def __init__(self, function: Any) -> None:
        self.aio = function


class Client:
    @staticmethod
    @as_recorded("modal", "Client.from_credentials.aio")
    async def _from_credentials(token_id: str, token_secret: str) -> "Client":
        if not token_id.startswith("ak-") or not token_secret.startswith("as-"):
            raise AuthError("Token ID is malformed")
        return Client()

    from_credentials = Asynchronous(_from_credentials)


class App:
    @staticmethod
    @as_recorded("modal", "App.lookup.aio")
    async def _lookup(
        name: str, *, client: Client | None = None, create_if_missing: bool = False
    ) -> "App":
        assert isinstance(client, Client)
        if not create_if_missing:
            raise NotFoundError(f"App {name} not found")
        return App()

    lookup = Asynchronous(_lookup)


class Image:
    @staticmethod
    @as_recorded("modal", "Image.from_registry")
    def from_registry(tag: str) -> "Image":
        return Image()


class Sandbox:
    def __init__(self) -> None:
        self.machine = Machine()
        self.object_id = self.machine.id
        self.exec = Asynchronous(self._exec)
        self.terminate = Asynchronous(self._terminate)

    @staticmethod
    @as_recorded("modal", "Sandbox.create.aio")
    async def _create(*args: str, app: App, client: Client, image: Image, **rest: Any) -> "Sandbox":
        assert (type(app), type(client), type(image)) == (App, Client, Image)
        return Sandbox()

    create = Asynchronous(_create)

    @as_recorded("modal", "Sandbox.exec.aio")
    async def _exec(
        self, *args: str, text: bool, stderr: StreamType, timeout: int
    ) -> "ContainerProcess":
        if self.machine.lost:
            raise NotFoundError("Sandbox has already shut down")
        if sum(len(arg) for arg in args) > LONGEST:
            raise Error(f"Total length of CMD arguments cannot exceed {LONGEST} bytes")
        assert not text
        assert stderr is StreamType.DEVNULL
        assert isinstance(timeout, int)
        return ContainerProcess(self.machine, args, timeout)

    @as_recorded("modal", "Sandbox.terminate.aio")
    async def _terminate(self) -> None:
        self.machine.end()


class ContainerProcess:
    def __init__(self, machine: Machine, argv: tuple[str, ...], timeout: float) -> None:
        self.stdin = StreamWriter()
        self.stdout = StreamReader(self._run)
        self._machine, self._argv, self._timeout = machine, argv, timeout
        self.wait = Asynchronous(self._wait)
        self._code: int | None = None

    async def _run(self) -> bytes:
        assert self.stdin.sent_end, "the program would wait for ever for the rest of its input"
        given = bytes(self.stdin.sent)
        self._code, said = await self._machine.exec(self._argv, given, timeout=self._timeout)
        return said

    @as_recorded("modal", "container_process.ContainerProcess.wait.aio")
    async def _wait(self) -> int:
        assert self._code is not None
        return self._code


class StreamReader:
    def __init__(self, source: Any) -> None:
        self._source = source
        self.read = Asynchronous(self._read)

    @as_recorded("modal", "io_streams.StreamReader.read.aio")
    async def _read(self) -> bytes:
        said: bytes = await self._source()
        return said


class StreamWriter:
    """Holds what was written until it is drained, and not too much of it."""

    def __init__(self) -> None:
        self.sent, self.sent_end = bytearray(), False
        self._buffer, self._closed = bytearray(), False
        self.drain = Asynchronous(self._drain)

    @as_recorded("modal", "io_streams.StreamWriter.write")
    def write(self, data: bytes) -> None:
        if self._closed:
            raise ValueError("Stdin is closed. Cannot write to it.")
        if len(self._buffer) + len(data) > 2 * 1024 * 1024:
            raise BufferError("Buffer size exceed limit. Call drain to flush the buffer.")
        self._buffer += data

    @as_recorded("modal", "io_streams.StreamWriter.write_eof")
    def write_eof(self) -> None:
        self._closed = True

    @as_recorded("modal", "io_streams.StreamWriter.drain.aio")
    async def _drain(self) -> None:
        self.sent += self._buffer
        self._buffer.clear()
        self.sent_end = self._closed
