"""A new outage is never absorbed by an incident about something else."""

from datetime import timedelta

import pytest
from triage_world import World

from hermes.core.events.incidents import (
    AlertsJoined,
    ChangeBegan,
    IncidentAcknowledged,
    IncidentChecked,
    IncidentOpened,
    IncidentPhase,
    IncidentRecovered,
    PhaseEntered,
)
from hermes.sre.settings import TriageSettings

DISK = {"host": "h", "kind": "disk"}
NGINX = {"host": "h", "kind": "port", "service": "nginx"}
MAIL = {"host": "h", "kind": "port", "service": "mail"}


def named(world: World) -> list[str]:
    """Services and hosts that a notification names, in the order of the journal."""
    found: list[str] = []
    for recorded in world.journal:
        if isinstance(recorded.event, IncidentOpened):
            found.append(recorded.event.service or dict(recorded.event.facts)["host"])
        elif isinstance(recorded.event, AlertsJoined):
            found += [part.name for part in recorded.event.parts]
    return found


def acknowledge(world: World, incident: str) -> None:
    world.write(IncidentAcknowledged(run=incident, at=world.now, incident=incident, by="ann"))
    world.pump()


def enter(world: World, incident: str, phase: IncidentPhase) -> None:
    world.write(PhaseEntered(run=incident, at=world.now, incident=incident, phase=phase))
    world.pump()


def failed_before(world: World, incident: str, check: str) -> None:
    world.write(
        IncidentChecked(
            run=incident, at=world.now, incident=incident, check=check, ok=False, when="before"
        )
    )
    world.pump()


@pytest.mark.parametrize("crash", [False, True])
def test_nginx_that_stops_after_the_disk_was_escalated_gets_its_own_incident(crash: bool) -> None:
    world = World()
    disk = world.open("d", "h: 100 percent of /data are in use", **DISK)
    world.close(disk.incident, "escalated")
    if crash:
        world.crash()
    world.wait(20)
    nginx = world.open("n", "nginx: connection refused", **NGINX)
    assert nginx.incident != disk.incident and nginx.service == "nginx"


def test_nginx_that_stops_beside_an_escalated_alert_of_the_host_gets_its_own_incident() -> None:
    world = World()
    host = world.open("am", alertname="HostHighLoad", instance="h:9100", source="alertmanager")
    world.close(host.incident, "escalated")
    assert world.open("n", **NGINX).service == "nginx"


def test_an_acknowledged_incident_of_a_host_absorbs_no_service() -> None:
    world = World()
    disk = world.open("d", **DISK)
    acknowledge(world, disk.incident)
    assert world.open("n", **NGINX).service == "nginx"


@pytest.mark.parametrize("phase", ["remediate", "verify", "document"])
def test_work_on_a_host_that_is_past_its_diagnosis_absorbs_no_service(phase: IncidentPhase) -> None:
    world = World()
    disk = world.open("d", **DISK)
    enter(world, disk.incident, phase)
    assert world.open("n", **NGINX).service == "nginx"


def test_a_service_that_joins_an_open_incident_is_reported_by_name_once() -> None:
    world = World()
    disk = world.open("d", **DISK)
    for fingerprint in ("n", "n2", "n"):
        world.hear(fingerprint, "nginx: connection refused", **NGINX)
        world.wait(2)
    world.hear("m", **MAIL)
    world.wait(2)
    assert len(world.all(IncidentOpened)) == 1
    parts = [part for each in world.all(AlertsJoined) for part in each.parts]
    assert [(part.name, part.severity) for part in parts] == [("nginx", "P1"), ("mail", "P1")]
    assert world.incidents()[disk.incident].parts == ("nginx", "mail")


def test_another_problem_of_the_host_that_joins_an_open_incident_is_reported() -> None:
    world = World()
    world.open("d", **DISK)
    world.hear("m", "h: 99 percent of the memory are in use", host="h", kind="memory")
    world.wait(2)
    (joined,) = world.all(AlertsJoined)
    assert [(part.name, part.title) for part in joined.parts] == [
        ("memory on h", "h: 99 percent of the memory are in use")
    ]


def test_a_second_disk_of_the_host_is_another_problem() -> None:
    world = World()
    first = world.open("d1", "h: 100 percent of /data are in use", **DISK)
    world.hear("d2", "h: 97 percent of /var are in use", **DISK)
    world.wait(2)
    assert [part.title for each in world.all(AlertsJoined) for part in each.parts] == [
        "h: 97 percent of /var are in use"
    ]
    world.close(first.incident, "escalated")
    world.wait(2)
    assert len(world.all(IncidentOpened)) == 2, "nobody worked on /var"
    world.hear("d3", "h: 98 percent of /srv are in use", **DISK)
    world.wait(2)
    second = world.all(IncidentOpened)[-1].incident
    assert [part.title for part in world.all(AlertsJoined)[-1].parts] == [
        "h: 98 percent of /srv are in use"
    ]
    assert world.all(AlertsJoined)[-1].incident == second


