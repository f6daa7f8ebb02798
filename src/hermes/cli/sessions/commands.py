"""A run as a person reads it afterwards: who said what, which tools ran, what came back."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import click

from hermes.cli.context import MAX_LISTED_RUNS, find_run, has_content, load_settings, query_journal
from hermes.cli.lazy import CommandWithExamples, GroupWithExamples
from hermes.cli.output import confirm, echo, json_option, print_json, print_table
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.errors import HermesError
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.memory import FactNoted, MessageImported, RunSummarised
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    ModelSwitched,
    RunDeleted,
    RunRenamed,
    TurnEnded,
    TurnStarted,
    TurnUndone,
)
from hermes.core.events.tools import ToolApproved, ToolFinished, ToolRequested
from hermes.core.knowledge import RECALL_NOTE_PREFIX
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.runs import RunSummary
from hermes.memory.store import JournalStore, store_exists

EntryRole = Literal["system", "user", "assistant", "tool", "note"]


class TranscriptEntry(Value, kw_only=True, frozen=True, omit_defaults=False):
    seq: int = 0
    """The number of its event in the journal."""
    role: EntryRole
    at: str
    text: str
    tool: str = ""
    undone: bool = False


def transcript_entries(records: Iterable[JournalRecord]) -> list[TranscriptEntry]:
    """In order. What was taken back with /undo is there, and marked."""
    known = [
        (recorded.seq, recorded.event)
        for recorded in records
        if not isinstance(recorded.event, UnknownEvent)
    ]
    undone = {event.turn for _, event in known if isinstance(event, TurnUndone)}
    calls: dict[str, str] = {}
    told: list[TranscriptEntry] = []
    turn = 0
    for seq, event in known:
        if isinstance(event, TurnStarted):
            turn = event.turn
        at = event.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        for role, tool, text in _event_texts(event, calls):
            entry = TranscriptEntry(
                seq=seq, role=role, at=at, text=text, tool=tool, undone=turn in undone
            )
            told.append(entry)
    return told


def entries_around(
    entries: list[TranscriptEntry], seq: int, context: int = 2
) -> list[TranscriptEntry]:
    """The entry with that number, and the ones beside it. Raises `HermesError` without one."""
    places = [place for place, entry in enumerate(entries) if entry.seq == seq]
    if not places:
        raise HermesError(f"there is nothing to show at {seq} in this run; leave out --at")
    return entries[max(0, places[0] - context) : places[-1] + context + 1]


def _event_texts(event: Event, calls: dict[str, str]) -> Iterator[tuple[EntryRole, str, str]]:
    match event:
        case MessageAdded(message=message) if message.text and message.role != "tool":
            recalled = message.text.startswith(RECALL_NOTE_PREFIX)
            yield "note" if recalled else message.role, "", message.text
        case MessageImported():
            yield "user", "", f"{event.speaker}: {event.text}" if event.speaker else event.text
        case ToolRequested(call=call):
            calls[call.id] = call.name
            arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
            yield "note", call.name, f"{call.name}({arguments or call.malformed})"
        case ToolFinished(result=result):
            yield "tool", calls.get(result.call_id, ""), result.content
        case _:
            if note := _event_note(event):
                yield "note", "", note


def _event_note(event: Event) -> str:
    """What happened beside the talking; empty for what need not be told."""
    match event:
        case ToolApproved():
            return f"{'approved' if event.approved else 'refused'} by {event.by}"
        case ContextCompressed():
            return f"{event.dropped} older messages gave way to a summary"
        case ModelSwitched():
            return f"model is now {event.model}"
        case RunSummarised():
            return f"summary ({event.method}):\n{event.summary}"
        case FactNoted():
            return f"noted: {event.text}"
        case TurnEnded() if event.outcome != "answered":
            return f"turn {event.outcome}" + (f": {event.reason}" if event.reason else "")
    return ""


def transcript_markdown(title: str, entries: Iterable[TranscriptEntry]) -> str:
    """The whole conversation as a document; fences are longer than any fence within."""
    parts = [f"# {title}\n"]
    for entry in entries:
        if entry.undone or entry.role == "system":
            continue
        if entry.role == "tool":
            fence = "`" * max(3, _longest_backtick_run(entry.text) + 1)
            parts.append(f"{fence}\n{entry.text}\n{fence}\n")
        elif entry.role == "note":
            parts.append(f"*{entry.text}*\n")
        else:
            name = "You" if entry.role == "user" else "Hermes"
            parts.append(f"## {name} · {entry.at}\n\n{entry.text}\n")
    return "\n".join(parts)


def _longest_backtick_run(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


SESSION_COMMANDS = {
    "list": ("hermes.cli.sessions.commands:list_", "The latest conversations"),
    "show": ("hermes.cli.sessions.commands:show", "What was said and done in one"),
    "search": ("hermes.cli.sessions.search:search", "Find words in all of them"),
    "resume": (
        "hermes.cli.sessions.commands:resume",
        "Go on with one (the same as `hermes --resume RUN`)",
    ),
    "carry-on": (
        "hermes.cli.background_runs:carry_on",
        "Finish unattended ones that a crash cut off",
    ),
    "rename": ("hermes.cli.sessions.commands:rename", "Give one a title"),
    "export": ("hermes.cli.sessions.commands:export", "Write one to a file, as Markdown or events"),
    "import": (
        "hermes.cli.sessions.import_sessions:import_",
        "Take in ones that were held elsewhere",
    ),
    "reindex": ("hermes.cli.sessions.search:reindex", "Make the search index anew"),
    "embed": ("hermes.cli.sessions.search:embed", "Make the vectors that recall compares"),
    "delete": ("hermes.cli.sessions.commands:delete", "Forget one"),
}


@click.group(
    cls=GroupWithExamples,
    table=SESSION_COMMANDS,
    examples="""
