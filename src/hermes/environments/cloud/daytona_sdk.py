"""Creates Daytona sandboxes, runs short programs in them and deletes them, through the SDK."""

import base64
import binascii
import math
import secrets
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from daytona import (
    AsyncDaytona,
    AsyncSandbox,
    CreateSandboxFromImageParams,
    DaytonaAuthenticationError,
    DaytonaConfig,
    DaytonaError,
    Resources,
)

from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.environments.settings import TerminalSettings

_START_TIMEOUT_S = 300.0
"""Includes pulling the image the first time."""
_IDLE_STOP_MINUTES = 60
"""Minutes without a command after which Daytona stops a sandbox, which deletes it."""
_MAX_LIFETIME_MINUTES = 24 * 60
"""Minutes after which Daytona deletes a sandbox in any case, if Hermes was killed."""
_MAX_INLINE_BYTES = 48_000
"""Maximum size of input inside the command, which is one argument of a remote shell."""

# Answers are text and may include standard error, so the output is sent as base64.
_RUN_SCRIPT = 'set -o pipefail; "$@" 2>/dev/null | base64'
_INLINE_INPUT_SCRIPT = f'given=$1; shift; base64 -d <<<"$given" | {{ {_RUN_SCRIPT}; }}'
_UPLOADED_INPUT_SCRIPT = f'given=$1; shift; {{ rm -f -- "$given"; {_RUN_SCRIPT}; }} <"$given"'


async def create_sandbox(settings: TerminalSettings, key: str) -> "DaytonaSandbox":
    """The key is used for our connection only and is not passed into the sandbox."""
    with _translate_errors("cannot start a sandbox"):
        client = AsyncDaytona(
            DaytonaConfig(api_key=key, api_url=settings.daytona_url or None, otel_enabled=False)
        )
        try:
            sandbox = await client.create(_creation_parameters(settings), timeout=_START_TIMEOUT_S)
        except BaseException:
            await client.close()
            raise
    return DaytonaSandbox(client, sandbox)


def _creation_parameters(settings: TerminalSettings) -> CreateSandboxFromImageParams:
    return CreateSandboxFromImageParams(
        image=settings.daytona_image,
        resources=Resources(
            cpu=math.ceil(settings.cpus) or None,
            memory=math.ceil(settings.memory_mb / 1024) or None,
        ),
        ephemeral=True,
        auto_stop_interval=_IDLE_STOP_MINUTES,
        ttl_minutes=_MAX_LIFETIME_MINUTES,
        public=False,
        network_block_all=not settings.docker_network,
        labels={"made-by": "hermes"},
    )


class DaytonaSandbox:
    def __init__(self, client: AsyncDaytona, sandbox: AsyncSandbox) -> None:
        self.id = f"Daytona sandbox {sandbox.id}"
        self._client, self._sandbox = client, sandbox

    async def exec(self, argv: Sequence[str], stdin: bytes, *, timeout: float) -> bytes:
        with _translate_errors(f"{self.id} failed"):
            command = shlex.join(["bash", "-c", *await self._input_arguments(stdin), *argv])
            answer = await self._sandbox.process.exec(command, timeout=math.ceil(timeout))
        try:
            return base64.b64decode(answer.result or "")
        except binascii.Error as error:
            raise EnvironmentFailed(f"{self.id} answered {answer.result[:200]!r}") from error

    async def _input_arguments(self, stdin: bytes) -> list[str]:
        """The arguments that carry the input: inline, or the path of an uploaded file."""
        if len(stdin) <= _MAX_INLINE_BYTES:
            return [_INLINE_INPUT_SCRIPT, "bash", base64.b64encode(stdin).decode()]
        path = f"/tmp/.hermes-{secrets.token_hex(8)}"
        await self._sandbox.fs.upload_file(stdin, path)
        return [_UPLOADED_INPUT_SCRIPT, "bash", path]

    async def close(self) -> None:
        try:
            with _translate_errors(f"{self.id} could not be deleted; delete it in the dashboard"):
                await self._sandbox.delete()
        finally:
            await self._client.close()


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except DaytonaAuthenticationError as error:
        raise SettingsError(f"Daytona does not accept DAYTONA_API_KEY: {error}") from error
    except (DaytonaError, OSError) as error:
        raise EnvironmentFailed(f"{what}: {error}") from error
