"""A new outage is never absorbed by an incident about something else."""

from datetime import timedelta

import pytest
from triage_harness import TriageHarness

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


def named(harness: TriageHarness) -> list[str]:
    """Services and hosts that a notification names, in the order of the journal."""
    found: list[str] = []
    for recorded in harness.journal:
        if isinstance(recorded.event, IncidentOpened):
            found.append(recorded.event.service or dict(recorded.event.facts)["host"])
        elif isinstance(recorded.event, AlertsJoined):
            found += [part.name for part in recorded.event.parts]
    return found


def acknowledge(harness: TriageHarness, incident: str) -> None:
    harness.write(IncidentAcknowledged(run=incident, at=harness.now, incident=incident, by="ann"))
    harness.follow_journal()


def enter(harness: TriageHarness, incident: str, phase: IncidentPhase) -> None:
    harness.write(PhaseEntered(run=incident, at=harness.now, incident=incident, phase=phase))
    harness.follow_journal()


def failed_before(harness: TriageHarness, incident: str, check: str) -> None:
    harness.write(
        IncidentChecked(
            run=incident, at=harness.now, incident=incident, check=check, ok=False, when="before"
        )
    )
    harness.follow_journal()


@pytest.mark.parametrize("crash", [False, True])
def test_nginx_that_stops_after_the_disk_was_escalated_gets_its_own_incident(crash: bool) -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", "h: 100 percent of /data are in use", **DISK)
    harness.close_incident(disk.incident, "escalated")
    if crash:
        harness.restart()
    harness.wait(20)
    nginx = harness.open_incident("n", "nginx: connection refused", **NGINX)
    assert nginx.incident != disk.incident and nginx.service == "nginx"


def test_nginx_that_stops_beside_an_escalated_alert_of_the_host_gets_its_own_incident() -> None:
    harness = TriageHarness()
    host = harness.open_incident(
        "am", alertname="HostHighLoad", instance="h:9100", source="alertmanager"
    )
    harness.close_incident(host.incident, "escalated")
    assert harness.open_incident("n", **NGINX).service == "nginx"


def test_an_acknowledged_incident_of_a_host_absorbs_no_service() -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", **DISK)
    acknowledge(harness, disk.incident)
    assert harness.open_incident("n", **NGINX).service == "nginx"


@pytest.mark.parametrize("phase", ["remediate", "verify", "document"])
def test_work_on_a_host_that_is_past_its_diagnosis_absorbs_no_service(phase: IncidentPhase) -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", **DISK)
    enter(harness, disk.incident, phase)
    assert harness.open_incident("n", **NGINX).service == "nginx"


@pytest.mark.parametrize(
    ("title", "apart"),
    [
        ("nginx: nothing answers at 127.0.0.1:80", True),
        ("nginx: status 500 from http://127.0.0.1/", False),
    ],
)
def test_a_service_that_ends_while_a_host_is_worked_on_is_worked_on_as_well(
    title: str, apart: bool
) -> None:
    """The work on a full disk may wait for a person, and the service may have another cause."""
    harness = TriageHarness()
    disk = harness.open_incident("d", **DISK)
    enter(harness, disk.incident, "assess")
    harness.raise_alert("n", title, **NGINX)
    harness.wait(30)
    assert len(harness.events(IncidentOpened)) == (2 if apart else 1)


def test_a_service_that_joins_an_open_incident_is_reported_by_name_once() -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", **DISK)
    for fingerprint in ("n", "n2", "n"):
        harness.raise_alert(fingerprint, "nginx: connection refused", **NGINX)
        harness.wait(2)
    harness.raise_alert("m", **MAIL)
    harness.wait(2)
    assert len(harness.events(IncidentOpened)) == 1
    parts = [part for each in harness.events(AlertsJoined) for part in each.parts]
    assert [(part.name, part.severity) for part in parts] == [("nginx", "P1"), ("mail", "P1")]
    assert harness.incidents()[disk.incident].parts == ("nginx", "mail")


