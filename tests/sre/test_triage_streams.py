"""Any stream of alerts, cut off at any point: none lost, none opened twice, none in maintenance."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from triage_harness import TriageHarness

from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    AlertSuppressed,
    IncidentAcknowledged,
    IncidentChecked,
    IncidentClosed,
    IncidentOpened,
    IncidentRecovered,
    PhaseEntered,
)
from hermes.core.events.operations import MaintenanceAdded, MaintenanceEnded
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.settings import TriageSettings
from hermes.sre.triage.maintenance import build_calendar
from hermes.sre.triage.state import PASSED_STRETCH
from hermes.sre.triage.triage import Triage

SERVICES = {"a": "web", "b": "web", "c": "db", "d": "mail", "e": "", "f": "web"}
PROBLEMS = {"e": "disk", "f": "log"}
NAMES = st.sampled_from(sorted(SERVICES))
OUTCOMES = st.sampled_from(["resolved", "recovered", "no-incident", "closed", "escalated"])
ALERT_STEPS = ["record_alert", "raise_alert", "raise_alert", "resolve", "resolve", "die"]
STEPS = st.one_of(
    st.tuples(st.sampled_from(ALERT_STEPS), NAMES),
    st.tuples(st.just("wait"), st.sampled_from([0.2, 1, 1, 30, 200, 900])),
    st.tuples(st.just("escalate"), NAMES),
    st.tuples(st.just("close"), OUTCOMES),
    st.one_of(
        st.tuples(st.just("ack"), st.just("")),
        st.tuples(st.just("phase"), st.sampled_from(["assess", "investigate", "remediate"])),
        st.tuples(st.just("check"), NAMES),
        st.tuples(st.just("maintain"), st.sampled_from(["web", "mail", "*", "host=h"])),
        st.tuples(st.just("end"), st.just("")),
        st.tuples(st.just("crash"), st.just("")),
    ),
)
STREAMS = st.lists(STEPS, max_size=25)


def labels_of(name: str) -> dict[str, str]:
    labels = {"host": "h", "kind": PROBLEMS.get(name, "port"), "check": name}
    return labels | ({"service": SERVICES[name]} if SERVICES[name] else {})


def play(harness: TriageHarness, step: str, what: object) -> None:
    if step in ("record_alert", "raise_alert", "resolve"):
        getattr(harness, step)(str(what), **labels_of(str(what)))
    elif step == "wait":
        seconds = float(str(what))
        harness.wait(seconds, step=max(0.2, seconds / 20))
    elif step == "escalate":
        play(harness, "raise_alert", what)
        play(harness, "wait", 1)
        play(harness, "close", "escalated")
    elif step in ("close", "ack", "phase", "check"):
        for incident in harness.open_incidents()[:1]:
            harness.write(told_of(incident, step, str(what), harness.now))
            harness.follow_journal()
    elif step == "maintain":
        harness.begin_maintenance(str(what), 300, window=f"maintenance-{len(harness.journal)}")
    elif step == "end":
        end_first_window(harness)
    elif step == "crash":
        harness.restart()
    else:  # killed after it decided, before a word of that was written
        harness.record_alert(str(what), **labels_of(str(what)))
        harness.triage.handle_alert(harness.journal[-1], harness.now)
        harness.triage.tick(harness.now)
        harness.restart()


def end_first_window(harness: TriageHarness) -> None:
    for window in build_calendar(harness.events(MaintenanceAdded)).current_and_coming(harness.now)[
        :1
    ]:
        harness.end_maintenance(window.id)


def told_of(incident: str, step: str, what: str, now: datetime) -> Event:
    if step == "ack":
        return IncidentAcknowledged(run=incident, at=now, incident=incident, by="ann")
    if step == "close":
        return IncidentClosed(run=incident, at=now, incident=incident, outcome=what)  # type: ignore[arg-type]
    if step == "phase":
        return PhaseEntered(run=incident, at=now, incident=incident, phase=what)  # type: ignore[arg-type]
    return IncidentChecked(
        run=incident, at=now, incident=incident, check=what, ok=False, when="before"
    )


def check_always(harness: TriageHarness) -> None:
    for name in SERVICES:
        assert len(harness.incidents_with(name)) <= 1, f"{name} is in two open incidents"
    past: list[object] = []
    alerts: dict[int, AlertRaised] = {}
    for recorded in harness.journal:
        event = recorded.event
        if isinstance(event, MaintenanceAdded | MaintenanceEnded):
            past.append(event)
        elif isinstance(event, AlertRaised):
            alerts[recorded.seq] = event
        elif isinstance(event, IncidentOpened):
            window = build_calendar(past).covering(alerts[event.alerts[0]], event.at)
            assert window is None, f"{event.title} was opened in {window}"


def check_answered(harness: TriageHarness) -> None:
    """Every alert is named, counted, or within a stretch that was told."""
    for number, name in raised(harness):
        told = [each for each in answers(harness) if name in each[1]]
        exactly = any(up_to >= number for _, _, up_to, _ in told)
        before = [stretch for seq, _, _, stretch in told if seq < number][-1:]
        after = [stretch for seq, _, _, stretch in told if seq > number][:1]
        kept = any(stretch not in ("", PASSED_STRETCH) for stretch in before + after)
        assert exactly or kept, f"nobody answered {number}"
    assert not harness.triage.unanswered()


def check_named(harness: TriageHarness) -> None:
    """Each failure that was taken up is named by a notice of the incident that took it up."""
    notices = harness.notifications()
    ids = [notice.notice for notice in notices]
    assert len(ids) == len(set(ids)), "a notice was composed twice"
    for number, fingerprint in raised(harness):
        for at, incident in taken_up(harness, number, fingerprint):
            name = SERVICES[fingerprint] or "h"
            said = [
                each
                for each in notices
                if each.incident == incident and each.at <= at + timedelta(seconds=5)
            ]
            found = any(re.search(rf"\b{name}\b", f"{e.title}\n{e.text}") for e in said)
            assert found, f"no notice of {incident} names {name}"


def taken_up(harness: TriageHarness, number: int, fingerprint: str) -> list[tuple[datetime, str]]:
    """When, and by which incident; empty for what a window, flapping or its end kept quiet."""
    for recorded in harness.journal[number:]:
        event = recorded.event
        if isinstance(event, IncidentOpened) and number in event.alerts:
            return [(event.at, event.incident)]
        if isinstance(event, AlertsJoined) and fingerprint in event.fingerprints:
            return [(event.at, event.incident)] if event.up_to >= number else []
        if isinstance(event, AlertSuppressed) and event.fingerprint == fingerprint:
            return []
    return []


def check_absorbed(harness: TriageHarness) -> None:
    """What people have in hand takes in nothing but its own service."""
    escalated: dict[str, int] = {}
    service: dict[str, str] = {}
    for number, recorded in enumerate(harness.journal, start=1):
        event = recorded.event
        if isinstance(event, IncidentOpened):
            service[event.incident] = event.service
        elif isinstance(event, IncidentClosed) and event.outcome == "escalated":
            escalated[event.incident] = number
        elif isinstance(event, AlertsJoined) and 0 < escalated.get(event.incident, 0) < event.up_to:
            joined = {SERVICES[each] for each in event.fingerprints}
            held = worked_on(harness, event.incident)
            assert joined <= {service[event.incident], *held}, f"{joined} joined {event.incident}"


def worked_on(harness: TriageHarness, incident: str) -> set[str]:
    """Services whose checks the work was about: these stay until they recover."""
    checks = {each.check for each in harness.events(IncidentChecked) if each.incident == incident}
    return {SERVICES[each] for each in checks}


def in_hand(harness: TriageHarness, name: str) -> bool:
    """In an incident that is worked on, or in one with people that is about its service."""
    known = harness.incidents()
    return any(
        known[each].status == "open"
        or SERVICES[name] in {known[each].details.service, *worked_on(harness, each)}
        for each in harness.incidents_with(name, escalated=True)
    )


def check_recovered(harness: TriageHarness) -> None:
    """Nothing stays escalated whose alerts are over, and nothing recovers while it fails."""
    failing = firing(harness)
    for name, each in harness.incidents().items():
        if each.status == "escalated":
            assert failing & set(each.fingerprints), f"{name} is over and nobody was told"
    for number, recorded in enumerate(harness.journal):
        if isinstance(recorded.event, IncidentRecovered):
            opened = harness.incidents()[recorded.event.incident].details.fingerprint
            assert opened not in firing(harness, up_to=number), f"{opened} has not recovered"


def raised(harness: TriageHarness) -> list[tuple[int, str]]:
    return [
        (each.seq, each.event.fingerprint)
        for each in harness.journal
        if isinstance(each.event, AlertRaised) and not each.event.resolved
    ]


def answers(harness: TriageHarness) -> list[tuple[int, tuple[str, ...], int, str]]:
    """Where, of which fingerprints, up to which number, and the stretch that keeps them quiet."""
    found: list[tuple[int, tuple[str, ...], int, str]] = []
    for recorded in harness.journal:
        event = recorded.event
        if isinstance(event, IncidentOpened):
            found.append((recorded.seq, (event.fingerprint,), max(event.alerts), ""))
        elif isinstance(event, AlertsJoined):
            found.append((recorded.seq, event.fingerprints, event.up_to, ""))
        elif isinstance(event, AlertSuppressed):
            found.append((recorded.seq, (event.fingerprint,), event.up_to, event.stretch))
    return found


def firing(harness: TriageHarness, up_to: int | None = None) -> set[str]:
    found: set[str] = set()
    for event in (each.event for each in harness.journal[:up_to]):
        if isinstance(event, AlertRaised):
            (found.discard if event.resolved else found.add)(event.fingerprint)
    return found


@settings(max_examples=150, deadline=None)
@given(STREAMS)
def test_no_stream_and_no_crash_loses_an_outage_or_a_recovery_or_opens_two(
    steps: list[tuple[str, object]],
) -> None:
    harness = TriageHarness()
    for step, what in steps:
        play(harness, step, what)
        check_always(harness)
    harness.follow_journal()
    harness.wait(3)
    check_always(harness)
    check_answered(harness)
    for _ in range(2):
        harness.wait(5 * 3600, step=60)
    check_always(harness)
    check_named(harness)
    check_absorbed(harness)
    check_recovered(harness)
    for name in firing(harness):
        assert in_hand(harness, name), f"{name} fires, and no incident is about it"


@settings(max_examples=50, deadline=None)
@given(STREAMS, st.integers(min_value=0, max_value=200))
def test_who_starts_again_in_the_middle_knows_what_was_known(
    steps: list[tuple[str, object]], cut: int
) -> None:
    """Cut anywhere in the journal, also between an answer and the next."""
    harness = TriageHarness()
    for step, what in steps:
        play(harness, step, what)
    harness.journal = harness.journal[:cut]
    harness.restart()
    harness.wait(3)
    check_always(harness)
    check_answered(harness)
    check_named(harness)


def storm(count: int) -> list[AlertRaised]:
    began = datetime(2026, 3, 2, 10, tzinfo=UTC)
    return [
        AlertRaised(
            run="watch",
            at=began + timedelta(seconds=60 * number / count),
            fingerprint=f"{number % 5_000:016x}",
            title=f"web on host {number} is down",
            source="alertmanager",
            labels=(
                ("alertname", "InstanceDown"),
                ("instance", f"10.0.{number % 5_000 // 250}.{number % 250}:80"),
                ("service", "web"),
                ("severity", "critical"),
            ),
        )
        for number in range(count)
    ]


def test_a_storm_of_ten_thousand_is_one_incident() -> None:
    harness = TriageHarness()
    alerts = storm(10_000)
    for alert in alerts:
        while harness.now + timedelta(seconds=1) <= alert.at:
            harness.wait(1)
        harness.write(alert)
        harness.follow_journal()
    harness.wait(3)
    assert len(harness.events(IncidentOpened)) == 1 and harness.count_alerts() == 10_000
    assert len(harness.events(AlertsJoined)) <= 70, "counted, not told one by one"


def test_a_storm_that_was_only_recorded_is_answered_after_the_restart_as_one() -> None:
    harness = TriageHarness()
    harness.write(*storm(10_000))
    harness.now += timedelta(seconds=61)
    harness.restart()
    assert len(harness.triage.unanswered()) == 10_000
    harness.wait(3)
    assert len(harness.events(IncidentOpened)) == 1 and harness.count_alerts() == 10_000
    harness.restart()
    harness.wait(3)
    assert harness.count_alerts() == 10_000


@pytest.mark.anyio
async def test_triage_is_rebuilt_from_a_journal_on_disk(tmp_path: Path) -> None:
    harness = TriageHarness(TriageSettings(keep=3600))
    harness.open_incident("old", service="old")
    harness.close_incident("incident-1")
    harness.resolve("old")
    harness.wait(7200, step=60)
    harness.open_incident("a", service="web")
    harness.begin_maintenance("mail", 86_400)
    harness.wait(7200, step=60)
    harness.raise_alert("m", service="mail")
    harness.record_alert("n", service="new")
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        await journal.append(*(each.event for each in harness.journal))  # type: ignore[arg-type]
        triage = Triage(harness.settings)
        async for recorded in journal.read():
            triage.apply(recorded)
    assert triage.count_firing("incident-2") == 1
    (answer,) = triage.tick(harness.now + timedelta(seconds=1))
    assert isinstance(answer, IncidentOpened) and answer.service == "new"


def test_what_is_read_twice_is_counted_once() -> None:
    harness = TriageHarness()
    harness.open_incident("a", service="web")
    first = harness.journal[0]
    assert (
        harness.triage.handle_alert(first, harness.now) == ()
        and harness.triage.tick(harness.now) == ()
    )


def test_without_a_delay_the_answer_comes_at_once() -> None:
    alert = storm(1)[0]
    quick = TriageSettings(group=type(TriageSettings().group)(delay=0.0))
    triage = Triage(quick)
    harness = TriageHarness(quick)
    harness.write(alert)
    (opened,) = triage.handle_alert(harness.journal[0], alert.at)
    assert isinstance(opened, IncidentOpened) and opened.incident.startswith("incident-")
    assert not any(isinstance(each.event, IncidentClosed) for each in harness.journal)


def test_a_count_covers_what_it_says_and_no_alert_that_was_written_in_between() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web")
    harness.record_alert("a", service="web")
    counted = len(harness.journal)
    harness.record_alert("a", service="web")
    harness.write(
        AlertsJoined(
            run=opened.incident,
            at=harness.now,
            incident=opened.incident,
            count=1,
            fingerprints=("a",),
            up_to=counted,
        )
    )
    harness.restart()
    assert harness.triage.unanswered() == (counted + 1,)
    harness.wait(2)
    assert harness.incidents()[opened.incident].alerts == 3
