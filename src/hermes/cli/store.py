"""`hermes store`: where everything is kept, and moving it elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hermes.cli.lazy import ExampleGroup, Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, note, say
from hermes.cli.stored import existing_journal
from hermes.core.errors import HermesError
from hermes.settings.load import Loaded

TABLE = {
    "status": ("hermes.cli.store:status", "Which store it is, how large, and how far away"),
    "migrate": ("hermes.cli.store:migrate", "Copy everything to another store, and compare"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    examples="""
hermes store status
hermes store migrate --to postgresql://hermes@db.example:5432/hermes
hermes store migrate --to sqlite
""",
)
def store() -> None:
    """See where everything is kept, or move it between a file and PostgreSQL."""


@click.command(cls=Examples, examples="hermes store status --json | jq .events")
@json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show the store in use: kind, place, version, events, size, distance."""
    from hermes.memory.status import status as look

    found = look(existing_journal(settings_for(ctx)))
    facts = {name: getattr(found, name) for name in found.__struct_fields__}
    if as_json:
        emit_json(facts)
    else:
        facts["bytes"] = f"{found.bytes:,}"
        facts["events"] = f"{found.events:,}"
        fields({name.replace("_", " "): value for name, value in facts.items()})


@click.command(
    cls=Examples,
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
    from hermes.memory.postgres.moving import move

    loaded = settings_for(ctx)
    here = _place(loaded, origin) if origin else existing_journal(loaded)
    there = _place(loaded, wanted)
    with _bar(quiet=as_json) as progress:
        moved = move(here, there, progress)
    if as_json:
        emit_json({name: getattr(moved, name) for name in moved.__struct_fields__})
        return
    say(f"{moved.copied:,} events copied; {moved.events:,} are in {moved.target}, whole and equal")
    say(f"newest: {moved.last}, digest {moved.digest[:16]}…")
    note(f"{moved.source} is still there, and nothing was changed in it")
    if there != loaded.store:
        note(f"to use the new one: {_switch(there)}")


def _place(loaded: Loaded, text: str) -> Path | str:
    if text == "sqlite":
        return loaded.journal
    if "://" in text:
        return text
    raise HermesError(f"{text!r} is no store: give a postgresql:// URL, or the word sqlite")


def _switch(place: Path | str) -> str:
    if isinstance(place, Path):
        return "take MEMORY_DB_URL out of .env, or `hermes config unset store.url`"
    return "put MEMORY_DB_URL=… into .env, or `hermes config set store.url …`"


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar where somebody watches, else nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda safe, whole: None
        return
    with click.progressbar(length=1, label="events", file=sys.stderr, show_pos=True) as bar:

        def progress(safe: int, whole: int) -> None:
            bar.length = whole
            bar.update(safe - bar.pos)

        yield progress
