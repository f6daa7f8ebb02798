"""What is heard and not acted upon: maintenance, flapping, echoes; and that none of it is lost."""

from datetime import timedelta

import pytest
from triage_world import World

from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    ChangeBegan,
    IncidentOpened,
)
from hermes.sre.settings import TriageSettings
from hermes.sre.triage.maintenance import target_covers


def flap(world: World, fingerprint: str, times: int, pause: float = 20.0) -> None:
    for _ in range(times):
        world.hear(fingerprint, service="web")
        world.wait(pause)
        world.resolve(fingerprint, service="web")
        world.wait(pause)


def test_in_maintenance_it_is_told_once_and_nothing_is_opened() -> None:
    world = World()
    world.maintain("web", 600)
    for _ in range(5):
        world.hear("a", service="web")
        world.wait(30)
    (told,) = world.suppressed()
    assert told.stretch == "maintenance-1" and "maintenance of web until" in told.why
    assert not world.all(IncidentOpened)


def test_what_still_fires_when_maintenance_ends_opens_an_incident_then() -> None:
    world = World()
    world.maintain("web", 600)
    world.hear("a", service="web")
    world.hear("b", service="web", kind="port")
    world.resolve("b", service="web")
    world.wait(599)
    assert not world.all(IncidentOpened)
    world.wait(2)
    (opened,) = world.all(IncidentOpened)
    assert opened.fingerprint == "a" and opened.alerts == (2,)


@pytest.mark.parametrize("crash", [False, True])
def test_a_window_may_be_ended_before_its_time(crash: bool) -> None:
    world = World()
    world.maintain("web", 600)
    world.hear("a", service="web")
    world.wait(5)
    world.end_maintenance()
    if crash:
        world.crash()
    world.wait(2)
    assert len(world.all(IncidentOpened)) == 1


def test_a_second_window_takes_over_from_the_first() -> None:
    world = World()
    world.maintain("web", 60)
    world.hear("a", service="web")
    world.maintain("w*", 120, window="maintenance-2")
    world.wait(100)
    assert [each.stretch for each in world.suppressed()] == ["maintenance-1", "maintenance-2"]
    assert not world.all(IncidentOpened)
    world.wait(30)
    assert len(world.all(IncidentOpened)) == 1


def test_an_incident_from_before_goes_on_in_maintenance() -> None:
    world = World()
    opened = world.open("a", service="web")
    world.maintain("web", 60)
    world.hear("a", service="web")
    world.wait(2)
    assert world.incidents()[opened.incident].alerts == 2 and not world.suppressed()


def test_data_at_risk_is_kept_quiet_too_and_said_unless_the_operator_wants_otherwise() -> None:
    kept, pierced = World(), World(TriageSettings(pierce=True))
    for world in (kept, pierced):
        world.maintain("db", 600)
        world.hear("a", service="db", data_at_risk="true")
        world.wait(2)
    assert "data is at risk" in kept.suppressed()[0].why and not kept.all(IncidentOpened)
    assert pierced.all(IncidentOpened)[0].severity == "P0"


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
    world = World()
    for _ in range(3):
        opened = world.open("a", service="web")
        world.resolve("a", service="web")
        world.close(opened.incident, "recovered")
        world.wait(20)
    flap(world, "a", 10)
    last = world.all(IncidentOpened)[-1]
    assert len(world.all(IncidentOpened)) == 4
    assert last.title == "flaps: a is bad" and "it flaps: raised 4 times" in last.reason
    assert [each.stretch for each in world.suppressed()] == ["flapping"]


def test_an_open_incident_whose_alert_begins_to_flap_says_so() -> None:
    world = World()
    flap(world, "a", 10)
    assert len(world.all(IncidentOpened)) == 1
    assert any("it flaps" in each.why for each in world.all(AlertsJoined))
    assert [each.stretch for each in world.suppressed()] == ["flapping"]
    assert not world.triage.is_quiet(world.open_now()[0]), "a pause of one that flaps is no end"


def test_one_that_flapped_and_then_stays_bad_is_taken_up() -> None:
    world = World()
    flap(world, "a", 6)
    world.close(world.open_now()[0], "recovered")
    world.hear("a", service="web")
    world.wait(60)
    assert not world.open_now()
    world.wait(600)
    assert len(world.open_now()) == 1


def test_when_flapping_is_over_the_next_alert_is_like_any_other() -> None:
    world = World()
    flap(world, "a", 6)
    world.close(world.open_now()[0], "recovered")
    world.wait(700)
    opened = world.open("a", service="web")
    assert not opened.title.startswith("flaps")


def test_one_that_was_over_before_it_was_taken_up_is_answered_as_such() -> None:
    world = World()
    world.say("a", service="web")
    world.say("a", service="web", resolved="yes")
    world.crash()
    world.wait(2)
    assert [each.why for each in world.suppressed()] == ["it was over before it was handled"]
    assert not world.all(IncidentOpened)


def test_the_echo_of_one_that_was_just_resolved_opens_nothing() -> None:
    world = World()
    opened = world.open("a", service="web")
    world.close(opened.incident)
    world.hear("a", service="web")
    world.wait(60)
    assert opened.incident in world.suppressed()[0].why
    world.resolve("a", service="web")
    world.wait(600)
    assert len(world.all(IncidentOpened)) == 1


