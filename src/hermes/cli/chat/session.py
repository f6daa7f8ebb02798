"""Gives each kind of piece its look on this terminal."""

import textwrap
import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from hermes.agent.conversation import Conversation
from hermes.cli.chat.interfaces import (
    PROMPT_LABEL,
    ChatApplication,
    ChatDisplay,
    ChatInfo,
    ChatTerminal,
)
from hermes.cli.chat.questions import QuestionQueue
from hermes.cli.render.answer_stream import FragmentKind, OutputFragment
from hermes.cli.render.lines import format_duration
from hermes.cli.render.terminal_text import TextStyle, clean, clip, wrap
from hermes.cli.render.transcript import Transcript, TranscriptFollower
from hermes.core.errors import HermesError


def style_fragment(
    piece: OutputFragment, *, style: TextStyle, width: int, block_mode: bool
) -> tuple[str, str]:
    """What to print, and what ends it: fragments of raw text end with nothing."""
    if piece.kind == "text":
        return (
            (_render_block(piece.text, width, style) + "\n", "\n")
            if block_mode
            else (piece.text, "")
        )
    if piece.kind == "reasoning":
        return style.dim(piece.text), "\n" if block_mode else ""
    if piece.kind == "error":
        return style.red(_wrap_text(f"✗ {piece.text}", width)), "\n"
    if piece.kind == "tool":
        return _color_result_mark(piece.text, style), "\n"
    return style.dim(_wrap_text(piece.text, width)), "\n"


def _wrap_text(text: str, width: int) -> str:
    """Broken between words; rows that were broken already keep their indent."""
    return "\n".join(textwrap.fill(row, width, drop_whitespace=False) for row in text.split("\n"))


def _render_block(text: str, width: int, style: TextStyle) -> str:
    from hermes.cli.rich_output import render_markdown_block

    return render_markdown_block(text, width=width, colour=style.colour)


def _color_result_mark(line: str, style: TextStyle) -> str:
    """Colour only the mark at the end: the call before it may contain anything."""
    for mark, colour in (("  ✓ ", style.green), ("  ✗ ", style.red)):
        before, found, after = line.rpartition(mark)
        if found:
            return f"{before}{colour(found.rstrip())} {style.dim(after)}"
    return style.dim(line)


SPINNER_FACES = ("(◕‿◕)", "(◕ᴗ◕)", "(◔‿◔)", "(◕‿◕)", "(-‿-)", "(◕‿◕)")
SPINNER_HANDS = ("✧", "･", "✦", "･")
SPINNER_FRAME_S = 0.2
"""Seconds that one face stays."""


