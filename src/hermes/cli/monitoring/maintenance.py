"""`hermes maintenance add`, `list` and `end`."""

from datetime import UTC, datetime, timedelta

import anyio
import click

from hermes.app.people import user_name
from hermes.app.policy import WATCH_RUN
from hermes.app.secret_redactor import SecretRedactor
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.events.operations import MaintenanceAdded, MaintenanceEnded
from hermes.core.foreign_text import visible_line
from hermes.core.protocols import Journal
from hermes.core.run_ids import find_unique, new_id
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.plumbing.units import parse_duration
from hermes.sre.triage.maintenance import MaintenanceWindow, build_calendar

MAX_WINDOW = timedelta(days=90)
MAINTENANCE_EVENTS = ("maintenance.added", "maintenance.ended")
CLOCK_TIME_CHARACTERS = len("22:00")


def _parse_length(ctx: click.Context, parameter: click.Parameter, text: str) -> timedelta:
    try:
        length = timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{text!r} is not like 30m, 1h30m or 2d") from error
    if not timedelta() < length <= MAX_WINDOW:
        raise click.BadParameter(f"must be more than 0 and at most {MAX_WINDOW.days} days")
    return length


def _parse_begin(ctx: click.Context, parameter: click.Parameter, text: str | None) -> datetime:
    now = datetime.now().astimezone()
    if not text:
        return now
    try:
        return now + timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        pass
    try:
        if len(text) == CLOCK_TIME_CHARACTERS and ":" in text:
            return _next_occurrence(
                datetime.fromisoformat(f"{now:%Y-%m-%d} {text}").astimezone(), now
            )
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        message = f"{text!r} is not like 22:00, 30m or 2026-03-02T22:00"
        raise click.BadParameter(message) from error


def _next_occurrence(clock: datetime, now: datetime) -> datetime:
    """A clock time that has passed today means tomorrow."""
    return clock if clock >= now - timedelta(minutes=1) else clock + timedelta(days=1)


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
    loaded, until = load_settings(ctx), begins + length
    if until <= datetime.now(UTC):
        raise click.UsageError(
            f"the window would already be over: it ends at {until:%Y-%m-%d %H:%M}"
        )
    if not visible_line(target) or target.startswith("="):
        raise click.UsageError("name a target: a service, a host, or label=value")
    event = MaintenanceAdded(
        run=WATCH_RUN,
        window=new_id("maintenance"),
        target=visible_line(target, 200),
        begins=begins.astimezone(UTC),
        until=until.astimezone(UTC),
        by=user_name(),
        reason=visible_line(reason, 500),
    )

    async def publish() -> None:
        async with open_journal(loaded.store) as journal:
            await journal.append(SecretRedactor(loaded).clean_event(event))

    anyio.run(publish)
    window = build_calendar([event]).find(event.window)
    assert window is not None
    if as_json:
        print_json(_window_data(window))
    else:
        echo(clean(f"{window.id}: {window.target}, {_format_span(window)}"))


@cli_command("hermes maintenance list --json")
def list_(ctx: click.Context, as_json: bool = False) -> None:
    """List the open and coming windows; the first to end comes first."""
    loaded = load_settings(ctx)
    found = query_journal(loaded, _current_windows) if store_exists(loaded.store) else []
    if as_json:
        print_json([_window_data(each) for each in found])
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
        window = _find_window(await _current_windows(journal), id)
        await journal.append(MaintenanceEnded(run=WATCH_RUN, window=window.id, by=who))
        return window

    window = query_journal(loaded, publish)
    if as_json:
        print_json({**_window_data(window), "state": "over", "ended_by": who})
    else:
        echo(clean(f"{window.id}: ended by {who}; alerts of {window.target} count again"))


async def _current_windows(journal: Journal) -> list[MaintenanceWindow]:
    events = [each.event async for each in journal.read(kinds=MAINTENANCE_EVENTS)]
    return build_calendar(events).current_and_coming(datetime.now(UTC))


def _find_window(windows: list[MaintenanceWindow], wanted: str) -> MaintenanceWindow:
    return find_unique(
        windows,
        wanted,
        lambda each: wanted in (each.id, each.target),
        lambda each: bool(wanted) and (each.id.startswith(wanted) or each.id.endswith(wanted)),
        id_of=lambda each: each.id,
        kind="window",
        list_command="hermes maintenance list",
    )


def _format_span(window: MaintenanceWindow) -> str:
    begins, until = window.begins.astimezone(), window.until.astimezone()
    end = f"{until:%H:%M}" if begins.date() == until.date() else format_time(until)
    return f"{format_time(begins)} to {end}"


def _window_data(window: MaintenanceWindow) -> dict[str, object]:
    now = datetime.now(UTC)
    state = "open" if window.open_at(now) else "to come" if now < window.begins else "over"
    return {
        "window": window.id,
        "target": window.target,
        "state": state,
        "begins": window.begins.isoformat(),
        "until": window.until.isoformat(),
        "by": window.by,
        "reason": window.reason,
    }
