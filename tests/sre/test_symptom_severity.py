"""The severity and its reason follow from the symptoms that the journal shows by then."""

import pytest
from msgspec.structs import replace
from triage_harness import TriageHarness

from hermes.core.events.incidents import IncidentClosed, IncidentGraded
from hermes.core.incident import Incident, fold_incidents
from hermes.sre.assessment.grading import assessment_events
from hermes.sre.assessment.host_state import HostObservation, HostState, LogSummary, UnitState
from hermes.sre.assessment.symptoms import Assessment, find_symptoms
from hermes.sre.notifications.templates import render_ended
from hermes.sre.reports.timeline import build_timeline
from hermes.sre.settings import TriageSettings

LOG = {"kind": "log", "service": "nginx", "host": "web-1"}
BOOK_FAILS = LogSummary(unit="nginx", lines=9, bad=2, asked=9, runs={"/book": (("S", 7), ("F", 2))})
NGINX = UnitState(name="nginx", active="active")
UNKNOWN = "whether its users notice is not known"


def assessed(
    harness: TriageHarness, *, logs: tuple[LogSummary, ...] = (), units: tuple[UnitState, ...] = ()
) -> Incident:
    """The last incident after its assessment of a host in this state."""
    incident = [*fold_incidents(harness.journal).values()][-1]
    seen = HostObservation(state=HostState(units=units), logs={each.unit: each for each in logs})
    symptoms = find_symptoms(incident.details.facts, seen)
    found = Assessment(verdict="wrong" if symptoms else "unknown", reasons=tuple(symptoms))
    harness.write(*assessment_events(incident, found, harness.settings.services))
    harness.follow_journal()
    return fold_incidents(harness.journal)[incident.details.incident]


def test_what_users_notice_is_not_called_unknown_beside_the_errors_that_they_get() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("f", "nginx: 9 error lines a minute", **LOG)
    assert UNKNOWN in opened.reason
    incident = assessed(harness, logs=(BOOK_FAILS,), units=(NGINX,))
    assert incident.severity == "P2"
    assert incident.reason == (
        "users of nginx get errors, by its log: it answers /book with an error"
    )
    id = incident.details.incident
    closed = IncidentClosed(run=id, incident=id, outcome="escalated", reason="nothing helped")
    notice = render_ended(replace(incident, status="escalated", closed=closed))
    assert UNKNOWN not in notice.text
    assert "it answers /book with an error" in notice.text
    last = build_timeline(harness.journal)[-1].text
    assert last.startswith("severity P2 stays P2: users of nginx get errors")


def test_an_incident_about_a_log_is_as_grave_as_the_service_that_does_not_run() -> None:
    harness = TriageHarness()
    harness.open_incident("f", "nginx: 9 error lines a minute", **LOG)
    incident = assessed(harness, units=(replace(NGINX, active="failed", restarts=1),))
    assert incident.severity == "P1"
    assert incident.reason == "nginx does not work: nginx is failed"


def test_the_weight_of_the_service_and_the_recurrence_stay_in_the_reason() -> None:
    harness = TriageHarness(TriageSettings(services={"nginx": "critical"}))
    harness.open_incident("f", "nginx: 9 error lines a minute", **LOG)
    incident = [*fold_incidents(harness.journal).values()][-1]
    harness.close_incident(incident.details.incident)
    harness.wait(3600, step=600)
    opened = harness.open_incident("f", "nginx: 9 error lines a minute", **LOG)
    again = opened.reason.partition("; nginx is critical")[2]
    assert "time" in again
    incident = assessed(harness, logs=(BOOK_FAILS,), units=(NGINX,))
    assert incident.severity == "P1"
    assert incident.reason.endswith(f"with an error; nginx is critical{again}")


@pytest.mark.parametrize(
    ("logs", "units"),
    [((), (NGINX,)), ((), (NGINX, UnitState(name="redis", active="failed", restarts=1)))],
)
def test_symptoms_that_say_nothing_about_users_change_nothing(
    logs: tuple[LogSummary, ...], units: tuple[UnitState, ...]
) -> None:
    harness = TriageHarness()
    opened = harness.open_incident("f", "nginx: 9 error lines a minute", **LOG)
    incident = assessed(harness, logs=logs, units=units)
    assert (incident.severity, incident.reason) == (opened.severity, opened.reason)


def test_errors_of_another_service_are_named_and_raise_no_severity() -> None:
    harness = TriageHarness()
    harness.open_incident("f", "worker: 9 error lines a minute", kind="log", service="worker")
    incident = assessed(harness, logs=(BOOK_FAILS,), units=(NGINX,))
    assert incident.severity == "P2"
    assert incident.reason.startswith("worker logs errors; users of nginx get errors")
    harness.open_incident("g", "disk: full in 3 hours", kind="forecast", host="web-2")
    warning = assessed(harness, logs=(BOOK_FAILS,), units=(NGINX,))
    assert (warning.severity, "users" in warning.reason) == ("P3", False)


def test_what_a_person_has_graded_stays() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("f", "nginx: 9 error lines a minute", **LOG)
    id = opened.incident
    harness.write(
        IncidentGraded(run=id, incident=id, severity="P3", before="P2", by="anna", reason="a test")
    )
    incident = assessed(harness, logs=(BOOK_FAILS,), units=(NGINX,))
    assert (incident.severity, incident.reason) == ("P3", "a test")


def test_an_alert_that_shows_what_users_get_replaces_the_reason_that_they_are_not_known() -> None:
    harness = TriageHarness()
    harness.open_incident("f", "nginx: 9 error lines a minute", **LOG)
    harness.raise_alert("a", "nginx: 5 of 9 answers are errors", **{**LOG, "kind": "answers"})
    harness.wait(60)
    incident = [*fold_incidents(harness.journal).values()][-1]
    assert incident.reason == "users of nginx get errors, by its log"
    assert len(harness.events(IncidentGraded)) == 1
