"""The host is looked at again when an incident opens, before a fix hides what was edited."""

import anyio
import pytest

from hermes.app.schedule.state_recording import wait_for_next
from hermes.core.bus import Bus
from hermes.core.events.incidents import IncidentOpened
from hermes.memory.journal.in_memory import InMemoryJournal

pytestmark = pytest.mark.anyio
OPENED = IncidentOpened(run="incident-1", incident="incident-1", title="t", severity="P1")


async def test_an_incident_that_opens_ends_the_pause() -> None:
    bus = Bus(InMemoryJournal())
    await bus.publish(OPENED)
    seen = await bus.journal.last()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_next, bus, seen, 3600.0, 0.0)
            await anyio.wait_all_tasks_blocked()
            await bus.publish(OPENED)


async def test_one_that_opened_during_the_last_look_counts() -> None:
    bus = Bus(InMemoryJournal())
    seen = await bus.journal.last()
    await bus.publish(OPENED)
    with anyio.fail_after(30):
        await wait_for_next(bus, seen, 3600.0, 0.0)


async def test_an_earlier_incident_does_not() -> None:
    bus = Bus(InMemoryJournal())
    await bus.publish(OPENED)
    with anyio.move_on_after(0.05) as waiting:
        await wait_for_next(bus, await bus.journal.last(), 3600.0, 0.0)
    assert waiting.cancelled_caught


async def test_without_an_incident_the_pause_ends() -> None:
    with anyio.fail_after(30):
        await wait_for_next(Bus(InMemoryJournal()), 0, 0.01)
