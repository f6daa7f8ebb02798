"""When a state counts as known good, and who may have changed it."""

from datetime import UTC, datetime, timedelta

import pytest

from hermes.app.changes.states import is_settled, own_commands
from hermes.core.events.incidents import AlertRaised, IncidentOpened
from hermes.core.events.operations import HealthChecked
from hermes.core.events.tools import ToolDecided, ToolRequested, ToolStarted
from hermes.core.incident import WATCH_RUN
from hermes.core.messages import Risk, ToolCall
from hermes.memory.journal.in_memory import InMemoryJournal

pytestmark = pytest.mark.anyio
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
SETTLED = timedelta(minutes=10)


def checked(
    minutes_ago: float,
    *,
    ok: bool = True,
    checks: int = 5,
    failing: tuple[str, ...] = (),
    unknown: tuple[str, ...] = (),
) -> HealthChecked:
    return HealthChecked(
        run=WATCH_RUN,
        at=NOON - timedelta(minutes=minutes_ago),
        ok=ok and not failing and not unknown,
        checks=checks,
        failing=failing if ok else ("port-80",),
        unknown=unknown,
        about_host=tuple(each for each in failing if each == "load"),
    )


def raised(kind: str, service: str = "") -> AlertRaised:
    labels = (("kind", kind), ("service", service)) if service else (("kind", kind),)
    return AlertRaised(
        run=WATCH_RUN, fingerprint=kind, title=f"{kind} fails", source="probe", labels=labels
    )


def opened(fingerprint: str) -> IncidentOpened:
    return IncidentOpened(
        run="inc-1", incident="inc-1", title="it fails", severity="P2", fingerprint=fingerprint
    )


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
        ([checked(12), checked(2, failing=("load",))], True),
        ([checked(12), checked(2, failing=("load", "port-80"))], False),
        ([checked(12), checked(2, unknown=("redis-6379",))], True),
        ([checked(12), checked(2, checks=1, unknown=("redis-6379",))], False),
        ([], False),
    ],
)
async def test_a_state_is_known_good_after_the_services_passed_all_checks_for_a_while(
    rounds: list[HealthChecked], settled: bool
) -> None:
    journal = InMemoryJournal()
    await journal.append(*rounds)
    assert await is_settled(journal, SETTLED, NOON) is settled


@pytest.mark.parametrize(
    ("rounds", "settled"),
    [
        ([checked(0.1)], True),
        ([checked(7, ok=False), checked(0.1)], True),
        ([checked(7), checked(0.1, ok=False)], False),
        ([checked(12)], False),
        ([], False),
    ],
)
async def test_for_the_first_known_good_state_the_last_round_is_enough(
    rounds: list[HealthChecked], settled: bool
) -> None:
    journal = InMemoryJournal()
    await journal.append(*rounds)
    assert await is_settled(journal, SETTLED, NOON, first=True) is settled


@pytest.mark.parametrize(
    ("alert", "settled"),
    [(raised("port", "web"), False), (raised("load"), True), (raised("log"), False)],
)
async def test_an_open_incident_matters_unless_it_is_about_the_load_of_the_host(
    alert: AlertRaised, settled: bool
) -> None:
    journal = InMemoryJournal()
    await journal.append(checked(12), checked(2), alert, opened(alert.fingerprint))
    assert await is_settled(journal, SETTLED, NOON) is settled
    assert await is_settled(journal, SETTLED, NOON, first=True) is settled


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
