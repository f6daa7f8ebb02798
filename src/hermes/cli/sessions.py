"""`hermes sessions`: the conversations of this home."""

from pathlib import Path

import click

from hermes.cli.lazy import ExampleGroup, Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import confirm, emit_json, json_option, say, table
from hermes.cli.render_safe import clean, clip
from hermes.cli.stored import EVERY, ask_journal, find_run, worth_a_line
from hermes.cli.transcript import Entry, around, entries, markdown
from hermes.core.errors import HermesError
from hermes.core.events.runs import RunDeleted, RunRenamed
from hermes.memory.opening import Store, exists
from hermes.memory.runs import RunSummary

TABLE = {
    "list": ("hermes.cli.sessions:list_", "The latest conversations"),
    "show": ("hermes.cli.sessions:show", "What was said and done in one"),
    "search": ("hermes.cli.sessions_search:search", "Find words in all of them"),
    "resume": ("hermes.cli.sessions:resume", "Go on with one (the same as `hermes --resume RUN`)"),
    "carry-on": ("hermes.cli.carry_on:carry_on", "Finish unattended ones that a crash cut off"),
    "rename": ("hermes.cli.sessions:rename", "Give one a title"),
    "export": ("hermes.cli.sessions:export", "Write one to a file, as Markdown or events"),
    "import": ("hermes.cli.sessions_import:import_", "Take in ones that were held elsewhere"),
    "reindex": ("hermes.cli.sessions_search:reindex", "Make the search index anew"),
    "embed": ("hermes.cli.sessions_search:embed", "Make the vectors that recall compares"),
    "delete": ("hermes.cli.sessions:delete", "Forget one"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
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


@click.command("list", cls=Examples, examples="hermes sessions list --limit 5 --json")
@click.option("--limit", default=20, show_default=True, help="How many, newest first.")
@click.option("--all", "everything", is_flag=True, help="All of them, subagents included.")
@json_option
@click.pass_context
def list_(ctx: click.Context, limit: int, everything: bool, as_json: bool) -> None:
    """List the latest conversations."""
    loaded = settings_for(ctx)

    async def ask(journal: Store) -> list[RunSummary]:
        parent = None if everything else ""
        return list(await journal.runs(limit=EVERY if everything else limit, parent=parent))

    runs = ask_journal(loaded, ask) if exists(loaded.store) else []
    if not everything:
        runs = [run for run in runs if worth_a_line(run)]
    if as_json:
        emit_json(runs)
        return
    table(
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


@click.command(cls=Examples, examples="hermes sessions show latest --full")
@click.argument("run")
@click.option("--full", is_flag=True, help="Also the system prompt and whole tool results.")
@click.option("--at", "seq", type=int, help="Only around this number, as a search names it.")
@json_option
@click.pass_context
def show(ctx: click.Context, run: str, full: bool, seq: int | None, as_json: bool) -> None:
    """Show what was said and done in RUN."""
    summary, told = _read(ctx, run)
    if seq is not None:
        told = around(told, seq)
    if as_json:
        emit_json({"run": summary, "entries": told})
        return
    say(summary.title or summary.task or summary.id, bold=True)
    say(f"{summary.id} · {summary.model or 'no model'} · {summary.messages} messages")
    for entry in told:
        if (entry.role == "system" and not full) or entry.undone:
            continue
        found = seq is not None and entry.seq == seq
        text = entry.text if full or found or entry.role != "tool" else clip(entry.text, 200)
        say()
        say(f"{'▶ ' if found else ''}{entry.role} · {entry.at}", dim=not found, bold=found)
        say(clean(text))


@click.command(cls=Examples, examples="hermes sessions resume latest")
@click.argument("run")
@click.pass_context
def resume(ctx: click.Context, run: str) -> object:
    """Go on with RUN where it ended."""
    summary, _ = _read(ctx, run)
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    chat = root.command.get_command(root, "chat")
    assert chat is not None
    with chat.make_context("chat", ["--resume", summary.id], parent=root) as inner:
        return chat.invoke(inner)


@click.command(cls=Examples, examples='hermes sessions rename latest "the full disk"')
@click.argument("run")
@click.argument("title")
@click.pass_context
def rename(ctx: click.Context, run: str, title: str) -> None:
    """Give RUN a TITLE."""

    async def change(journal: Store) -> str:
        found = await find_run(journal, run)
        await journal.append(RunRenamed(run=found.id, title=title))
        return found.id

    say(f"{ask_journal(settings_for(ctx), change)} is now {title!r}")


@click.command(cls=Examples, examples="hermes sessions export latest --format jsonl > events.jsonl")
@click.argument("run")
@click.option("--format", "form", type=click.Choice(["md", "jsonl"]), default="md")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; else stdout.")
@click.pass_context
def export(ctx: click.Context, run: str, form: str, output: Path | None) -> None:
    """Write RUN as Markdown to read, or as the events themselves, one JSON object a line."""
    from hermes.app.veil import Veil
    from hermes.memory.opening import export as export_events

    summary, told = _read(ctx, run)
    loaded = settings_for(ctx)
    veil = Veil(loaded)  # an older version may have kept what must not leave the house
    if form == "md":
        text = veil(markdown(summary.title or summary.task or summary.id, told))
    else:
        lines = export_events(loaded.store, run=summary.id)
        text = "".join(f"{veil.line(line).decode()}\n" for line in lines)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HermesError(f"cannot write {output}: {error.strerror}") from error
    say(f"written to {output}")


@click.command(cls=Examples, examples="hermes sessions delete 4f2a1c --yes")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def delete(ctx: click.Context, run: str, yes: bool) -> None:
    """Forget RUN. Its texts leave the disk at the next `hermes journal compact`."""
    loaded = settings_for(ctx)
    summary, _ = _read(ctx, run)
    name = clip(summary.title or summary.task, 60)
    if not yes and not confirm(f"Forget {summary.id} ({name})?"):
        return

    async def change(journal: Store) -> None:
        runs = await journal.runs(limit=EVERY, parent=None)
        below = [run.id for run in runs if run.id.startswith(f"{summary.id}/")]  # its subagents
        await journal.append(*(RunDeleted(run=run) for run in (summary.id, *below)))

    ask_journal(loaded, change)
    say(f"{summary.id} is forgotten; `hermes journal compact` takes its texts off the disk")


def _read(ctx: click.Context, wanted: str) -> tuple[RunSummary, list[Entry]]:
    async def ask(journal: Store) -> tuple[RunSummary, list[Entry]]:
        found = await find_run(journal, wanted)
        return found, entries([recorded async for recorded in journal.read(run=found.id)])

    return ask_journal(settings_for(ctx), ask)