def test_the_same_problem_of_the_same_service_joins_what_people_have_in_hand() -> None:
    world = World()
    opened = world.open("n80", **NGINX)
    world.close(opened.incident, "escalated")
    world.hear("n443", **NGINX)
    world.wait(2)
    assert len(world.all(IncidentOpened)) == 1
    world.hear("slow", "nginx: answers took 9 s", host="h", kind="http", service="nginx")
    world.wait(2)
    assert len(world.all(IncidentOpened)) == 2, "the same service, and another problem"


def test_members_that_fail_and_were_not_worked_on_get_an_incident_when_theirs_is_escalated() -> (
    None
):
    world = World()
    disk = world.open("d", **DISK)
    world.hear("n", check="port-80", **NGINX)
    world.hear("m", check="port-25", **MAIL)
    world.wait(2)
    failed_before(world, disk.incident, "port-25")
    world.close(disk.incident, "escalated")
    world.wait(2)
    second = world.all(IncidentOpened)[1:]
    assert [each.service for each in second] == ["nginx"], "mail was part of the work"
    assert dict(second[0].facts)["split_from"] == disk.incident


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [("resolved", 70), ("recovered", 70), ("no-incident", 2), ("closed", 310)],
)
def test_members_that_fail_and_were_not_worked_on_get_an_incident_however_theirs_ends(
    outcome: str, seconds: float
) -> None:
    world = World()
    disk = world.open("d", **DISK)
    world.hear("n", **NGINX)
    world.wait(2)
    world.resolve("d", **DISK)
    world.close(disk.incident, outcome)  # type: ignore[arg-type]
    world.crash()
    world.wait(seconds)
    assert [each.service for each in world.all(IncidentOpened)] == ["", "nginx"]


def test_members_that_recover_soon_after_the_fix_get_no_incident() -> None:
    world = World()
    disk = world.open("d", **DISK)
    world.hear("n", **NGINX)
    world.wait(2)
    world.close(disk.incident, "resolved")
    world.wait(20)
    world.resolve("n", **NGINX)
    world.resolve("d", **DISK)
    world.wait(3600, step=30)
    assert len(world.all(IncidentOpened)) == 1


def test_a_service_that_recovered_and_fails_again_is_not_held_by_an_escalated_host() -> None:
    world = World()
    disk = world.open("d", **DISK)
    world.hear("n", check="port-80", **NGINX)
    world.wait(2)
    failed_before(world, disk.incident, "port-80")
    world.close(disk.incident, "escalated")
    world.wait(600)
    assert len(world.all(IncidentOpened)) == 1
    world.resolve("n", **NGINX)
    world.wait(600)
    assert world.open("n", **NGINX).service == "nginx"


def test_one_that_flapped_and_then_stays_down_waits_two_minutes_and_not_ten() -> None:
    world = World()
    for _ in range(6):
        world.hear("n", **NGINX)
        world.wait(20)
        world.resolve("n", **NGINX)
        world.wait(20)
    for incident in world.open_now():
        world.close(incident, "recovered")
    world.wait(1)
    world.hear("n", **NGINX)
    world.wait(100)
    assert not world.open_now()
    world.wait(30)
    assert len(world.open_now()) == 1


@pytest.mark.parametrize("crash", [False, True])
def test_the_recovery_of_an_escalated_incident_is_written_once_it_has_held(crash: bool) -> None:
    world = World()
    opened = world.open("n", **NGINX)
    world.close(opened.incident, "escalated")
    world.wait(600)
    world.resolve("n", **NGINX)
    over = world.now
    if crash:
        world.crash()
    world.wait(29)
    assert not world.all(IncidentRecovered)
    world.wait(600)
    (recovered,) = world.all(IncidentRecovered)
    assert recovered.recovered_at == over and "probe" in recovered.how
    assert world.incidents()[opened.incident].status == "recovered"
    again = world.open("n", **NGINX)
    assert again.incident != opened.incident, "one that comes back is reported again"


