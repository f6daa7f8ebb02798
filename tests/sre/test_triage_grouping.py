"""Which alerts are one incident, which are not, and what is said about why."""

import pytest
from triage_harness import TriageHarness

from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentOpened,
    IncidentReopened,
)
from hermes.sre.settings import GroupSettings, TriageSettings

NEEDS = TriageSettings(group=GroupSettings(depends_on={"web": ("api",), "api": ("db",)}))


def test_an_incident_carries_the_words_and_labels_of_its_alert() -> None:
    harness = TriageHarness()
    opened = harness.open_incident(
        "a", "web: no answer", kind="port", service="web", instance="host-1:80"
    )
    assert opened.run == opened.incident and opened.at <= harness.now
    assert opened.service == "web" and opened.fingerprint == "a" and opened.alerts == (1,)
    assert dict(opened.facts)["text"] == "more about a"
    assert dict(opened.facts)["kind"] == "port"


def test_a_label_named_text_does_not_take_the_place_of_the_words() -> None:
    harness = TriageHarness()
    harness.raise_alert("a", service="web", text="forged")
    harness.wait(2)
    (opened,) = harness.events(IncidentOpened)
    assert dict(opened.facts)["text"] == "more about a"


def test_the_same_fingerprint_joins_while_it_is_open() -> None:
    harness = TriageHarness()
    first = harness.open_incident("a", service="web")
    for _ in range(5):
        harness.raise_alert("a", service="web")
        harness.wait(100)
    assert len(harness.events(IncidentOpened)) == 1
    assert harness.incidents()[first.incident].alerts == 6
    assert harness.events(AlertsJoined)[-1].why == "the same alert again"


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ({"service": "web"}, {"service": "web", "instance": "h2"}, "the same service, web"),
        ({"instance": "h1:9100"}, {"service": "web", "host": "h1"}, "the same host, h1"),
        ({"job": "node", "instance": "h1:9"}, {"instance": "h1:8", "service": "x"}, "same host"),
        ({"namespace": "shop"}, {"namespace": "shop", "service": "x"}, "the same namespace, shop"),
        ({"service": "web"}, {"service": "api"}, "web depends on api"),
        ({"service": "db"}, {"service": "web"}, "web depends on db"),
        ({"service": "x"}, {"service": "y", "depends_on": "z, x"}, "y depends on x"),
    ],
)
def test_kin_by_place_join_and_the_reason_is_said(
    one: dict[str, str], other: dict[str, str], why: str
) -> None:
    harness = TriageHarness(NEEDS)
    harness.open_incident("a", **one)
    harness.raise_alert("b", **other)
    harness.wait(2)
    assert len(harness.events(IncidentOpened)) == 1
    (joined,) = harness.events(AlertsJoined)
    assert why in joined.why and "within 60 s" in joined.why
    assert joined.fingerprints == ("b",) and joined.count == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"service": "web"}, {"service": "mail"}),
        ({"service": "web", "host": "h1"}, {"service": "mail", "host": "h1"}),
        ({"service": "web", "namespace": "a"}, {"service": "web", "namespace": "b"}),
        ({"service": "web", "namespace": "a"}, {"service": "mail", "namespace": "a"}),
        ({"host": "h1", "kind": "disk"}, {"host": "h2", "kind": "cpu"}),
    ],
)
def test_neighbours_that_have_nothing_in_common_are_two_incidents(
    one: dict[str, str], other: dict[str, str]
) -> None:
    harness = TriageHarness()
    harness.open_incident("a", **one)
    harness.open_incident("b", **other)
    assert len(harness.events(IncidentOpened)) == 2


def test_neighbours_are_one_where_the_operator_says_so() -> None:
    harness = TriageHarness(TriageSettings(group=GroupSettings(by_host=True)))
    harness.open_incident("a", service="web", host="h1")
    harness.open_incident("b", service="mail", host="h1")
    assert len(harness.events(IncidentOpened)) == 1


def test_kin_that_come_after_the_window_are_a_trouble_of_their_own() -> None:
    harness = TriageHarness()
    harness.open_incident("a", service="web")
    harness.wait(61)
    harness.open_incident("b", service="web")
    assert len(harness.events(IncidentOpened)) == 2


def test_what_others_stand_on_gives_the_name_when_a_burst_comes() -> None:
    harness = TriageHarness(NEEDS)
    for fingerprint, service in (("w", "web"), ("a", "api"), ("d", "db")):
        harness.raise_alert(fingerprint, service=service)
    harness.wait(2)
    (opened,) = harness.events(IncidentOpened)
    assert opened.service == "db"
    assert harness.incidents()[opened.incident].alerts == 3