def test_another_problem_of_the_host_that_joins_an_open_incident_is_reported() -> None:
    harness = TriageHarness()
    harness.open_incident("d", **DISK)
    harness.raise_alert("m", "h: 99 percent of the memory are in use", host="h", kind="memory")
    harness.wait(2)
    (joined,) = harness.events(AlertsJoined)
    assert [(part.name, part.title) for part in joined.parts] == [
        ("memory on h", "h: 99 percent of the memory are in use")
    ]


def test_a_second_disk_of_the_host_is_another_problem() -> None:
    harness = TriageHarness()
    first = harness.open_incident("d1", "h: 100 percent of /data are in use", **DISK)
    harness.raise_alert("d2", "h: 97 percent of /var are in use", **DISK)
    harness.wait(2)
    assert [part.title for each in harness.events(AlertsJoined) for part in each.parts] == [
        "h: 97 percent of /var are in use"
    ]
    harness.close_incident(first.incident, "escalated")
    harness.wait(2)
    assert len(harness.events(IncidentOpened)) == 2, "nobody worked on /var"
    harness.raise_alert("d3", "h: 98 percent of /srv are in use", **DISK)
    harness.wait(2)
    second = harness.events(IncidentOpened)[-1].incident
    assert [part.title for part in harness.events(AlertsJoined)[-1].parts] == [
        "h: 98 percent of /srv are in use"
    ]
    assert harness.events(AlertsJoined)[-1].incident == second


def test_the_same_problem_of_the_same_service_joins_what_people_have_in_hand() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n80", **NGINX)
    harness.close_incident(opened.incident, "escalated")
    harness.raise_alert("n443", **NGINX)
    harness.wait(2)
    assert len(harness.events(IncidentOpened)) == 1
    harness.raise_alert("slow", "nginx: answers took 9 s", host="h", kind="http", service="nginx")
    harness.wait(2)
    assert len(harness.events(IncidentOpened)) == 2, "the same service, and another problem"


def test_members_that_fail_and_were_not_worked_on_get_an_incident_when_theirs_is_escalated() -> (
    None
):
    harness = TriageHarness()
    disk = harness.open_incident("d", **DISK)
    harness.raise_alert("n", check="port-80", **NGINX)
    harness.raise_alert("m", check="port-25", **MAIL)
    harness.wait(2)
    failed_before(harness, disk.incident, "port-25")
    harness.close_incident(disk.incident, "escalated")
    harness.wait(2)
    second = harness.events(IncidentOpened)[1:]
    assert [each.service for each in second] == ["nginx"], "mail was part of the work"
    assert dict(second[0].facts)["split_from"] == disk.incident


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [("resolved", 70), ("recovered", 70), ("no-incident", 2), ("closed", 310)],
)
def test_members_that_fail_and_were_not_worked_on_get_an_incident_however_theirs_ends(
    outcome: str, seconds: float
) -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", **DISK)
    harness.raise_alert("n", **NGINX)
    harness.wait(2)
    harness.resolve("d", **DISK)
    harness.close_incident(disk.incident, outcome)  # type: ignore[arg-type]
    harness.restart()
    harness.wait(seconds)
    assert [each.service for each in harness.events(IncidentOpened)] == ["", "nginx"]


def test_members_that_recover_soon_after_the_fix_get_no_incident() -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", **DISK)
    harness.raise_alert("n", **NGINX)
    harness.wait(2)
    harness.close_incident(disk.incident, "resolved")
    harness.wait(20)
    harness.resolve("n", **NGINX)
    harness.resolve("d", **DISK)
    harness.wait(3600, step=30)
    assert len(harness.events(IncidentOpened)) == 1


def test_a_service_that_recovered_and_fails_again_is_not_held_by_an_escalated_host() -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", **DISK)
    harness.raise_alert("n", check="port-80", **NGINX)
    harness.wait(2)
    failed_before(harness, disk.incident, "port-80")
    harness.close_incident(disk.incident, "escalated")
    harness.wait(600)
    assert len(harness.events(IncidentOpened)) == 1
    harness.resolve("n", **NGINX)
    harness.wait(600)
    assert harness.open_incident("n", **NGINX).service == "nginx"


