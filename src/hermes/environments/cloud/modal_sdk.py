"""Creates Modal sandboxes, runs short programs in them and ends them, through the SDK."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import modal
from modal.exception import AuthError
from modal.stream_type import StreamType

from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.environments.cloud.remote_calls import KEEP_ALIVE_COMMAND
from hermes.environments.settings import TerminalSettings

APP_NAME = "hermes"
"""The Modal app that groups our sandboxes; it is created when it does not exist."""
_MAX_LIFETIME_S = 24 * 3600
"""The maximum that Modal allows. It ends a sandbox whose Hermes was killed."""
_IDLE_TIMEOUT_S = 3600
"""Seconds without a command after which Modal ends the sandbox."""
_RESERVED_CPUS, _RESERVED_MEMORY_MB = 0.125, 128
"""Reserved, and paid for, even when nothing runs; the settings are the upper limits."""
_WRITE_CHUNK_BYTES = 1024 * 1024


async def create_sandbox(
    settings: TerminalSettings, token_id: str, token_secret: str
) -> "ModalSandbox":
    """The keys are used for our connection only and are not passed into the sandbox."""
    with _translate_errors("cannot start a sandbox"):
        client = await modal.Client.from_credentials.aio(token_id, token_secret)
        app = await modal.App.lookup.aio(APP_NAME, client=client, create_if_missing=True)
        sandbox = await modal.Sandbox.create.aio(
            *KEEP_ALIVE_COMMAND,
            app=app,
            client=client,
            image=modal.Image.from_registry(settings.modal_image),
            timeout=_MAX_LIFETIME_S,
            idle_timeout=_IDLE_TIMEOUT_S,
            cpu=(_RESERVED_CPUS, settings.cpus) if settings.cpus else None,
            memory=(_RESERVED_MEMORY_MB, settings.memory_mb) if settings.memory_mb else None,
            block_network=not settings.docker_network,
        )
    return ModalSandbox(sandbox)


class ModalSandbox:
    def __init__(self, sandbox: modal.Sandbox) -> None:
        self.id = f"Modal sandbox {sandbox.object_id}"
        self._sandbox = sandbox

    async def exec(self, argv: Sequence[str], stdin: bytes, *, timeout: float) -> bytes:
        with _translate_errors(f"{self.id} failed"):
            process = await self._sandbox.exec.aio(
                *argv, text=False, stderr=StreamType.DEVNULL, timeout=math.ceil(timeout)
            )
            for start in range(0, len(stdin), _WRITE_CHUNK_BYTES):
                process.stdin.write(stdin[start : start + _WRITE_CHUNK_BYTES])
                await process.stdin.drain.aio()
            process.stdin.write_eof()
            await process.stdin.drain.aio()
            output: bytes = await process.stdout.read.aio()
            await process.wait.aio()
            return output

    async def close(self) -> None:
        with _translate_errors(f"{self.id} could not be ended; end it at modal.com"):
            await self._sandbox.terminate.aio()


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except AuthError as error:
        raise SettingsError(
            f"Modal does not accept MODAL_TOKEN_ID and MODAL_TOKEN_SECRET: {error}"
        ) from error
    except (modal.Error, OSError, ValueError) as error:
        raise EnvironmentFailed(f"{what}: {error}") from error