hermes sessions list
hermes sessions show latest
hermes sessions search '"connection refused"' --since 14d
hermes sessions export latest --format md -o talk.md
hermes --resume RUN                                   go on with one
""",
)
def sessions() -> None:
    """List, show, search, import, rename, export or delete conversations.

    RUN is an id, the beginning or end of one, a title, or `latest`.
    """


@click.command("list", cls=CommandWithExamples, examples="hermes sessions list --limit 5 --json")
@click.option("--limit", default=20, show_default=True, help="How many, newest first.")
@click.option("--all", "everything", is_flag=True, help="All of them, subagents included.")
@json_option
@click.pass_context
def list_(ctx: click.Context, limit: int, everything: bool, as_json: bool) -> None:
    """List the latest conversations."""
    loaded = load_settings(ctx)

    async def ask(journal: JournalStore) -> list[RunSummary]:
        parent = None if everything else ""
        return list(
            await journal.runs(limit=MAX_LISTED_RUNS if everything else limit, parent=parent)
        )

    runs = query_journal(loaded, ask) if store_exists(loaded.store) else []
    if not everything:
        runs = [run for run in runs if has_content(run)]
    if as_json:
        print_json(runs)
        return
    print_table(
        ("run", "last", "messages", "model", "about"),
        [
            (
                run.id,
                f"{run.last_at.astimezone():%Y-%m-%d %H:%M}",
                run.messages,
                run.model,
                clip(run.title or run.task, 60),
            )
            for run in runs
        ],
        empty="no conversations yet; `hermes` opens one",
    )


@click.command(cls=CommandWithExamples, examples="hermes sessions show latest --full")
@click.argument("run")
@click.option("--full", is_flag=True, help="Also the system prompt and whole tool results.")
@click.option("--at", "seq", type=int, help="Only around this number, as a search names it.")
@json_option
@click.pass_context
def show(ctx: click.Context, run: str, full: bool, seq: int | None, as_json: bool) -> None:
    """Show what was said and done in RUN."""
    summary, told = _read_session(ctx, run)
    if seq is not None:
        told = entries_around(told, seq)
    if as_json:
        print_json({"run": summary, "entries": told})
        return
    echo(summary.title or summary.task or summary.id, bold=True)
    echo(f"{summary.id} · {summary.model or 'no model'} · {summary.messages} messages")
    for entry in told:
        if (entry.role == "system" and not full) or entry.undone:
            continue
        found = seq is not None and entry.seq == seq
        text = entry.text if full or found or entry.role != "tool" else clip(entry.text, 200)
        echo()
        echo(f"{'▶ ' if found else ''}{entry.role} · {entry.at}", dim=not found, bold=found)
        echo(clean(text))


@click.command(cls=CommandWithExamples, examples="hermes sessions resume latest")
@click.argument("run")
@click.pass_context
def resume(ctx: click.Context, run: str) -> object:
    """Go on with RUN where it ended."""
    summary, _ = _read_session(ctx, run)
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    chat = root.command.get_command(root, "chat")
    assert chat is not None
    with chat.make_context("chat", ["--resume", summary.id], parent=root) as inner:
        return chat.invoke(inner)


@click.command(cls=CommandWithExamples, examples='hermes sessions rename latest "the full disk"')
@click.argument("run")
@click.argument("title")
@click.pass_context
def rename(ctx: click.Context, run: str, title: str) -> None:
    """Give RUN a TITLE."""

    async def change(journal: JournalStore) -> str:
        found = await find_run(journal, run)
        await journal.append(RunRenamed(run=found.id, title=title))
        return found.id

    echo(f"{query_journal(load_settings(ctx), change)} is now {title!r}")


@click.command(
    cls=CommandWithExamples, examples="hermes sessions export latest --format jsonl > events.jsonl"
)
@click.argument("run")
@click.option("--format", "form", type=click.Choice(["md", "jsonl"]), default="md")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; else stdout.")
@click.pass_context
def export(ctx: click.Context, run: str, form: str, output: Path | None) -> None:
    """Write RUN as Markdown to read, or as the events themselves, one JSON object a line."""
    from hermes.app.secret_redactor import SecretRedactor
    from hermes.memory.store import export as export_events

    summary, told = _read_session(ctx, run)
    loaded = load_settings(ctx)
    veil = SecretRedactor(loaded)  # an older version may have kept what must not leave the house
    if form == "md":
        text = veil(transcript_markdown(summary.title or summary.task or summary.id, told))
    else:
        lines = export_events(loaded.store, run=summary.id)
        text = "".join(f"{veil.clean_line(line).decode()}\n" for line in lines)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HermesError(f"cannot write {output}: {error.strerror}") from error
    echo(f"written to {output}")


@click.command(cls=CommandWithExamples, examples="hermes sessions delete 4f2a1c --yes")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def delete(ctx: click.Context, run: str, yes: bool) -> None:
    """Forget RUN. Its texts leave the disk at the next `hermes journal compact`."""
    loaded = load_settings(ctx)
    summary, _ = _read_session(ctx, run)
    name = clip(summary.title or summary.task, 60)
    if not yes and not confirm(f"Forget {summary.id} ({name})?"):
        return

    async def change(journal: JournalStore) -> None:
        runs = await journal.runs(limit=MAX_LISTED_RUNS, parent=None)
        below = [run.id for run in runs if run.id.startswith(f"{summary.id}/")]  # its subagents
        await journal.append(*(RunDeleted(run=run) for run in (summary.id, *below)))

    query_journal(loaded, change)
    echo(f"{summary.id} is forgotten; `hermes journal compact` takes its texts off the disk")


def _read_session(ctx: click.Context, wanted: str) -> tuple[RunSummary, list[TranscriptEntry]]:
    async def ask(journal: JournalStore) -> tuple[RunSummary, list[TranscriptEntry]]:
        found = await find_run(journal, wanted)
        return found, transcript_entries(
            [recorded async for recorded in journal.read(run=found.id)]
        )

    return query_journal(load_settings(ctx), ask)