def spinner_frame(activity: str, elapsed: float, width: int) -> str:
    """One frame, or nothing when nobody is at work."""
    if not activity:
        return ""
    frame = int(elapsed / SPINNER_FRAME_S)
    face, hand = (
        SPINNER_FACES[frame // 2 % len(SPINNER_FACES)],
        SPINNER_HANDS[frame % len(SPINNER_HANDS)],
    )
    took = format_duration(elapsed) if elapsed >= 10 else f"{int(elapsed)} s"
    return f"{hand} {face} {clip(activity, max(width - 20, 8))} · {took}"


STOP_TIMEOUT_S = 3.0
"""Seconds that an interrupted turn gets to write down how it ended."""

TURN_ACTIVITY = "on it"


class ChatSession:
    def __init__(
        self,
        application: ChatApplication,
        conversation: Conversation,
        terminal: ChatTerminal,
        questions: QuestionQueue,
        *,
        info: ChatInfo,
        display: ChatDisplay,
    ) -> None:
        self.application = application
        self.conversation = conversation
        self.terminal = terminal
        self.info = info
        self.display = display
        self.questions = questions
        self.activity = ""
        """What is being done now: a turn, or a command that takes a while."""
        self.tone_instruction = ""
        """Put before the next words, when another personality was chosen."""
        self._scope = anyio.CancelScope()
        self._stopping = self._finished = False
        self._idle, self._working = anyio.Event(), anyio.Event()
        self._idle.set()
        self.transcript = self._transcript_of(conversation)
        self.transcript_follower = TranscriptFollower(
            application.bus, self.transcript, self.print_fragments
        )
        questions.changed = self.update_prompt
        terminal.set_live_rows(self.live_rows)

    def _transcript_of(self, conversation: Conversation) -> Transcript:
        return Transcript(
            conversation.run,
            block_mode=self.terminal.can_redraw,
            reasoning=self.display.reasoning,
            progress=self.display.progress,
            width=lambda: self.terminal.width,
        )

    def switch_conversation(self, conversation: Conversation) -> None:
        """Another conversation from here on."""
        verbose = self.transcript.tool_progress.verbose
        self.conversation = conversation
        self.transcript = self.transcript_follower.transcript = self._transcript_of(conversation)
        self.transcript.tool_progress.verbose = verbose

    async def print_fragments(self, pieces: Sequence[OutputFragment]) -> None:
        for piece in pieces:
            text, end = style_fragment(
                piece,
                style=self.display.ink,
                width=self.terminal.width,
                block_mode=self.terminal.can_redraw,
            )
            await self.terminal.print(text, end=end)
        self.terminal.refresh()

    async def note(self, text: str, kind: FragmentKind = "note") -> None:
        await self.print_fragments([OutputFragment(kind, text)])

    def start(self, group: TaskGroup, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Begin a turn or a slow command. Busy from now on, not from when the task first runs."""
        self.activity, self._stopping, self._finished = what, False, False
        self._scope, self._idle = anyio.CancelScope(), anyio.Event()
        self.transcript.activity_started_at = time.monotonic()
        self._working.set()
        self.update_prompt()
        group.start_soon(self._run_activity, work)

    async def _run_activity(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            with self._scope:
                await work()
        except HermesError as error:
            self._finished = True
            await self.transcript_follower.wait_until_shown()
            if self.transcript.outcome != "failed":  # else the end of the turn has told it
                await self.note(clean(str(error)), "error")
        finally:
            self._finished = True
            with anyio.CancelScope(shield=True):
                await self.transcript_follower.wait_until_shown()
            self.transcript.current_activity, self.activity, self._working = "", "", anyio.Event()
            self._idle.set()
            self.update_prompt()

    def stop(self) -> bool:
        """Ask what is being done to end; the second time it is cut off. False when idle."""
        if not self.activity:
            return False
        if self.activity == TURN_ACTIVITY and not self._stopping:
            self._stopping = True
            self.conversation.interrupt()
        else:
            self._scope.cancel()
        return True

    async def wait_until_steerable(self) -> None:
        """Return when a turn can be steered or another begun: never at its very edges.

        Words said to a turn that has not begun, or has just ended, would wait for the next one.
        """
        conversation = self.conversation
        while self.activity == TURN_ACTIVITY and not (self._finished or conversation.running):  # noqa: ASYNC110 - a
            await anyio.sleep(0.005)  # conversation has no event for its beginning; it is near
        if self.activity and self._finished:
            await self._idle.wait()

    async def close(self) -> None:
        self.questions.close()
        self.stop()
        with anyio.move_on_after(STOP_TIMEOUT_S):
            await self._idle.wait()

    def update_prompt(self) -> None:
        self.terminal.set_prompt(self.questions.label or (None if self.activity else PROMPT_LABEL))

    def live_rows(self, width: int, rows: int) -> list[str]:
        """Rows above the input: the end of what is being written, and a face at work."""
        shown = wrap(self.transcript.pending_text[-width * rows :], width)[-rows:]
        shown = shown if any(shown) else []
        if self.display.spinner and not self.questions.label:
            face = spinner_frame(
                self.transcript.current_activity or self.activity,
                time.monotonic() - self.transcript.activity_started_at,
                width,
            )
            shown += [self.display.ink.dim(face)] if face else []
        return shown

    async def animate(self) -> None:
        while True:
            await self._working.wait()
            self.terminal.refresh()
            await anyio.sleep(SPINNER_FRAME_S)
