"""Follows what this process publishes and hands it to a transcript, piece by piece, in order."""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskStatus

from hermes.cli.render import Transcript
from hermes.cli.render_writing import Piece
from hermes.core.bus import Bus, Glimpse, Shown
from hermes.core.ids import new_id
from hermes.core.messages import Delta


class Watcher:
    """Has a life: run it in a task group, next to the conversation that it shows."""

    def __init__(
        self, bus: Bus, transcript: Transcript, tell: Callable[[list[Piece]], Awaitable[None]]
    ) -> None:
        self.transcript = transcript
        self._bus = bus
        self._tell = tell
        self._after = 0
        self._settling: dict[str, anyio.Event] = {}

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        self._after = await self._bus.journal.last()
        started: Callable[[], None] = task_status.started
        while True:
            async with self._bus.subscribe() as stream:
                stale = list(self._settling)  # asked for before this stream began
                started()
                started = _already_started
                await self._catch_up(stale)
                async for shown in stream:
                    await self._show(shown)
            # The stream ended because we fell behind: what we missed is in the journal, and the
            # text that streamed by will come once more, whole.
            self.transcript.writing.lost()

    async def settle(self) -> None:
        """Return once everything published so far has been told."""
        token = new_id("settle")
        shown = self._settling[token] = anyio.Event()
        self._bus.glimpse(token, Delta())  # takes its place behind everything else
        await shown.wait()

    async def _catch_up(self, stale: list[str]) -> None:
        async for recorded in self._bus.journal.read(after=self._after):
            await self._show(recorded)
        for token in stale:  # it may have been in the part that we missed
            self._settling.pop(token).set()

    async def _show(self, shown: Shown) -> None:
        if isinstance(shown, Glimpse):
            if (waiting := self._settling.pop(shown.run, None)) is not None:
                waiting.set()
                return
        elif shown.seq <= self._after:
            return
        else:
            self._after = shown.seq
        await self._tell(self.transcript.feed(shown))


def _already_started() -> None:
    """A task may say only once that it has begun."""
