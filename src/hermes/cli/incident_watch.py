"""`hermes incident watch`: the work on an incident, live, whichever process does it."""

import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import anyio
import click

from hermes.cli.incident_found import find, offered
from hermes.cli.incident_lines import line
from hermes.cli.incident_scene import Scene, after, belongs
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import json_option, note, wants_color
from hermes.cli.stored import ask_journal
from hermes.core.bus import Bus
from hermes.core.events import encode
from hermes.core.events.happening import Unknown
from hermes.core.events.incidents import IncidentOpened
from hermes.core.protocols import Journal, Recorded
from hermes.memory.opening import Store
from hermes.settings import process
from hermes.sre.report.reading import STATES, listed, opened, records_of

BEAT = 0.25
LINGER = 0.7
"""Seconds after its end in which people are told of it."""
NOTICES = ("notice.queued", "notice.sent", "notice.tried")


@click.command(
    cls=Examples,
    examples="""
hermes incident watch                     the one that is open, or the next to come
hermes incident watch 4f2a1c              this one, to its end
hermes incident watch last --once         as it is now
hermes incident watch --json | jq .kind   its events, one a line
""",
)
@click.argument("id", default="", shell_complete=offered)
@click.option("--once", is_flag=True, help="Show how it is now, and end.")
@json_option
@click.pass_context
def watch(ctx: click.Context, id: str, once: bool, as_json: bool) -> None:
    """Follow the incident ID while it is worked on. Without ID: what is open, then the next.

    It reads the journal and touches nothing: leave with Ctrl-C, the work goes on.
    """
    drawn = sys.stdout.isatty() and process.variables().get("TERM", "dumb") != "dumb"

    async def go(journal: Store) -> None:
        wanted = (await find(journal, id or "last")) if id or once else await _newest_open(journal)
        if once:
            await _once(journal, wanted, as_json=as_json)
        elif drawn and not as_json:
            await _until_left(_live, journal, wanted, bool(id))
        else:
            await _until_left(_printed, journal, wanted, bool(id), as_json)

    ask_journal(settings_for(ctx), go)


async def _newest_open(journal: Journal) -> IncidentOpened | None:
    known = await listed(journal, kinds=STATES)
    running = {e.case.incident for e in known if e.status == "open" and not e.question}
    return next(
        (event for _, event in reversed(await opened(journal)) if event.incident in running), None
    )


async def _until_left(work: Callable[..., Awaitable[None]], *given: object) -> None:
    async with anyio.create_task_group() as group:

        async def left() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    group.cancel_scope.cancel()

        group.start_soon(left)
        await work(*given)
        group.cancel_scope.cancel()


async def _once(journal: Journal, wanted: IncidentOpened | None, *, as_json: bool) -> None:
    assert wanted is not None  # `find` has found it, or complained
    scene = Scene()
    for recorded in await past(journal, wanted.run):
        scene = after(scene, recorded)
        if as_json:
            _echo(recorded)
    if not as_json:
        from hermes.cli.incident_view import view

        screen().print(view(scene, datetime.now(UTC)))


async def past(journal: Journal, run: str) -> Sequence[Recorded]:
    """What is known of it by now: its run, the runs below, and what people were told of it."""
    found = {each.seq: each for each in await records_of(journal, run)}
    begun = min(seq for seq, each in found.items() if isinstance(each.event, IncidentOpened))
    found |= {each.seq: each async for each in journal.read(after=begun, kinds=NOTICES)}
    return [found[seq] for seq in sorted(found)]


async def scenes(journal: Journal, run: str) -> AsyncGenerator[tuple[Scene, Recorded], None]:
    """The scene after each event, past and then live, until the incident is over."""
    scene, last = Scene(), await journal.last()
    for recorded in await past(journal, run):
        if recorded.seq <= last and belongs(scene, recorded.event):
            scene = after(scene, recorded)
            yield scene, recorded
    if scene.over:
        return
    async with aclosing(Bus(journal).follow(after=last)) as events:  # type: ignore[type-var]
        async for recorded in events:
            last = recorded.seq
            if belongs(scene, recorded.event):
                scene = after(scene, recorded)
                yield scene, recorded
            if scene.over:
                break
    await anyio.sleep(LINGER)
    async for recorded in journal.read(after=last, kinds=NOTICES):
        if belongs(scene, recorded.event):
            scene = after(scene, recorded)
            yield scene, recorded


async def _each(
    journal: Journal, wanted: IncidentOpened | None, only_this: bool
) -> AsyncIterator[IncidentOpened]:
    """The wanted one; then, unless only that is, every one that comes after."""
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


async def _printed(
    journal: Journal, wanted: IncidentOpened | None, only_this: bool, as_json: bool
) -> None:
    async for event in _each(journal, wanted, only_this):
        async with aclosing(scenes(journal, event.run)) as shown:
            async for scene, recorded in shown:
                if as_json:
                    _echo(recorded)
                elif told := line(scene, recorded):
                    click.echo(told)


def _echo(recorded: Recorded) -> None:
    if not isinstance(recorded.event, Unknown):
        click.echo(encode(recorded.event).decode())


async def _live(journal: Journal, wanted: IncidentOpened | None, only_this: bool) -> None:
    async for event in _each(journal, wanted, only_this):
        await show_live(journal, event.run, screen())


async def show_live(journal: Journal, run: str, console: Any) -> Scene:
    """Draw it in place on a rich console until it is over; its last picture stays."""
    from rich.live import Live

    from hermes.cli.incident_view import view

    seen = [Scene()]
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:

        def draw(rows: int) -> None:
            live.update(view(seen[-1], datetime.now(UTC), rows=rows), refresh=True)

        async def beat() -> None:
            while True:
                draw(console.height - 1)
                await anyio.sleep(BEAT)

        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            async with aclosing(scenes(journal, run)) as shown:
                async for scene, _ in shown:
                    seen[:] = [scene]
            group.cancel_scope.cancel()
        draw(console.height - 1)
    return seen[-1]


def screen() -> Any:
    from rich.console import Console

    plain = wants_color(process.variables()) is False
    return Console(no_color=plain, highlight=False)
