"""A chat session: reads the input, starts and stops turns, prints their output."""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hermes.agent.conversation import Conversation
from hermes.agent.history import rebuild_history
from hermes.cli.chat.banner import ChatInfo, render_banner
from hermes.cli.chat.questions import QuestionQueue, TerminalApprover
from hermes.cli.chat.terminals import PROMPT_LABEL, ChatTerminal, InputInterrupted
from hermes.cli.context import run_to_resume
from hermes.cli.render.answer_stream import FragmentKind, OutputFragment, style_fragment
from hermes.cli.render.lines import (
    SPINNER_FRAME_S,
    describe_interrupted_turn,
    message_lines,
    spinner_frame,
)
from hermes.cli.render.terminal_text import TextStyle, clean, wrap
from hermes.cli.render.tool_progress import ProgressMode
from hermes.cli.render.transcript import Transcript, TranscriptFollower
from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.plumbing.problems import closest_name

if TYPE_CHECKING:
    from hermes.app.application import Application
    from hermes.app.models import ModelReachability


class ChatDisplay(Value, kw_only=True, frozen=True):
    """How the output is displayed on this terminal."""

    style: TextStyle = TextStyle()
    spinner: bool = False
    reasoning: bool = False
    progress: ProgressMode = "all"
    banner: bool = True


STOP_TIMEOUT_S = 3.0
"""Time for an interrupted turn to record how it ended."""
LEAVE_INTERVAL_S = 1.0
"""A second Ctrl-C within this time leaves the chat."""
MAX_RESUME_LINES = 8

