"""Programs with raw pipes in a sandbox. They end with their block, and with the sandbox."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from hermes.core.protocols import PipedProcess
from hermes.environments.confinement.messages import LauncherRequest
from hermes.environments.processes.piped_process import (
    EXIT_GRACE_S,
    ErrorStream,
    LocalPipedProcess,
    wait_for_end,
)
from hermes.environments.sandboxing.launcher_client import LauncherClient
from hermes.environments.sandboxing.sandbox_processes import end_call


@asynccontextmanager
async def open_sandbox_piped(
    launcher: LauncherClient, request: LauncherRequest, log: Path | None
) -> AsyncIterator[PipedProcess]:
    """Raises `EnvironmentFailed` when the sandbox ended."""
    ours, theirs = list[int](), list[int]()
    try:
        for reads_it in (False, True, True):
            read_end, write_end = os.pipe()
            ours.append(read_end if reads_it else write_end)
            theirs.append(write_end if reads_it else read_end)
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        call = await launcher.start_call(request, tuple(theirs))
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    stdin, stdout, error_descriptor = ours
    errors = ErrorStream(error_descriptor, log)
    try:
        yield LocalPipedProcess(call, stdin, stdout, errors)
    finally:
        with anyio.CancelScope(shield=True):
            os.close(stdin)
            with anyio.move_on_after(EXIT_GRACE_S):
                await wait_for_end(call, stdout)
            try:
                await end_call(call, grace=0)
            finally:
                call.close()
                errors.close()
                os.close(stdout)
