"""Which alerts are one incident, which are not, and what is said about why."""

import pytest
from triage_world import World

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
    world = World()
    opened = world.open("a", "web: no answer", kind="port", service="web", instance="host-1:80")
    assert opened.run == opened.incident and opened.at <= world.now
    assert opened.service == "web" and opened.fingerprint == "a" and opened.alerts == (1,)
    assert dict(opened.facts)["text"] == "more about a"
    assert dict(opened.facts)["kind"] == "port"


def test_a_label_named_text_does_not_take_the_place_of_the_words() -> None:
    world = World()
    world.hear("a", service="web", text="forged")
    world.wait(2)
    (opened,) = world.all(IncidentOpened)
    assert dict(opened.facts)["text"] == "more about a"


def test_the_same_fingerprint_joins_while_it_is_open() -> None:
    world = World()
    first = world.open("a", service="web")
    for _ in range(5):
        world.hear("a", service="web")
        world.wait(100)
    assert len(world.all(IncidentOpened)) == 1
    assert world.incidents()[first.incident].alerts == 6
    assert world.all(AlertsJoined)[-1].why == "the same alert again"


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
    world = World(NEEDS)
    world.open("a", **one)
    world.hear("b", **other)
    world.wait(2)
    assert len(world.all(IncidentOpened)) == 1
    (joined,) = world.all(AlertsJoined)
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
    world = World()
    world.open("a", **one)
    world.open("b", **other)
    assert len(world.all(IncidentOpened)) == 2


def test_neighbours_are_one_where_the_operator_says_so() -> None:
    world = World(TriageSettings(group=GroupSettings(by_host=True)))
    world.open("a", service="web", host="h1")
    world.open("b", service="mail", host="h1")
    assert len(world.all(IncidentOpened)) == 1


def test_kin_that_come_after_the_window_are_a_trouble_of_their_own() -> None:
    world = World()
    world.open("a", service="web")
    world.wait(61)
    world.open("b", service="web")
    assert len(world.all(IncidentOpened)) == 2


def test_what_others_stand_on_gives_the_name_when_a_burst_comes() -> None:
    world = World(NEEDS)
    for fingerprint, service in (("w", "web"), ("a", "api"), ("d", "db")):
        world.hear(fingerprint, service=service)
    world.wait(2)
    (opened,) = world.all(IncidentOpened)
    assert opened.service == "db"
    assert world.incidents()[opened.incident].alerts == 3


def test_a_host_that_fails_takes_its_services_along_although_they_are_no_kin() -> None:
    world = World()
    world.open("w", service="web", host="h1")
    world.hear("h", host="h1", kind="disk")
    world.hear("m", service="mail", host="h1")
    world.wait(2)
    assert len(world.all(IncidentOpened)) == 1


def test_a_person_does_not_wait_for_the_burst_to_end() -> None:
    world = World()
    world.hear("p", "the shop is slow", source="person")
    assert [each.title for each in world.all(IncidentOpened)] == ["the shop is slow"]


def test_a_dependency_is_learned_from_a_cause_that_was_proved() -> None:
    world = World()
    world.open("c", service="cache")
    world.wait(600)
    world.close("incident-1", "resolved")
    world.resolve("c", service="cache")
    shop = world.open("s", service="shop")
    world.write(
        IncidentDiagnosed(
            run=shop.incident, at=world.now, incident=shop.incident, component="cache"
        )
    )
    world.close(shop.incident)
    world.resolve("s", service="shop")
    world.wait(3600, step=60)
    before = len(world.all(IncidentOpened))
    world.hear("s", service="shop")
    world.hear("c", service="cache")
    world.wait(2)
    assert len(world.all(IncidentOpened)) == before + 1
    assert world.all(IncidentOpened)[-1].service == "cache"


def test_quiet_is_said_when_every_alert_was_taken_back_and_nothing_was_changed() -> None:
    world = World()
    opened = world.open("a", service="web")
    world.hear("b", service="web")
    world.wait(2)
    assert world.triage.count_firing(opened.incident) == 2
    world.resolve("a")
    assert not world.triage.is_quiet(opened.incident)
    world.resolve("b")
    assert world.triage.is_quiet(opened.incident) and not world.triage.count_firing(opened.incident)
    world.crash()
    assert world.triage.is_quiet(opened.incident)
    world.hear("a", service="web")
    assert not world.triage.is_quiet(opened.incident)


def test_one_alarm_on_many_hosts_is_one_trouble() -> None:
    world = World()
    for number in range(50):
        world.hear(f"f{number}", alertname="HostDown", instance=f"h{number}:9100", job="node")
        world.wait(0.1, step=0.1)
    world.wait(3)
    assert len(world.all(IncidentOpened)) == 1 and world.counted() == 50


def test_one_alarm_of_countless_services_is_a_storm() -> None:
    world = World()
    for number in range(200):
        world.hear(f"f{number}", alertname="Down", service=f"s{number}")
    world.wait(3)
    assert len(world.all(IncidentOpened)) == TriageSettings().group.storm
    assert world.counted() == 200
    assert any("a storm" in each.why for each in world.all(AlertsJoined))


def test_incidents_of_drills_and_alerts_of_other_runs_are_not_ours() -> None:
    world = World()
    world.write(
        AlertRaised(run="drill-1", at=world.now, fingerprint="a", title="in a box"),
        IncidentOpened(
            run="drill-1", at=world.now, incident="i-9", title="x", severity="P1", fingerprint="a"
        ),
    )
    world.pump()
    world.wait(3)
    assert len(world.all(IncidentOpened)) == 1
    world.open("a", service="web")
    assert len(world.all(IncidentOpened)) == 2


def test_one_that_a_person_opened_again_holds_its_alerts_however_old_it_is() -> None:
    world = World()
    opened = world.open("a", service="web", source="person")
    world.close(opened.incident, "closed")
    world.wait(86_400, step=3600)
    world.write(
        IncidentReopened(run=opened.incident, at=world.now, incident=opened.incident, by="x")
    )
    world.hear("a", service="web", source="person")
    world.wait(2)
    assert len(world.all(IncidentOpened)) == 1


def test_the_judge_of_a_drill_closes_nothing() -> None:
    world = World()
    opened = world.open("a", service="web")
    world.write(
        IncidentClosed(
            run=opened.incident,
            at=world.now,
            incident=opened.incident,
            outcome="resolved",
            by="oracle",
        )
    )
    world.hear("a", service="web")
    world.wait(400, step=10)
    assert len(world.all(IncidentOpened)) == 1
