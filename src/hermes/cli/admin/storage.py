"""`hermes journal`: looking after the record of everything that happened."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hermes.cli import exit_codes
from hermes.cli.context import load_settings, require_journal
from hermes.cli.lazy import CommandWithExamples, GroupWithExamples
from hermes.cli.output import (
    confirm,
    echo,
    json_option,
    note,
    print_fields,
    print_json,
    write_events,
)
from hermes.core.errors import HermesError
from hermes.settings.load import LoadedSettings

JOURNAL_COMMANDS = {
    "verify": ("hermes.cli.admin.storage:verify", "Is every event there, and as it was written?"),
    "export": ("hermes.cli.admin.storage:export", "All events as lines of JSON"),
    "compact": ("hermes.cli.admin.storage:compact", "Take deleted texts off the disk"),
    "salvage": ("hermes.cli.admin.storage:salvage", "Save what can be read of a damaged file"),
}


@click.group(
    cls=GroupWithExamples,
    table=JOURNAL_COMMANDS,
    examples="""
hermes journal verify
hermes journal export -o backup.jsonl
hermes journal compact
""",
)
def journal() -> None:
    """Verify, export, compact or rescue the record of everything that happened."""


@click.command(cls=CommandWithExamples, examples="hermes journal verify --json")
@json_option
@click.pass_context
def verify(ctx: click.Context, as_json: bool) -> int:
    """Check structure, numbers, chain and every text. Exit code 6 when something is damaged."""
    from hermes.memory.store import verify as inspect

    report = inspect(require_journal(load_settings(ctx)))
    if as_json:
        print_json({"ok": not report.problems, **_report_data(report)})
    else:
        print_fields(_report_data(report))
        for problem in report.problems:
            note(problem)
        echo(
            "damaged; `hermes journal salvage` saves what can be read"
            if report.problems
            else "whole"
        )
    return exit_codes.STORE if report.problems else exit_codes.OK


@click.command(cls=CommandWithExamples, examples="hermes journal export | gzip > journal.jsonl.gz")
@click.option("--run", help="Only the events of one run.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; else stdout.")
@click.pass_context
def export(ctx: click.Context, run: str | None, output: Path | None) -> None:
    """Write all events, one JSON object a line."""
    from hermes.app.secret_redactor import SecretRedactor
    from hermes.memory.store import export as lines_of

    loaded = load_settings(ctx)
    lines = map(SecretRedactor(loaded).clean_line, lines_of(require_journal(loaded), run=run))
    write_events(lines, output)


@click.command(cls=CommandWithExamples, examples="hermes journal compact --json")
@json_option
@click.pass_context
def compact(ctx: click.Context, as_json: bool) -> None:
    """Take the texts of deleted conversations off the disk. Others may go on working."""
    from hermes.memory.artifacts import delete_artifacts
    from hermes.memory.store import compact as shrink

    loaded = load_settings(ctx)
    done = shrink(require_journal(loaded))
    delete_artifacts(loaded.home / "artifacts", done.deleted)
    if done.purged:
        from hermes.app.journal_search import discard_index

        discard_index(loaded)
    if as_json:
        print_json(_report_data(done))
    else:
        echo(f"{done.purged} texts gone; {done.bytes_before:,} → {done.bytes_after:,} bytes")


@click.command(cls=CommandWithExamples, examples="hermes journal salvage --into saved.db")
@click.option("--into", type=click.Path(path_type=Path), help="A new file; else in its place.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_context
def salvage(ctx: click.Context, into: Path | None, yes: bool, as_json: bool) -> int:
    """Save every readable event of a damaged journal. The damaged file is kept beside it.

    End every other Hermes on this home first.
    """
    from hermes.memory.journal.recovery import salvage as save

    loaded = load_settings(ctx)
    if loaded.settings.store.url:
        raise HermesError("a database is mended by its own tools; restore it from a backup")
    path = loaded.journal
    if into is None and not yes and not confirm(f"Put what can be saved in place of {path}?"):
        return exit_codes.OK
    saved = save(path, into)
    if as_json:
        print_json(_report_data(saved))
    else:
        print_fields(_report_data(saved))
    return exit_codes.OK


def _report_data(report: object) -> dict[str, object]:
    """All fields, also those at their default, which are left out on the wire."""
    names: tuple[str, ...] = getattr(report, "__struct_fields__", ())
    return {name: getattr(report, name) for name in names}


STORE_COMMANDS = {
    "status": ("hermes.cli.admin.storage:status", "Which store it is, how large, and how far away"),
    "migrate": (
        "hermes.cli.admin.storage:migrate",
        "Copy everything to another store, and compare",
    ),
}


@click.group(
    cls=GroupWithExamples,
    table=STORE_COMMANDS,
    examples="""
