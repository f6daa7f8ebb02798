"""How a command gets its settings: once, with what the command line says on top."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import anyio
import click

from hermes.cli.output import note
from hermes.core.errors import HermesError
from hermes.memory.journal.held_copy import HeldCopy, JournalWithHeld, runtime_folder
from hermes.memory.journal.runs import RunSummary
from hermes.memory.store import (
    JournalStore,
    ReadOnlyStore,
    StoreLocation,
    open_journal,
    store_exists,
)
from hermes.policy.rules.schema import parse_duration
from hermes.settings import process_environment
from hermes.settings.load import LoadedSettings, load


def load_settings(ctx: click.Context, overrides: Mapping[str, str] | None = None) -> LoadedSettings:
    """Raises `SettingsError`, which the front door prints."""
    loaded = load(overrides={**command_line_overrides(ctx), **(overrides or {})})
    for warning in loaded.warnings:
        note(warning)
    color = loaded.settings.display.color
    if color != "auto":
        ctx.find_root().color = ctx.color = color == "always"
    return loaded


def command_line_overrides(ctx: click.Context) -> Mapping[str, str]:
    """What `hermes --set KEY=VALUE` said."""
    given = ctx.find_root().obj
    return given if isinstance(given, dict) else {}


def home_folder() -> Path:
    return process_environment.hermes_home(process_environment.environment_variables())


QueryResult = TypeVar("QueryResult")
MAX_LISTED_RUNS = 1_000_000
READ_ONLY_JOURNAL_WARNING = (
    "hermes: the home directory cannot be written: what has happened since then is not shown here, "
    "only in notifications"
)
HELD = (
    "hermes: the home directory cannot be written: what has happened since then is shown as the "
    "watch held it in memory at {:%H:%M:%S} UTC"
)
MAX_RECENT_RUNS = 50


class RunLister(Protocol):
    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]: ...


def require_journal(loaded: LoadedSettings) -> StoreLocation:
    place = loaded.store
    if not store_exists(place):
        raise HermesError(f"there is no journal yet: {place} appears with the first conversation")
    return place


def query_journal(
    loaded: LoadedSettings, query: Callable[[JournalStore], Awaitable[QueryResult]]
) -> QueryResult:
    """Raises `StoreError` when it cannot be opened, `HermesError` when there is none."""
    return anyio.run(partial(_query, require_journal(loaded), query))


async def _query(
    location: StoreLocation, query: Callable[[JournalStore], Awaitable[QueryResult]]
) -> QueryResult:
    async with open_journal(location, or_read_only=True) as journal:
        if isinstance(journal, ReadOnlyStore):
            # A watch goes on from memory meanwhile, and nothing of that is in the file.
            return await query(_with_held(location, journal))
        return await query(journal)


def _with_held(place: StoreLocation, journal: JournalStore) -> JournalStore:
    """The journal with what a watch holds in memory, where it left a copy; says which it is."""
    held = HeldCopy(place, runtime_folder()).read() if isinstance(place, Path) else None
    if held is None:
        click.echo(READ_ONLY_JOURNAL_WARNING, err=True)
        return journal
    written, records = held
    click.echo(HELD.format(written), err=True)
    return JournalWithHeld(journal, records)


def has_content(run: RunSummary) -> bool:
    """Not a chat that was opened and left without a word."""
    return bool(run.messages > 1 or run.task or run.title)


async def run_to_resume(journal: RunLister, wanted: str, *, excluded_run: str = "") -> str:
    """The id of `wanted`; of the latest when none is wanted, empty when there is none."""
    if wanted:
        return (await find_run(journal, wanted)).id
    runs = await journal.runs(limit=MAX_RECENT_RUNS)
    return next((run.id for run in runs if has_content(run) and run.id != excluded_run), "")


async def find_run(journal: RunLister, wanted: str) -> RunSummary:
    """By id, the beginning or end of one, its title, or `latest`."""
    runs = await journal.runs(limit=MAX_LISTED_RUNS, parent=None)
    if wanted == "latest" and runs:
        own = [run for run in runs if not run.parent] or runs
        return next(filter(has_content, own), own[0])
    fitting = (
        lambda run: run.id == wanted,
        lambda run: run.title == wanted,
        lambda run: run.id.startswith(wanted) or run.id.endswith(wanted),
        lambda run: wanted.lower() in run.title.lower(),
    )
    for fits in fitting:
        found = [run for run in runs if fits(run)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(run.id for run in found[:5])
            raise HermesError(f"{wanted!r} may be {names}; say more of it")
    raise HermesError(f"there is no session {wanted!r}; `hermes sessions list` shows them")


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
