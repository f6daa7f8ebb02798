"""The interactive chat: opens the terminal and the application and handles the input."""

import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.utils import is_dumb_terminal

from hermes import __version__
from hermes.agent.history import find_interrupted_runs
from hermes.agent.prompt import PERSONALITIES
from hermes.cli import exit_codes
from hermes.cli.admin.tools import CONVERSATION_TOOLS
from hermes.cli.background_runs import resume_unattended_in_background
from hermes.cli.chat.interfaces import (
    ChatApplication,
    ChatDisplay,
    ChatInfo,
    ChatTerminal,
    InputInterrupted,
    ModelServerCheck,
)
from hermes.cli.chat.questions import QuestionQueue, TerminalApprover
from hermes.cli.chat.session import TURN_ACTIVITY, ChatSession
from hermes.cli.chat.slash_commands import SlashCompleter, find_slash_command, nearest_slash_command
from hermes.cli.chat.slash_views import show_resumed_session
from hermes.cli.chat.terminals import LineTerminal, PromptTerminal
from hermes.cli.context import run_to_resume
from hermes.cli.render.terminal_text import TextStyle, clean, clip, display_width
from hermes.cli.render.tool_progress import progress_mode
from hermes.core.errors import HermesError
from hermes.models.catalog import model_references
from hermes.settings.load import LoadedSettings
from hermes.settings.schema import DisplaySettings

MAX_BANNER_COLUMNS = 100
MAX_NAME_ROWS = 2
"""Rows of tool or skill names; the rest is only counted."""
LEAVE_INTERVAL_S = 1.0
"""A second Ctrl-C within this time leaves the chat."""
_SLASH_COMMAND = re.compile(r"/([a-zA-Z?]+)(?:\s+(.*))?", re.DOTALL)


async def run_interactive_chat(
    loaded: LoadedSettings, run: str | None, options: dict[str, Any]
) -> int:
    """`run` is the conversation to continue, empty for the latest; None starts a new one."""
    from hermes.app import open_application
    from hermes.app.models import ModelReachability

    settings = loaded.settings
    chat = InteractiveChat(*open_terminal(settings.display, loaded.home))
    async with open_application(
        loaded, approver=chat.approver, ask=chat.approver.ask, origin="cli", **options
    ) as application:
        dependencies = application.agent_dependencies
        environment = dependencies.environment
        info = ChatInfo(
            version=__version__,
            model=dependencies.model.name,
            directory=application.directory,
            environment=f"{environment.name} ({environment.target})"
            if environment.target
            else environment.name,
            tools=(
                *((spec.name, spec.description) for spec in dependencies.executor.specs),
                *(
                    (name, about)
                    for name, (_, about) in CONVERSATION_TOOLS.items()
                    if dependencies.settings.max_depth
                ),
            ),
            models=tuple(model_references()),
            personalities={**PERSONALITIES, **settings.agent.personalities},
        )
        others = resume_unattended_in_background(
            loaded, await find_interrupted_runs(application.journal)
        )
        warnings = [*application.warnings, *others]
        await chat.run(
            application,
            info,
            resume=run,
            model=options.get("model", ""),
            warnings=warnings,
            check_server=lambda name: ModelReachability(loaded, name),
        )
    return exit_codes.OK


def open_terminal(display: DisplaySettings, home: Path) -> tuple[ChatTerminal, ChatDisplay]:
    """Return a terminal that can be redrawn where possible, else plain lines."""
    drawable = sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb_terminal()
    plain = ColorDepth.from_env() is ColorDepth.DEPTH_1_BIT  # NO_COLOR
    colour = display.color == "always" or (display.color == "auto" and drawable and not plain)
    chat_display = ChatDisplay(
        style=TextStyle(colour=colour),
        spinner=display.spinner and drawable,
        reasoning=display.reasoning,
        progress=progress_mode(display),
        banner=display.banner,
    )
    if drawable:
        return PromptTerminal(history=open_input_history(home / "history")), chat_display
    # Characters outside the encoding of the terminal become ?.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    return LineTerminal(sys.stdin.fileno(), sys.stdout), chat_display