TURN_ACTIVITY = "on it"
_SLASH_COMMAND = re.compile(r"/([a-zA-Z?]+)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True)
class SlashCommand:
    name: str
    help: str
    run: "Callable[[ChatSession, str], Awaitable[None]]"
    argument: str = ""
    """Name of the argument in /help; in brackets when optional."""
    complete: "Callable[[ChatSession], Awaitable[Sequence[str]]] | None" = None
    activity: str = ""
    """Spinner text while it runs. A command with an activity runs only when idle."""
    aliases: tuple[str, ...] = ()


def find_slash_command(commands: Sequence[SlashCommand], name: str) -> SlashCommand | None:
    return next((each for each in commands if name in (each.name, *each.aliases)), None)


def nearest_slash_command(commands: Sequence[SlashCommand], name: str) -> str:
    """Return the most similar command; empty when none is similar."""
    known = [word for each in commands for word in (each.name, *each.aliases) if len(word) > 1]
    longer = [word for word in known if word.startswith(name)]
    return longer[0] if longer else closest_name(name, known, cutoff=0.5)


class ChatSession:
    """The terminal and the approver, which the application needs to start; then the chat itself."""

    application: "Application"
    conversation: Conversation
    info: ChatInfo
    transcript: Transcript
    transcript_follower: TranscriptFollower
    _group: TaskGroup

    def __init__(
        self, terminal: ChatTerminal, display: ChatDisplay, commands: Sequence[SlashCommand]
    ) -> None:
        self.terminal = terminal
        self.display = display
        self.commands = commands
        self.questions = QuestionQueue(terminal)
        self.approver = TerminalApprover(self.questions, terminal, display.style)
        self.activity = ""
        """The running turn or slow command; empty when idle."""
        self.tone_instruction = ""
        """Prefix of the next message, set when another personality was chosen."""
        self._scope = anyio.CancelScope()
        self._stopping = self._finished = False
        self._idle, self._working = anyio.Event(), anyio.Event()
        self._idle.set()
        self._interrupted_at = -LEAVE_INTERVAL_S

    async def run(
        self,
        application: "Application",
        info: ChatInfo,
        *,
        resume: str | None = None,
        model: str = "",
        warnings: Sequence[str] = (),
        check_server: "Callable[[str], ModelReachability] | None" = None,
    ) -> None:
        """`resume` is a run, or empty for the latest; None starts a new session."""
        self.application = application
        if resume is None:
            conversation = await application.begin()
        else:
            run = await run_to_resume(application.journal, resume)
            conversation = await application.resume(run)
        if model:  # recorded, so that a resumed run uses the same model
            await conversation.switch(application.open_model(model))
        self.conversation = conversation
        self.info = replace(info, model=conversation.model.name)  # that of a resumed run
        self.transcript = self._transcript_of(conversation)
        self.transcript_follower = TranscriptFollower(
            application.bus, self.transcript, self.print_fragments
        )
        self.questions.changed = self.update_prompt
        self.terminal.set_live_rows(self.live_rows)
        reached = check_server(conversation.model.name) if check_server is not None else None
        await self._print_banner(warnings, reached.description if reached else "")
        async with anyio.create_task_group() as self._group:
            await self._group.start(self.transcript_follower.run)
            self._group.start_soon(self.terminal.run)
            self._group.start_soon(self.animate)
            if reached is not None:
                self._group.start_soon(self._report_unreachable_model, reached)
            if resume is not None:
                self.start(TURN_ACTIVITY, self.show_resumed)
            await self._read_input()
            await self.close()
            self._group.cancel_scope.cancel()
        if any(message.role == "user" for message in self.conversation.messages):
            hint = f"to continue this session: hermes --resume {self.conversation.run}"
            await self.terminal.print(self.display.style.dim(hint))

    async def _print_banner(self, warnings: Sequence[str], model: str) -> None:
        if self.display.banner:
            info = replace(self.info, model=model or self.info.model)
            run, width = self.conversation.run, self.terminal.width
            greeting = render_banner(info, run=run, width=width, style=self.display.style)
            await self.terminal.print(greeting + "\n")
        for warning in warnings:
            await self.note(clean(warning), "error")

    async def _report_unreachable_model(self, reach: "ModelReachability") -> None:
        """Runs beside the chat: a server that does not answer must not delay the prompt."""
        if why := await reach.connection_problem():
            await self.note(clean(f"{reach.name}: {why}"), "error")

    async def _read_input(self) -> None:
        while True:
            self.update_prompt()
            try:
                line = await self.terminal.read()
            except InputInterrupted:
                await self._handle_interrupt()
            except EOFError:
                return
            else:
                await self._handle_line(line)

    async def _handle_line(self, line: str) -> None:
        text = line.strip()
        await self.wait_until_steerable()
        if self.questions.label:
            await self._handle_answer(text)
        elif not text:
            return
        elif command := _SLASH_COMMAND.fullmatch(text):
            await self._echo(text)
            await self._run_slash_command(command[1].lower(), (command[2] or "").strip())
        elif not self.activity:
            await self._echo(text)
            words, self.tone_instruction = self.tone_instruction + text, ""
            self.start(TURN_ACTIVITY, lambda: self.conversation.say(words))
        elif self.activity == TURN_ACTIVITY:
            await self._echo(text)
            self.conversation.steer(text)
        else:
            await self.note(f"{self.activity}: wait, or /stop it", "error")

    async def _handle_answer(self, text: str) -> None:
        label = self.questions.label
        if self.questions.try_answer(text):
            await self._echo(text or "(nothing)", label)
        else:
            await self.note(f"not an answer to this: {clean(text) or '(nothing)'}", "error")

    async def _run_slash_command(self, name: str, argument: str) -> None:
        command = find_slash_command(self.commands, name)
        if command is None:
            meant = nearest_slash_command(self.commands, name)
            hint = f"did you mean /{meant}?" if meant else "/help lists them"
            await self.note(f"there is no command /{name}; {hint}", "error")
        elif not command.activity:
            try:
                await command.run(self, argument)
            except HermesError as error:
                await self.note(clean(str(error)), "error")
        elif self.activity:
            await self.note(f"/{name} must wait: {self.activity}. /stop interrupts it", "error")
        else:
            run = command.run
            self.start(command.activity, lambda: run(self, argument))

    async def _handle_interrupt(self) -> None:
        """Decline, stop, or discard the input; two at an empty prompt leave the chat."""
        now = time.monotonic()
        again, self._interrupted_at = now - self._interrupted_at < LEAVE_INTERVAL_S, now
        if self.questions.decline():
            await self.note("refused")
        elif self.stop() or self.terminal.discard_input():
            return
        elif again:
            self.terminal.close()
        else:
            await self.note("Ctrl-C again leaves; the session can be resumed")

    async def _echo(self, text: str, label: str = PROMPT_LABEL) -> None:
        """The input disappears when it is sent, so print it above."""
        if self.terminal.can_redraw:
            echoed = clean(text).replace("\n", "\n… ")
            await self.terminal.print(self.display.style.bold(f"{label}{echoed}"))

    async def show_resumed(self) -> None:
        """Show the last messages and continue the turn that was interrupted, if any."""
        conversation, width = self.conversation, self.terminal.width
        if lines := message_lines(conversation.messages, width, last=MAX_RESUME_LINES):
            await self.terminal.print(self.display.style.dim("\n".join(lines)))
        history = await rebuild_history(self.application.journal, conversation.run)
        if not history.open:
            await self.note(f"back in {conversation.run}")
            return
        await self.note(describe_interrupted_turn(history, width))
        await conversation.finish_open_turn()

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

    def start(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Start a turn or a slow command. The session is busy at once."""
        self.activity, self._stopping, self._finished = what, False, False
        self._scope, self._idle = anyio.CancelScope(), anyio.Event()
        self.transcript.activity_started_at = time.monotonic()
        self._working.set()
        self.update_prompt()
        self._group.start_soon(self._run_activity, work)

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