def test_a_host_that_fails_takes_its_services_along_although_they_are_no_kin() -> None:
    harness = TriageHarness()
    harness.open_incident("w", service="web", host="h1")
    harness.raise_alert("h", host="h1", kind="disk")
    harness.raise_alert("m", service="mail", host="h1")
    harness.wait(2)
    assert len(harness.events(IncidentOpened)) == 1


def test_a_person_does_not_wait_for_the_burst_to_end() -> None:
    harness = TriageHarness()
    harness.raise_alert("p", "the shop is slow", source="person")
    assert [each.title for each in harness.events(IncidentOpened)] == ["the shop is slow"]


def test_a_dependency_is_learned_from_a_cause_that_was_proved() -> None:
    harness = TriageHarness()
    harness.open_incident("c", service="cache")
    harness.wait(600)
    harness.close_incident("incident-1", "resolved")
    harness.resolve("c", service="cache")
    shop = harness.open_incident("s", service="shop")
    harness.write(
        IncidentDiagnosed(
            run=shop.incident, at=harness.now, incident=shop.incident, component="cache"
        )
    )
    harness.close_incident(shop.incident)
    harness.resolve("s", service="shop")
    harness.wait(3600, step=60)
    before = len(harness.events(IncidentOpened))
    harness.raise_alert("s", service="shop")
    harness.raise_alert("c", service="cache")
    harness.wait(2)
    assert len(harness.events(IncidentOpened)) == before + 1
    assert harness.events(IncidentOpened)[-1].service == "cache"


def test_quiet_is_said_when_every_alert_was_taken_back_and_nothing_was_changed() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web")
    harness.raise_alert("b", service="web")
    harness.wait(2)
    assert harness.triage.count_firing(opened.incident) == 2
    harness.resolve("a")
    assert not harness.triage.is_quiet(opened.incident)
    harness.resolve("b")
    assert harness.triage.is_quiet(opened.incident) and not harness.triage.count_firing(
        opened.incident
    )
    harness.restart()
    assert harness.triage.is_quiet(opened.incident)
    harness.raise_alert("a", service="web")
    assert not harness.triage.is_quiet(opened.incident)


def test_one_alarm_on_many_hosts_is_one_trouble() -> None:
    harness = TriageHarness()
    for number in range(50):
        harness.raise_alert(
            f"f{number}", alertname="HostDown", instance=f"h{number}:9100", job="node"
        )
        harness.wait(0.1, step=0.1)
    harness.wait(3)
    assert len(harness.events(IncidentOpened)) == 1 and harness.count_alerts() == 50


def test_one_alarm_of_countless_services_is_a_storm() -> None:
    harness = TriageHarness()
    for number in range(200):
        harness.raise_alert(f"f{number}", alertname="Down", service=f"s{number}")
    harness.wait(3)
    assert len(harness.events(IncidentOpened)) == TriageSettings().group.storm
    assert harness.count_alerts() == 200
    assert any("a storm" in each.why for each in harness.events(AlertsJoined))


def test_incidents_of_drills_and_alerts_of_other_runs_are_not_ours() -> None:
    harness = TriageHarness()
    harness.write(
        AlertRaised(run="drill-1", at=harness.now, fingerprint="a", title="in a box"),
        IncidentOpened(
            run="drill-1", at=harness.now, incident="i-9", title="x", severity="P1", fingerprint="a"
        ),
    )
    harness.follow_journal()
    harness.wait(3)
    assert len(harness.events(IncidentOpened)) == 1
    harness.open_incident("a", service="web")
    assert len(harness.events(IncidentOpened)) == 2


def test_one_that_a_person_opened_again_holds_its_alerts_however_old_it_is() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web", source="person")
    harness.close_incident(opened.incident, "closed")
    harness.wait(86_400, step=3600)
    harness.write(
        IncidentReopened(run=opened.incident, at=harness.now, incident=opened.incident, by="x")
    )
    harness.raise_alert("a", service="web", source="person")
    harness.wait(2)
    assert len(harness.events(IncidentOpened)) == 1


def test_the_judge_of_a_drill_closes_nothing() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("a", service="web")
    harness.write(
        IncidentClosed(
            run=opened.incident,
            at=harness.now,
            incident=opened.incident,
            outcome="resolved",
            by="oracle",
        )
    )
    harness.raise_alert("a", service="web")
    harness.wait(400, step=10)
    assert len(harness.events(IncidentOpened)) == 1
