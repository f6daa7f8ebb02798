"""`hermes journal`, `store`, `backup` and `restore`: the journal, and the whole home folder."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec
from msgspec.structs import asdict

from hermes.cli import exit_codes
from hermes.cli.context import home_folder, load_settings, require_journal
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import confirm, echo, note, print_fields, print_json, write_events
from hermes.core.errors import HermesError
from hermes.plumbing.units import format_size
from hermes.settings.load import LoadedSettings

JOURNAL_COMMANDS = {
    "verify": ("admin.storage:verify", "Check that every event is complete and unchanged"),
    "export": ("admin.storage:export", "All events as lines of JSON"),
    "compact": ("admin.storage:compact", "Remove deleted texts from the disk"),
    "salvage": ("admin.storage:salvage", "Save the readable part of a damaged file"),
}


@cli_group(
    JOURNAL_COMMANDS,
    """
hermes journal verify
hermes journal export -o backup.jsonl
hermes journal compact
""",
)
def journal() -> None:
    """Verify, export, compact or salvage the journal, the record of all events."""


@cli_command("hermes journal verify --json")
def verify(ctx: click.Context, as_json: bool) -> int:
    """Check structure, numbers, chain and every text. Exit code 6 when something is damaged."""
    from hermes.memory.journal.verification import verify as verify_store

    report = verify_store(require_journal(load_settings(ctx)))
    if as_json:
        print_json({"ok": not report.problems, **asdict(report)})
    else:
        print_fields(asdict(report))
        for problem in report.problems:
            note(problem)
        echo(
            "damaged; `hermes journal salvage` saves what can be read"
            if report.problems
            else "complete"
        )
    return exit_codes.STORE if report.problems else exit_codes.OK


@cli_command("hermes journal export | gzip > journal.jsonl.gz")
@click.option("--run", help="Only the events of one run.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; else stdout.")
def export(ctx: click.Context, run: str | None, output: Path | None) -> None:
    """Write all events, one JSON object per line."""
    from hermes.app.secret_redactor import SecretRedactor
    from hermes.memory.journal.maintenance import export as export_events

    loaded = load_settings(ctx)
    lines = map(SecretRedactor(loaded).clean_line, export_events(require_journal(loaded), run=run))
    write_events(lines, output)


@cli_command("hermes journal compact --json")
def compact(ctx: click.Context, as_json: bool) -> None:
    """Remove the texts of deleted conversations from the disk. Other processes may continue."""
    from hermes.memory.artifacts import delete_artifacts
    from hermes.memory.journal.maintenance import compact as compact_store

    loaded = load_settings(ctx)
    done = compact_store(require_journal(loaded))
    delete_artifacts(loaded.home / "artifacts", done.deleted)
    if done.purged:
        from hermes.app.journal.search import discard_index

        discard_index(loaded)
    if as_json:
        print_json(asdict(done))
    else:
        echo(f"{done.purged} texts removed; {done.bytes_before:,} → {done.bytes_after:,} bytes")


@cli_command("hermes journal salvage --into saved.db")
@click.option(
    "--into", type=click.Path(path_type=Path), help="A new file; default: replace the damaged one."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def salvage(ctx: click.Context, into: Path | None, yes: bool, as_json: bool) -> int:
    """Save every readable event of a damaged journal. The damaged file is kept beside it.

    Stop every other Hermes process of this home first.
    """
    from hermes.memory.journal.recovery import salvage as salvage_journal

    loaded = load_settings(ctx)
    if loaded.settings.store.url:
        raise HermesError("a database cannot be salvaged; restore it from a backup")
    path = loaded.journal
    if into is None and not yes and not confirm(f"Replace {path} with what can be saved?"):
        return exit_codes.OK
    saved = salvage_journal(path, into)
    if as_json:
        print_json(asdict(saved))
    else:
        print_fields(asdict(saved))
    return exit_codes.OK


STORE_COMMANDS = {
    "status": ("admin.storage:status", "Kind, location, size and latency of the store"),
    "migrate": ("admin.storage:migrate", "Copy everything to another store, and compare"),
}


@cli_group(
    STORE_COMMANDS,
    """
