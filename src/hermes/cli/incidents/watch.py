"""`hermes incident watch`: follows the work on an incident live, from the journal."""

import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import click

from hermes.app.incidents.views import find_incident
from hermes.cli.context import load_settings, query_journal
from hermes.cli.incidents.live_state import (
    LiveIncident,
    event_line,
    fold_live_incident,
    only_reads,
)
from hermes.cli.incidents.lookup import complete_incident_id
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, wants_color
from hermes.core.bus import Bus
from hermes.core.events import encode_event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.incidents import IncidentOpened
from hermes.core.protocols import Journal, JournalRecord
from hermes.memory.store import JournalStore
from hermes.settings import process_environment
from hermes.sre.reports.report_data import (
    STATE_KINDS,
    list_incidents,
    list_opened,
    read_incident_records,
)

REDRAW_INTERVAL_S = 0.25
NOTIFICATION_GRACE_S = 0.7
"""How long to wait for notifications after the end."""
NOTIFICATION_EVENTS = ("notice.queued", "notice.sent", "notice.tried")


@cli_command("""
hermes incident watch                     the open one, or the next one
hermes incident watch 4f2a1c              this one, until its end
hermes incident watch last --once         as it is now
hermes incident watch --json | jq .kind   its events, one per line
""")
@click.argument("id", default="", shell_complete=complete_incident_id)
@click.option("--once", is_flag=True, help="Show the current state and exit.")
def watch(ctx: click.Context, id: str, once: bool, as_json: bool) -> None:
    """Follow the incident ID. Without ID: the open one, then each new one.

    It only reads the journal: Ctrl-C ends the view, not the work.
    """
    can_redraw = (
        sys.stdout.isatty()
        and process_environment.environment_variables().get("TERM", "dumb") != "dumb"
    )

    async def run(journal: JournalStore) -> None:
        wanted = (
            (await find_incident(journal, id or "last"))
            if id or once
            else await _latest_open_incident(journal)
        )
        if once:
            await _print_once(journal, wanted, as_json=as_json)
        elif can_redraw and not as_json:
            await _run_until_signal(_draw_incidents, journal, wanted, bool(id))
        else:
            await _run_until_signal(_print_events, journal, wanted, bool(id), as_json)

    query_journal(load_settings(ctx), run)


async def _latest_open_incident(journal: Journal) -> IncidentOpened | None:
    known = await list_incidents(journal, kinds=STATE_KINDS)
    running = {e.details.incident for e in known if e.status == "open" and not e.question}
    return next(
        (event for _, event in reversed(await list_opened(journal)) if event.incident in running),
        None,
    )


async def _run_until_signal(work: Callable[..., Awaitable[None]], *given: object) -> None:
    async with anyio.create_task_group() as group:

        async def cancel_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    group.cancel_scope.cancel()

        group.start_soon(cancel_on_signal)
        await work(*given)
        group.cancel_scope.cancel()


async def _print_once(journal: Journal, wanted: IncidentOpened | None, *, as_json: bool) -> None:
    assert wanted is not None  # `find_incident` raises otherwise
    records = await incident_records(journal, wanted.run)
    if as_json:
        for recorded in records:
            _print_event(recorded)
    else:
        from hermes.cli.incidents.live_view import render_live_view

        open_console().print(render_live_view(fold_live_incident(records), datetime.now(UTC)))


async def incident_records(journal: Journal, run: str) -> Sequence[JournalRecord]:
    """Return the records of the run, of its subagents, and of notifications."""
    found = {each.seq: each for each in await read_incident_records(journal, run)}
    opened_at = min(seq for seq, each in found.items() if isinstance(each.event, IncidentOpened))
    found |= {
        each.seq: each async for each in journal.read(after=opened_at, kinds=NOTIFICATION_EVENTS)
    }
    return [found[seq] for seq in sorted(found)]


