"""The interactive chat: opens the terminal, the application and the session."""

import sys
from pathlib import Path
from typing import Any

from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.utils import is_dumb_terminal

from hermes import __version__
from hermes.agent.history import find_interrupted_runs
from hermes.agent.prompt import PERSONALITIES
from hermes.cli import exit_codes
from hermes.cli.admin.tools import CONVERSATION_TOOLS
from hermes.cli.background_runs import resume_unattended_in_background
from hermes.cli.chat.banner import ChatInfo
from hermes.cli.chat.session import ChatDisplay, ChatSession
from hermes.cli.chat.slash_commands import SLASH_COMMANDS, SlashCompleter
from hermes.cli.chat.terminals import ChatTerminal, LineTerminal, PromptTerminal
from hermes.cli.render.terminal_text import TextStyle
from hermes.cli.render.tool_progress import progress_mode
from hermes.models.catalog import model_references
from hermes.settings.load import LoadedSettings
from hermes.settings.schema import DisplaySettings


async def run_interactive_chat(
    loaded: LoadedSettings, run: str | None, options: dict[str, Any]
) -> int:
    """`run` is the conversation to continue, empty for the latest; None starts a new one."""
    from hermes.app import open_application
    from hermes.app.models import ModelReachability

    settings = loaded.settings
    chat = open_session(*open_terminal(settings.display, loaded.home))
    async with open_application(
        loaded, approver=chat.approver, ask=chat.approver.ask, origin="cli", **options
    ) as application:
        dependencies = application.agent_dependencies
        chat.approver.by = dependencies.by
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


def open_session(terminal: ChatTerminal, display: ChatDisplay) -> ChatSession:
    session = ChatSession(terminal, display, SLASH_COMMANDS)
    if isinstance(terminal, PromptTerminal):
        terminal.completer = SlashCompleter(session)
    return session


def open_input_history(path: Path) -> History:
    """Readable only by the owner; kept in memory when the home folder is not writable."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
