"""The slash commands, as a table. To add one: write its function, and name it here."""

import difflib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hermes.cli.interactive import deeds, views
from hermes.cli.interactive.desk import TURN, Desk

Handler = Callable[[Desk, str], Awaitable[None]]


@dataclass(frozen=True)
class Command:
    name: str
    help: str
    run: Handler
    argument: str = ""
    """How the argument is called in /help; in brackets when it may be left out."""
    complete: Callable[[Desk], Awaitable[Sequence[str]]] | None = None
    doing: str = ""
    """What the face says while it runs. Such a command waits until nothing else is going on."""
    aliases: tuple[str, ...] = ()


async def _help(desk: Desk, argument: str) -> None:
    rows = []
    for command in COMMANDS:
        usage = f"/{command.name} {command.argument}".strip()
        rows.append((usage, command.help))
    await views.table(desk, rows)
    await desk.note(
        "Alt-Enter or a backslash at the end begins a new line. While a turn runs, what you "
        "type steers it; Ctrl-C stops it. Ctrl-D leaves."
    )


COMMANDS = (
    Command("help", "this list", _help, aliases=("h", "?")),
    Command("clear", "clear the screen; the conversation stays", deeds.clear),
    Command("new", "begin a new session", deeds.new, doing="opening", aliases=("reset",)),
    Command(
        "model",
        "show the model, or test another and switch to it",
        deeds.model,
        "[ref]",
        views.model_names,
        doing="testing the model",
    ),
    Command("tools", "what the agent can do", views.tools),
    Command("skills", "what it has learned", views.skills),
    Command("compress", "sum up older messages now", deeds.compress, doing="compressing"),
    Command("usage", "tokens and money so far", views.usage, aliases=("cost",)),
    Command("undo", "take back the last turn", deeds.undo, doing="undoing"),
    Command("retry", "take back the last turn and ask again", deeds.retry, doing=TURN),
    Command("save", "write the conversation to a .md or .json file", deeds.save, "[file]"),
    Command(
        "personality",
        "show or change the tone of the answers",
        deeds.personality,
        "[name]",
        views.personality_names,
    ),
    Command("status", "model, folder, place, session", views.status),
    Command("history", "what was said in this session", views.history),
    Command(
        "resume",
        "go on with another session",
        deeds.resume,
        "[run]",
        views.run_names,
        doing=TURN,
    ),
    Command("title", "give this session a name", deeds.title, "NAME"),
    Command("stop", "interrupt the running turn", deeds.stop),
    Command("verbose", "show more, or less, of what tools do and models think", deeds.verbose),
    Command("exit", "leave; the session can be resumed", deeds.leave, aliases=("quit", "q")),
)


def find(name: str) -> Command | None:
    return next((each for each in COMMANDS if name in (each.name, *each.aliases)), None)


def nearest(name: str) -> str:
    """The command that was probably meant; empty when nothing comes near."""
    known = [word for each in COMMANDS for word in (each.name, *each.aliases) if len(word) > 1]
    longer = [word for word in known if word.startswith(name)]
    return next(iter(longer or difflib.get_close_matches(name, known, n=1, cutoff=0.5)), "")