@pytest.mark.parametrize(("kind", "shown"), [("log", True), ("http", False)])
def test_a_recovery_by_a_log_alone_says_so(kind: str, shown: bool) -> None:
    """Without requests a log has no errors, whatever is broken."""
    world, labels = World(), {**NGINX, "kind": kind}
    opened = world.open("n", **labels)
    world.close(opened.incident, "escalated")
    world.resolve("n", **labels)
    world.wait(600)
    (recovered,) = world.all(IncidentRecovered)
    assert ("by its log alone" in recovered.how) is shown


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("0 paths of 7 recent answers fail", "by the answers in its log"),
        ("nobody requested /a: whether it works is not known", "is not known"),
    ],
)
def test_a_recovery_by_answers_says_whether_there_were_requests(text: str, how: str) -> None:
    world, labels = World(), {**NGINX, "kind": "answers"}
    opened = world.open("n", **labels)
    world.close(opened.incident, "escalated")
    world.resolve("n", alert_text=text, **labels)
    world.wait(600)
    (recovered,) = world.all(IncidentRecovered)
    assert recovered.how.endswith(how)


def test_a_pause_shorter_than_the_settle_time_is_no_recovery() -> None:
    world = World()
    opened = world.open("n", **NGINX)
    world.close(opened.incident, "escalated")
    for _ in range(20):
        world.resolve("n", **NGINX)
        world.wait(10)
        world.hear("n", **NGINX)
        world.wait(60)
    assert not world.all(IncidentRecovered) and len(world.all(IncidentOpened)) == 1
    world.resolve("n", **NGINX)
    over = world.now
    world.wait(700)
    assert [each.recovered_at for each in world.all(IncidentRecovered)] == [over]


def test_what_ended_before_it_was_escalated_is_reported_as_recovered_too() -> None:
    world = World()
    opened = world.open("n", **NGINX)
    world.resolve("n", **NGINX)
    over = world.now
    world.wait(20)
    world.close(opened.incident, "escalated")
    world.wait(20)
    assert [each.recovered_at for each in world.all(IncidentRecovered)] == [over]


@pytest.mark.parametrize("crash", [False, True])
def test_the_recovery_of_an_incident_that_is_worked_on_is_reported(crash: bool) -> None:
    world = World()
    opened = world.open("n", **NGINX)
    world.wait(300)
    world.resolve("n", **NGINX)
    over = world.now
    if crash:
        world.crash()
    world.wait(29)
    assert not world.all(IncidentRecovered)
    world.wait(600)
    (recovered,) = world.all(IncidentRecovered)
    assert (recovered.incident, recovered.recovered_at) == (opened.incident, over)
    assert [each.about for each in world.notices()] == ["declared", "resolved"]
    assert not world.open_now()


def test_a_problem_that_we_changed_something_about_is_left_to_its_verification() -> None:
    world = World()
    opened = world.open("n", **NGINX)
    world.write(ChangeBegan(run=opened.run, incident=opened.incident, call_id="c", command="x"))
    world.pump()
    world.resolve("n", **NGINX)
    world.wait(600)
    assert not world.all(IncidentRecovered) and world.open_now() == [opened.incident]


def test_an_incident_recovers_only_when_each_of_its_services_has() -> None:
    world = World()
    opened = world.open("d", **DISK)
    world.hear("n", **NGINX)
    world.resolve("d", **DISK)
    world.wait(120)
    assert world.open_now() == [opened.incident] and not world.all(IncidentRecovered)
    world.resolve("n", **NGINX)
    world.wait(40)
    assert [each.incident for each in world.all(IncidentRecovered)] == [opened.incident]


def test_the_load_of_its_host_keeps_no_service_from_recovering_and_is_reported_itself() -> None:
    world = World()
    opened = world.open("n", **NGINX)
    world.hear("l", "h: 9 processes wait for each processor", host="h", kind="load")
    world.wait(2)
    world.resolve("n", **NGINX)
    world.wait(40)
    (recovered,) = world.all(IncidentRecovered)
    assert (recovered.incident, recovered.still_failing) == (opened.incident, ("load on h",))
    (still,) = world.open_now()
    assert world.incidents()[still].details.fingerprint == "l"
    (told,) = [each for each in world.notices() if each.about == "resolved"]
    assert "still failing: load on h" in told.text and "also failed" not in told.text


def test_a_watch_that_starts_waits_for_its_probes_before_it_reports_a_recovery() -> None:
    world = World()
    world.open("n", **NGINX)
    world.resolve("n", **NGINX)
    world.now += timedelta(minutes=10)  # the watch is down
    world.crash()
    world.wait(2)
    assert not world.all(IncidentRecovered)
    world.hear("n", **NGINX)
    world.wait(120)
    assert not world.all(IncidentRecovered)


def test_a_probe_that_is_not_asked_any_more_proves_no_recovery() -> None:
    world = World()
    opened = world.open("n", **NGINX)
    world.close(opened.incident, "escalated")
    world.resolve("n", withdrawn="yes", **NGINX)
    world.wait(3600, step=30)
    assert not world.all(IncidentRecovered)
    assert world.incidents()[opened.incident].unresolved


