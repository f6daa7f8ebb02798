"""What the fold of an incident says about its state, its recovery and its duration."""

from datetime import timedelta

from recorded_incident import IncidentRecorder

from hermes.core.events.incidents import (
    AlertsJoined,
    IncidentRecovered,
    IncidentReopened,
    JoinedPart,
)
from hermes.core.incident import Incident, fold_incidents
from hermes.core.protocols import JournalRecord


def fold(recorder: IncidentRecorder) -> Incident:
    records = (
        JournalRecord(number, event) for number, event in enumerate(recorder.events, start=1)
    )
    return fold_incidents(records)[recorder.run]


def escalated() -> IncidentRecorder:
    recorder = IncidentRecorder()
    recorder.opened()
    recorder.closed("escalated", "nobody", reason="no playbook matched")
    return recorder


def recovery(recorder: IncidentRecorder, after: float) -> IncidentRecovered:
    recorder.now += timedelta(seconds=after)
    recovered_at = recorder.now
    recorder.now += timedelta(seconds=30)
    return IncidentRecovered(
        run=recorder.run,
        incident=recorder.run,
        at=recorder.now,
        recovered_at=recovered_at,
        how="probe disk",
    )


def test_an_escalated_incident_goes_on_until_it_recovers() -> None:
    recorder = escalated()
    incident = fold(recorder)
    assert incident.unresolved
    assert incident.over_at is None
    assert incident.ended_at is None
    later = incident.details.opened_at + timedelta(hours=2)
    assert incident.duration_s(later) == 2 * 3600 + 42


def test_recovery_ends_it_with_the_duration_of_the_outage() -> None:
    recorder = escalated()
    recorder.add(recovery(recorder, after=600))
    incident = fold(recorder)
    assert incident.status == "recovered"
    assert not incident.unresolved
    assert incident.closed is not None
    assert incident.closed.outcome == "escalated"
    assert incident.ended_at == recorder.now - timedelta(seconds=30)
    later = recorder.now + timedelta(days=3)
    assert incident.duration_s(later) == 643  # 40 s before the first alert, 3 s until escalated


def test_an_incident_that_is_reopened_after_its_recovery_is_open() -> None:
    recorder = escalated()
    recorder.add(recovery(recorder, after=60))
    recorder.add(
        IncidentReopened(run=recorder.run, incident=recorder.run, at=recorder.at(), by="ann")
    )
    incident = fold(recorder)
    assert incident.status == "open"
    assert incident.recovered is None


def test_a_false_alarm_lasts_until_it_was_closed() -> None:
    recorder = IncidentRecorder()
    recorder.opened()
    recorder.closed("no-incident")
    incident = fold(recorder)
    assert incident.over_at is None
    assert incident.ended_at == recorder.now


def test_parts_that_join_are_named_once() -> None:
    recorder = IncidentRecorder()
    recorder.opened()
    part = JoinedPart(fingerprint="n", name="nginx", title="nginx is down", severity="P1")
    for _ in range(2):
        recorder.add(
            AlertsJoined(
                run=recorder.run,
                incident=recorder.run,
                at=recorder.at(),
                count=1,
                fingerprints=("n",),
                parts=(part,),
            )
        )
    incident = fold(recorder)
    assert incident.alerts == 3
    assert incident.fingerprints == ("disk:web-1", "n")
    assert incident.parts == ("nginx",)
