"""What several probes say of one service is one incident; a busy host is another one."""

import pytest
from triage_harness import TriageHarness

from hermes.core.events.incidents import (
    AlertsJoined,
    IncidentGraded,
    IncidentOpened,
    IncidentRecovered,
    PhaseEntered,
)

CPU = {"host": "h", "kind": "cpu"}
PORT = {"host": "h", "kind": "port", "service": "nginx"}
HTTP = {"host": "h", "kind": "http", "service": "nginx"}
TLS = {"host": "h", "kind": "tls", "service": "nginx"}
SHOP = {"host": "h", "kind": "port", "service": "shop"}
WRONG_STATUS = "nginx: 0.01 seconds for status 500 from http://127.0.0.1:80/health"


def services(harness: TriageHarness) -> list[str]:
    return [each.service for each in harness.events(IncidentOpened)]


def titles_told(harness: TriageHarness) -> list[str]:
    return [each.title for each in harness.notifications()]


def test_a_service_that_fails_on_a_busy_host_is_declared_by_its_own_name() -> None:
    harness = TriageHarness()
    busy = harness.open_incident("c", "h: 100.0 percent of the processors are busy", **CPU)
    nginx = harness.open_incident("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    assert nginx.incident != busy.incident
    assert (busy.severity, nginx.severity) == ("P3", "P1")
    assert not harness.events(IncidentGraded), "nobody is woken by a busy processor"


def test_a_busy_processor_that_is_seen_with_an_outage_does_not_give_it_its_name() -> None:
    harness = TriageHarness()
    harness.raise_alert("c", "h: 100.0 percent of the processors are busy", **CPU)
    harness.raise_alert("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    harness.wait(2)
    assert services(harness) == ["nginx"]
    assert harness.incidents_with("c") == harness.incidents_with("n")


def test_a_full_disk_still_takes_the_services_that_it_stops() -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", "h: 100 percent of /data are in use", host="h", kind="disk")
    harness.raise_alert("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    harness.wait(2)
    assert harness.incidents_with("n") == [disk.incident]


def test_a_disk_that_joins_a_service_does_not_bring_other_services_with_it() -> None:
    harness = TriageHarness()
    shop = harness.open_incident("s", "shop: nothing answers at 127.0.0.1:8000", **SHOP)
    harness.raise_alert("d", "h: 100 percent of /data are in use", host="h", kind="disk")
    harness.wait(2)
    assert harness.incidents_with("d") == [shop.incident]
    phase = PhaseEntered(run=shop.run, at=harness.now, incident=shop.incident, phase="reflex")
    harness.write(phase)
    harness.follow_journal()
    nginx = harness.open_incident("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    assert (nginx.service, harness.incidents_with("n")) == ("nginx", [nginx.incident])
    assert services(harness) == ["shop", "nginx"], "nobody works on nginx in the incident of shop"


@pytest.mark.parametrize(("host", "opened"), [("h", 1), ("other", 2)])
def test_what_fails_later_of_a_service_that_is_still_worked_on_joins_its_incident(
    host: str, opened: int
) -> None:
    """The answers to users are read some minutes after the service was reported."""
    harness = TriageHarness()
    nginx = harness.open_incident("n", WRONG_STATUS, **HTTP)
    harness.write(
        PhaseEntered(run=nginx.run, at=harness.now, incident=nginx.incident, phase="assess")
    )
    harness.follow_journal()
    harness.wait(150)
    labels = {"host": host, "kind": "answers", "service": "nginx"}
    harness.raise_alert("a", "nginx: the last 121 answers for /cart were bad: 500", **labels)
    harness.wait(30)
    assert len(harness.events(IncidentOpened)) == opened


def test_a_service_that_stops_while_a_log_is_worked_on_gets_its_own_incident() -> None:
    harness = TriageHarness()
    log = harness.open_incident(
        "l", "h: 45 lines a minute of db.log report errors", host="h", kind="log"
    )
    harness.write(PhaseEntered(run=log.run, at=harness.now, incident=log.incident, phase="assess"))
    harness.follow_journal()
    nginx = harness.open_incident("n", "nginx: no answer within 5 s", **PORT)
    assert (nginx.service, harness.incidents_with("n")) == ("nginx", [nginx.incident])


@pytest.mark.parametrize("title", ["nginx: nothing answers at 127.0.0.1:443", "no answer in 5 s"])
@pytest.mark.parametrize("crash", [False, True])
def test_a_tls_port_that_does_not_answer_because_its_service_is_down_is_the_same_outage(
    title: str, crash: bool
) -> None:
    harness = TriageHarness()
    nginx = harness.open_incident("n", "nginx: nothing answers at 127.0.0.1:443", **PORT)
    harness.close_incident(nginx.incident, "escalated")
    if crash:
        harness.restart()
    harness.wait(20)
    harness.raise_alert("t", title, **TLS)
    harness.wait(2)
    assert services(harness) == ["nginx"]
    assert harness.incidents_with("t", escalated=True) == [nginx.incident]


def test_a_certificate_that_ends_soon_is_reported_beside_a_service_that_is_down() -> None:
    harness = TriageHarness()
    nginx = harness.open_incident("n", "nginx: nothing answers at 127.0.0.1:443", **PORT)
    harness.close_incident(nginx.incident, "escalated")
    ends = harness.open_incident("t", "nginx: the certificate of 127.0.0.1:443 ends Mar 9", **TLS)
    assert ends.incident != nginx.incident


def test_a_supervisor_that_cannot_start_a_service_speaks_of_the_same_outage() -> None:
    harness = TriageHarness()
    shop = harness.open_incident("p", "shop: nothing answers at 127.0.0.1:8000", **SHOP)
    harness.close_incident(shop.incident, "escalated")
    harness.wait(20)
    title = "shop: shop is not running: supervisord cannot start it"
    harness.raise_alert("s", title, host="h", kind="command", service="shop", severity="P1")
    harness.wait(2)
    assert services(harness) == ["shop"]
    assert harness.incidents_with("s", escalated=True) == [shop.incident]


@pytest.mark.parametrize("crash", [False, True])
def test_a_service_that_answered_wrongly_and_then_hangs_is_told_once_more(crash: bool) -> None:
    harness = TriageHarness()
    nginx = harness.open_incident("h", WRONG_STATUS, **HTTP)
    harness.close_incident(nginx.incident, "escalated")
    harness.wait(12)
    if crash:
        harness.restart()
    for number in range(3):
        harness.raise_alert(f"hang-{number}", "nginx: no answer within 5 s", **HTTP)
    harness.wait(2)
    told = [each for each in titles_told(harness) if "no answer within 5 s" in each]
    assert told == ["🚨 P1 INCIDENT REOPENED: nginx: no answer within 5 s"]
    assert services(harness) == ["nginx"]
    assert not harness.incidents()[nginx.incident].parts, "it is no other service"


def test_further_wrong_answers_of_a_service_are_no_news() -> None:
    harness = TriageHarness()
    harness.open_incident("h", WRONG_STATUS, **HTTP)
    harness.raise_alert("i", "nginx: 0.01 seconds for status 500 from http://127.0.0.1:80/", **HTTP)
    harness.wait(2)
    assert [part for each in harness.events(AlertsJoined) for part in each.parts] == []


def test_a_service_that_is_known_to_give_no_answer_is_not_told_again() -> None:
    harness = TriageHarness()
    harness.open_incident("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    harness.raise_alert(
        "h", "nginx: no answer from http://127.0.0.1:80/: Connection refused", **HTTP
    )
    harness.wait(2)
    assert not [each for each in titles_told(harness) if "ALSO FAILING" in each]


@pytest.mark.parametrize("crash", [False, True])
def test_a_probe_that_is_not_asked_any_more_does_not_keep_its_service_from_recovering(
    crash: bool,
) -> None:
    harness = TriageHarness()
    nginx = harness.open_incident("t", "nginx: nothing answers at 127.0.0.1:443", **TLS)
    harness.raise_alert("h", "nginx: no answer from https://127.0.0.1:443/", **HTTP)
    harness.wait(2)
    harness.close_incident(nginx.incident, "escalated")
    harness.resolve("t", **TLS, withdrawn="yes")
    harness.wait(40)
    assert not harness.events(IncidentRecovered), "the page still fails"
    harness.resolve("h", **HTTP)
    if crash:
        harness.restart()
    harness.wait(60)
    (recovered,) = harness.events(IncidentRecovered)
    assert recovered.how.startswith("resolved by probe ") and "tls" not in recovered.how


def test_a_probe_that_is_not_asked_any_more_proves_nothing_alone() -> None:
    harness = TriageHarness()
    nginx = harness.open_incident("t", "nginx: nothing answers at 127.0.0.1:443", **TLS)
    harness.close_incident(nginx.incident, "escalated")
    harness.resolve("t", **TLS, withdrawn="yes")
    harness.wait(60)
    assert not harness.events(IncidentRecovered)
