"""One command to its end at the far end of a line: time bounded, output bounded, nothing left."""

import time

import anyio
import anyio.lowlevel

from hermes.core.errors import PlaceFailed
from hermes.core.protocols import CommandResult
from hermes.environments.output import Capture
from hermes.environments.processes.run import TIMED_OUT
from hermes.environments.processes.tree import GRACE
from hermes.environments.remote.line import Line, LineBroken
from hermes.environments.remote.lines import Lines
from hermes.environments.remote.scripts import Words, program
from hermes.environments.remote.word import LastWord

_LAST_WORDS = 2.0
_CANCELLING = 10.0


async def run_there(
    lines: Lines, body: str, words: Words, *, tree: str, timeout: float, stdin: bytes
) -> tuple[CommandResult, LastWord]:
    """The time counts from when the line is there: how long a place takes to be reached is not
    the command's fault."""
    line = await lines.take()
    started = time.monotonic()
    run = _Run(lines, line, tree)
    try:
        timed_out = await run.watch(program(body, line.nonce, words, quiet=True), stdin, timeout)
    finally:
        await run.clear()
    code = await run.code(timed_out)
    result = CommandResult(
        exit_code=TIMED_OUT if timed_out else code,
        output=run.capture.text(),
        dropped_bytes=run.capture.dropped,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )
    return result, LastWord(line.word)


class _Run:
    def __init__(self, lines: Lines, line: Line, tree: str) -> None:
        self.capture = Capture()
        self._lines, self._line, self._tree = lines, line, tree
        self._over = anyio.Event()
        self._broken: LineBroken | None = None
        self._trouble: PlaceFailed | None = None

    async def watch(self, text: str, stdin: bytes, timeout: float) -> bool:
        """True when the time was up first."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._line.send, text, stdin)
            group.start_soon(self._listen)
            with anyio.move_on_after(timeout) as clock:
                await self._over.wait()
            if clock.cancelled_caught:
                await self._end(GRACE, hard=False)
                with anyio.move_on_after(_LAST_WORDS):
                    await self._over.wait()
            group.cancel_scope.cancel()
        return clock.cancelled_caught

    async def clear(self) -> None:
        if self._line.word is not None:
            self._lines.done(self._line)
            return
        if not self._over.is_set():  # cancelled: at once, and the shell first
            with anyio.move_on_after(_CANCELLING, shield=True):
                await self._end(0, hard=True)
        self._lines.drop(self._line)

    async def code(self, timed_out: bool) -> int:
        if self._trouble is not None:
            raise self._trouble
        if timed_out:
            return TIMED_OUT
        if self._broken is None:
            return LastWord(self._line.word).code or 0
        reason = await self._lines.client.broken(
            self._broken.code, self._broken.complaint, begun=True
        )
        if reason is not None:
            raise reason from self._broken
        return self._broken.code  # the command ended the shell that would have told

    async def _listen(self) -> None:
        try:
            await anyio.lowlevel.checkpoint()  # let the program be sent before a line is opened
            self._lines.restock()
            while piece := await self._line.piece():
                self.capture.feed(piece)
        except LineBroken as broken:
            self._broken = broken
        self._over.set()

    async def _end(self, grace: float, *, hard: bool) -> None:
        try:
            await self._lines.end(self._tree, self._line.pid, grace=grace, hard=hard)
        except PlaceFailed as error:
            self._trouble = error