def test_the_settle_time_is_a_setting() -> None:
    world = World(TriageSettings(recovery=300))
    opened = world.open("n", **NGINX)
    world.close(opened.incident, "escalated")
    world.resolve("n", **NGINX)
    world.wait(290)
    assert not world.all(IncidentRecovered)
    world.wait(20)
    (recovered,) = world.all(IncidentRecovered)
    assert recovered.at - recovered.recovered_at >= timedelta(seconds=300)


def test_what_a_person_closed_is_not_reported_as_recovered() -> None:
    world = World()
    opened = world.open("n", **NGINX)
    world.close(opened.incident, "escalated")
    world.close(opened.incident, "closed")
    world.resolve("n", **NGINX)
    world.wait(600)
    assert not world.all(IncidentRecovered)


def test_a_question_is_asked_while_nothing_else_fails_and_is_over_when_its_reason_is() -> None:
    world = World()
    gone = {"host": "h", "kind": "disk", "question": "is this intended?"}
    opened = world.open("m", "h: /data is not mounted any more", **gone)
    assert opened.severity == "P3"
    assert dict(opened.facts)["question"] == "is this intended?"
    assert world.open("n", **NGINX).service == "nginx", "a question absorbs nothing"
    world.resolve("m", **gone)
    world.wait(60)
    assert [each.incident for each in world.all(IncidentRecovered)] == [opened.incident]


def test_a_mount_that_is_missing_while_a_service_fails_is_a_problem_and_no_question() -> None:
    world = World()
    world.open("n", **NGINX)
    world.wait(120)
    gone = {"host": "h", "kind": "disk", "question": "is this intended?"}
    opened = world.open("m", "h: /data is not mounted any more", **gone)
    assert opened.severity == "P2"
    assert "question" not in dict(opened.facts)


@pytest.mark.parametrize("crash", [False, True])
def test_a_service_that_joined_while_its_incident_was_escalated_gets_an_incident(
    crash: bool,
) -> None:
    world = World()
    disk = world.open("d", **DISK)
    world.hear("m", **MAIL)
    world.hear("n", **NGINX)  # counted with the next batch, a second later
    world.close(disk.incident, "escalated")
    if crash:
        world.crash()
    world.wait(3)
    assert {each.service for each in world.all(IncidentOpened)} == {"", "mail", "nginx"}


def test_a_question_that_a_person_answered_is_not_asked_again_while_nothing_changes() -> None:
    world = World()
    gone = {"host": "h", "kind": "disk", "question": "is this intended?"}
    opened = world.open("m", **gone)
    world.close(opened.incident, "no-incident")
    world.wait(86_400, step=300)
    assert len(world.all(IncidentOpened)) == 1
    world.resolve("m", **gone)
    world.wait(60)
    assert len(world.all(IncidentOpened)) == 1
    world.open("m", **gone)
    assert len(world.all(IncidentOpened)) == 2


CONFIG = {"host": "h", "kind": "config", "service": "nginx"}
BROKEN = "nginx: the configuration would prevent its next start: nginx.conf:9"


@pytest.mark.parametrize("phase", [None, "investigate", "remediate"])
@pytest.mark.parametrize("of", [{}, {"service": "nginx"}])
@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_broken_configuration_gets_its_notice_while_a_cpu_incident_is_open(
    phase: IncidentPhase | None, of: dict[str, str], acknowledged: bool
) -> None:
    world = World()
    cpu = world.open("c", "h: 97 percent of the processor are in use", host="h", kind="cpu", **of)
    if phase is not None:
        enter(world, cpu.incident, phase)
    if acknowledged:
        acknowledge(world, cpu.incident)
    world.hear("nginx-config", BROKEN, **CONFIG)
    world.wait(5)
    (notice,) = [each for each in world.notices() if "nginx.conf:9" in f"{each.title}{each.text}"]
    assert (notice.about, notice.severity) == ("declared", "P3")
    assert "nginx" in notice.title
    world.hear("nginx-config", BROKEN, **CONFIG)
    world.wait(5)
    assert sum("nginx.conf:9" in f"{each.title}{each.text}" for each in world.notices()) == 1


def test_a_broken_configuration_gets_its_notice_after_its_service_joined_a_cpu_incident() -> None:
    world = World()
    world.open("c", "h: 97 percent of the processor are in use", host="h", kind="cpu")
    world.hear("n", "nginx: connection refused", **NGINX)
    world.wait(5)
    world.hear("nginx-config", BROKEN, **CONFIG)
    world.wait(5)
    assert [each.severity for each in world.notices() if "nginx.conf:9" in each.text] == ["P3"]
