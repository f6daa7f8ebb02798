"""The watch joins alerts, triage and commanders, and nobody who waits is forgotten."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from incident_host import Host

from hermes.core.bus import Bus
from hermes.core.events.approvals import ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import (
    AlertRaised,
    ChangeBegan,
    IncidentClosed,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    PhaseEntered,
)
from hermes.core.events.operations import WatchStarted
from hermes.core.incident import IncidentDetails
from hermes.memory.journal.buffered_journal import BufferedJournal
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify
from hermes.sre.commander import Commander
from hermes.sre.context import IncidentContext
from hermes.sre.coordination import WorkWithdrawal
from hermes.sre.settings import GroupSettings, TriageSettings
from hermes.sre.triage.triage import Triage
from hermes.sre.watch import JOURNAL_UNWRITABLE, TICK_S, IncidentWatch
from small_disk import fill, read_only, small_disk

pytestmark = pytest.mark.anyio
FIX = ("touch well-web", "rm -f well-web")
QUICK = TriageSettings(group=GroupSettings(delay=0.0, window=0.1, longest=0.1), recovery=0.2)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


class CommanderOf:
    """Handles every incident in one context."""

    def __init__(self, context: IncidentContext) -> None:
        self._context = context

    async def handle(self, details: IncidentDetails, withdrawal: WorkWithdrawal) -> None:
        await Commander(replace(self._context, withdrawal=withdrawal), details).run()

    async def report(self, details: IncidentDetails) -> None:
        await self._context.report(details)


@asynccontextmanager
async def watched(host: Host, *, at_once: int = 20) -> AsyncGenerator[Bus, None]:
    async with host.context() as context, anyio.create_task_group() as group:
        watch = IncidentWatch(
            context.bus, Triage(QUICK), CommanderOf(context), max_concurrent=at_once
        )
        await group.start(watch.run)
        yield context.bus
        group.cancel_scope.cancel()


async def raised(
    bus: Bus, service: str, *, run: str = "watch", resolved: bool = False, question: str = ""
) -> None:
    asked = (("question", question),) if question else ()
    await bus.publish(
        AlertRaised(
            run=run,
            fingerprint=service,
            title=f"{service} is down",
            source="probe",
            labels=(("service", service), ("host", service), *asked),
            resolved=resolved,
        )
    )


def events_of(host: Host) -> list[object]:
    assert isinstance(host.journal, InMemoryJournal)
    return list(host.journal.events)


async def until(host: Host, holds: Callable[[list[object]], bool], seconds: float = 120.0) -> None:
    with anyio.fail_after(seconds):
        while not holds(events_of(host)):
            await host.journal.changed(await host.journal.last())


def closed(events: list[object]) -> list[IncidentClosed]:
    return [event for event in events if isinstance(event, IncidentClosed)]


async def test_an_alert_becomes_an_incident_and_is_fixed(host: Host) -> None:
    host.playbook("web", FIX)
    async with watched(host) as bus:
        await raised(bus, "web")
        await until(host, lambda events: bool(closed(events)))
    assert [each.outcome for each in closed(events_of(host))] == ["resolved"]
    assert host.well()


async def test_the_alert_of_a_drill_belongs_to_its_drill(host: Host) -> None:
    async with watched(host) as bus:
        await raised(bus, "shop", run="run-of-a-drill")
        await raised(bus, "web")
        await until(host, lambda events: bool(closed(events)))
    opened = [e for e in events_of(host) if isinstance(e, IncidentOpened)]
    assert [each.title for each in opened] == ["web is down"]


async def test_what_was_open_when_a_watch_ended_is_gone_on_with(host: Host) -> None:
    host.playbook("web", FIX)
    await host.open_incident()
    async with watched(host):
        await until(host, lambda events: bool(closed(events)))
    assert host.well()


async def test_an_alert_that_nobody_answered_before_a_crash_is_answered(host: Host) -> None:
    host.playbook("web", FIX)
    await raised(Bus(host.journal), "web")
    async with watched(host):
        await until(host, lambda events: bool(closed(events)))
    assert host.well()


async def test_a_second_watch_says_how_long_nobody_watched(host: Host) -> None:
    for _ in range(2):
        async with watched(host):
            pass
    started = [e for e in events_of(host) if isinstance(e, WatchStarted)]
    assert started[0].quiet is None
    assert started[1].quiet is not None


async def test_what_a_person_closes_is_left_alone(host: Host) -> None:
    host.playbook("web", ("sleep 30", "true"))
    async with watched(host) as bus:
        await raised(bus, "web")
        await until(host, lambda events: bool(host.ledger or _in_reflex(events)))
        incident = next(e.incident for e in events_of(host) if isinstance(e, IncidentOpened))
        await bus.publish(
            IncidentClosed(
                run=incident, incident=incident, outcome="closed", answered_by="person", by="ann"
            )
        )
        await anyio.sleep(0.3)
    assert [each.by for each in closed(events_of(host))] == ["ann"]


def _in_reflex(events: list[object]) -> bool:
    return any(isinstance(event, PhaseEntered) and event.phase == "reflex" for event in events)


async def test_what_a_person_reopens_is_worked_on_again(host: Host) -> None:
    host.playbook("web", FIX)
    case = await host.open_incident()
    done = IncidentClosed(run=case.run, incident=case.incident, outcome="closed", by="ann")
    await Bus(host.journal).publish(done)
    async with watched(host) as bus:
        await bus.publish(IncidentReopened(run=case.run, incident=case.incident, by="ann"))
        await until(host, lambda events: len(closed(events)) == 2)
    assert host.well()


async def test_twenty_at_once_and_none_starves(host: Host) -> None:
    names = [f"svc{number}" for number in range(20)]
    async with watched(host) as bus:
        for name in names:
            await raised(bus, name)
        await until(host, lambda events: len(closed(events)) == 20)
    opened = {e.incident: e.at for e in events_of(host) if isinstance(e, IncidentOpened)}
    begun: dict[str, float] = {}
    for event in events_of(host):
        if isinstance(event, PhaseEntered) and event.incident not in begun:
            begun[event.incident] = (event.at - opened[event.incident]).total_seconds()
    assert len(begun) == 20
    assert max(begun.values()) < 5.0


async def test_the_recovery_of_what_was_escalated_is_written_by_the_watch(host: Host) -> None:
    async with watched(host) as bus:
        await raised(bus, "web")
        await until(host, lambda events: bool(closed(events)))
        assert [each.outcome for each in closed(events_of(host))] == ["escalated"]
        await raised(bus, "web", resolved=True)
        await until(host, lambda events: bool(recoveries(events)))
        await anyio.wait_all_tasks_blocked()
    (recovered,) = recoveries(events_of(host))
    assert recovered.incident == closed(events_of(host))[0].incident
    assert host.reported == [recovered.incident] * 2, "the first report did not know of it"


class ReportsNothing(CommanderOf):
    async def report(self, details: IncidentDetails) -> None:
        raise ValueError("a probe of this incident cannot be read")


async def test_a_report_that_fails_for_an_unknown_reason_does_not_end_the_watch(host: Host) -> None:
    async with host.context() as context, anyio.create_task_group() as group:
        await group.start(IncidentWatch(context.bus, Triage(QUICK), ReportsNothing(context)).run)
        for count in (1, 2):
            await raised(context.bus, f"web{count}")
            await until(host, lambda events: len(closed(events)) == count)  # noqa: B023
            await raised(context.bus, f"web{count}", resolved=True)
            await until(host, lambda events: len(recoveries(events)) == count)  # noqa: B023
            await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()


async def test_a_watch_that_starts_after_the_recovery_reports_it(host: Host) -> None:
    async with watched(host) as bus:
        await raised(bus, "web")
        await until(host, lambda events: bool(closed(events)))
    await raised(Bus(host.journal), "web", resolved=True)
    async with watched(host):
        await until(host, lambda events: bool(recoveries(events)))
    assert len(recoveries(events_of(host))) == 1


async def test_a_problem_that_ends_while_it_is_worked_on_is_reported_as_recovered(
    host: Host,
) -> None:
    host.playbook("web", FIX)
    host.answers_after = 600.0  # the step waits for a person
    async with watched(host) as bus:
        await raised(bus, "web")
        await until(host, lambda events: any(getattr(e, "verdict", "") == "ask" for e in events))
        incident = next(e.incident for e in events_of(host) if isinstance(e, IncidentOpened))
        await bus.publish(asked(incident))
        await raised(bus, "web", resolved=True)
        await until(host, lambda events: bool(recoveries(events)))
        await anyio.wait_all_tasks_blocked()
    assert [each.incident for each in recoveries(events_of(host))] == [incident]
    assert not closed(events_of(host)) and host.ledger == []
    assert host.reported == [incident]
    settled = [each for each in events_of(host) if isinstance(each, ApprovalSettled)]
    assert [(each.approval, each.outcome) for each in settled] == [("approval-1", "withdrawn")]


def asked(incident: str) -> ApprovalRequested:
    """Of a watch that was killed while it waited."""
    return ApprovalRequested(
        run=incident, approval="approval-1", call_id="step", tool="terminal", shown="touch"
    )


async def test_a_step_that_runs_when_the_problem_ends_completes_and_is_verified(
    host: Host,
) -> None:
    host.playbook("web", ("until test -f go; do sleep 0.02; done; touch well-web", "true"))
    async with watched(host) as bus:
        await raised(bus, "web")
        await until(host, lambda events: any(isinstance(e, ChangeBegan) for e in events))
        await raised(bus, "web", resolved=True)
        await anyio.sleep(3 * TICK_S)  # more than one chance to report a recovery
        (host.folder / "go").touch()
        await until(host, lambda events: bool(closed(events)))
    assert not recoveries(events_of(host)) and host.ledger == ["web-1"]
    assert [each.outcome for each in closed(events_of(host))] == ["resolved"]


async def test_a_watch_that_starts_after_a_problem_ended_does_not_finish_the_work_first(
    host: Host,
) -> None:
    host.playbook("web", FIX)
    host.answers_after = 600.0
    async with watched(host) as bus:
        await raised(bus, "web")
        await until(host, _in_reflex)
    await raised(Bus(host.journal), "web", resolved=True)
    async with watched(host):
        await until(host, lambda events: bool(recoveries(events)))
        await anyio.sleep(2 * TICK_S)
    assert len(recoveries(events_of(host))) == 1 and not closed(events_of(host))


async def test_the_work_goes_on_when_an_alert_of_the_incident_fires_again(host: Host) -> None:
    host.playbook("web", FIX)
    host.answers_after = 1.5
    async with watched(host) as bus:
        await raised(bus, "web")
        await until(host, lambda events: any(getattr(e, "verdict", "") == "ask" for e in events))
        await raised(bus, "web", resolved=True)
        await raised(bus, "web")
        await until(host, lambda events: bool(closed(events)))
    assert host.ledger == ["web-1"] and not recoveries(events_of(host))


async def test_a_question_is_not_worked_on(host: Host) -> None:
    async with watched(host) as bus:
        await raised(bus, "web", question="is this intended?")
        await raised(bus, "mail")
        await until(host, lambda events: bool(closed(events)))
    worked = {e.incident for e in events_of(host) if isinstance(e, PhaseEntered)}
    titles = {e.incident: e.title for e in events_of(host) if isinstance(e, IncidentOpened)}
    assert {titles[each] for each in worked} == {"mail is down"}


def recoveries(events: list[object]) -> list[IncidentRecovered]:
    return [event for event in events if isinstance(event, IncidentRecovered)]


async def heard(bus: Bus, wanted: Callable[[object], bool], after: int = 0) -> None:
    with anyio.fail_after(120):
        async for recorded in bus.follow(after=after):
            if wanted(recorded.event):
                return


async def test_a_change_waits_until_it_can_be_recorded_and_is_made_then(tmp_path: Path) -> None:
    folder = tmp_path / "host"
    folder.mkdir()
    with small_disk(tmp_path / "disk", size="12m") as disk:
        async with BufferedJournal.open(disk / "journal.db") as journal:
            host = Host(folder, journal=journal)
            host.playbook("web", FIX)
            ballast = fill(disk)
            while journal.outage is None:
                await raised(Bus(journal), "other", run="drill")
            async with host.context() as context, anyio.create_task_group() as group:
                watch = IncidentWatch(
                    context.bus,
                    Triage(QUICK),
                    CommanderOf(context),
                    until_writable=journal.wait_until_writable,
                )
                await group.start(watch.run)
                await raised(context.bus, "web")
                await heard(context.bus, waits_for_journal)
                assert host.ledger == []
                ballast.unlink()
                assert await journal.retry_write()
                await heard(context.bus, lambda event: getattr(event, "outcome", "") == "resolved")
                group.cancel_scope.cancel()
            assert host.ledger == ["web-1"]
            assert host.well()
        assert verify(disk / "journal.db").problems == ()


async def test_a_recovery_is_reported_while_what_was_asked_before_cannot_be_read(
    tmp_path: Path,
) -> None:
    folder, path = tmp_path / "host", tmp_path / "disk" / "journal.db"
    folder.mkdir()
    with small_disk(tmp_path / "disk", size="12m") as disk:
        async with SqliteJournal.open(path) as earlier:
            await raised(Bus(earlier), "other", run="drill")
        async with BufferedJournal.open(path) as journal:
            host = Host(folder, journal=journal)
            async with host.context() as context, anyio.create_task_group() as group:
                watch = IncidentWatch(
                    context.bus,
                    Triage(QUICK),
                    CommanderOf(context),
                    until_writable=journal.wait_until_writable,
                )
                await group.start(watch.run)
                with read_only(disk):
                    await journal.check()
                    after = await journal.last()
                    await raised(context.bus, "web")
                    await heard(context.bus, waits_for_journal, after)
                    await raised(context.bus, "web", resolved=True)
                    await heard(context.bus, is_recovery, after)
                assert await journal.retry_write()
                await raised(context.bus, "mail")
                await heard(
                    context.bus, lambda event: getattr(event, "title", "") == "mail is down"
                )
                group.cancel_scope.cancel()
        assert verify(path).problems == ()


def waits_for_journal(event: object) -> bool:
    return getattr(event, "detail", "") == JOURNAL_UNWRITABLE


def is_recovery(event: object) -> bool:
    return isinstance(event, IncidentRecovered)
