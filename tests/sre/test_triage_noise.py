"""What is heard and not acted upon: maintenance, flapping, echoes; and that none of it is lost."""

from datetime import timedelta

import pytest
from triage_harness import TriageHarness

from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    ChangeBegan,
    IncidentOpened,
)
from hermes.sre.settings import TriageSettings
from hermes.sre.triage.maintenance import target_covers


def flap(harness: TriageHarness, fingerprint: str, times: int, pause: float = 20.0) -> None:
    for _ in range(times):
        harness.raise_alert(fingerprint, service="web")
        harness.wait(pause)
        harness.resolve(fingerprint, service="web")
        harness.wait(pause)


def test_in_maintenance_it_is_told_once_and_nothing_is_opened() -> None:
    harness = TriageHarness()
    harness.begin_maintenance("web", 600)
    for _ in range(5):
        harness.raise_alert("a", service="web")
        harness.wait(30)
    (suppressed,) = harness.suppressed_alerts()
    assert suppressed.stretch == "maintenance-1" and "maintenance of web until" in suppressed.why
    assert not harness.events(IncidentOpened)


def test_what_still_fires_when_maintenance_ends_opens_an_incident_then() -> None:
    harness = TriageHarness()
    harness.begin_maintenance("web", 600)
    harness.raise_alert("a", service="web")
    harness.raise_alert("b", service="web", kind="port")
    harness.resolve("b", service="web")
    harness.wait(599)
    assert not harness.events(IncidentOpened)
    harness.wait(2)
    (opened,) = harness.events(IncidentOpened)
    assert opened.fingerprint == "a" and opened.alerts == (2,)


@pytest.mark.parametrize("crash", [False, True])
def test_a_window_may_be_ended_before_its_time(crash: bool) -> None:
    harness = TriageHarness()
    harness.begin_maintenance("web", 600)
    harness.raise_alert("a", service="web")
    harness.wait(5)
    harness.end_maintenance()
    if crash:
        harness.restart()
    harness.wait(2)
    assert len(harness.events(IncidentOpened)) == 1


def test_a_second_window_takes_over_from_the_first() -> None:
    harness = TriageHarness()
    harness.begin_maintenance("web", 60)
    harness.raise_alert("a", service="web")
    harness.begin_maintenance("w*", 120, window="maintenance-2")
    harness.wait(100)
    assert [each.stretch for each in harness.suppressed_alerts()] == [
        "maintenance-1",
        "maintenance-2",
    ]
    assert not harness.events(IncidentOpened)
    harness.wait(30)
    assert len(harness.events(IncidentOpened)) == 1


def test_an_incident_from_before_goes_on_in_maintenance() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web")
    harness.begin_maintenance("web", 60)
    harness.raise_alert("a", service="web")
    harness.wait(2)
    assert harness.incidents()[opened.incident].alerts == 2 and not harness.suppressed_alerts()


def test_data_at_risk_is_kept_quiet_too_and_said_unless_the_operator_wants_otherwise() -> None:
    kept, pierced = TriageHarness(), TriageHarness(TriageSettings(pierce=True))
    for harness in (kept, pierced):
        harness.begin_maintenance("db", 600)
        harness.raise_alert("a", service="db", data_at_risk="true")
        harness.wait(2)
    assert "data is at risk" in kept.suppressed_alerts()[0].why and not kept.events(IncidentOpened)
    assert pierced.events(IncidentOpened)[0].severity == "P0"


@pytest.mark.parametrize(
    ("target", "labels", "covered"),
    [
        ("web", {"service": "web"}, True),
        ("web", {"service": "web2"}, False),
        ("web*", {"service": "web2"}, True),
        ("db-1", {"instance": "db-1:5432"}, True),
        ("db-1:5432", {"instance": "db-1:5432"}, True),
        ("shop", {"namespace": "shop"}, True),
        ("team=pay*", {"team": "payments"}, True),
        ("team=pay", {"team": "payments"}, False),
        ("team=*", {"service": "team"}, False),
        ("*", {"service": "web"}, True),
        ("web", {"team": "web"}, False),
    ],
)
def test_targets_are_services_hosts_patterns_or_labels(
    target: str, labels: dict[str, str], covered: bool
) -> None:
    assert target_covers(target, labels) is covered