hermes store status
hermes store migrate --to postgresql://hermes@db.example:5432/hermes
hermes store migrate --to sqlite
""",
)
def store() -> None:
    """See where everything is kept, or move it between a file and PostgreSQL."""


@click.command(cls=CommandWithExamples, examples="hermes store status --json | jq .events")
@json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show the store in use: kind, place, version, events, size, distance."""
    from hermes.memory.journal.maintenance import read_status as look

    found = look(require_journal(load_settings(ctx)))
    facts = {name: getattr(found, name) for name in found.__struct_fields__}
    if as_json:
        print_json(facts)
    else:
        facts["bytes"] = f"{found.bytes:,}"
        facts["events"] = f"{found.events:,}"
        print_fields({name.replace("_", " "): value for name, value in facts.items()})


@click.command(
    cls=CommandWithExamples,
    examples="""
hermes store migrate --to postgresql://hermes@db.example:5432/hermes
hermes store migrate --to sqlite --json
""",
)
@click.option(
    "--to", "wanted", required=True, metavar="URL|sqlite", help="A database, or this home's file."
)
@click.option("--from", "origin", metavar="URL|sqlite", help="Another source than the one in use.")
@json_option
@click.pass_context
def migrate(ctx: click.Context, wanted: str, origin: str | None, as_json: bool) -> None:
    """Copy every event under its own number and compare the two, digest by digest.

    The source is only read and stays as it is. When it is cut off, even by a crash, run it again:
    it goes on where it was. Copied is the journal; search and memory are made anew from it.
    """
    from hermes.memory.store_copy import copy_store

    loaded = load_settings(ctx)
    here = _parse_location(loaded, origin) if origin else require_journal(loaded)
    there = _parse_location(loaded, wanted)
    with _migration_progress(quiet=as_json) as progress:
        moved = copy_store(here, there, progress)
    if as_json:
        print_json({name: getattr(moved, name) for name in moved.__struct_fields__})
        return
    echo(f"{moved.copied:,} events copied; {moved.events:,} are in {moved.target}, whole and equal")
    echo(f"newest: {moved.last}, digest {moved.digest[:16]}…")
    note(f"{moved.source} is still there, and nothing was changed in it")
    if there != loaded.store:
        note(f"to use the new one: {_switch_instruction(there)}")


def _parse_location(loaded: LoadedSettings, text: str) -> Path | str:
    if text == "sqlite":
        return loaded.journal
    if "://" in text:
        return text
    raise HermesError(f"{text!r} is no store: give a postgresql:// URL, or the word sqlite")


def _switch_instruction(location: Path | str) -> str:
    if isinstance(location, Path):
        return "take MEMORY_DB_URL out of .env, or `hermes config unset store.url`"
    return "put MEMORY_DB_URL=… into .env, or `hermes config set store.url …`"


@contextmanager
def _migration_progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar where somebody watches, else nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda safe, whole: None
        return
    with click.progressbar(length=1, label="events", file=sys.stderr, show_pos=True) as bar:

        def progress(safe: int, whole: int) -> None:
            bar.length = whole
            bar.update(safe - bar.pos)

        yield progress
