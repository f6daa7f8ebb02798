"""A new failure of a service whose incident is with people is worked on, and not only counted."""

from datetime import timedelta

import pytest
from triage_harness import TriageHarness

from hermes.core.events.incidents import (
    AlertsJoined,
    IncidentAcknowledged,
    IncidentChecked,
    IncidentOpened,
    IncidentReopened,
)

PORT = {"host": "h", "kind": "port", "service": "nginx"}
HTTP = {"host": "h", "kind": "http", "service": "nginx"}
TLS = {"host": "h", "kind": "tls", "service": "nginx"}
DISK = {"host": "h", "kind": "disk"}
WRONG_STATUS = "nginx: status 502 from http://127.0.0.1:80/"
SILENT = "nginx: nothing answers at 127.0.0.1:80"


def escalated(harness: TriageHarness) -> str:
    opened = harness.open_incident("h", WRONG_STATUS, **HTTP)
    harness.wait(10)
    harness.close_incident(opened.incident, "escalated")
    harness.wait(2)
    return opened.incident


@pytest.mark.parametrize("fingerprint", ["n", "h"])
@pytest.mark.parametrize("crash", [False, True])
def test_a_service_that_stops_after_its_wrong_answers_were_escalated_is_worked_on(
    crash: bool, fingerprint: str
) -> None:
    harness = TriageHarness()
    incident = escalated(harness)
    harness.wait(20)
    if crash:
        harness.restart()
    harness.raise_alert(fingerprint, SILENT, **(PORT if fingerprint == "n" else HTTP))
    harness.wait(3)
    assert harness.open_incidents() == [incident]
    (reopened,) = harness.events(IncidentReopened)
    assert reopened.by == "hermes" and SILENT in reopened.reason
    known = harness.incidents()[incident].details
    assert (known.title, known.first_title) == (SILENT, WRONG_STATUS)
    assert known.text == f"more about {fingerprint}"
    told = [each.title for each in harness.notifications()]
    assert told[-1] == f"🚨 P1 INCIDENT REOPENED: {SILENT}"
    assert not any("ALSO FAILING" in each for each in told), "it is told once"


def test_what_else_of_it_fails_with_a_service_that_gives_no_answer_is_not_new() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n", SILENT, **PORT)
    harness.wait(30)
    harness.close_incident(opened.incident, "escalated")
    harness.wait(60)
    harness.raise_alert("t", "nginx: nothing answers at 127.0.0.1:443", **TLS)
    harness.raise_alert("h", "nginx: no answer from http://127.0.0.1:80/", **HTTP)
    harness.wait(600)
    assert not harness.events(IncidentReopened) and not harness.open_incidents()
    assert len(harness.events(IncidentOpened)) == 1, "people have it in hand, however long ago"


@pytest.mark.parametrize("crash", [False, True])
def test_a_check_that_was_fine_since_the_escalation_and_fails_is_a_new_failure(crash: bool) -> None:
    harness = TriageHarness()
    incident = escalated(harness)
    harness.wait(20)
    harness.raise_alert("pages", "nginx: status 403 from http://127.0.0.1:80/pages", **HTTP)
    harness.wait(2)
    assert not harness.events(IncidentReopened), "it followed at once: the same problem"
    harness.resolve("pages", **HTTP)
    harness.wait(40)
    if crash:
        harness.restart()
    harness.raise_alert("pages", "nginx: status 403 from http://127.0.0.1:80/pages", **HTTP)
    harness.wait(2)
    assert harness.open_incidents() == [incident]


def test_a_check_that_comes_and_goes_is_not_worked_on_again() -> None:
    harness = TriageHarness()
    escalated(harness)
    for _ in range(20):
        harness.resolve("h", **HTTP)
        harness.wait(10)
        harness.raise_alert("h", WRONG_STATUS, **HTTP)
        harness.wait(60)
    assert not harness.events(IncidentReopened)


def test_one_incident_is_not_opened_again_for_ever() -> None:
    harness = TriageHarness()
    incident = escalated(harness)
    for _ in range(10):
        harness.raise_alert("h", SILENT, **HTTP)
        harness.wait(30)
        if harness.open_incidents():
            harness.close_incident(incident, "escalated")
        harness.wait(30)
        harness.raise_alert("h", WRONG_STATUS, **HTTP)
        harness.wait(30)
    assert len(harness.events(IncidentReopened)) == 2


def test_what_a_person_has_in_hand_is_left_to_that_person() -> None:
    harness = TriageHarness()
    incident = escalated(harness)
    harness.write(IncidentAcknowledged(run=incident, at=harness.now, incident=incident, by="ann"))
    harness.follow_journal()
    harness.wait(20)
    harness.raise_alert("n", SILENT, **PORT)
    harness.wait(3)
    assert not harness.events(IncidentReopened) and not harness.open_incidents()
    assert [part.title for each in harness.events(AlertsJoined) for part in each.parts] == [SILENT]


@pytest.mark.parametrize("crash", [False, True])
def test_a_service_that_stops_while_an_incident_of_the_disk_holds_it_gets_its_own(
    crash: bool,
) -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", "h: 99 percent of /data are in use", **DISK)
    harness.raise_alert("h", WRONG_STATUS, check="http-80", **HTTP)
    harness.wait(2)
    assert harness.incidents_with("h") == [disk.incident]
    harness.write(
        IncidentChecked(
            run=disk.incident,
            at=harness.now,
            incident=disk.incident,
            check="http-80",
            ok=False,
            when="before",
        )
    )
    harness.follow_journal()
    harness.close_incident(disk.incident, "escalated")
    harness.wait(40)
    if crash:
        harness.restart()
    harness.raise_alert("h", SILENT, check="http-80", **HTTP)
    harness.wait(3)
    own = harness.events(IncidentOpened)[-1]
    assert (own.service, own.title) == ("nginx", SILENT)
    assert harness.open_incidents() == [own.incident] and not harness.events(IncidentReopened)
    harness.resolve("d", **DISK)
    harness.wait(60)
    assert harness.incidents()[disk.incident].status == "recovered", "it waits for the disk alone"


def test_playbooks_of_the_first_work_may_run_again_in_the_second() -> None:
    harness = TriageHarness()
    incident = escalated(harness)
    harness.now += timedelta(seconds=20)
    harness.raise_alert("n", SILENT, **PORT)
    harness.wait(3)
    known = harness.incidents()[incident]
    assert known.recent_changes == () and known.status == "open"


def test_an_outage_after_an_escalated_fault_of_its_certificate_is_told_and_worked_on() -> None:
    harness = TriageHarness()
    fault = harness.open_incident("t", "nginx: 127.0.0.1:443 shows no certificate", **TLS)
    harness.close_incident(fault.incident, "escalated")
    harness.wait(11)
    harness.raise_alert("n", SILENT, **PORT)
    harness.wait(3)
    assert len(harness.open_incidents()) == 1
    assert any(SILENT in each.title and "P1" in each.title for each in harness.notifications())
