"""Slash commands that only show something, and the words their arguments complete to."""

from collections import Counter
from collections.abc import Sequence

from hermes.cli.interactive.desk import Desk
from hermes.cli.render_lines import usage_words
from hermes.cli.render_safe import cells, clean, clip
from hermes.core.events.runs import ModelAnswered, RunDeleted, RunStarted
from hermes.core.messages import Message
from hermes.core.remembering import RECALLED

RECENT = 20


async def table(desk: Desk, rows: Sequence[tuple[str, str]]) -> None:
    """Two columns; on a narrow terminal one below the other."""
    width = desk.terminal.width
    left = max((cells(clean(name)) for name, _ in rows), default=0)
    ink = desk.look.ink
    lines = []
    for name, about in rows:
        name, about = clean(name), clean(about)
        if left + 20 > width:
            lines += [ink.cyan(clip(name, width)), f"  {clip(about, width - 2)}"]
        else:
            padded = name + " " * (left - cells(name))
            lines.append(f"{ink.cyan(padded)}  {clip(about, width - left - 2)}")
    await desk.terminal.print("\n".join(lines))


async def tools(desk: Desk, argument: str) -> None:
    await table(desk, desk.facts.tools or [("none", "this session has no tools")])


async def skills(desk: Desk, argument: str) -> None:
    await table(desk, desk.facts.skills or [("none", "no skill has been learned yet")])


async def usage(desk: Desk, argument: str) -> None:
    run, answers = desk.conversation.run, Counter[str]()
    async for recorded in desk.house.journal.read(run=run, kinds=("model.answered",)):
        if isinstance(recorded.event, ModelAnswered):
            answers[recorded.event.model] += 1
    by = ", ".join(f"{count} by {model}" for model, count in answers.items())
    rows = [("session", usage_words(desk.conversation.usage)), ("answers", by or "none yet")]
    await table(desk, rows)


async def status(desk: Desk, argument: str) -> None:
    facts = desk.facts
    rows = [
        ("session", desk.conversation.run),
        ("model", desk.conversation.model.name),
        ("folder", facts.directory),
        ("place", facts.place),
        ("tools", str(len(facts.tools))),
        ("skills", str(len(facts.skills))),
        ("messages", str(len(desk.conversation.messages))),
        ("usage", usage_words(desk.conversation.usage)),
        ("now", desk.transcript.doing or desk.busy or "waiting for you"),
        ("version", facts.version),
    ]
    await table(desk, [row for row in rows if row[1]])


async def history(desk: Desk, argument: str) -> None:
    lines = exchanges(desk.conversation.messages, desk.terminal.width)
    await desk.terminal.print("\n".join(lines) or "nothing has been said yet")


def exchanges(messages: Sequence[Message], width: int, *, last: int = 0) -> list[str]:
    """Who said what, a line each; `last` limits it to that many from the end."""
    lines = []
    for message in messages:
        text = clip(clean(message.text), max(width - 4, 10))
        if message.role == "user" and text and not text.startswith(RECALLED):
            lines.append(f"❯ {text}")
        elif message.role == "assistant":
            lines += [f"  {text}"] if text else []
            if message.calls:
                names = ", ".join(clean(call.name) for call in message.calls)
                lines.append(f"  🔧 {clip(names, max(width - 6, 10))}")
    return lines[-last:]


async def model_names(desk: Desk) -> Sequence[str]:
    return desk.facts.models


async def personality_names(desk: Desk) -> Sequence[str]:
    return sorted(desk.facts.personalities)


async def run_names(desk: Desk) -> Sequence[str]:
    """Sessions of people, the newest first."""
    runs: dict[str, None] = {}
    kinds = ("run.started", "run.deleted")
    async for recorded in desk.house.journal.read(kinds=kinds):
        event = recorded.event
        if isinstance(event, RunStarted) and not event.parent:
            runs[event.run] = None
        elif isinstance(event, RunDeleted):
            runs.pop(event.run, None)
    return list(reversed(runs))[:RECENT]
