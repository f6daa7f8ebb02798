"""Slash commands that show something, and the completions of their arguments."""

from collections import Counter
from collections.abc import Sequence

from hermes.cli.chat.session import ChatSession, message_lines
from hermes.cli.render.lines import format_usage
from hermes.cli.render.terminal_text import clean, clip, display_width
from hermes.core.events.runs import ModelAnswered, RunDeleted, RunStarted

MAX_RECENT_RUNS = 20


async def show_rows(session: ChatSession, rows: Sequence[tuple[str, str]]) -> None:
    """Print two columns; on a narrow terminal, one below the other."""
    width = session.terminal.width
    left = max((display_width(clean(name)) for name, _ in rows), default=0)
    style = session.display.style
    lines = []
    for name, about in rows:
        name, about = clean(name), clean(about)
        if left + 20 > width:
            lines += [style.cyan(clip(name, width)), f"  {clip(about, width - 2)}"]
        else:
            padded = name + " " * (left - display_width(name))
            lines.append(f"{style.cyan(padded)}  {clip(about, width - left - 2)}")
    await session.terminal.print("\n".join(lines))


async def show_tools(session: ChatSession, argument: str) -> None:
    await show_rows(session, session.info.tools or [("none", "this session has no tools")])


async def show_skills(session: ChatSession, argument: str) -> None:
    await show_rows(session, session.info.skills or [("none", "no skill has been learned yet")])


async def show_usage(session: ChatSession, argument: str) -> None:
    run, answers = session.conversation.run, Counter[str]()
    async for recorded in session.application.journal.read(run=run, kinds=("model.answered",)):
        if isinstance(recorded.event, ModelAnswered):
            answers[recorded.event.model] += 1
    by = ", ".join(f"{count} by {model}" for model, count in answers.items())
    rows = [("session", format_usage(session.conversation.usage)), ("answers", by or "none yet")]
    await show_rows(session, rows)


async def show_status(session: ChatSession, argument: str) -> None:
    info = session.info
    rows = [
        ("session", session.conversation.run),
        ("model", session.conversation.model.name),
        ("folder", info.directory),
        ("environment", info.environment),
        ("tools", str(len(info.tools))),
        ("skills", str(len(info.skills))),
        ("messages", str(len(session.conversation.messages))),
        ("usage", format_usage(session.conversation.usage)),
        ("now", session.transcript.current_activity or session.activity or "waiting for you"),
        ("version", info.version),
    ]
    await show_rows(session, [row for row in rows if row[1]])


async def show_history(session: ChatSession, argument: str) -> None:
    lines = message_lines(session.conversation.messages, session.terminal.width)
    await session.terminal.print("\n".join(lines) or "there are no messages yet")


async def model_names(session: ChatSession) -> Sequence[str]:
    return session.info.models


async def personality_names(session: ChatSession) -> Sequence[str]:
    return sorted(session.info.personalities)


async def run_names(session: ChatSession) -> Sequence[str]:
    """Return sessions that are not subagents, the newest first."""
    runs: dict[str, None] = {}
    kinds = ("run.started", "run.deleted")
    async for recorded in session.application.journal.read(kinds=kinds):
        event = recorded.event
        if isinstance(event, RunStarted) and not event.parent:
            runs[event.run] = None
        elif isinstance(event, RunDeleted):
            runs.pop(event.run, None)
    return list(reversed(runs))[:MAX_RECENT_RUNS]
