"""Runs a chat session: starts and stops turns, prints their output, animates the spinner."""

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
from hermes.cli.render.terminal_text import TextStyle, clean, clip, wrap
from hermes.cli.render.transcript import Transcript, TranscriptFollower
from hermes.core.errors import HermesError
from hermes.plumbing.units import format_duration


def style_fragment(
    fragment: OutputFragment, *, style: TextStyle, width: int, block_mode: bool
) -> tuple[str, str]:
    """Return the text to print and its line end, which is empty for streamed text."""
    if fragment.kind == "text":
        return (
            (_render_block(fragment.text, width, style) + "\n", "\n")
            if block_mode
            else (fragment.text, "")
        )
    if fragment.kind == "reasoning":
        return style.dim(fragment.text), "\n" if block_mode else ""
    if fragment.kind == "error":
        return style.red(_wrap_text(f"✗ {fragment.text}", width)), "\n"
    if fragment.kind == "tool":
        return _color_result_mark(fragment.text, style), "\n"
    return style.dim(_wrap_text(fragment.text, width)), "\n"


def _wrap_text(text: str, width: int) -> str:
    """Wrap between words; existing line breaks and indents stay."""
    return "\n".join(textwrap.fill(row, width, drop_whitespace=False) for row in text.split("\n"))


def _render_block(text: str, width: int, style: TextStyle) -> str:
    from hermes.cli.rich_output import render_markdown_block

    return render_markdown_block(text, width=width, colour=style.colour)


def _color_result_mark(line: str, style: TextStyle) -> str:
    """Colour only the last mark: the call before it may contain the same characters."""
    for mark, colour in (("  ✓ ", style.green), ("  ✗ ", style.red)):
        before, found, after = line.rpartition(mark)
        if found:
            return f"{before}{colour(found.rstrip())} {style.dim(after)}"
    return style.dim(line)


SPINNER_FACES = ("(◕‿◕)", "(◕ᴗ◕)", "(◔‿◔)", "(◕‿◕)", "(-‿-)", "(◕‿◕)")
SPINNER_HANDS = ("✧", "･", "✦", "･")
SPINNER_FRAME_S = 0.2


def spinner_frame(activity: str, elapsed: float, width: int) -> str:
    """Return one frame; empty without an activity."""
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
"""Time for an interrupted turn to record how it ended."""

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
        """The running turn or slow command; empty when idle."""
        self.tone_instruction = ""
        """Prefix of the next message, set when another personality was chosen."""
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
        verbose = self.transcript.tool_progress.verbose
        self.conversation = conversation
        self.transcript = self.transcript_follower.transcript = self._transcript_of(conversation)
        self.transcript.tool_progress.verbose = verbose

    async def print_fragments(self, fragments: Sequence[OutputFragment]) -> None:
        for fragment in fragments:
            text, end = style_fragment(
                fragment,
                style=self.display.style,
                width=self.terminal.width,
                block_mode=self.terminal.can_redraw,
            )
            await self.terminal.print(text, end=end)
        self.terminal.refresh()

    async def note(self, text: str, kind: FragmentKind = "note") -> None:
        await self.print_fragments([OutputFragment(kind, text)])

    def start(self, group: TaskGroup, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Start a turn or a slow command. The session is busy at once."""
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
            if self.transcript.outcome != "failed":  # else the end of the turn has shown it
                await self.note(clean(str(error)), "error")
        finally:
            self._finished = True
            with anyio.CancelScope(shield=True):
                await self.transcript_follower.wait_until_shown()
            self.transcript.current_activity, self.activity, self._working = "", "", anyio.Event()
            self._idle.set()
            self.update_prompt()

    def stop(self) -> bool:
        """Ask the activity to end; the second call cancels it. False when idle."""
        if not self.activity:
            return False
        if self.activity == TURN_ACTIVITY and not self._stopping:
            self._stopping = True
            self.conversation.interrupt()
        else:
            self._scope.cancel()
        return True

    async def wait_until_steerable(self) -> None:
        """Wait until the running turn accepts messages or a new turn can start.

        A message sent before a turn has started, or just after it has ended, would be delivered
        only to the next turn.
        """
        conversation = self.conversation
        while self.activity == TURN_ACTIVITY and not (self._finished or conversation.running):  # noqa: ASYNC110 - no
            await anyio.sleep(0.005)  # event says that a conversation has started; it is short
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
        """Return the rows above the input: the end of the pending text, and the spinner."""
        shown = wrap(self.transcript.pending_text[-width * rows :], width)[-rows:]
        shown = shown if any(shown) else []
        if self.display.spinner and not self.questions.label:
            face = spinner_frame(
                self.transcript.current_activity or self.activity,
                time.monotonic() - self.transcript.activity_started_at,
                width,
            )
            shown += [self.display.style.dim(face)] if face else []
        return shown

    async def animate(self) -> None:
        while True:
            await self._working.wait()
            self.terminal.refresh()
            await anyio.sleep(SPINNER_FRAME_S)
