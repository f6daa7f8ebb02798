"""`hermes sessions list`, `show`, `resume`, `rename`, `export` and `delete`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import click

from hermes.cli.context import MAX_LISTED_RUNS, find_run, has_content, load_settings, query_journal
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import confirm, echo, print_json, print_table, write_file
from hermes.cli.render.lines import format_time
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
from hermes.core.tool_calls import OpenToolCalls
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


SESSION_COMMANDS = {
    "list": ("sessions.commands:list_", "The latest conversations"),
    "show": ("sessions.commands:show", "The messages and tool calls of one"),
    "search": ("sessions.search:search", "Find words in all of them"),
    "resume": ("sessions.commands:resume", "Continue one (the same as `hermes --resume RUN`)"),
    "carry-on": ("background_runs:carry_on", "Finish interrupted unattended runs"),
    "rename": ("sessions.commands:rename", "Give one a title"),
    "export": ("sessions.commands:export", "Write one to a file, as Markdown or events"),
    "import": ("sessions.search:import_", "Import conversations from elsewhere"),
    "reindex": ("sessions.search:reindex", "Rebuild the search index"),
    "embed": ("sessions.search:embed", "Compute the vectors for recall"),
    "delete": ("sessions.commands:delete", "Forget one"),
}


@cli_group(
    SESSION_COMMANDS,
    """
