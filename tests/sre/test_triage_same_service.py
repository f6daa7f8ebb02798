"""What several probes say of one service is one incident; a busy host is another one."""

import pytest
from triage_world import World

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


def services(world: World) -> list[str]:
    return [each.service for each in world.all(IncidentOpened)]


def titles_told(world: World) -> list[str]:
    return [each.title for each in world.notices()]


def test_a_service_that_fails_on_a_busy_host_is_declared_by_its_own_name() -> None:
    world = World()
    busy = world.open("c", "h: 100.0 percent of the processors are busy", **CPU)
    nginx = world.open("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    assert nginx.incident != busy.incident
    assert (busy.severity, nginx.severity) == ("P3", "P1")
    assert not world.all(IncidentGraded), "nobody is woken by a busy processor"


def test_a_busy_processor_that_is_seen_with_an_outage_does_not_give_it_its_name() -> None:
    world = World()
    world.hear("c", "h: 100.0 percent of the processors are busy", **CPU)
    world.hear("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    world.wait(2)
    assert services(world) == ["nginx"]
    assert world.holding("c") == world.holding("n")


def test_a_full_disk_still_takes_the_services_that_it_stops() -> None:
    world = World()
    disk = world.open("d", "h: 100 percent of /data are in use", host="h", kind="disk")
    world.hear("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    world.wait(2)
    assert world.holding("n") == [disk.incident]


def test_a_disk_that_joins_a_service_does_not_bring_other_services_with_it() -> None:
    world = World()
    shop = world.open("s", "shop: nothing answers at 127.0.0.1:8000", **SHOP)
    world.hear("d", "h: 100 percent of /data are in use", host="h", kind="disk")
    world.wait(2)
    assert world.holding("d") == [shop.incident]
    phase = PhaseEntered(run=shop.run, at=world.now, incident=shop.incident, phase="reflex")
    world.write(phase)
    world.pump()
    nginx = world.open("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    assert (nginx.service, world.holding("n")) == ("nginx", [nginx.incident])
    assert services(world) == ["shop", "nginx"], "nobody works on nginx in the incident of shop"


def test_a_service_that_stops_while_a_log_is_worked_on_gets_its_own_incident() -> None:
    world = World()
    log = world.open("l", "h: 45 lines a minute of db.log report errors", host="h", kind="log")
    world.write(PhaseEntered(run=log.run, at=world.now, incident=log.incident, phase="assess"))
    world.pump()
    nginx = world.open("n", "nginx: no answer within 5 s", **PORT)
    assert (nginx.service, world.holding("n")) == ("nginx", [nginx.incident])


@pytest.mark.parametrize("title", ["nginx: 127.0.0.1:443 shows no certificate", "no answer in 5 s"])
@pytest.mark.parametrize("crash", [False, True])
def test_a_service_that_shows_no_certificate_because_it_is_down_has_one_incident(
    title: str, crash: bool
) -> None:
    world = World()
    nginx = world.open("n", "nginx: nothing answers at 127.0.0.1:443", **PORT)
    world.close(nginx.incident, "escalated")
    if crash:
        world.crash()
    world.wait(20)
    world.hear("t", title, **TLS)
    world.wait(2)
    assert services(world) == ["nginx"]
    assert world.holding("t", escalated=True) == [nginx.incident]


def test_a_certificate_that_ends_soon_is_reported_beside_a_service_that_is_down() -> None:
    world = World()
    nginx = world.open("n", "nginx: nothing answers at 127.0.0.1:443", **PORT)
    world.close(nginx.incident, "escalated")
    ends = world.open("t", "nginx: the certificate of 127.0.0.1:443 ends Mar 9", **TLS)
    assert ends.incident != nginx.incident


def test_a_supervisor_that_cannot_start_a_service_speaks_of_the_same_outage() -> None:
    world = World()
    shop = world.open("p", "shop: nothing answers at 127.0.0.1:8000", **SHOP)
    world.close(shop.incident, "escalated")
    world.wait(20)
    title = "shop: shop is not running: supervisord cannot start it"
    world.hear("s", title, host="h", kind="command", service="shop", severity="P1")
    world.wait(2)
    assert services(world) == ["shop"]
    assert world.holding("s", escalated=True) == [shop.incident]


@pytest.mark.parametrize("crash", [False, True])
def test_a_service_that_answered_wrongly_and_then_hangs_is_told_once_more(crash: bool) -> None:
    world = World()
    nginx = world.open("h", WRONG_STATUS, **HTTP)
    world.close(nginx.incident, "escalated")
    world.wait(12)
    if crash:
        world.crash()
    for number in range(3):
        world.hear(f"hang-{number}", "nginx: no answer within 5 s", **HTTP)
    world.wait(2)
    told = [each for each in titles_told(world) if "no answer within 5 s" in each]
    assert told == ["🚨 P1 INCIDENT REOPENED: nginx: no answer within 5 s"]
    assert services(world) == ["nginx"]
    assert not world.incidents()[nginx.incident].parts, "it is no other service"


def test_further_wrong_answers_of_a_service_are_no_news() -> None:
    world = World()
    world.open("h", WRONG_STATUS, **HTTP)
    world.hear("i", "nginx: 0.01 seconds for status 500 from http://127.0.0.1:80/", **HTTP)
    world.wait(2)
    assert [part for each in world.all(AlertsJoined) for part in each.parts] == []


def test_a_service_that_is_known_to_give_no_answer_is_not_told_again() -> None:
    world = World()
    world.open("n", "nginx: nothing answers at 127.0.0.1:80", **PORT)
    world.hear("h", "nginx: no answer from http://127.0.0.1:80/: Connection refused", **HTTP)
    world.wait(2)
    assert not [each for each in titles_told(world) if "ALSO FAILING" in each]


@pytest.mark.parametrize("crash", [False, True])
def test_a_probe_that_is_not_asked_any_more_does_not_keep_its_service_from_recovering(
    crash: bool,
) -> None:
    world = World()
    nginx = world.open("t", "nginx: 127.0.0.1:443 shows no certificate", **TLS)
    world.hear("h", "nginx: no answer from https://127.0.0.1:443/", **HTTP)
    world.wait(2)
    world.close(nginx.incident, "escalated")
    world.resolve("t", **TLS, withdrawn="yes")
    world.wait(40)
    assert not world.all(IncidentRecovered), "the page still fails"
    world.resolve("h", **HTTP)
    if crash:
        world.crash()
    world.wait(60)
    (recovered,) = world.all(IncidentRecovered)
    assert recovered.how.startswith("resolved by probe ") and "tls" not in recovered.how


def test_a_probe_that_is_not_asked_any_more_proves_nothing_alone() -> None:
    world = World()
    nginx = world.open("t", "nginx: 127.0.0.1:443 shows no certificate", **TLS)
    world.close(nginx.incident, "escalated")
    world.resolve("t", **TLS, withdrawn="yes")
    world.wait(60)
    assert not world.all(IncidentRecovered)
