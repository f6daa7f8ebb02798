"""The greeting: who answers, where commands run, what there is to work with."""

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
"""Rows of tool or skill names before the rest is only counted."""


def render_banner(info: ChatInfo, *, run: str, width: int, style: TextStyle) -> str:
    """No row is wider than `width`; a terminal that tells none counts as 80 columns."""
    room = min(width if width > 0 else 80, MAX_BANNER_COLUMNS)
    title = f" ☤ Hermes {info.version} "
    rows = [
        style.bold(style.yellow(clip(title, room))),
        *_field_rows("model", info.model, room, style),
        *_field_rows("folder", _truncate_path(info.directory, room - 9), room, style),
        *_field_rows("place", info.place, room, style),
        *_name_rows("tools", [name for name, _ in info.tools], room, style),
        *_name_rows("skills", [name for name, _ in info.skills], room, style),
        *_field_rows("session", run, room, style),
        style.dim(clip("/help for commands · Alt-Enter for a new line · Ctrl-C stops", room)),
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
    """The end of a long path tells more than its beginning."""
    while display_width(path) > max(width, 10) and "/" in path.lstrip("…/"):
        path = "…/" + path.lstrip("…/").split("/", 1)[1]
    return path


LEAVE_INTERVAL_S = 1.0
"""Seconds in which a second Ctrl-C means leaving."""
_SLASH_COMMAND = re.compile(r"/([a-zA-Z?]+)(?:\s+(.*))?", re.DOTALL)


class InputHandler:
    def __init__(self, session: ChatSession, group: TaskGroup) -> None:
        self._session = session
        self._group = group
        self._interrupted_at = -LEAVE_INTERVAL_S

    async def run(self) -> None:
        """Until the person leaves."""
        desk = self._session
        while True:
            desk.update_prompt()
            try:
                line = await desk.terminal.read()
            except InputInterrupted:
                await self._handle_interrupt()
            except EOFError:
                return
            else:
                await self.handle_line(line)

    async def handle_line(self, line: str) -> None:
        desk, text = self._session, line.strip()
        await desk.wait_until_steerable()
        if desk.questions.label:
            await self._handle_answer(text)
        elif not text:
            return
        elif command := _SLASH_COMMAND.fullmatch(text):
            await self._echo(text)
            await self._run_slash_command(command[1].lower(), (command[2] or "").strip())
        elif not desk.activity:
            await self._echo(text)
            words, desk.tone_instruction = desk.tone_instruction + text, ""
            desk.start(self._group, TURN_ACTIVITY, lambda: desk.conversation.say(words))
        elif desk.activity == TURN_ACTIVITY:
            await self._echo(text)
            desk.conversation.steer(text)
        else:
            await desk.note(f"{desk.activity}: wait, or /stop it", "error")

    async def _handle_answer(self, text: str) -> None:
        desk = self._session
        label = desk.questions.label
        if desk.questions.try_answer(text):
            await self._echo(text or "(nothing)", label)
        else:
            await desk.note(f"not an answer to this: {clean(text) or '(nothing)'}", "error")

    async def _run_slash_command(self, name: str, argument: str) -> None:
        desk, command = self._session, find_slash_command(name)
        if command is None:
            meant = nearest_slash_command(name)
            hint = f"did you mean /{meant}?" if meant else "/help lists them"
            await desk.note(f"there is no command /{name}; {hint}", "error")
        elif not command.activity:
            try:
                await command.run(desk, argument)
            except HermesError as error:
                await desk.note(clean(str(error)), "error")
        elif desk.activity:
            await desk.note(f"/{name} must wait: {desk.activity}. /stop interrupts it", "error")
        else:
            run = command.run
            desk.start(self._group, command.activity, lambda: run(desk, argument))

    async def _handle_interrupt(self) -> None:
        """Refuse, stop, or drop what was typed; twice at once at an empty prompt is goodbye."""
        desk, now = self._session, time.monotonic()
        again = now - self._interrupted_at < LEAVE_INTERVAL_S
        self._interrupted_at = now
        if desk.questions.decline():
            await desk.note("refused")
        elif desk.stop() or desk.terminal.discard_input():
            return
        elif again:
            desk.terminal.close()
        else:
            await desk.note("Ctrl-C again leaves; the session can be resumed")

    async def _echo(self, text: str, label: str = "❯ ") -> None:
        """The input is wiped when it is sent, so what was said is written above it."""
        desk = self._session
        if desk.terminal.can_redraw:
            said = clean(text).replace("\n", "\n… ")
            await desk.terminal.print(desk.display.ink.bold(f"{label}{said}"))


class InteractiveChat:
    """What must exist before the house does (it needs somebody to ask), and then the chat."""

    def __init__(self, terminal: ChatTerminal, display: ChatDisplay) -> None:
        self.terminal = terminal
        self.display = display
        self.questions = QuestionQueue(terminal)
        self.approver = TerminalApprover(self.questions, terminal, display.ink)

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
        """`resume` is a run, or empty for the newest; None begins a new session. `reach` tells
        whether the model of this name can be reached."""
        if resume is None:
            conversation = await application.begin()
        else:
            conversation = await application.resume(
                await run_to_resume(application.journal, resume)
            )
        if model:  # written down, so that whoever resumes it asks the same one
            await conversation.switch(application.open_model(model))
        info = replace(info, model=conversation.model.name)  # a resumed one may have its own
        desk = ChatSession(
            application,
            conversation,
            self.terminal,
            self.questions,
            info=info,
            display=self.display,
        )
        if isinstance(self.terminal, PromptTerminal):
            self.terminal.completer = SlashCompleter(desk)
        reached = check_server(conversation.model.name) if check_server is not None else None
        await self._print_banner(desk, warnings, reached.words if reached else "")
        async with anyio.create_task_group() as group:
            await group.start(desk.transcript_follower.run)
            group.start_soon(self.terminal.run)
            group.start_soon(desk.animate)
            if reached is not None:
                group.start_soon(_report_unreachable_model, desk, reached)
            if resume is not None:
                desk.start(group, TURN_ACTIVITY, lambda: show_resumed_session(desk))
            await InputHandler(desk, group).run()
            await desk.close()
            group.cancel_scope.cancel()
        await self._print_resume_hint(desk)

    async def _print_banner(
        self, session: ChatSession, warnings: Sequence[str], model: str
    ) -> None:
        if self.display.banner:
            run, width = session.conversation.run, self.terminal.width
            facts = replace(session.info, model=model or session.info.model)
            greeting = render_banner(facts, run=run, width=width, style=self.display.ink)
            await self.terminal.print(greeting + "\n")
        for warning in warnings:
            await session.note(clean(warning), "error")

    async def _print_resume_hint(self, session: ChatSession) -> None:
        conversation = session.conversation
        if any(message.role == "user" for message in conversation.messages):
            await self.terminal.print(
                self.display.ink.dim(f"to go on with this: hermes --resume {conversation.run}")
            )


async def _report_unreachable_model(session: ChatSession, reach: ModelServerCheck) -> None:
    """Beside the chat: a server that does not answer must not delay the prompt."""
    if why := await reach.trouble():
        await session.note(clean(f"{reach.name}: {why}"), "error")


def open_terminal(display: DisplaySettings, home: Path) -> tuple[ChatTerminal, ChatDisplay]:
    """A drawn terminal where there is one, else lines in and lines out."""
    drawable = sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb_terminal()
    plain = ColorDepth.from_env() is ColorDepth.DEPTH_1_BIT  # NO_COLOR
    colour = display.color == "always" or (display.color == "auto" and drawable and not plain)
    look = ChatDisplay(
        ink=TextStyle(colour=colour),
        spinner=display.spinner and drawable,
        reasoning=display.reasoning,
        progress=progress_mode(display),
        banner=display.banner,
    )
    if drawable:
        return PromptTerminal(history=open_input_history(home / "history")), look
    # What cannot be written in the terminal's encoding is better shown as ? than not at all.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    return LineTerminal(sys.stdin.fileno(), sys.stdout), look


def open_input_history(path: Path) -> History:
    """What was typed, kept for its owner only; a home that cannot be written costs only this."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


async def run_interactive_chat(
    loaded: LoadedSettings, run: str | None, options: dict[str, Any]
) -> int:
    """`run` is a conversation to go on with, empty for the latest; None begins a new one."""
    from hermes.app import open_application
    from hermes.app.models import ModelReachability

    settings = loaded.settings
    sitting = InteractiveChat(*open_terminal(settings.display, loaded.home))
    async with open_application(
        loaded,
        approver=sitting.approver,
        ask=sitting.approver.ask,
        origin="cli",
        **options,
    ) as house:
        means = house.agent_dependencies
        place = means.environment
        facts = ChatInfo(
            version=__version__,
            model=means.model.name,
            directory=house.directory,
            place=f"{place.name} ({place.target})" if place.target else place.name,
            tools=(
                *((spec.name, spec.description) for spec in means.executor.specs),
                *(
                    (name, about)
                    for name, (_, about) in CONVERSATION_TOOLS.items()
                    if means.settings.max_depth
                ),
            ),
            models=tuple(model_references()),
            personalities={**PERSONALITIES, **settings.agent.personalities},
        )
        others = resume_unattended_in_background(loaded, await find_interrupted_runs(house.journal))
        warnings = [*house.warnings, *others]
        await sitting.run(
            house,
            facts,
            resume=run,
            model=options.get("model", ""),
            warnings=warnings,
            check_server=lambda name: ModelReachability(loaded, name),
        )
    return exit_codes.OK
