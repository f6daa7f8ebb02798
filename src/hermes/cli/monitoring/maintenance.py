"""`hermes maintenance add`, `list` and `end`."""

from datetime import UTC, datetime, timedelta

import anyio
import click

from hermes.app.maintenance import (
    add_window,
    current_windows,
    describe_window,
    end_window,
    parse_window_begin,
    parse_window_length,
)
from hermes.app.people import user_name
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.errors import HermesError, StoreError
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.sre.triage.maintenance import MaintenanceWindow


def _parse_length(ctx: click.Context, parameter: click.Parameter, text: str) -> timedelta:
    try:
        return parse_window_length(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _parse_begin(ctx: click.Context, parameter: click.Parameter, text: str | None) -> datetime:
    try:
        return parse_window_begin(text or "")
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@cli_command("""
hermes maintenance add --for 1h web
hermes maintenance add --for 30m --from 22:00 'db-*' --reason "new disks"
hermes maintenance add --for 2h team=payments
""")
@click.argument("target")
@click.option(
    "--for", "length", required=True, callback=_parse_length, metavar="TIME", help="30m, 1h30m, 2d."
)
@click.option(
    "--from",
    "begins",
    callback=_parse_begin,
    metavar="TIME",
    help="22:00, 30m (from now), or a date.",
)
@click.option("--reason", default="", metavar="TEXT", help="Recorded with the window.")
def add(
    ctx: click.Context, target: str, length: timedelta, begins: datetime, reason: str, as_json: bool
) -> None:
    """Suppress alerts of TARGET: a service, a host, a namespace, a probe, or label=value.

    `*` and `?` match any characters.
    """
    loaded = load_settings(ctx)

    async def publish() -> MaintenanceWindow:
        async with open_journal(loaded.store) as journal:
            return await add_window(
                loaded, journal, target, begins, length, person=user_name(), reason=reason
            )

    try:
        window = anyio.run(publish)
    except StoreError:
        raise
    except HermesError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        print_json(describe_window(window))
    else:
        echo(clean(f"{window.id}: {window.target}, {_format_span(window)}"))


@cli_command("hermes maintenance list --json")
def list_(ctx: click.Context, as_json: bool = False) -> None:
    """List the open and coming windows; the first to end comes first."""
    loaded = load_settings(ctx)
    found = query_journal(loaded, current_windows) if store_exists(loaded.store) else []
    if as_json:
        print_json([describe_window(each) for each in found])
        return
    now = datetime.now(UTC)
    print_table(
        ("window", "target", "state", "when", "by", "reason"),
        [
            (
                each.id,
                clip(each.target, 40),
                "open" if each.open_at(now) else "to come",
                _format_span(each),
                each.by,
                clip(each.reason, 60),
            )
            for each in found
        ],
        empty="no maintenance; `hermes maintenance add --for 1h TARGET` adds a window",
    )


@cli_command("""
hermes maintenance end 4f2a1c
hermes maintenance end web --json
""")
@click.argument("id")
def end(ctx: click.Context, id: str, as_json: bool) -> None:
    """End the window ID now: an id, its beginning or end, or the target."""
    loaded, who = load_settings(ctx), user_name()

    async def publish(journal: JournalStore) -> MaintenanceWindow:
        return await end_window(journal, id, person=who)

    window = query_journal(loaded, publish)
    if as_json:
        print_json({**describe_window(window), "state": "over", "ended_by": who})
    else:
        echo(clean(f"{window.id}: ended by {who}; alerts of {window.target} count again"))


def _format_span(window: MaintenanceWindow) -> str:
    begins, until = window.begins.astimezone(), window.until.astimezone()
    end = f"{until:%H:%M}" if begins.date() == until.date() else format_time(until)
    return f"{format_time(begins)} to {end}"
