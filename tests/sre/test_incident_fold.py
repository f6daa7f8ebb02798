"""What the fold of an incident says about its state, its recovery and its duration."""

from datetime import timedelta

from incident_story import Tale

from hermes.core.events.incidents import (
    AlertsJoined,
    IncidentRecovered,
    IncidentReopened,
    JoinedPart,
)
from hermes.core.incident import Incident, fold_incidents
from hermes.core.protocols import JournalRecord


def fold(tale: Tale) -> Incident:
    records = (JournalRecord(number, event) for number, event in enumerate(tale.events, start=1))
    return fold_incidents(records)[tale.run]


def escalated() -> Tale:
    tale = Tale()
    tale.opened()
    tale.closed("escalated", "nobody", reason="no playbook matched")
    return tale


def recovery(tale: Tale, after: float) -> IncidentRecovered:
    tale.now += timedelta(seconds=after)
    recovered_at = tale.now
    tale.now += timedelta(seconds=30)
    return IncidentRecovered(
        run=tale.run, incident=tale.run, at=tale.now, recovered_at=recovered_at, how="probe disk"
    )


def test_an_escalated_incident_goes_on_until_it_recovers() -> None:
    tale = escalated()
    incident = fold(tale)
    assert incident.unresolved
    assert incident.over_at is None
    assert incident.ended_at is None
    later = incident.details.opened_at + timedelta(hours=2)
    assert incident.duration_s(later) == 2 * 3600 + 42


def test_recovery_ends_it_with_the_duration_of_the_outage() -> None:
    tale = escalated()
    tale.add(recovery(tale, after=600))
    incident = fold(tale)
    assert incident.status == "recovered"
    assert not incident.unresolved
    assert incident.closed is not None
    assert incident.closed.outcome == "escalated"
    assert incident.ended_at == tale.now - timedelta(seconds=30)
    later = tale.now + timedelta(days=3)
    assert incident.duration_s(later) == 643  # 40 s before the first alert, 3 s until escalated


def test_an_incident_that_is_reopened_after_its_recovery_is_open() -> None:
    tale = escalated()
    tale.add(recovery(tale, after=60))
    tale.add(IncidentReopened(run=tale.run, incident=tale.run, at=tale.at(), by="ann"))
    incident = fold(tale)
    assert incident.status == "open"
    assert incident.recovered is None


def test_a_false_alarm_lasts_until_it_was_closed() -> None:
    tale = Tale()
    tale.opened()
    tale.closed("no-incident")
    incident = fold(tale)
    assert incident.over_at is None
    assert incident.ended_at == tale.now


def test_parts_that_join_are_named_once() -> None:
    tale = Tale()
    tale.opened()
    part = JoinedPart(fingerprint="n", name="nginx", title="nginx is down", severity="P1")
    for _ in range(2):
        tale.add(
            AlertsJoined(
                run=tale.run,
                incident=tale.run,
                at=tale.at(),
                count=1,
                fingerprints=("n",),
                parts=(part,),
            )
        )
    incident = fold(tale)
    assert incident.alerts == 3
    assert incident.fingerprints == ("disk:web-1", "n")
    assert incident.parts == ("nginx",)
