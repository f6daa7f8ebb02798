"""What a demo shows while it lasts: the live view of an incident, or plain lines."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import anyio

from hermes.cli.incident_lines import line
from hermes.cli.incident_watch import scenes, screen, show_live
from hermes.cli.output import say
from hermes.core.bus import Bus
from hermes.core.events.incidents import IncidentOpened

ENDING = 5.0
"""Seconds for the last picture to be drawn."""


def showing(*, plain: bool) -> Callable[[Bus], AbstractAsyncContextManager[None]]:
    """Of every incident that is opened within the block, one after the other."""
    drawn = sys.stdout.isatty() and not plain

    @asynccontextmanager
    async def show(bus: Bus) -> AsyncGenerator[None, None]:
        done = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(_follow, bus, await bus.journal.last(), drawn, done)
            yield
            with anyio.move_on_after(ENDING):
                await done.wait()
            group.cancel_scope.cancel()

    return show


async def _follow(bus: Bus, after: int, drawn: bool, done: anyio.Event) -> None:
    async for recorded in bus.follow(after=after):
        if not isinstance(recorded.event, IncidentOpened):
            continue
        if drawn:
            await show_live(bus.journal, recorded.event.run, screen())
        else:
            async with aclosing(scenes(bus.journal, recorded.event.run)) as shown:
                async for scene, each in shown:
                    if told := line(scene, each):
                        say(f"  {told}")
        done.set()