def test_one_that_flapped_and_then_stays_down_is_reported_within_30_s_of_its_rhythm() -> None:
    harness = TriageHarness()
    for _ in range(6):
        harness.raise_alert("n", **NGINX)
        harness.wait(20)
        harness.resolve("n", **NGINX)
        harness.wait(20)
    for incident in harness.open_incidents():
        harness.close_incident(incident, "recovered")
    harness.wait(1)
    harness.raise_alert("n", **NGINX)
    harness.wait(20)
    assert not harness.open_incidents()
    harness.wait(30)
    assert len(harness.open_incidents()) == 1


@pytest.mark.parametrize("crash", [False, True])
def test_the_recovery_of_an_escalated_incident_is_written_once_it_has_held(crash: bool) -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n", **NGINX)
    harness.close_incident(opened.incident, "escalated")
    harness.wait(600)
    harness.resolve("n", **NGINX)
    over = harness.now
    if crash:
        harness.restart()
    harness.wait(29)
    assert not harness.events(IncidentRecovered)
    harness.wait(600)
    (recovered,) = harness.events(IncidentRecovered)
    assert recovered.recovered_at == over and "probe" in recovered.how
    assert harness.incidents()[opened.incident].status == "recovered"
    again = harness.open_incident("n", **NGINX)
    assert again.incident != opened.incident, "one that comes back is reported again"


@pytest.mark.parametrize(("kind", "shown"), [("log", True), ("http", False)])
def test_a_recovery_by_a_log_alone_says_so(kind: str, shown: bool) -> None:
    """Without requests a log has no errors, whatever is broken."""
    harness, labels = TriageHarness(), {**NGINX, "kind": kind}
    opened = harness.open_incident("n", **labels)
    harness.close_incident(opened.incident, "escalated")
    harness.resolve("n", **labels)
    harness.wait(600)
    (recovered,) = harness.events(IncidentRecovered)
    assert ("by its log alone" in recovered.how) is shown
    assert recovered.observed is not shown
    title = harness.notifications()[-1].title
    assert title.startswith("➖ NOT SEEN ANY MORE" if shown else "✅ RECOVERED")


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("0 paths of 7 recent answers fail", "by the answers in its log"),
        ("nobody requested /a: whether it works is not known", "is not known"),
    ],
)
def test_a_recovery_by_answers_says_whether_there_were_requests(text: str, how: str) -> None:
    harness, labels = TriageHarness(), {**NGINX, "kind": "answers"}
    opened = harness.open_incident("n", **labels)
    harness.close_incident(opened.incident, "escalated")
    harness.resolve("n", alert_text=text, **labels)
    harness.wait(600)
    (recovered,) = harness.events(IncidentRecovered)
    assert recovered.how.endswith(how)


CPU = {**NGINX, "kind": "cpu"}


def test_the_end_of_a_symptom_is_no_recovery_while_its_service_does_not_work() -> None:
    """A process that has ended uses no processor."""
    harness = TriageHarness()
    opened = harness.open_incident("cpu", "nginx: 99 percent of one processor", **CPU)
    harness.close_incident(opened.incident, "escalated")
    harness.wait(600)
    harness.resolve("cpu", **CPU)
    harness.raise_alert("n", "nginx: nothing answers at 127.0.0.1:80", **NGINX)
    harness.wait(600)
    assert not harness.events(IncidentRecovered)
    harness.resolve("n", **NGINX)
    harness.wait(60)
    assert opened.incident in {each.incident for each in harness.events(IncidentRecovered)}


