"""Runs one command on another host, and parses the message about its end."""

import base64
import binascii
import time

import anyio
import anyio.lowlevel

from hermes.core.actions import BlockedAccess
from hermes.core.errors import EnvironmentFailed
from hermes.core.protocols import CommandResult
from hermes.environments.confinement.one_command import REPORT_FAILED, REPORT_PATH_CHANGED
from hermes.environments.processes.output import BoundedOutput
from hermes.environments.processes.process_tree import STOP_GRACE_S
from hermes.environments.processes.run import TIMEOUT_EXIT_CODE
from hermes.environments.remote.channels import ChannelBroken, ChannelPool, RemoteChannel
from hermes.environments.remote.scripts import ScriptVariables, build_program
from hermes.environments.sandboxing.confined_commands import parse_refusal


class RemoteExitMessage:
    """`CODE [REPORT [FOLDER/]]`: the report in base64 or `-`, line ends of the folder as `\\n`."""

    def __init__(self, text: str | None) -> None:
        code, report, folder = (*(text or "").split(" ", 2), "", "", "")[:3]
        self.text = code
        self.code = int(code) if code.isdigit() else None
        """None when it is not known."""
        self.folder = _unescape_path(folder.removesuffix("/")) if folder else ""
        """Empty when the command left no state."""
        self.blocked: list[BlockedAccess] = []
        self.not_run: tuple[str, str] | None = None
        """Why the command was not run: kind and reason."""
        for channel in _decode_report(report).splitlines():
            kind, reason, *_ = [*channel.split("\0"), ""]
            if kind in (REPORT_PATH_CHANGED, REPORT_FAILED):
                self.not_run = (kind, reason)
            else:
                self.blocked.append(parse_refusal(channel))


def _unescape_path(path: str) -> str:
    return "\\".join(part.replace("\\n", "\n") for part in path.split("\\\\"))


def _decode_report(report: str) -> str:
    try:
        return base64.b64decode(report).decode("utf-8", "replace") if report != "-" else ""
    except binascii.Error:
        return ""


_FINAL_OUTPUT_TIMEOUT_S = 2.0
_CANCEL_TIMEOUT_S = 10.0


async def run_remote(
    channels: ChannelPool,
    body: str,
    words: ScriptVariables,
    *,
    tree: str,
    timeout: float,
    stdin: bytes,
) -> tuple[CommandResult, RemoteExitMessage]:
    """The time-out starts when the channel is open: connecting does not count."""
    channel = await channels.acquire()
    started = time.monotonic()
    run = _RemoteRun(channels, channel, tree)
    try:
        timed_out = await run.watch(
            build_program(body, channel.nonce, words, quiet=True), stdin, timeout
        )
    finally:
        await run.clear()
    code = await run.code(timed_out)
    result = CommandResult(
        exit_code=TIMEOUT_EXIT_CODE if timed_out else code,
        output=run.capture.text(),
        dropped_bytes=run.capture.dropped,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )
    return result, RemoteExitMessage(channel.last_word)


class _RemoteRun:
    def __init__(self, channels: ChannelPool, channel: RemoteChannel, tree: str) -> None:
        self.capture = BoundedOutput()
        self._channels, self._channel, self._tree = channels, channel, tree
        self._over = anyio.Event()
        self._broken: ChannelBroken | None = None
        self._trouble: EnvironmentFailed | None = None

    async def watch(self, text: str, stdin: bytes, timeout: float) -> bool:
        """Return True after a time-out."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._channel.send, text, stdin)
            group.start_soon(self._listen)
            with anyio.move_on_after(timeout) as clock:
                await self._over.wait()
            if clock.cancelled_caught:
                await self._end(STOP_GRACE_S, hard=False)
                with anyio.move_on_after(_FINAL_OUTPUT_TIMEOUT_S):
                    await self._over.wait()
            group.cancel_scope.cancel()
        return clock.cancelled_caught

    async def clear(self) -> None:
        if self._channel.last_word is not None:
            self._channels.release(self._channel)
            return
        if not self._over.is_set():  # cancelled: kill at once, the shell first
            with anyio.move_on_after(_CANCEL_TIMEOUT_S, shield=True):
                await self._end(0, hard=True)
        self._channels.drop(self._channel)

    async def code(self, timed_out: bool) -> int:
        if self._trouble is not None:
            raise self._trouble
        if timed_out:
            return TIMEOUT_EXIT_CODE
        if self._broken is None:
            return RemoteExitMessage(self._channel.last_word).code or 0
        reason = await self._channels.client.find_failure(
            self._broken.code, self._broken.complaint, begun=True
        )
        if reason is not None:
            raise reason from self._broken
        return self._broken.code  # the command ended the shell that reports the code

    async def _listen(self) -> None:
        try:
            await anyio.lowlevel.checkpoint()  # send the program before another channel is opened
            self._channels.refill()
            while piece := await self._channel.read_output():
                self.capture.feed(piece)
        except ChannelBroken as broken:
            self._broken = broken
        self._over.set()

    async def _end(self, grace: float, *, hard: bool) -> None:
        try:
            await self._channels.end_tree(self._tree, self._channel.pid, grace=grace, hard=hard)
        except EnvironmentFailed as error:
            self._trouble = error
