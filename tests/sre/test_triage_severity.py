"""How bad it is said to be, from what is hit, with the reason."""

import pytest
from triage_harness import TriageHarness

from hermes.core.events.incidents import AlertRaised, IncidentGraded, IncidentOpened
from hermes.sre.settings import TriageSettings
from hermes.sre.triage.severity import alert_impact

WEIGHTS = TriageSettings(services={"shop": "critical", "batch-*": "minor"})


@pytest.mark.parametrize(
    ("title", "labels", "severity", "why"),
    [
        ("web: no answer", {"kind": "port", "service": "web"}, "P1", "does not answer"),
        ("shop: no answer", {"kind": "http", "service": "shop"}, "P0", "shop is critical"),
        ("batch-7: gone", {"kind": "unit", "service": "batch-7"}, "P2", "batch-7 is minor"),
        ("h: 91 percent of / are in use", {"kind": "disk", "instance": "h"}, "P2", "disk probe"),
        ("h: 100 percent of / are in use", {"kind": "disk", "instance": "h"}, "P1", "written"),
        ("h: busy", {"kind": "cpu", "instance": "h"}, "P3", "cpu probe"),
        ("web: 9 days left", {"kind": "certificate", "service": "web"}, "P3", "certificate"),
        ("web: it has expired", {"kind": "tls", "service": "web"}, "P1", "no longer valid"),
        ("web: it is not for shop", {"kind": "tls", "service": "web"}, "P1", "not accepted"),
        ("web took 9 s", {"kind": "http", "service": "web"}, "P2", "not as usual"),
        ("errors", {"failing_share": "0.8", "service": "web"}, "P1", "80%"),
        ("errors", {"error_rate": "3%", "service": "web"}, "P2", "3%"),
        ("errors", {"error_rate": "nan?", "service": "web"}, "P2", "says 'error'"),
        ("70 % of requests fail", {"service": "web"}, "P1", "70%"),
        ("any", {"data_at_risk": "true", "service": "db"}, "P0", "at risk"),
        ("index is corrupt", {"service": "db"}, "P0", "'corrupt'"),
        ("InstanceDown", {"alertname": "InstanceDown", "job": "api"}, "P1", "'down'"),
        ("something odd", {"service": "web"}, "P3", "no impact on"),
        ("something odd", {"service": "web", "severity": "critical"}, "P1", "monitor grades it"),
        ("web: no answer", {"kind": "port", "service": "web", "severity": "info"}, "P1", "answer"),
        ("odd", {"service": "web", "severity": "P0"}, "P0", "monitor grades it P0"),
        ("odd", {"service": "web", "severity": "purple"}, "P3", "no impact on"),
    ],
)
def test_severity_follows_from_the_impact(
    title: str, labels: dict[str, str], severity: str, why: str
) -> None:
    opened = TriageHarness(WEIGHTS).open_incident("a", title, **labels)
    assert (opened.severity, why in opened.reason) == (severity, True), opened.reason


@pytest.mark.parametrize(
    ("source", "who"), [("person", "it was reported as P2"), ("alertmanager", "the monitor grades")]
)
def test_the_grade_of_a_person_is_not_called_that_of_a_monitor(source: str, who: str) -> None:
    alert = AlertRaised(run="watch", fingerprint="f", title="odd", source=source, severity="P2")
    assert alert_impact(alert).grading.startswith(who)


def test_it_is_graded_anew_as_more_is_hit_and_never_milder() -> None:
    harness = TriageHarness(TriageSettings())
    harness.open_incident("h", "h: 99 percent of the memory are in use", kind="memory", host="h")
    for name in ("a", "b", "c", "d", "e"):
        harness.raise_alert(name, f"{name}: no answer", kind="port", service=name, host="h")
        harness.wait(2)
    assert [each.severity for each in harness.events(IncidentGraded)] == ["P1", "P0"]
    assert harness.events(IncidentGraded)[-1].reason == "5 services do not work"
    harness.raise_alert("z", "z: busy", kind="cpu", host="h")
    harness.wait(2)
    assert len(harness.events(IncidentGraded)) == 2
    (incident,) = harness.incidents().values()
    assert incident.severity == "P0" and incident.reason == "5 services do not work"


def test_what_a_person_graded_stays_as_it_is() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", "odd", service="web")
    harness.write(
        IncidentGraded(
            run=opened.incident,
            at=harness.now,
            incident=opened.incident,
            severity="P3",
            before="P3",
            by="ann",
        )
    )
    harness.follow_journal()
    harness.restart()
    harness.raise_alert("b", "web: no answer", kind="port", service="web")
    harness.wait(2)
    (incident,) = harness.incidents().values()
    assert (incident.severity, incident.details.title) == ("P3", "web: no answer")
    assert {each.severity for each in harness.events(IncidentGraded)} == {"P3"}


def test_a_grade_is_not_repeated_after_a_crash() -> None:
    harness = TriageHarness()
    harness.open_incident("a", "odd", service="web")
    harness.raise_alert("b", "web: no answer", kind="port", service="web")
    harness.wait(2)
    harness.restart()
    harness.raise_alert("b", "web: no answer", kind="port", service="web")
    harness.wait(2)
    assert len(harness.events(IncidentGraded)) == 1 and len(harness.events(IncidentOpened)) == 1


LOG = {"kind": "log", "instance": "h"}
MAILER = {"kind": "command", "service": "mailer", "instance": "h"}


@pytest.mark.parametrize("crash", [False, True])
def test_an_incident_that_a_log_opened_is_called_by_the_service_that_fails_then(
    crash: bool,
) -> None:
    harness = TriageHarness()
    log = harness.open_incident("l", "h: 26.7 lines a minute of mailer.log report errors", **LOG)
    assert harness.incidents()[log.incident].details.title == log.title
    if crash:
        harness.restart()
    harness.raise_alert("m", "mailer: it is not running", **(MAILER | {"kind": "unit"}))
    harness.wait(5)
    found = harness.incidents()[log.incident]
    assert (found.severity, found.details.title) == ("P1", "mailer: it is not running")
    assert found.details.first_title == log.title
    assert len(harness.events(IncidentOpened)) == 1


def test_an_incident_about_a_disk_keeps_its_title_when_a_service_fails() -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", "h: 91 percent of / are in use", kind="disk", instance="h")
    harness.raise_alert("m", "mailer: it is not running", **(MAILER | {"kind": "unit"}))
    harness.wait(5)
    found = harness.incidents()[disk.incident]
    assert (found.severity, found.details.title) == ("P1", disk.title)


def test_what_an_escalated_incident_leaves_is_one_incident_with_the_name_of_the_service() -> None:
    """The disk filled, and the settings of redis were wrong: load and log show the latter, too."""
    harness = TriageHarness()
    disk = harness.open_incident(
        "d", "h: 100 percent of /logs are in use", kind="disk", instance="h"
    )
    harness.raise_alert(
        "c", "h: 12 processes wait for each of 2 processors", kind="load", instance="h"
    )
    harness.raise_alert("r", "redis: nothing answers", kind="port", service="redis", instance="h")
    harness.raise_alert("l", "h: 110 lines a minute of shop.log report errors", **LOG)
    harness.wait(5)
    assert len(harness.events(IncidentOpened)) == 1
    harness.close_incident(disk.incident, "escalated")
    harness.wait(10)
    rest = [each for name, each in harness.incidents().items() if name != disk.incident]
    assert [(each.severity, each.details.title) for each in rest] == [
        ("P1", "redis: nothing answers")
    ]
