"""One person, one conversation, one thing at a time: what the prompt and the commands act on."""

import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from hermes.agent.conversation import Conversation
from hermes.cli.interactive.painting import paint
from hermes.cli.interactive.questions import Questions
from hermes.cli.interactive.shapes import LABEL, Facts, House, Look, Terminal
from hermes.cli.interactive.spinner import STEP, spin
from hermes.cli.render import Transcript
from hermes.cli.render_safe import clean, wrap
from hermes.cli.render_watch import Watcher
from hermes.cli.render_writing import Kind, Piece
from hermes.core.errors import HermesError

PATIENCE = 3.0
"""Seconds that an interrupted turn gets to write down how it ended."""

TURN = "on it"


class Desk:
    def __init__(
        self,
        house: House,
        conversation: Conversation,
        terminal: Terminal,
        questions: Questions,
        *,
        facts: Facts,
        look: Look,
    ) -> None:
        self.house = house
        self.conversation = conversation
        self.terminal = terminal
        self.facts = facts
        self.look = look
        self.questions = questions
        self.busy = ""
        """What is being done now: a turn, or a command that takes a while."""
        self.tone = ""
        """Put before the next words, when another personality was chosen."""
        self._scope = anyio.CancelScope()
        self._stopping = self._over = False
        self._idle, self._working = anyio.Event(), anyio.Event()
        self._idle.set()
        self.transcript = self._transcript_of(conversation)
        self.watcher = Watcher(house.bus, self.transcript, self.tell)
        questions.changed = self.expect
        terminal.show(self.live)

    def _transcript_of(self, conversation: Conversation) -> Transcript:
        return Transcript(
            conversation.run,
            whole=self.terminal.drawn,
            reasoning=self.look.reasoning,
            progress=self.look.progress,
            width=lambda: self.terminal.width,
        )

    def turn_to(self, conversation: Conversation) -> None:
        """Another conversation from here on."""
        verbose = self.transcript.work.verbose
        self.conversation = conversation
        self.transcript = self.watcher.transcript = self._transcript_of(conversation)
        self.transcript.work.verbose = verbose

    async def tell(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            text, end = paint(
                piece, ink=self.look.ink, width=self.terminal.width, whole=self.terminal.drawn
            )
            await self.terminal.print(text, end=end)
        self.terminal.refresh()

    async def note(self, text: str, kind: Kind = "note") -> None:
        await self.tell([Piece(kind, text)])

    def start(self, group: TaskGroup, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Begin a turn or a slow command. Busy from now on, not from when the task first runs."""
        self.busy, self._stopping, self._over = what, False, False
        self._scope, self._idle = anyio.CancelScope(), anyio.Event()
        self.transcript.since = time.monotonic()
        self._working.set()
        self.expect()
        group.start_soon(self._do, work)

    async def _do(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            with self._scope:
                await work()
        except HermesError as error:
            self._over = True
            await self.watcher.settle()
            if self.transcript.outcome != "failed":  # else the end of the turn has told it
                await self.note(clean(str(error)), "error")
        finally:
            self._over = True
            with anyio.CancelScope(shield=True):
                await self.watcher.settle()
            self.transcript.doing, self.busy, self._working = "", "", anyio.Event()
            self._idle.set()
            self.expect()

    def stop(self) -> bool:
        """Ask what is being done to end; the second time it is cut off. False when idle."""
        if not self.busy:
            return False
        if self.busy == TURN and not self._stopping:
            self._stopping = True
            self.conversation.interrupt()
        else:
            self._scope.cancel()
        return True

    async def settled(self) -> None:
        """Return when a turn can be steered or another begun: never at its very edges.

        Words said to a turn that has not begun, or has just ended, would wait for the next one.
        """
        conversation = self.conversation
        while self.busy == TURN and not (self._over or conversation.running):  # noqa: ASYNC110 - a
            await anyio.sleep(0.005)  # conversation has no event for its beginning; it is near
        if self.busy and self._over:
            await self._idle.wait()

    async def close(self) -> None:
        self.questions.close()
        self.stop()
        with anyio.move_on_after(PATIENCE):
            await self._idle.wait()

    def expect(self) -> None:
        self.terminal.expect(self.questions.label or (None if self.busy else LABEL))

    def live(self, width: int, rows: int) -> list[str]:
        """Rows above the input: the end of what is being written, and a face at work."""
        shown = wrap(self.transcript.live[-width * rows :], width)[-rows:]
        shown = shown if any(shown) else []
        if self.look.spinner and not self.questions.label:
            face = spin(
                self.transcript.doing or self.busy, time.monotonic() - self.transcript.since, width
            )
            shown += [self.look.ink.dim(face)] if face else []
        return shown

    async def animate(self) -> None:
        while True:
            await self._working.wait()
            self.terminal.refresh()
            await anyio.sleep(STEP)
