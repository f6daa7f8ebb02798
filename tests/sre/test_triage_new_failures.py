"""A new failure of a service whose incident is with people is worked on, and not only counted."""

from datetime import timedelta

import pytest
from triage_world import World

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


def escalated(world: World) -> str:
    opened = world.open("h", WRONG_STATUS, **HTTP)
    world.wait(10)
    world.close(opened.incident, "escalated")
    world.wait(2)
    return opened.incident


@pytest.mark.parametrize("fingerprint", ["n", "h"])
@pytest.mark.parametrize("crash", [False, True])
def test_a_service_that_stops_after_its_wrong_answers_were_escalated_is_worked_on(
    crash: bool, fingerprint: str
) -> None:
    world = World()
    incident = escalated(world)
    world.wait(20)
    if crash:
        world.crash()
    world.hear(fingerprint, SILENT, **(PORT if fingerprint == "n" else HTTP))
    world.wait(3)
    assert world.open_now() == [incident]
    (reopened,) = world.all(IncidentReopened)
    assert reopened.by == "hermes" and SILENT in reopened.reason
    known = world.incidents()[incident].details
    assert (known.title, known.first_title) == (SILENT, WRONG_STATUS)
    assert known.text == f"more about {fingerprint}"
    told = [each.title for each in world.notices()]
    assert told[-1] == f"🚨 P1 INCIDENT REOPENED: {SILENT}"
    assert not any("ALSO FAILING" in each for each in told), "it is told once"


def test_what_else_of_it_fails_with_a_service_that_gives_no_answer_is_not_new() -> None:
    world = World()
    opened = world.open("n", SILENT, **PORT)
    world.wait(30)
    world.close(opened.incident, "escalated")
    world.wait(60)
    world.hear("t", "nginx: 127.0.0.1:443 shows no certificate", **TLS)
    world.hear("h", "nginx: no answer from http://127.0.0.1:80/", **HTTP)
    world.wait(600)
    assert not world.all(IncidentReopened) and not world.open_now()
    assert len(world.all(IncidentOpened)) == 1, "people have it in hand, however long ago"


@pytest.mark.parametrize("crash", [False, True])
def test_a_check_that_was_fine_since_the_escalation_and_fails_is_a_new_failure(crash: bool) -> None:
    world = World()
    incident = escalated(world)
    world.wait(20)
    world.hear("pages", "nginx: status 403 from http://127.0.0.1:80/pages", **HTTP)
    world.wait(2)
    assert not world.all(IncidentReopened), "it followed at once: the same problem"
    world.resolve("pages", **HTTP)
    world.wait(40)
    if crash:
        world.crash()
    world.hear("pages", "nginx: status 403 from http://127.0.0.1:80/pages", **HTTP)
    world.wait(2)
    assert world.open_now() == [incident]


def test_a_check_that_comes_and_goes_is_not_worked_on_again() -> None:
    world = World()
    escalated(world)
    for _ in range(20):
        world.resolve("h", **HTTP)
        world.wait(10)
        world.hear("h", WRONG_STATUS, **HTTP)
        world.wait(60)
    assert not world.all(IncidentReopened)


def test_one_incident_is_not_opened_again_for_ever() -> None:
    world = World()
    incident = escalated(world)
    for _ in range(10):
        world.hear("h", SILENT, **HTTP)
        world.wait(30)
        if world.open_now():
            world.close(incident, "escalated")
        world.wait(30)
        world.hear("h", WRONG_STATUS, **HTTP)
        world.wait(30)
    assert len(world.all(IncidentReopened)) == 2


def test_what_a_person_has_in_hand_is_left_to_that_person() -> None:
    world = World()
    incident = escalated(world)
    world.write(IncidentAcknowledged(run=incident, at=world.now, incident=incident, by="ann"))
    world.pump()
    world.wait(20)
    world.hear("n", SILENT, **PORT)
    world.wait(3)
    assert not world.all(IncidentReopened) and not world.open_now()
    assert [part.title for each in world.all(AlertsJoined) for part in each.parts] == [SILENT]


@pytest.mark.parametrize("crash", [False, True])
def test_a_service_that_stops_while_an_incident_of_the_disk_holds_it_gets_its_own(
    crash: bool,
) -> None:
    world = World()
    disk = world.open("d", "h: 99 percent of /data are in use", **DISK)
    world.hear("h", WRONG_STATUS, check="http-80", **HTTP)
    world.wait(2)
    assert world.holding("h") == [disk.incident]
    world.write(
        IncidentChecked(
            run=disk.incident,
            at=world.now,
            incident=disk.incident,
            check="http-80",
            ok=False,
            when="before",
        )
    )
    world.pump()
    world.close(disk.incident, "escalated")
    world.wait(40)
    if crash:
        world.crash()
    world.hear("h", SILENT, check="http-80", **HTTP)
    world.wait(3)
    own = world.all(IncidentOpened)[-1]
    assert (own.service, own.title) == ("nginx", SILENT)
    assert world.open_now() == [own.incident] and not world.all(IncidentReopened)
    world.resolve("d", **DISK)
    world.wait(60)
    assert world.incidents()[disk.incident].status == "recovered", "it waits for the disk alone"


def test_playbooks_of_the_first_work_may_run_again_in_the_second() -> None:
    world = World()
    incident = escalated(world)
    world.now += timedelta(seconds=20)
    world.hear("n", SILENT, **PORT)
    world.wait(3)
    known = world.incidents()[incident]
    assert known.recent_changes == () and known.status == "open"