def test_one_that_flaps_is_one_incident_that_says_so_and_the_rest_is_told_once() -> None:
    harness = TriageHarness()
    for _ in range(3):
        opened = harness.open_incident("a", service="web")
        harness.resolve("a", service="web")
        harness.close_incident(opened.incident, "recovered")
        harness.wait(20)
    flap(harness, "a", 10)
    last = harness.events(IncidentOpened)[-1]
    assert len(harness.events(IncidentOpened)) == 4
    assert last.title == "flaps: a is bad" and "it flaps: raised 4 times" in last.reason
    assert [each.stretch for each in harness.suppressed_alerts()] == ["flapping"]


def test_an_open_incident_whose_alert_begins_to_flap_says_so() -> None:
    harness = TriageHarness()
    flap(harness, "a", 10)
    assert len(harness.events(IncidentOpened)) == 1
    assert any("it flaps" in each.why for each in harness.events(AlertsJoined))
    assert [each.stretch for each in harness.suppressed_alerts()] == ["flapping"]
    assert not harness.triage.is_quiet(harness.open_incidents()[0]), (
        "a pause of one that flaps is no end"
    )


def test_one_that_flapped_and_then_stays_bad_is_taken_up() -> None:
    harness = TriageHarness()
    flap(harness, "a", 6)
    harness.close_incident(harness.open_incidents()[0], "recovered")
    harness.raise_alert("a", service="web")
    harness.wait(60)
    assert not harness.open_incidents()
    harness.wait(600)
    assert len(harness.open_incidents()) == 1


def test_when_flapping_is_over_the_next_alert_is_like_any_other() -> None:
    harness = TriageHarness()
    flap(harness, "a", 6)
    harness.close_incident(harness.open_incidents()[0], "recovered")
    harness.wait(700)
    opened = harness.open_incident("a", service="web")
    assert not opened.title.startswith("flaps")


def test_one_that_was_over_before_it_was_taken_up_is_answered_as_such() -> None:
    harness = TriageHarness()
    harness.record_alert("a", service="web")
    harness.record_alert("a", service="web", resolved="yes")
    harness.restart()
    harness.wait(2)
    assert [each.why for each in harness.suppressed_alerts()] == [
        "it was over before it was handled"
    ]
    assert not harness.events(IncidentOpened)


def test_the_echo_of_one_that_was_just_resolved_opens_nothing() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web")
    harness.close_incident(opened.incident)
    harness.raise_alert("a", service="web")
    harness.wait(60)
    assert opened.incident in harness.suppressed_alerts()[0].why
    harness.resolve("a", service="web")
    harness.wait(600)
    assert len(harness.events(IncidentOpened)) == 1


@pytest.mark.parametrize("crash", [False, True])
def test_what_fires_on_after_its_incident_was_resolved_is_taken_up_again_once(
    crash: bool,
) -> None:
    harness = TriageHarness()
    first = harness.open_incident("a", service="web")
    harness.raise_alert("b", service="web")
    harness.wait(2)
    harness.close_incident(first.incident)
    harness.resolve("a", service="web")
    harness.wait(290)
    assert not harness.open_incidents()
    if crash:
        harness.restart()
    harness.wait(20)
    (again,) = harness.open_incidents()
    opened = harness.events(IncidentOpened)[-1]
    assert opened.fingerprint == "b" and dict(opened.facts)["again_after"] == first.incident
    harness.close_incident(again)
    if crash:
        harness.restart()
    harness.wait(3600, step=30)
    assert not harness.open_incidents(), "twice found in order: no loop of incidents"
    harness.wait(4 * 3600, step=30)
    assert len(harness.open_incidents()) == 1, "and yet not lost"


def test_silence_of_a_source_that_never_says_when_it_is_over_proves_nothing() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web", source="webhook")
    harness.close_incident(opened.incident)
    harness.wait(5 * 3600, step=30)
    assert not harness.open_incidents()


def test_a_false_alarm_that_rings_on_is_not_taken_up_again_for_a_while() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web")
    harness.close_incident(opened.incident, "no-incident")
    for _ in range(20):
        harness.raise_alert("a", service="web")
        harness.wait(600, step=30)
    assert len(harness.events(IncidentOpened)) == 1 and len(harness.suppressed_alerts()) == 1
    harness.wait(3600, step=30)
    assert len(harness.events(IncidentOpened)) == 2


