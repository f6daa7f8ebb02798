"""What a demo shows while it lasts: the live view of an incident, or plain lines."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from hermes.cli.output import say
from hermes.cli.render_safe import clean
from hermes.core.bus import Bus
from hermes.sre.report.timeline import timeline


def showing(*, plain: bool) -> Callable[[Bus], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def show(bus: Bus) -> AsyncGenerator[None, None]:
        async with anyio.create_task_group() as group:
            group.start_soon(_lines, bus, await bus.journal.last())
            yield
            group.cancel_scope.cancel()

    return show


async def _lines(bus: Bus, after: int) -> None:
    async for recorded in bus.follow(after=after):
        if recorded.event.kind in SHOWN:
            for moment in timeline([recorded]):
                say(f"  {moment.at:%H:%M:%S}  {clean(moment.text)}")


SHOWN = frozenset(
    {
        "alert.raised",
        "incident.opened",
        "incident.phase",
        "incident.diagnosed",
        "incident.verified",
        "incident.closed",
        "playbook.started",
        "change.began",
        "changes.undone",
        "report.written",
    }
)