async def follow_incident(
    journal: Journal, run: str
) -> AsyncGenerator[tuple[LiveIncident, JournalRecord], None]:
    """Yield the state after each event, past and then live, until the incident is over."""
    live, last = LiveIncident(), await journal.last()
    for recorded in await incident_records(journal, run):
        if recorded.seq <= last and live.concerns(recorded.event):
            live.apply(recorded)
            yield live, recorded
    if live.is_over:
        return
    async with aclosing(Bus(journal).follow(after=last)) as events:  # type: ignore[type-var]
        async for recorded in events:
            last = recorded.seq
            if live.concerns(recorded.event):
                live.apply(recorded)
                yield live, recorded
            if live.is_over:
                break
    await anyio.sleep(NOTIFICATION_GRACE_S)
    async for recorded in journal.read(after=last, kinds=NOTIFICATION_EVENTS):
        if live.concerns(recorded.event):
            live.apply(recorded)
            yield live, recorded


async def _each_incident(
    journal: Journal, wanted: IncidentOpened | None, only_this: bool
) -> AsyncIterator[IncidentOpened]:
    """Yield the wanted incident; unless `only_this`, also each new one."""
    last = await journal.last()
    if wanted is not None:
        yield wanted
    elif not only_this:
        note("nothing is open; waiting for the next incident (Ctrl-C ends)")
    while not only_this:
        async for recorded in Bus(journal).follow(after=last):
            last = recorded.seq
            event = recorded.event
            if isinstance(event, IncidentOpened) and event.run == event.incident:
                yield event


async def _print_events(
    journal: Journal, wanted: IncidentOpened | None, only_this: bool, as_json: bool
) -> None:
    async for event in _each_incident(journal, wanted, only_this):
        async with aclosing(follow_incident(journal, event.run)) as shown:
            async for live, recorded in shown:
                if as_json:
                    _print_event(recorded)
                elif line := event_line(live, recorded):
                    click.echo(line)


def _print_event(recorded: JournalRecord) -> None:
    if not isinstance(recorded.event, UnknownEvent):
        click.echo(encode_event(recorded.event).decode())


async def _draw_incidents(journal: Journal, wanted: IncidentOpened | None, only_this: bool) -> None:
    async for event in _each_incident(journal, wanted, only_this):
        await draw_incident(journal, event.run, open_console())


async def draw_incident(journal: Journal, run: str, console: Any) -> LiveIncident:
    """Draw it in place on a rich console until it is over; the last frame stays."""
    from rich.live import Live

    from hermes.cli.incidents.live_view import render_live_view

    latest = [LiveIncident()]
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:

        def draw(rows: int) -> None:
            live.update(render_live_view(latest[-1], datetime.now(UTC), rows=rows), refresh=True)

        async def refresh() -> None:
            while True:
                draw(console.height - 1)
                await anyio.sleep(REDRAW_INTERVAL_S)

        async with anyio.create_task_group() as group:
            group.start_soon(refresh)
            async with aclosing(follow_incident(journal, run)) as shown:
                async for state, _ in shown:
                    latest[:] = [state]
            group.cancel_scope.cancel()
        draw(console.height - 1)
    return latest[-1]


def open_console() -> Any:
    from rich.console import Console

    plain = wants_color(process_environment.environment_variables()) is False
    return Console(no_color=plain, highlight=False)


LAST_FRAME_TIMEOUT_S = 5.0


def show_demo_incidents(*, plain: bool) -> Callable[[Bus], AbstractAsyncContextManager[None]]:
    """Show each incident that is opened within the block, one after the other."""
    can_redraw = sys.stdout.isatty() and not plain

    @asynccontextmanager
    async def show(bus: Bus) -> AsyncGenerator[None, None]:
        done = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(
                _show_opened_incidents, bus, await bus.journal.last(), can_redraw, done
            )
            yield
            with anyio.move_on_after(LAST_FRAME_TIMEOUT_S):
                await done.wait()
            group.cancel_scope.cancel()

    return show


async def _show_opened_incidents(bus: Bus, after: int, can_redraw: bool, done: anyio.Event) -> None:
    async for recorded in bus.follow(after=after):
        if not isinstance(recorded.event, IncidentOpened):
            continue
        if can_redraw:
            await draw_incident(bus.journal, recorded.event.run, open_console())
        else:
            async with aclosing(follow_incident(bus.journal, recorded.event.run)) as shown:
                async for state, each in shown:
                    if only_reads(state, each.event):
                        continue
                    if line := event_line(state, each):
                        echo(f"  {line}")
        done.set()