def test_what_people_have_in_hand_opens_nothing_until_it_was_over_once() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web")
    harness.close_incident(opened.incident, "escalated")
    for _ in range(3):
        harness.raise_alert("a", service="web")
        harness.wait(3600, step=30)
    assert len(harness.events(IncidentOpened)) == 1
    harness.resolve("a", service="web")
    harness.wait(3600, step=30)
    harness.open_incident("a", service="web")
    assert len(harness.events(IncidentOpened)) == 2


def test_one_that_comes_back_soon_is_a_new_incident_that_names_the_one_before() -> None:
    harness = TriageHarness()
    for time in (1, 2, 3):
        opened = harness.open_incident("a", service="web", kind="port")
        assert opened.seen_before == time - 1
        harness.resolve("a", service="web")
        harness.close_incident(opened.incident)
        harness.wait(1000, step=30)
    facts = dict(harness.events(IncidentOpened)[-1].facts)
    assert facts["recurrence"] == "3rd time in 14 days"
    assert facts["again_after"] == "incident-2"
    assert "3rd time in 14 days" in harness.events(IncidentOpened)[-1].reason
    harness.wait(3600, step=30)
    assert "again_after" not in dict(harness.open_incident("a", service="web", kind="port").facts)


def test_the_same_trouble_under_another_fingerprint_has_been_here_before() -> None:
    harness = TriageHarness()
    first = harness.open_incident("a", service="web", alertname="PodDown", pod="web-1")
    harness.resolve("a")
    harness.close_incident(first.incident)
    harness.wait(3600, step=60)
    harness.restart()
    again = harness.open_incident("b", service="web", alertname="PodDown", pod="web-7")
    assert again.seen_before == 1
    harness.resolve("b")
    harness.close_incident(again.incident)
    harness.wait(15 * 86_400, step=3600)
    assert harness.open_incident("c", service="web", alertname="PodDown").seen_before == 0


def test_a_service_of_the_same_name_in_another_namespace_was_not_seen_before() -> None:
    harness = TriageHarness()
    first = harness.open_incident("a", service="web", alertname="PodDown", namespace="shop")
    harness.resolve("a")
    harness.close_incident(first.incident)
    harness.wait(3600, step=60)
    assert (
        harness.open_incident("b", service="web", alertname="PodDown", namespace="blog").seen_before
        == 0
    )
    assert (
        harness.open_incident("c", service="web", alertname="PodDown", namespace="shop").seen_before
        == 1
    )


def test_two_logs_of_a_host_are_two_problems() -> None:
    harness = TriageHarness()
    harness.open_incident(
        "a", service="", host="web-1", kind="log", title="9.5 lines a minute of /var/log/a"
    )
    harness.wait(3600, step=60)
    again = harness.open_incident(
        "b", service="", host="web-1", kind="log", title="42.0 lines a minute of /var/log/b"
    )
    assert again.seen_before == 0


def test_after_a_change_silence_is_no_recovery() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web")
    change = ChangeBegan(
        run=opened.incident, at=harness.now, incident=opened.incident, call_id="c", command="x"
    )
    harness.write(change)
    harness.resolve("a")
    assert not harness.triage.is_quiet(opened.incident)


def test_countless_alerts_leave_a_bounded_memory() -> None:
    harness = TriageHarness(TriageSettings(most=1_000))
    for number in range(10_000):
        harness.now += timedelta(milliseconds=6)
        harness.record_alert(f"f{number}", service="web")
        recorded = harness.journal.pop()
        assert isinstance(recorded.event, AlertRaised)
        harness.triage.handle_alert(type(recorded)(number + 1, recorded.event), harness.now)
        if number % 160 == 0:
            harness.triage.tick(harness.now)
    ledger = harness.triage._state
    assert len(ledger.series) <= 1_200
    assert sum(len(each.members) for each in ledger.incidents.values()) <= 1_200
    assert len(ledger.incidents) == 1
    assert not harness.triage.is_quiet("incident-1"), "forgotten is not resolved"


def test_what_is_over_and_belongs_to_nothing_is_forgotten_in_time() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web")
    harness.resolve("a", service="web")
    harness.close_incident(opened.incident)
    harness.wait(2 * 86_400, step=600)
    ledger = harness.triage._state
    assert not ledger.series and not ledger.incidents
    assert harness.open_incident("a", service="web").seen_before == 1