hermes store status
hermes store migrate --to postgresql://hermes@db.example:5432/hermes
hermes store migrate --to sqlite
""",
)
def store() -> None:
    """Show the store, or move it between a file and PostgreSQL."""


@cli_command("hermes store status --json | jq .events")
def status(ctx: click.Context, as_json: bool) -> None:
    """Show the store in use: kind, location, version, events, size, latency."""
    from hermes.memory.journal.maintenance import read_status

    found = read_status(require_journal(load_settings(ctx)))
    facts = asdict(found)
    if as_json:
        print_json(facts)
    else:
        facts["bytes"] = f"{found.bytes:,}"
        facts["events"] = f"{found.events:,}"
        print_fields({name.replace("_", " "): value for name, value in facts.items()})


@cli_command("""
hermes store migrate --to postgresql://hermes@db.example:5432/hermes
hermes store migrate --to sqlite --json
""")
@click.option(
    "--to", "wanted", required=True, metavar="URL|sqlite", help="A database, or this home's file."
)
@click.option("--from", "origin", metavar="URL|sqlite", help="Another source than the one in use.")
def migrate(ctx: click.Context, wanted: str, origin: str | None, as_json: bool) -> None:
    """Copy every event with its number and compare both stores, digest by digest.

    The source is only read. An interrupted copy continues when it is run again. Only the journal
    is copied; search and memory are rebuilt from it.
    """
    from hermes.memory.store_copy import copy_store

    loaded = load_settings(ctx)
    source = _parse_location(loaded, origin) if origin else require_journal(loaded)
    target = _parse_location(loaded, wanted)
    with _migration_progress(quiet=as_json) as progress:
        result = copy_store(source, target, progress)
    if as_json:
        print_json(asdict(result))
        return
    echo(f"{result.copied:,} events copied; {result.target} has {result.events:,}, all equal")
    echo(f"newest: {result.last}, digest {result.digest[:16]}…")
    note(f"{result.source} is unchanged")
    if target != loaded.store:
        note(f"to use the new one: {_switch_instruction(target)}")


def _parse_location(loaded: LoadedSettings, text: str) -> Path | str:
    if text == "sqlite":
        return loaded.journal
    if "://" in text:
        return text
    raise HermesError(f"{text!r} is not a store: give a postgresql:// URL, or the word sqlite")


def _switch_instruction(location: Path | str) -> str:
    if isinstance(location, Path):
        return "remove MEMORY_DB_URL from .env, or `hermes config unset store.url`"
    return "put MEMORY_DB_URL=… into .env, or `hermes config set store.url …`"


@contextmanager
def _migration_progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal, otherwise nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda copied, total: None
        return
    with click.progressbar(length=1, label="events", file=sys.stderr, show_pos=True) as bar:

        def progress(copied: int, total: int) -> None:
            bar.length = total
            bar.update(copied - bar.pos)

        yield progress


@cli_command("""
hermes backup /var/backups/hermes-friday.tar.gz
HERMES_HOME=/var/lib/hermes hermes backup hermes.tar.gz   the home of the service
""")
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path, as_json: bool) -> int:
    """Save the home folder in FILE, a .tar.gz. A running watch may continue.

    It contains the keys in .env: only its owner can read it. A journal outside of the home folder
    (`store.path`, `store.url`) is not part of it.
    """
    from hermes.app.journal.home_backup import back_up

    done = back_up(home_folder(), file)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return exit_codes.OK
    echo(f"{done.files} files, {format_size(done.size)}: {done.file}")
    for each in done.left_out:
        note(f"left out: {each}")
    return exit_codes.OK


@cli_command("""
hermes restore hermes-friday.tar.gz
hermes restore hermes-friday.tar.gz --force    the home that is there is kept beside it
""")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Move a home that is not empty aside.")
def restore(file: Path, force: bool, as_json: bool) -> int:
    """Restore the home folder from FILE. Every file and the journal are checked first.

    Exit codes: 0 fine, 3 the home is not empty or in use, 6 the backup is damaged.
    """
    from hermes.app.journal.home_backup import restore as restore_home

    done = restore_home(file, home_folder(), force=force)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return exit_codes.OK
    echo(f"{done.files} files of {done.made_at:%Y-%m-%d %H:%M} UTC restored in {done.home}")
    if done.previous:
        note(f"the former home is in {done.previous}")
    return exit_codes.OK
