"""Slash commands that show something, and the completions of their arguments."""

from collections import Counter
from collections.abc import Sequence

from hermes.agent.history import ConversationHistory, rebuild_history
from hermes.cli.chat.session import ChatSession
from hermes.cli.render.lines import call_line, format_usage
from hermes.cli.render.terminal_text import clean, clip, display_width
from hermes.core.events.runs import ModelAnswered, RunDeleted, RunStarted
from hermes.core.knowledge import RECALL_NOTE_PREFIX
from hermes.core.messages import Message

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


def message_lines(messages: Sequence[Message], width: int, *, last: int = 0) -> list[str]:
    """Return one line per message; `last` keeps only that many at the end."""
    lines = []
    for message in messages:
        text = clip(clean(message.text), max(width - 4, 10))
        if message.role == "user" and text and not text.startswith(RECALL_NOTE_PREFIX):
            lines.append(f"❯ {text}")
        elif message.role == "assistant":
            lines += [f"  {text}"] if text else []
            if message.calls:
                names = ", ".join(clean(call.name) for call in message.calls)
                lines.append(f"  🔧 {clip(names, max(width - 6, 10))}")
    return lines[-last:]


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


MAX_RESUME_LINES = 8


async def show_resumed_session(session: ChatSession) -> None:
    """Show the last messages and continue the turn that was interrupted, if any."""
    lines = message_lines(
        session.conversation.messages, session.terminal.width, last=MAX_RESUME_LINES
    )
    if lines:
        await session.terminal.print(session.display.style.dim("\n".join(lines)))
    history = await rebuild_history(session.application.journal, session.conversation.run)
    if not history.open:
        await session.note(f"back in {session.conversation.run}")
        return
    await session.note(describe_interrupted_turn(history, session.terminal.width))
    await session.conversation.carry_on()


def describe_interrupted_turn(history: ConversationHistory, width: int) -> str:
    """Describe the open tool calls of an interrupted turn. They may have taken effect."""
    calls = history.unanswered()
    if not calls:
        return "the last turn was interrupted before its answer; continuing it"
    rows = [f"the last turn was interrupted in {len(calls)} tool call(s); continuing it:"]
    for call in calls:
        again = (
            "will run again" if history.may_run(call) else "may have taken effect; not run again"
        )
        rows.append(f"  {call_line(call, width - 44)} — {again}")
    return "\n".join(rows)
