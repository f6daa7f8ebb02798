"""An incident about flapping reports everything that is not that flapping."""

import pytest
from triage_harness import TriageHarness

from hermes.core.events.incidents import IncidentOpened, IncidentReopened, PhaseEntered

LOG = {"host": "h", "kind": "log"}
NOISE = "12.0 lines a minute of /var/log/app.log report errors"
REFUSED = f"{NOISE}; 10:00:01 worker 7: /book failed: Connection refused"
TOO_MANY = f"{NOISE}; 10:09:01 worker 9: /book failed: OSError: [Errno 24] Too many open files"
WINDOW = "the log is bad"


def fail(harness: TriageHarness, text: str, seconds: float, pause: float = 20.0) -> None:
    harness.raise_alert("log", WINDOW, alert_text=text, **LOG)
    harness.wait(seconds)
    harness.resolve("log", **LOG)
    harness.wait(pause)


def flapping(harness: TriageHarness) -> str:
    """Return an escalated incident about flapping."""
    for _ in range(4):
        fail(harness, REFUSED, 20)
    (incident,) = harness.open_incidents()
    harness.close_incident(incident, "escalated")
    harness.wait(2)
    return incident


def titles(harness: TriageHarness) -> list[str]:
    return [each.title for each in harness.notifications()]


def test_the_same_error_again_and_again_is_reported_once() -> None:
    harness = TriageHarness()
    flapping(harness)
    before = len(titles(harness))
    for _ in range(5):
        fail(harness, REFUSED, 20)
    assert len(titles(harness)) == before


@pytest.mark.parametrize("crash", [False, True])
def test_another_error_of_an_alert_that_flaps_is_reported_at_once(crash: bool) -> None:
    harness = TriageHarness()
    incident = flapping(harness)
    if crash:
        harness.restart()
    before = len(titles(harness))
    harness.raise_alert("log", WINDOW, alert_text=TOO_MANY, **LOG)
    harness.wait(5)
    assert len(titles(harness)) == before + 1
    (reopened,) = harness.events(IncidentReopened)
    assert reopened.incident == incident and "Too many open files" in reopened.reason


@pytest.mark.parametrize("crash", [False, True])
def test_an_alert_that_lasts_longer_than_it_flapped_is_reported_within_30_s(crash: bool) -> None:
    harness = TriageHarness()
    incident = flapping(harness)
    if crash:
        harness.restart()
    before = len(titles(harness))
    harness.raise_alert("log", WINDOW, alert_text=REFUSED, **LOG)
    harness.wait(20)
    assert len(titles(harness)) == before
    harness.wait(30)
    assert len(titles(harness)) == before + 1
    (reopened,) = harness.events(IncidentReopened)
    assert reopened.incident == incident and "it lasts: " in reopened.reason
    harness.wait(600)
    assert len(titles(harness)) == before + 1, "it is reported once"


def test_the_failure_that_made_it_flap_is_reported_when_it_lasts() -> None:
    harness = TriageHarness()
    for _ in range(3):
        fail(harness, REFUSED, 20)
    harness.raise_alert("log", WINDOW, alert_text=REFUSED, **LOG)
    harness.wait(20)
    assert len(titles(harness)) == 1
    harness.wait(30)
    assert [each.rpartition(": ")[2] for each in titles(harness)[1:]] == ["log on h"]


def test_in_an_incident_that_is_worked_on_it_is_a_named_part() -> None:
    harness = TriageHarness()
    for _ in range(5):
        fail(harness, REFUSED, 20)
    harness.raise_alert("log", WINDOW, alert_text=TOO_MANY, **LOG)
    harness.wait(31)
    assert titles(harness)[-1].endswith("ALSO FAILING: log on h")


def test_failures_with_different_errors_are_no_flapping() -> None:
    harness = TriageHarness()
    for error in ("password wrong", "No space left", "Network unreachable", "no such column"):
        opened = harness.open_incident("log", WINDOW, alert_text=f"{NOISE}; {error}", **LOG)
        harness.wait(20)
        harness.resolve("log", **LOG)
        harness.close_incident(opened.incident, "recovered")
        harness.wait(20)
    assert [each.title for each in harness.events(IncidentOpened)] == [WINDOW] * 4


def test_outages_that_last_are_no_flapping() -> None:
    harness = TriageHarness()
    for _ in range(5):
        opened = harness.open_incident("log", WINDOW, alert_text=REFUSED, **LOG)
        harness.wait(130)
        harness.resolve("log", **LOG)
        harness.close_incident(opened.incident, "recovered")
        harness.wait(20)
    assert not any(each.title.startswith("flaps") for each in harness.events(IncidentOpened))


HTTP = {"host": "h", "kind": "http", "service": "booking", "check": "departures"}


@pytest.mark.parametrize("crash", [False, True])
def test_a_check_that_fails_in_another_way_in_an_open_incident_is_a_named_part(
    crash: bool,
) -> None:
    harness = TriageHarness()
    harness.open_incident(
        "departures", "booking: status 502 from http://127.0.0.1:80/d", alert_text="", **HTTP
    )
    harness.wait(60)
    harness.resolve("departures", **HTTP)
    harness.wait(5)
    if crash:
        harness.restart()
    title = "booking: status 500 from http://127.0.0.1:80/d"
    harness.raise_alert("departures", title, alert_text="", **HTTP)
    harness.wait(5)
    (also,) = (each for each in harness.notifications() if "ALSO FAILING" in each.title)
    assert also.title.endswith(f"ALSO FAILING: {title}")


def test_another_check_of_a_service_that_fails_later_is_a_named_part() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("quote", "booking: status 500 from http://x/quote", **HTTP)
    id = opened.incident
    harness.write(PhaseEntered(run=id, at=harness.now, incident=id, phase="reflex"))
    harness.follow_journal()
    harness.wait(20)
    harness.raise_alert("book", "booking: status 500 from http://x/book", **HTTP)
    harness.wait(90)
    assert len(titles(harness)) == 1, "it followed at once: the same problem"
    harness.raise_alert("fares", "booking: status 404 from http://x/fares", **HTTP)
    harness.wait(5)
    assert "ALSO FAILING" in titles(harness)[-1]