def open_input_history(path: Path) -> History:
    """Readable only by the owner; kept in memory when the home folder is not writable."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


class InteractiveChat:
    """The terminal and the approver, which the application needs to start; then the chat itself."""

    def __init__(self, terminal: ChatTerminal, display: ChatDisplay) -> None:
        self.terminal = terminal
        self.display = display
        self.questions = QuestionQueue(terminal)
        self.approver = TerminalApprover(self.questions, terminal, display.style)

    async def run(
        self,
        application: ChatApplication,
        info: ChatInfo,
        *,
        resume: str | None = None,
        model: str = "",
        warnings: Sequence[str] = (),
        check_server: Callable[[str], ModelServerCheck] | None = None,
    ) -> None:
        """`resume` is a run, or empty for the latest; None starts a new session."""
        if resume is None:
            conversation = await application.begin()
        else:
            conversation = await application.resume(
                await run_to_resume(application.journal, resume)
            )
        if model:  # recorded, so that a resumed run uses the same model
            await conversation.switch(application.open_model(model))
        info = replace(info, model=conversation.model.name)  # a resumed run may have another model
        session = ChatSession(
            application,
            conversation,
            self.terminal,
            self.questions,
            info=info,
            display=self.display,
        )
        if isinstance(self.terminal, PromptTerminal):
            self.terminal.completer = SlashCompleter(session)
        reached = check_server(conversation.model.name) if check_server is not None else None
        await self._print_banner(session, warnings, reached.words if reached else "")
        async with anyio.create_task_group() as group:
            await group.start(session.transcript_follower.run)
            group.start_soon(self.terminal.run)
            group.start_soon(session.animate)
            if reached is not None:
                group.start_soon(_report_unreachable_model, session, reached)
            if resume is not None:
                session.start(group, TURN_ACTIVITY, lambda: show_resumed_session(session))
            await InputHandler(session, group).run()
            await session.close()
            group.cancel_scope.cancel()
        await self._print_resume_hint(session)

    async def _print_banner(
        self, session: ChatSession, warnings: Sequence[str], model: str
    ) -> None:
        if self.display.banner:
            run, width = session.conversation.run, self.terminal.width
            info = replace(session.info, model=model or session.info.model)
            greeting = render_banner(info, run=run, width=width, style=self.display.style)
            await self.terminal.print(greeting + "\n")
        for warning in warnings:
            await session.note(clean(warning), "error")

    async def _print_resume_hint(self, session: ChatSession) -> None:
        conversation = session.conversation
        if any(message.role == "user" for message in conversation.messages):
            await self.terminal.print(
                self.display.style.dim(
                    f"to continue this session: hermes --resume {conversation.run}"
                )
            )


async def _report_unreachable_model(session: ChatSession, reach: ModelServerCheck) -> None:
    """Runs beside the chat: a server that does not answer must not delay the prompt."""
    if why := await reach.trouble():
        await session.note(clean(f"{reach.name}: {why}"), "error")


class InputHandler:
    def __init__(self, session: ChatSession, group: TaskGroup) -> None:
        self._session = session
        self._group = group
        self._interrupted_at = -LEAVE_INTERVAL_S

    async def run(self) -> None:
        session = self._session
        while True:
            session.update_prompt()
            try:
                line = await session.terminal.read()
            except InputInterrupted:
                await self._handle_interrupt()
            except EOFError:
                return
            else:
                await self.handle_line(line)

    async def handle_line(self, line: str) -> None:
        session, text = self._session, line.strip()
        await session.wait_until_steerable()
        if session.questions.label:
            await self._handle_answer(text)
        elif not text:
            return
        elif command := _SLASH_COMMAND.fullmatch(text):
            await self._echo(text)
            await self._run_slash_command(command[1].lower(), (command[2] or "").strip())
        elif not session.activity:
            await self._echo(text)
            words, session.tone_instruction = session.tone_instruction + text, ""
            session.start(self._group, TURN_ACTIVITY, lambda: session.conversation.say(words))
        elif session.activity == TURN_ACTIVITY:
            await self._echo(text)
            session.conversation.steer(text)
        else:
            await session.note(f"{session.activity}: wait, or /stop it", "error")

    async def _handle_answer(self, text: str) -> None:
        session = self._session
        label = session.questions.label
        if session.questions.try_answer(text):
            await self._echo(text or "(nothing)", label)
        else:
            await session.note(f"not an answer to this: {clean(text) or '(nothing)'}", "error")

    async def _run_slash_command(self, name: str, argument: str) -> None:
        session, command = self._session, find_slash_command(name)
        if command is None:
            meant = nearest_slash_command(name)
            hint = f"did you mean /{meant}?" if meant else "/help lists them"
            await session.note(f"there is no command /{name}; {hint}", "error")
        elif not command.activity:
            try:
                await command.run(session, argument)
            except HermesError as error:
                await session.note(clean(str(error)), "error")
        elif session.activity:
            await session.note(
                f"/{name} must wait: {session.activity}. /stop interrupts it", "error"
            )
        else:
            run = command.run
            session.start(self._group, command.activity, lambda: run(session, argument))

    async def _handle_interrupt(self) -> None:
        """Decline, stop, or discard the input; two at an empty prompt leave the chat."""
        session, now = self._session, time.monotonic()
        again = now - self._interrupted_at < LEAVE_INTERVAL_S
        self._interrupted_at = now
        if session.questions.decline():
            await session.note("refused")
        elif session.stop() or session.terminal.discard_input():
            return
        elif again:
            session.terminal.close()
        else:
            await session.note("Ctrl-C again leaves; the session can be resumed")

    async def _echo(self, text: str, label: str = "❯ ") -> None:
        """The input disappears when it is sent, so print it above."""
        session = self._session
        if session.terminal.can_redraw:
            echoed = clean(text).replace("\n", "\n… ")
            await session.terminal.print(session.display.style.bold(f"{label}{echoed}"))


def render_banner(info: ChatInfo, *, run: str, width: int, style: TextStyle) -> str:
    """No row is wider than `width`; an unknown width counts as 80 columns."""
    columns = min(width if width > 0 else 80, MAX_BANNER_COLUMNS)
    title = f" ☤ Hermes {info.version} "
    rows = [
        style.bold(style.yellow(clip(title, columns))),
        *_field_rows("model", info.model, columns, style),
        *_field_rows("folder", _truncate_path(info.directory, columns - 9), columns, style),
        *_field_rows("runs in", info.environment, columns, style),
        *_name_rows("tools", [name for name, _ in info.tools], columns, style),
        *_name_rows("skills", [name for name, _ in info.skills], columns, style),
        *_field_rows("session", run, columns, style),
        style.dim(clip("/help for commands · Alt-Enter for a new line · Ctrl-C stops", columns)),
    ]
    return "\n".join(rows)


def _field_rows(label: str, value: str, width: int, style: TextStyle) -> list[str]:
    text = clip(clean(value), width - 9)
    return [f"{style.dim(label.ljust(8))} {text}"] if text else []


def _name_rows(label: str, names: list[str], width: int, style: TextStyle) -> list[str]:
    if not names:
        return [f"{style.dim(label.ljust(8))} none"]
    rows, shown = [f"{len(names)}:"], 0
    for name in map(clean, sorted(names)):
        if display_width(rows[-1]) + 1 + display_width(name) <= width - 9:
            rows[-1] += f" {name}"
        elif len(rows) < MAX_NAME_ROWS and display_width(name) <= width - 9:
            rows.append(name)
        else:
            break
        shown += 1
    if shown < len(names):
        rows[-1] = clip(rows[-1], width - 20) + f" +{len(names) - shown} more"
    labels = [style.dim(label.ljust(8)), *[" " * 8] * (len(rows) - 1)]
    return [f"{left} {row}" for left, row in zip(labels, rows, strict=True)]


def _truncate_path(path: str, width: int) -> str:
    """Keep the end of a long path."""
    while display_width(path) > max(width, 10) and "/" in path.lstrip("…/"):
        path = "…/" + path.lstrip("…/").split("/", 1)[1]
    return path