def test_a_recovery_names_the_services_of_its_incident_that_do_not_work() -> None:
    harness = TriageHarness()
    host = {"kind": "cpu", "host": "h"}
    opened = harness.open_incident("cpu", "h: nginx uses both processors", **host)
    harness.close_incident(opened.incident, "escalated")
    harness.wait(600)
    harness.raise_alert("n", "nginx: nothing answers at 127.0.0.1:80", **NGINX)
    harness.resolve("cpu", **host)
    harness.wait(60)
    (recovered,) = harness.events(IncidentRecovered)
    assert recovered.still_failing == ("nginx",)
    assert "still failing: nginx" in harness.notifications()[-1].text


def test_what_a_person_reported_and_nobody_resolves_holds_up_no_recovery() -> None:
    harness = TriageHarness()
    said = harness.open_incident("p", "nginx is down", service="nginx", source="person")
    harness.close_incident(said.incident, "closed")
    harness.wait(600)
    opened = harness.open_incident("cpu", "nginx: 99 percent of one processor", **CPU)
    harness.close_incident(opened.incident, "escalated")
    harness.wait(600)
    harness.resolve("cpu", **CPU)
    harness.wait(600)
    assert opened.incident in {each.incident for each in harness.events(IncidentRecovered)}


def test_a_pause_shorter_than_the_settle_time_is_no_recovery() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n", **NGINX)
    harness.close_incident(opened.incident, "escalated")
    for _ in range(20):
        harness.resolve("n", **NGINX)
        harness.wait(10)
        harness.raise_alert("n", **NGINX)
        harness.wait(60)
    assert not harness.events(IncidentRecovered) and len(harness.events(IncidentOpened)) == 1
    harness.resolve("n", **NGINX)
    over = harness.now
    harness.wait(700)
    assert [each.recovered_at for each in harness.events(IncidentRecovered)] == [over]


def test_what_ended_before_it_was_escalated_is_reported_as_recovered_too() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n", **NGINX)
    harness.resolve("n", **NGINX)
    over = harness.now
    harness.wait(20)
    harness.close_incident(opened.incident, "escalated")
    harness.wait(20)
    assert [each.recovered_at for each in harness.events(IncidentRecovered)] == [over]


@pytest.mark.parametrize("crash", [False, True])
def test_the_recovery_of_an_incident_that_is_worked_on_is_reported(crash: bool) -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n", **NGINX)
    harness.wait(300)
    harness.resolve("n", **NGINX)
    over = harness.now
    if crash:
        harness.restart()
    harness.wait(29)
    assert not harness.events(IncidentRecovered)
    harness.wait(600)
    (recovered,) = harness.events(IncidentRecovered)
    assert (recovered.incident, recovered.recovered_at) == (opened.incident, over)
    assert [each.about for each in harness.notifications()] == ["declared", "resolved"]
    assert not harness.open_incidents()


def test_a_problem_that_we_changed_something_about_is_left_to_its_verification() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n", **NGINX)
    harness.write(ChangeBegan(run=opened.run, incident=opened.incident, call_id="c", command="x"))
    harness.follow_journal()
    harness.resolve("n", **NGINX)
    harness.wait(600)
    assert not harness.events(IncidentRecovered) and harness.open_incidents() == [opened.incident]


def test_an_incident_recovers_only_when_each_of_its_services_has() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("d", **DISK)
    harness.raise_alert("n", **NGINX)
    harness.resolve("d", **DISK)
    harness.wait(120)
    assert harness.open_incidents() == [opened.incident] and not harness.events(IncidentRecovered)
    harness.resolve("n", **NGINX)
    harness.wait(40)
    assert [each.incident for each in harness.events(IncidentRecovered)] == [opened.incident]


def test_the_load_of_its_host_keeps_no_service_from_recovering_and_is_reported_itself() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n", **NGINX)
    harness.raise_alert("l", "h: 9 processes wait for each processor", host="h", kind="load")
    harness.wait(2)
    harness.resolve("n", **NGINX)
    harness.wait(40)
    (recovered,) = harness.events(IncidentRecovered)
    assert (recovered.incident, recovered.still_failing) == (opened.incident, ("load on h",))
    (still,) = harness.open_incidents()
    assert harness.incidents()[still].details.fingerprint == "l"
    (told,) = [each for each in harness.notifications() if each.about == "resolved"]
    assert "still failing: load on h" in told.text and "also failed" not in told.text


