"""Any stream of alerts, cut off at any point: none lost, none opened twice, none in maintenance."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from triage_world import World

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
STEPS = st.one_of(
    st.tuples(st.sampled_from(["say", "hear", "hear", "resolve", "resolve", "die"]), NAMES),
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


def play(world: World, step: str, what: object) -> None:
    if step in ("say", "hear", "resolve"):
        getattr(world, step)(str(what), **labels_of(str(what)))
    elif step == "wait":
        seconds = float(str(what))
        world.wait(seconds, step=max(0.2, seconds / 20))
    elif step == "escalate":
        play(world, "hear", what)
        play(world, "wait", 1)
        play(world, "close", "escalated")
    elif step in ("close", "ack", "phase", "check"):
        for incident in world.open_now()[:1]:
            world.write(told_of(incident, step, str(what), world.now))
            world.pump()
    elif step == "maintain":
        world.maintain(str(what), 300, window=f"maintenance-{len(world.journal)}")
    elif step == "end":
        end_first_window(world)
    elif step == "crash":
        world.crash()
    else:  # killed after it decided, before a word of that was written
        world.say(str(what), **labels_of(str(what)))
        world.triage.handle_alert(world.journal[-1], world.now)
        world.triage.tick(world.now)
        world.crash()


def end_first_window(world: World) -> None:
    for window in build_calendar(world.all(MaintenanceAdded)).current_and_coming(world.now)[:1]:
        world.end_maintenance(window.id)


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


def check_always(world: World) -> None:
    for name in SERVICES:
        assert len(world.holding(name)) <= 1, f"{name} is in two open incidents"
    past: list[object] = []
    alerts: dict[int, AlertRaised] = {}
    for recorded in world.journal:
        event = recorded.event
        if isinstance(event, MaintenanceAdded | MaintenanceEnded):
            past.append(event)
        elif isinstance(event, AlertRaised):
            alerts[recorded.seq] = event
        elif isinstance(event, IncidentOpened):
            window = build_calendar(past).covering(alerts[event.alerts[0]], event.at)
            assert window is None, f"{event.title} was opened in {window}"


def check_answered(world: World) -> None:
    """Every alert is named, counted, or within a stretch that was told."""
    for number, name in raised(world):
        told = [each for each in answers(world) if name in each[1]]
        exactly = any(up_to >= number for _, _, up_to, _ in told)
        before = [stretch for seq, _, _, stretch in told if seq < number][-1:]
        after = [stretch for seq, _, _, stretch in told if seq > number][:1]
        kept = any(stretch not in ("", PASSED_STRETCH) for stretch in before + after)
        assert exactly or kept, f"nobody answered {number}"
    assert not world.triage.unanswered()


def check_named(world: World) -> None:
    """Each failure that was taken up is named by a notice of the incident that took it up."""
    notices = world.notices()
    ids = [notice.notice for notice in notices]
    assert len(ids) == len(set(ids)), "a notice was composed twice"
    for number, fingerprint in raised(world):
        for at, incident in taken_up(world, number, fingerprint):
            name = SERVICES[fingerprint] or "h"
            said = [
                each
                for each in notices
                if each.incident == incident and each.at <= at + timedelta(seconds=5)
            ]
            found = any(re.search(rf"\b{name}\b", f"{e.title}\n{e.text}") for e in said)
            assert found, f"no notice of {incident} names {name}"


def taken_up(world: World, number: int, fingerprint: str) -> list[tuple[datetime, str]]:
    """When, and by which incident; empty for what a window, flapping or its end kept quiet."""
    for recorded in world.journal[number:]:
        event = recorded.event
        if isinstance(event, IncidentOpened) and number in event.alerts:
            return [(event.at, event.incident)]
        if isinstance(event, AlertsJoined) and fingerprint in event.fingerprints:
            return [(event.at, event.incident)] if event.up_to >= number else []
        if isinstance(event, AlertSuppressed) and event.fingerprint == fingerprint:
            return []
    return []


def check_absorbed(world: World) -> None:
    """What people have in hand takes in nothing but its own service."""
    escalated: dict[str, int] = {}
    service: dict[str, str] = {}
    for number, recorded in enumerate(world.journal, start=1):
        event = recorded.event
        if isinstance(event, IncidentOpened):
            service[event.incident] = event.service
        elif isinstance(event, IncidentClosed) and event.outcome == "escalated":
            escalated[event.incident] = number
        elif isinstance(event, AlertsJoined) and 0 < escalated.get(event.incident, 0) < event.up_to:
            joined = {SERVICES[each] for each in event.fingerprints}
            held = worked_on(world, event.incident)
            assert joined <= {service[event.incident], *held}, f"{joined} joined {event.incident}"


def worked_on(world: World, incident: str) -> set[str]:
    """Services whose checks the work was about: these stay until they recover."""
    checks = {each.check for each in world.all(IncidentChecked) if each.incident == incident}
    return {SERVICES[each] for each in checks}


def in_hand(world: World, name: str) -> bool:
    """In an incident that is worked on, or in one with people that is about its service."""
    known = world.incidents()
    return any(
        known[each].status == "open"
        or SERVICES[name] in {known[each].details.service, *worked_on(world, each)}
        for each in world.holding(name, escalated=True)
    )


def check_recovered(world: World) -> None:
    """Nothing stays escalated whose alerts are over, and nothing recovers while it fails."""
    failing = firing(world)
    for name, each in world.incidents().items():
        if each.status == "escalated":
            assert failing & set(each.fingerprints), f"{name} is over and nobody was told"
    for number, recorded in enumerate(world.journal):
        if isinstance(recorded.event, IncidentRecovered):
            opened = world.incidents()[recorded.event.incident].details.fingerprint
            assert opened not in firing(world, up_to=number), f"{opened} has not recovered"


def raised(world: World) -> list[tuple[int, str]]:
    return [
        (each.seq, each.event.fingerprint)
        for each in world.journal
        if isinstance(each.event, AlertRaised) and not each.event.resolved
    ]


def answers(world: World) -> list[tuple[int, tuple[str, ...], int, str]]:
    """Where, of which fingerprints, up to which number, and the stretch that keeps them quiet."""
    found: list[tuple[int, tuple[str, ...], int, str]] = []
    for recorded in world.journal:
        event = recorded.event
        if isinstance(event, IncidentOpened):
            found.append((recorded.seq, (event.fingerprint,), max(event.alerts), ""))
        elif isinstance(event, AlertsJoined):
            found.append((recorded.seq, event.fingerprints, event.up_to, ""))
        elif isinstance(event, AlertSuppressed):
            found.append((recorded.seq, (event.fingerprint,), event.up_to, event.stretch))
    return found


def firing(world: World, up_to: int | None = None) -> set[str]:
    found: set[str] = set()
    for event in (each.event for each in world.journal[:up_to]):
        if isinstance(event, AlertRaised):
            (found.discard if event.resolved else found.add)(event.fingerprint)
    return found


@settings(max_examples=150, deadline=None)
@given(STREAMS)
def test_no_stream_and_no_crash_loses_an_outage_or_a_recovery_or_opens_two(
    steps: list[tuple[str, object]],
) -> None:
    world = World()
    for step, what in steps:
        play(world, step, what)
        check_always(world)
    world.pump()
    world.wait(3)
    check_always(world)
    check_answered(world)
    for _ in range(2):
        world.wait(5 * 3600, step=60)
    check_always(world)
    check_named(world)
    check_absorbed(world)
    check_recovered(world)
    for name in firing(world):
        assert in_hand(world, name), f"{name} fires, and no incident is about it"


@settings(max_examples=50, deadline=None)
@given(STREAMS, st.integers(min_value=0, max_value=200))
def test_who_starts_again_in_the_middle_knows_what_was_known(
    steps: list[tuple[str, object]], cut: int
) -> None:
    """Cut anywhere in the journal, also between an answer and the next."""
    world = World()
    for step, what in steps:
        play(world, step, what)
    world.journal = world.journal[:cut]
    world.crash()
    world.wait(3)
    check_always(world)
    check_answered(world)
    check_named(world)


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
    world = World()
    alerts = storm(10_000)
    for alert in alerts:
        while world.now + timedelta(seconds=1) <= alert.at:
            world.wait(1)
        world.write(alert)
        world.pump()
    world.wait(3)
    assert len(world.all(IncidentOpened)) == 1 and world.counted() == 10_000
    assert len(world.all(AlertsJoined)) <= 70, "counted, not told one by one"


def test_a_storm_that_nobody_heard_is_answered_after_the_restart_as_one() -> None:
    world = World()
    world.write(*storm(10_000))
    world.now += timedelta(seconds=61)
    world.crash()
    assert len(world.triage.unanswered()) == 10_000
    world.wait(3)
    assert len(world.all(IncidentOpened)) == 1 and world.counted() == 10_000
    world.crash()
    world.wait(3)
    assert world.counted() == 10_000


@pytest.mark.anyio
async def test_triage_is_rebuilt_from_a_journal_on_disk(tmp_path: Path) -> None:
    world = World(TriageSettings(keep=3600))
    world.open("old", service="old")
    world.close("incident-1")
    world.resolve("old")
    world.wait(7200, step=60)
    world.open("a", service="web")
    world.maintain("mail", 86_400)
    world.wait(7200, step=60)
    world.hear("m", service="mail")
    world.say("n", service="new")
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        await journal.append(*(each.event for each in world.journal))  # type: ignore[arg-type]
        triage = Triage(world.settings)
        async for recorded in journal.read():
            triage.apply(recorded)
    assert triage.count_firing("incident-2") == 1
    (answer,) = triage.tick(world.now + timedelta(seconds=1))
    assert isinstance(answer, IncidentOpened) and answer.service == "new"


def test_what_is_heard_twice_is_counted_once() -> None:
    world = World()
    world.open("a", service="web")
    first = world.journal[0]
    assert world.triage.handle_alert(first, world.now) == () and world.triage.tick(world.now) == ()


def test_without_a_delay_the_answer_comes_at_once() -> None:
    alert = storm(1)[0]
    quick = TriageSettings(group=type(TriageSettings().group)(delay=0.0))
    triage = Triage(quick)
    world = World(quick)
    world.write(alert)
    (opened,) = triage.handle_alert(world.journal[0], alert.at)
    assert isinstance(opened, IncidentOpened) and opened.incident.startswith("incident-")
    assert not any(isinstance(each.event, IncidentClosed) for each in world.journal)


def test_a_count_covers_what_it_says_and_no_alert_that_was_written_in_between() -> None:
    world = World()
    opened = world.open("a", service="web")
    world.say("a", service="web")
    counted = len(world.journal)
    world.say("a", service="web")
    world.write(
        AlertsJoined(
            run=opened.incident,
            at=world.now,
            incident=opened.incident,
            count=1,
            fingerprints=("a",),
            up_to=counted,
        )
    )
    world.crash()
    assert world.triage.unanswered() == (counted + 1,)
    world.wait(2)
    assert world.incidents()[opened.incident].alerts == 3
