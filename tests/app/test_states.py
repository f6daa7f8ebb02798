"""When a state counts as known good, and who may have changed it."""

from datetime import UTC, datetime, timedelta

import pytest

from hermes.app.states import is_settled, own_commands
from hermes.core.events.incidents import IncidentOpened
from hermes.core.events.operations import HealthChecked
from hermes.core.events.tools import ToolDecided, ToolRequested, ToolStarted
from hermes.core.incident import WATCH_RUN
from hermes.core.messages import Risk, ToolCall
from hermes.memory.journal.in_memory import InMemoryJournal

pytestmark = pytest.mark.anyio
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
SETTLED = timedelta(minutes=10)


def checked(minutes_ago: float, *, ok: bool = True, checks: int = 5) -> HealthChecked:
    at = NOON - timedelta(minutes=minutes_ago)
    return HealthChecked(run=WATCH_RUN, at=at, ok=ok, checks=checks)


@pytest.mark.parametrize(
    ("rounds", "settled"),
    [
        ([checked(12), checked(7), checked(2)], True),
        ([checked(7), checked(2)], False),
        ([checked(12)], False),
        ([checked(12), checked(7, ok=False), checked(2)], False),
        ([checked(12, ok=False), checked(7), checked(2)], False),
        ([checked(12), checked(7), checked(2, checks=0)], True),
        ([checked(12, checks=0), checked(2, checks=0)], False),
        ([], False),
    ],
)
async def test_a_state_is_known_good_after_all_checks_passed_for_a_while(
    rounds: list[HealthChecked], settled: bool
) -> None:
    journal = InMemoryJournal()
    await journal.append(*rounds)
    assert await is_settled(journal, SETTLED, NOON) is settled


async def test_not_while_an_incident_is_open() -> None:
    journal = InMemoryJournal()
    opened = IncidentOpened(run="inc-1", incident="inc-1", title="web is down", severity="P2")
    await journal.append(checked(12), checked(2), opened)
    assert not await is_settled(journal, SETTLED, NOON)


async def test_only_commands_that_ran_and_may_have_changed_something_are_possible_authors() -> None:
    journal = InMemoryJournal()
    after = datetime.now(UTC)
    for id, started in (
        ("changed", ToolStarted(run="r", call_id="changed", risk=Risk.CHANGE, effects=("write",))),
        ("read", ToolStarted(run="r", call_id="read", risk=Risk.CHANGE, effects=("read",))),
        ("refused", ToolDecided(run="r", call_id="refused", verdict="deny", rule="no")),
    ):
        call = ToolCall(id, "terminal", {"command": f"{id} /etc/app.conf"})
        request = ToolRequested(run="r", call=call, command=f"{id} /etc/app.conf")
        await journal.append(request, started)
    found = await own_commands(journal, after)
    assert [each.text for each in found] == ["changed /etc/app.conf"]
