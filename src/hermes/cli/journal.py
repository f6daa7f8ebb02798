"""`hermes journal`: looking after the record of everything that happened."""

from pathlib import Path

import click

from hermes.cli import exits
from hermes.cli.events_out import write_events
from hermes.cli.lazy import ExampleGroup, Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import confirm, emit_json, fields, json_option, note, say
from hermes.cli.stored import existing_journal
from hermes.core.errors import HermesError

TABLE = {
    "verify": ("hermes.cli.journal:verify", "Is every event there, and as it was written?"),
    "export": ("hermes.cli.journal:export", "All events as lines of JSON"),
    "compact": ("hermes.cli.journal:compact", "Take deleted texts off the disk"),
    "salvage": ("hermes.cli.journal:salvage", "Save what can be read of a damaged file"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    examples="""
hermes journal verify
hermes journal export -o backup.jsonl
hermes journal compact
""",
)
def journal() -> None:
    """Verify, export, compact or rescue the record of everything that happened."""


@click.command(cls=Examples, examples="hermes journal verify --json")
@json_option
@click.pass_context
def verify(ctx: click.Context, as_json: bool) -> int:
    """Check structure, numbers, chain and every text. Exit code 6 when something is damaged."""
    from hermes.memory.opening import verify as inspect

    report = inspect(existing_journal(settings_for(ctx)))
    if as_json:
        emit_json({"ok": not report.problems, **_plain(report)})
    else:
        fields(_plain(report))
        for problem in report.problems:
            note(problem)
        say(
            "damaged; `hermes journal salvage` saves what can be read"
            if report.problems
            else "whole"
        )
    return exits.STORE if report.problems else exits.OK


@click.command(cls=Examples, examples="hermes journal export | gzip > journal.jsonl.gz")
@click.option("--run", help="Only the events of one run.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; else stdout.")
@click.pass_context
def export(ctx: click.Context, run: str | None, output: Path | None) -> None:
    """Write all events, one JSON object a line."""
    from hermes.app.veil import Veil
    from hermes.memory.opening import export as lines_of

    loaded = settings_for(ctx)
    lines = map(Veil(loaded).line, lines_of(existing_journal(loaded), run=run))
    write_events(lines, output)


@click.command(cls=Examples, examples="hermes journal compact --json")
@json_option
@click.pass_context
def compact(ctx: click.Context, as_json: bool) -> None:
    """Take the texts of deleted conversations off the disk. Others may go on working."""
    from hermes.memory.artifacts import discard
    from hermes.memory.opening import compact as shrink

    loaded = settings_for(ctx)
    done = shrink(existing_journal(loaded))
    discard(loaded.home / "artifacts", done.deleted)
    if done.purged:
        from hermes.app.recall import forget_words

        forget_words(loaded)
    if as_json:
        emit_json(_plain(done))
    else:
        say(f"{done.purged} texts gone; {done.bytes_before:,} → {done.bytes_after:,} bytes")


@click.command(cls=Examples, examples="hermes journal salvage --into saved.db")
@click.option("--into", type=click.Path(path_type=Path), help="A new file; else in its place.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_context
def salvage(ctx: click.Context, into: Path | None, yes: bool, as_json: bool) -> int:
    """Save every readable event of a damaged journal. The damaged file is kept beside it.

    End every other Hermes on this home first.
    """
    from hermes.memory.salvage import salvage as save

    loaded = settings_for(ctx)
    if loaded.settings.store.url:
        raise HermesError("a database is mended by its own tools; restore it from a backup")
    path = loaded.journal
    if into is None and not yes and not confirm(f"Put what can be saved in place of {path}?"):
        return exits.OK
    saved = save(path, into)
    if as_json:
        emit_json(_plain(saved))
    else:
        fields(_plain(saved))
    return exits.OK


def _plain(report: object) -> dict[str, object]:
    """All fields, also those at their default, which are left out on the wire."""
    names: tuple[str, ...] = getattr(report, "__struct_fields__", ())
    return {name: getattr(report, name) for name in names}
