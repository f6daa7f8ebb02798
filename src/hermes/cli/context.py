"""Loads settings, queries the journal, finds runs, and parses time options for commands."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from hermes.cli.output import note
from hermes.core.errors import HermesError
from hermes.core.run_ids import find_unique
from hermes.memory.journal.runs import RunSummary
from hermes.memory.store import (
    JournalStore,
    ReadOnlyStore,
    StoreLocation,
    open_journal,
    store_exists,
)
from hermes.plumbing.units import parse_duration
from hermes.settings import process_environment
from hermes.settings.load import LoadedSettings, load


def load_settings(ctx: click.Context, overrides: Mapping[str, str] | None = None) -> LoadedSettings:
    """Load the settings with command-line overrides. Raises `SettingsError`."""
    loaded = load(overrides={**command_line_overrides(ctx), **(overrides or {})})
    for warning in loaded.warnings:
        note(warning)
    color = loaded.settings.display.color
    if color != "auto":
        ctx.find_root().color = ctx.color = color == "always"
    return loaded


def command_line_overrides(ctx: click.Context) -> Mapping[str, str]:
    """The values of `hermes --set KEY=VALUE`."""
    given = ctx.find_root().obj
    return given if isinstance(given, dict) else {}


def home_folder() -> Path:
    return process_environment.hermes_home(process_environment.environment_variables())


QueryResult = TypeVar("QueryResult")
MAX_LISTED_RUNS = 1_000_000
READ_ONLY_JOURNAL_WARNING = (
    "hermes: the home folder cannot be written: later events are not shown here, "
    "only in notifications"
)
HELD_EVENTS_WARNING = (
    "hermes: the home folder cannot be written: later events are shown as the watch held them "
    "in memory at {:%H:%M:%S} UTC"
)
MAX_RECENT_RUNS = 50


def require_journal(loaded: LoadedSettings) -> StoreLocation:
    location = loaded.store
    if not store_exists(location):
        raise HermesError(
            f"there is no journal yet: {location} is created by the first conversation"
        )
    return location


def query_journal(
    loaded: LoadedSettings, query: Callable[[JournalStore], Awaitable[QueryResult]]
) -> QueryResult:
    """Run the query. Raises `StoreError`, or `HermesError` when there is no journal."""
    import anyio  # commands that only read settings do without it

    return anyio.run(partial(_query, require_journal(loaded), query))


async def _query(
    location: StoreLocation, query: Callable[[JournalStore], Awaitable[QueryResult]]
) -> QueryResult:
    async with open_journal(location, or_read_only=True) as journal:
        if isinstance(journal, ReadOnlyStore):
            # A watch continues in memory, and its events are not in the file.
            return await query(_with_held_events(location, journal))
        return await query(journal)


def _with_held_events(location: StoreLocation, journal: JournalStore) -> JournalStore:
    """Adds the events that a watch holds in memory, if it left a copy, and prints which it is."""
    from hermes.memory.held_copy import HeldCopy, JournalWithHeld, runtime_folder

    held = HeldCopy(location, runtime_folder()).read() if isinstance(location, Path) else None
    if held is None:
        click.echo(READ_ONLY_JOURNAL_WARNING, err=True)
        return journal
    written, records = held
    click.echo(HELD_EVENTS_WARNING.format(written), err=True)
    return JournalWithHeld(journal, records)


def has_content(run: RunSummary) -> bool:
    """Return False for a chat without messages."""
    return bool(run.messages > 1 or run.task or run.title)


async def run_to_resume(journal: JournalStore, wanted: str, *, excluded_run: str = "") -> str:
    """Return the id of `wanted`; without one, the latest run; empty when there is none."""
    if wanted:
        return (await find_run(journal, wanted)).id
    runs = await journal.runs(limit=MAX_RECENT_RUNS)
    return next((run.id for run in runs if has_content(run) and run.id != excluded_run), "")


async def find_run(journal: JournalStore, wanted: str) -> RunSummary:
    """Find by id, its beginning or end, the title, or `latest`."""
    runs = await journal.runs(limit=MAX_LISTED_RUNS, parent=None)
    if wanted == "latest" and runs:
        own = [run for run in runs if not run.parent] or runs
        return next(filter(has_content, own), own[0])
    return find_unique(
        runs,
        wanted,
        lambda run: run.id == wanted,
        lambda run: run.title == wanted,
        lambda run: run.id.startswith(wanted) or run.id.endswith(wanted),
        lambda run: wanted.lower() in run.title.lower(),
        id_of=lambda run: run.id,
        kind="session",
        list_command="hermes sessions list",
    )


def _parse_time_option(
    ctx: click.Context, parameter: click.Parameter, text: str | None
) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{text!r} is not like 7d, 12h or 2026-03-02") from error


until_option = click.option(
    "--until",
    callback=_parse_time_option,
    metavar="WHEN",
    help="Only until then: 7d, 12h or 2026-03-02.",
)
since_option = click.option(
    "--since",
    callback=_parse_time_option,
    metavar="WHEN",
    help="Only from then on: 7d, 12h or 2026-03-02.",
)