hermes sessions list
hermes sessions show latest
hermes sessions search '"connection refused"' --since 14d
hermes sessions export latest --format md -o talk.md
hermes --resume RUN                                   continue one
""",
)
def sessions() -> None:
    """List, show, search, import, rename, export or delete conversations.

    RUN is an id, the beginning or end of one, a title, or `latest`.
    """


@cli_command("hermes sessions list --limit 5 --json")
@click.option("--limit", default=20, show_default=True, help="How many, newest first.")
@click.option("--all", "everything", is_flag=True, help="All of them, subagents included.")
def list_(ctx: click.Context, limit: int, everything: bool, as_json: bool) -> None:
    """List the latest conversations."""
    loaded = load_settings(ctx)

    async def query(journal: JournalStore) -> list[RunSummary]:
        parent = None if everything else ""
        return list(
            await journal.runs(limit=MAX_LISTED_RUNS if everything else limit, parent=parent)
        )

    runs = query_journal(loaded, query) if store_exists(loaded.store) else []
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
                format_time(run.last_at),
                run.messages,
                run.model,
                clip(run.title or run.task, 60),
            )
            for run in runs
        ],
        empty="no conversations yet; `hermes` opens one",
    )


@cli_command("hermes sessions show latest --full")
@click.argument("run")
@click.option("--full", is_flag=True, help="Also the system prompt and whole tool results.")
@click.option("--at", "seq", type=int, help="Only around this number of a search result.")
def show(ctx: click.Context, run: str, full: bool, seq: int | None, as_json: bool) -> None:
    """Show the messages and tool calls of RUN."""
    summary, entries = _read_session(ctx, run)
    if seq is not None:
        entries = entries_around(entries, seq)
    if as_json:
        print_json({"run": summary, "entries": entries})
        return
    echo(summary.title or summary.task or summary.id, bold=True)
    echo(f"{summary.id} · {summary.model or 'no model'} · {summary.messages} messages")
    for entry in entries:
        if (entry.role == "system" and not full) or entry.undone:
            continue
        found = seq is not None and entry.seq == seq
        text = entry.text if full or found or entry.role != "tool" else clip(entry.text, 200)
        echo()
        echo(f"{'▶ ' if found else ''}{entry.role} · {entry.at}", dim=not found, bold=found)
        echo(clean(text))


@cli_command("hermes sessions resume latest")
@click.argument("run")
def resume(ctx: click.Context, run: str) -> object:
    """Continue RUN."""
    summary, _ = _read_session(ctx, run)
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    chat = root.command.get_command(root, "chat")
    assert chat is not None
    with chat.make_context("chat", ["--resume", summary.id], parent=root) as inner:
        return chat.invoke(inner)


@cli_command('hermes sessions rename latest "the full disk"')
@click.argument("run")
@click.argument("title")
def rename(ctx: click.Context, run: str, title: str) -> None:
    """Give RUN a TITLE."""

    async def change(journal: JournalStore) -> str:
        found = await find_run(journal, run)
        await journal.append(RunRenamed(run=found.id, title=title))
        return found.id

    echo(f"{query_journal(load_settings(ctx), change)} is now {title!r}")


@cli_command("hermes sessions export latest --format jsonl > events.jsonl")
@click.argument("run")
@click.option("--format", "form", type=click.Choice(["md", "jsonl"]), default="md")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; else stdout.")
def export(ctx: click.Context, run: str, form: str, output: Path | None) -> None:
    """Write RUN as Markdown, or as events, one JSON object per line."""
    from hermes.app.secret_redactor import SecretRedactor
    from hermes.memory.journal.maintenance import export as export_events

    summary, entries = _read_session(ctx, run)
    loaded = load_settings(ctx)
    redactor = SecretRedactor(loaded)  # older versions may have recorded secrets
    if form == "md":
        text = redactor(transcript_markdown(summary.title or summary.task or summary.id, entries))
    else:
        lines = export_events(loaded.store, run=summary.id)
        text = "".join(f"{redactor.clean_line(line).decode()}\n" for line in lines)
    if output is None:
        click.echo(text, nl=False)
        return
    write_file(output, text)
    echo(f"written to {output}")


@cli_command("hermes sessions delete 4f2a1c --yes")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
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
    echo(f"{summary.id} is forgotten; `hermes journal compact` removes its texts from the disk")


def _read_session(ctx: click.Context, wanted: str) -> tuple[RunSummary, list[TranscriptEntry]]:
    async def query(journal: JournalStore) -> tuple[RunSummary, list[TranscriptEntry]]:
        found = await find_run(journal, wanted)
        return found, transcript_entries(
            [recorded async for recorded in journal.read(run=found.id)]
        )

    return query_journal(load_settings(ctx), query)


def transcript_entries(records: Iterable[JournalRecord]) -> list[TranscriptEntry]:
    """Return the entries in order. Undone turns are included and marked."""
    known = [
        (recorded.seq, recorded.event)
        for recorded in records
        if not isinstance(recorded.event, UnknownEvent)
    ]
    undone = {event.turn for _, event in known if isinstance(event, TurnUndone)}
    calls = OpenToolCalls()
    entries: list[TranscriptEntry] = []
    turn = 0
    for seq, event in known:
        if isinstance(event, TurnStarted):
            turn = event.turn
        at = event.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        for role, tool, text in _event_texts(event, calls):
            entry = TranscriptEntry(
                seq=seq, role=role, at=at, text=text, tool=tool, undone=turn in undone
            )
            entries.append(entry)
    return entries


def entries_around(
    entries: list[TranscriptEntry], seq: int, context: int = 2
) -> list[TranscriptEntry]:
    """Return the entry with that number and its neighbours. Raises `HermesError`."""
    positions = [position for position, entry in enumerate(entries) if entry.seq == seq]
    if not positions:
        raise HermesError(f"there is nothing to show at {seq} in this run; leave out --at")
    return entries[max(0, positions[0] - context) : positions[-1] + context + 1]


def _event_texts(event: Event, calls: OpenToolCalls) -> Iterator[tuple[EntryRole, str, str]]:
    recorded = calls.apply(event)
    match event:
        case MessageAdded(message=message) if message.text and message.role != "tool":
            recalled = message.text.startswith(RECALL_NOTE_PREFIX)
            yield "note" if recalled else message.role, "", message.text
        case MessageImported():
            yield "user", "", f"{event.speaker}: {event.text}" if event.speaker else event.text
        case ToolRequested(call=call):
            arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
            yield "note", call.name, f"{call.name}({arguments or call.malformed})"
        case ToolFinished(result=result):
            yield "tool", recorded.name if recorded is not None else "", result.content
        case _:
            if note := _event_note(event):
                yield "note", "", note


def _event_note(event: Event) -> str:
    """The text of an event that is not a message; empty when it is not shown."""
    match event:
        case ToolApproved():
            return event.answer
        case ContextCompressed():
            return f"{event.dropped} older messages were replaced by a summary"
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
    """The conversation as a document; fences are longer than any fence in the text."""
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