@pytest.mark.parametrize("crash", [False, True])
def test_what_fires_on_after_its_incident_was_resolved_is_taken_up_again_once(
    crash: bool,
) -> None:
    world = World()
    first = world.open("a", service="web")
    world.hear("b", service="web")
    world.wait(2)
    world.close(first.incident)
    world.resolve("a", service="web")
    world.wait(290)
    assert not world.open_now()
    if crash:
        world.crash()
    world.wait(20)
    (again,) = world.open_now()
    opened = world.all(IncidentOpened)[-1]
    assert opened.fingerprint == "b" and dict(opened.facts)["again_after"] == first.incident
    world.close(again)
    if crash:
        world.crash()
    world.wait(3600, step=30)
    assert not world.open_now(), "twice found in order: no loop of incidents"
    world.wait(4 * 3600, step=30)
    assert len(world.open_now()) == 1, "and yet not lost"


def test_silence_of_a_source_that_never_says_when_it_is_over_proves_nothing() -> None:
    world = World()
    opened = world.open("a", service="web", source="webhook")
    world.close(opened.incident)
    world.wait(5 * 3600, step=30)
    assert not world.open_now()


def test_a_false_alarm_that_rings_on_is_not_taken_up_again_for_a_while() -> None:
    world = World()
    opened = world.open("a", service="web")
    world.close(opened.incident, "no-incident")
    for _ in range(20):
        world.hear("a", service="web")
        world.wait(600, step=30)
    assert len(world.all(IncidentOpened)) == 1 and len(world.suppressed()) == 1
    world.wait(3600, step=30)
    assert len(world.all(IncidentOpened)) == 2


def test_what_people_have_in_hand_opens_nothing_until_it_was_over_once() -> None:
    world = World()
    opened = world.open("a", service="web")
    world.close(opened.incident, "escalated")
    for _ in range(3):
        world.hear("a", service="web")
        world.wait(3600, step=30)
    assert len(world.all(IncidentOpened)) == 1
    world.resolve("a", service="web")
    world.wait(3600, step=30)
    world.open("a", service="web")
    assert len(world.all(IncidentOpened)) == 2


def test_one_that_comes_back_soon_is_a_new_incident_that_names_the_one_before() -> None:
    world = World()
    for time in (1, 2, 3):
        opened = world.open("a", service="web", kind="port")
        assert opened.seen_before == time - 1
        world.resolve("a", service="web")
        world.close(opened.incident)
        world.wait(1000, step=30)
    facts = dict(world.all(IncidentOpened)[-1].facts)
    assert facts["recurrence"] == "3rd time in 14 days"
    assert facts["again_after"] == "incident-2"
    assert "3rd time in 14 days" in world.all(IncidentOpened)[-1].reason
    world.wait(3600, step=30)
    assert "again_after" not in dict(world.open("a", service="web", kind="port").facts)


def test_the_same_trouble_under_another_fingerprint_has_been_here_before() -> None:
    world = World()
    first = world.open("a", service="web", alertname="PodDown", pod="web-1")
    world.resolve("a")
    world.close(first.incident)
    world.wait(3600, step=60)
    world.crash()
    again = world.open("b", service="web", alertname="PodDown", pod="web-7")
    assert again.seen_before == 1
    world.resolve("b")
    world.close(again.incident)
    world.wait(15 * 86_400, step=3600)
    assert world.open("c", service="web", alertname="PodDown").seen_before == 0


def test_a_service_of_the_same_name_in_another_namespace_was_not_seen_before() -> None:
    world = World()
    first = world.open("a", service="web", alertname="PodDown", namespace="shop")
    world.resolve("a")
    world.close(first.incident)
    world.wait(3600, step=60)
    assert world.open("b", service="web", alertname="PodDown", namespace="blog").seen_before == 0
    assert world.open("c", service="web", alertname="PodDown", namespace="shop").seen_before == 1


def test_two_logs_of_a_host_are_two_problems() -> None:
    world = World()
    world.open("a", service="", host="web-1", kind="log", title="9.5 lines a minute of /var/log/a")
    world.wait(3600, step=60)
    again = world.open(
        "b", service="", host="web-1", kind="log", title="42.0 lines a minute of /var/log/b"
    )
    assert again.seen_before == 0


def test_after_a_change_silence_is_no_recovery() -> None:
    world = World()
    opened = world.open("a", service="web")
    change = ChangeBegan(
        run=opened.incident, at=world.now, incident=opened.incident, call_id="c", command="x"
    )
    world.write(change)
    world.resolve("a")
    assert not world.triage.is_quiet(opened.incident)


def test_countless_alerts_leave_a_bounded_memory() -> None:
    world = World(TriageSettings(most=1_000))
    for number in range(10_000):
        world.now += timedelta(milliseconds=6)
        world.say(f"f{number}", service="web")
        recorded = world.journal.pop()
        assert isinstance(recorded.event, AlertRaised)
        world.triage.handle_alert(type(recorded)(number + 1, recorded.event), world.now)
        if number % 160 == 0:
            world.triage.tick(world.now)
    ledger = world.triage._state
    assert len(ledger.series) <= 1_200
    assert sum(len(each.members) for each in ledger.incidents.values()) <= 1_200
    assert len(ledger.incidents) == 1
    assert not world.triage.is_quiet("incident-1"), "forgotten is not resolved"


def test_what_is_over_and_belongs_to_nothing_is_forgotten_in_time() -> None:
    world = World()
    opened = world.open("a", service="web")
    world.resolve("a", service="web")
    world.close(opened.incident)
    world.wait(2 * 86_400, step=600)
    ledger = world.triage._state
    assert not ledger.series and not ledger.incidents
    assert world.open("a", service="web").seen_before == 1