def test_a_watch_that_starts_waits_for_its_probes_before_it_reports_a_recovery() -> None:
    harness = TriageHarness()
    harness.open_incident("n", **NGINX)
    harness.resolve("n", **NGINX)
    harness.now += timedelta(minutes=10)  # the watch is down
    harness.restart()
    harness.wait(2)
    assert not harness.events(IncidentRecovered)
    harness.raise_alert("n", **NGINX)
    harness.wait(120)
    assert not harness.events(IncidentRecovered)


def test_a_probe_that_is_not_asked_any_more_proves_no_recovery() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n", **NGINX)
    harness.close_incident(opened.incident, "escalated")
    harness.resolve("n", withdrawn="yes", **NGINX)
    harness.wait(3600, step=30)
    assert not harness.events(IncidentRecovered)
    assert harness.incidents()[opened.incident].unresolved


def test_the_settle_time_is_a_setting() -> None:
    harness = TriageHarness(TriageSettings(recovery=300))
    opened = harness.open_incident("n", **NGINX)
    harness.close_incident(opened.incident, "escalated")
    harness.resolve("n", **NGINX)
    harness.wait(290)
    assert not harness.events(IncidentRecovered)
    harness.wait(20)
    (recovered,) = harness.events(IncidentRecovered)
    assert recovered.at - recovered.recovered_at >= timedelta(seconds=300)


def test_what_a_person_closed_is_not_reported_as_recovered() -> None:
    harness = TriageHarness()
    opened = harness.open_incident("n", **NGINX)
    harness.close_incident(opened.incident, "escalated")
    harness.close_incident(opened.incident, "closed")
    harness.resolve("n", **NGINX)
    harness.wait(600)
    assert not harness.events(IncidentRecovered)


def test_a_question_is_asked_while_nothing_else_fails_and_is_over_when_its_reason_is() -> None:
    harness = TriageHarness()
    gone = {"host": "h", "kind": "disk", "question": "is this intended?"}
    opened = harness.open_incident("m", "h: /data is not mounted any more", **gone)
    assert opened.severity == "P3"
    assert dict(opened.facts)["question"] == "is this intended?"
    assert harness.open_incident("n", **NGINX).service == "nginx", "a question absorbs nothing"
    harness.resolve("m", **gone)
    harness.wait(60)
    assert [each.incident for each in harness.events(IncidentRecovered)] == [opened.incident]


def test_a_mount_that_is_missing_while_a_service_fails_is_a_problem_and_no_question() -> None:
    harness = TriageHarness()
    harness.open_incident("n", **NGINX)
    harness.wait(120)
    gone = {"host": "h", "kind": "disk", "question": "is this intended?"}
    opened = harness.open_incident("m", "h: /data is not mounted any more", **gone)
    assert opened.severity == "P2"
    assert "question" not in dict(opened.facts)


@pytest.mark.parametrize("crash", [False, True])
def test_a_service_that_joined_while_its_incident_was_escalated_gets_an_incident(
    crash: bool,
) -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", **DISK)
    harness.raise_alert("m", **MAIL)
    harness.raise_alert("n", **NGINX)  # counted with the next batch, a second later
    harness.close_incident(disk.incident, "escalated")
    if crash:
        harness.restart()
    harness.wait(3)
    assert {each.service for each in harness.events(IncidentOpened)} == {"", "mail", "nginx"}


def test_a_question_that_a_person_answered_is_not_asked_again_while_nothing_changes() -> None:
    harness = TriageHarness()
    gone = {"host": "h", "kind": "disk", "question": "is this intended?"}
    opened = harness.open_incident("m", **gone)
    harness.close_incident(opened.incident, "no-incident")
    harness.wait(86_400, step=300)
    assert len(harness.events(IncidentOpened)) == 1
    harness.resolve("m", **gone)
    harness.wait(60)
    assert len(harness.events(IncidentOpened)) == 1
    harness.open_incident("m", **gone)
    assert len(harness.events(IncidentOpened)) == 2


CONFIG = {"host": "h", "kind": "config", "service": "nginx"}
BROKEN = "nginx: the configuration would prevent its next start: nginx.conf:9"


@pytest.mark.parametrize("phase", [None, "investigate", "remediate"])
@pytest.mark.parametrize("of", [{}, {"service": "nginx"}])
@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_broken_configuration_gets_its_notice_while_a_cpu_incident_is_open(
    phase: IncidentPhase | None, of: dict[str, str], acknowledged: bool
) -> None:
    harness = TriageHarness()
    cpu = harness.open_incident(
        "c", "h: 97 percent of the processor are in use", host="h", kind="cpu", **of
    )
    if phase is not None:
        enter(harness, cpu.incident, phase)
    if acknowledged:
        acknowledge(harness, cpu.incident)
    harness.raise_alert("nginx-config", BROKEN, **CONFIG)
    harness.wait(5)
    (notice,) = [
        each for each in harness.notifications() if "nginx.conf:9" in f"{each.title}{each.text}"
    ]
    assert (notice.about, notice.severity) == ("declared", "P3")
    assert "nginx" in notice.title
    harness.raise_alert("nginx-config", BROKEN, **CONFIG)
    harness.wait(5)
    assert (
        sum("nginx.conf:9" in f"{each.title}{each.text}" for each in harness.notifications()) == 1
    )


def test_a_broken_configuration_gets_its_notice_after_its_service_joined_a_cpu_incident() -> None:
    harness = TriageHarness()
    harness.open_incident("c", "h: 97 percent of the processor are in use", host="h", kind="cpu")
    harness.raise_alert("n", "nginx: connection refused", **NGINX)
    harness.wait(5)
    harness.raise_alert("nginx-config", BROKEN, **CONFIG)
    harness.wait(5)
    assert [each.severity for each in harness.notifications() if "nginx.conf:9" in each.text] == [
        "P3"
    ]


@pytest.mark.parametrize("kind", ["certificate", "config", "forecast"])
def test_what_concerns_only_itself_shares_no_incident_with_its_host(kind: str) -> None:
    harness = TriageHarness()
    disk = harness.open_incident("d", "h: 100 percent of /data are in use", **DISK)
    own = harness.open_incident("c", "h: it has a fault of its own", host="h", kind=kind)
    harness.close_incident(disk.incident, "escalated")
    harness.wait(2)
    harness.raise_alert(
        "l", "worker: 25 lines a minute report errors", host="h", kind="log", service="worker"
    )
    harness.wait(2)
    assert own.incident != disk.incident
    assert own.incident not in harness.incidents_with("l")


def test_a_disk_that_fills_while_a_service_is_worked_on_gets_its_own_incident() -> None:
    harness = TriageHarness()
    nginx = harness.open_incident("n", **NGINX)
    enter(harness, nginx.incident, "assess")
    disk = harness.open_incident("d", "h: 100 percent of /data are in use", **DISK)
    assert disk.incident != nginx.incident


def test_another_problem_of_a_service_does_not_reopen_its_escalated_incident() -> None:
    harness = TriageHarness()
    log = {"host": "h", "kind": "log", "service": "mail"}
    mail = harness.open_incident("m", "mail: no answer", **MAIL)
    harness.raise_alert("l", "mail: 45 lines a minute report errors", **log)
    harness.wait(2)
    harness.close_incident(mail.incident, "escalated")
    harness.resolve("l", **log)
    harness.wait(120)
    again = harness.open_incident("l", "mail: 80 lines a minute report errors", **log)
    assert again.incident != mail.incident
    assert harness.incidents_with("m", escalated=True) == [mail.incident]
