"""The judge of bench/real_host.py finds each kind of false statement, and accuses no true one."""

from datetime import UTC, datetime
from typing import Any

import pytest
from real_host.collateral import FileState, find_collateral
from real_host.judge import judge, seconds_of
from real_host.observer import Sample, Truth
from real_host.outages import BY_NAME
from real_host.plans import PLANS
from real_host.scene import Played, Record, View, change_before, own_checks, sort_notices
from real_host.watch import Notice

CAUSED, FINE, END = 1000.0, 1060.0, 1150.0
INCIDENT = "incident-20260306-031500-4f2a1c"


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def a_notice(about: str, arrived: float, title: str, text: str = "", **more: Any) -> Notice:
    values: dict[str, Any] = {"severity": "P1", "repeated": False, "incident": INCIDENT} | more
    return Notice(arrived, f"{INCIDENT}:{about}:{arrived}", about, title, text, **values)


def a_host(*more: Notice, duration: str = "58 s") -> Played:
    """nginx was stopped for a minute, and everything that was said about it is true."""
    truth = Truth()
    for name, samples in truth.samples.items():
        harmed = name in BY_NAME["nginx-stopped"].checks
        for second in range(900, 1150):
            fails = harmed and CAUSED <= second < FINE
            samples.append(Sample(second, second + 0.1, "refused" if fails else ""))
    record = Record(PLANS[0], BY_NAME["nginx-stopped"], 1, caused=CAUSED, ended=1059.0, fine=FINE)
    notices = [
        a_notice("declared", 1008.0, "P1 INCIDENT DECLARED: nginx: nothing answers"),
        a_notice("recovered", 1075.0, "INCIDENT RECOVERED: nginx", "duration: 58 s"),
        *more,
    ]
    record.incidents.add(INCIDENT)
    sort_notices(record, notices)
    row = {
        "incident": INCIDENT,
        "title": "nginx: nothing answers",
        "state": "recovered",
        "severity": "P1",
        "service": "nginx",
        "opened_at": iso(1007.0),
        "mttr": None,
    }
    health = {"probes": [{"probe": "port-80", "ok": False, "detail": "nothing answers"}]}
    return Played(
        PLANS[0],
        [record],
        truth,
        notices,
        0,
        [900.0],
        [],
        [View(1030.0, [record], True, [row], health, 1)],
        incidents=[row],
        shows={INCIDENT: dict(row)},
        reports={INCIDENT: f"- Duration: {duration}\n"},
        stats={"incidents": 1, "severity": {"P1": 1}},
        audit_code=0,
        journal_code=0,
    )


def faults(played: Played) -> list[str]:
    return [finding.fault for finding in judge(played)]


def test_true_statements_are_not_accused() -> None:
    assert judge(a_host()) == []


def test_the_times_of_an_outage_are_those_of_its_notifications() -> None:
    record = a_host().records[0]
    assert (record.detection_s, record.naming_s, record.recovery_s) == (8.0, 8.0, 15.0)


def test_what_was_said_before_an_outage_does_not_count_for_it() -> None:
    notice = a_notice("declared", 1008.0, "P1 INCIDENT DECLARED: nginx: nothing answers")
    not_yet = Record(PLANS[0], BY_NAME["nginx-stopped"], 2)
    sort_notices(not_yet, [notice])
    later = Record(PLANS[0], BY_NAME["nginx-stopped"], 2, caused=1010.0)
    sort_notices(later, [notice])
    assert not_yet.detected is later.detected is not_yet.noticed is None


def test_a_recovery_while_the_service_still_fails_is_untrue() -> None:
    assert faults(a_host(a_notice("resolved", 1030.0, "INCIDENT RESOLVED: nginx"))) == ["untrue"]


def test_a_recovery_while_only_the_way_through_another_service_fails_is_true() -> None:
    """redis was started again; the cart, which is asked for through nginx, still hangs."""
    outages = BY_NAME["redis-stopped"], BY_NAME["nginx-hangs"]
    redis = own_checks(outages[0], outages[1:])
    assert redis == ("redis", "shop-api")
    assert own_checks(outages[1], outages[:1]) == ("nginx",)
    said = a_notice("resolved", 1030.0, "INCIDENT RESOLVED: redis", incident="other")
    played = a_host(said)
    record = Record(PLANS[0], outages[0], 2, redis, caused=CAUSED, ended=1020.0, fine=FINE)
    record.incidents.add("other")
    played.records.append(record)
    assert not [f for f in judge(played) if "still failed" in f.text]
    record.checks = record.outage.checks
    for second in range(1000, 1060):
        played.observer.samples["cart"][second - 900] = Sample(second, second + 0.1, "timed out")
    assert [f.fault for f in judge(played) if "still failed" in f.text] == ["untrue"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("RECOVERED: 110 lines a minute of shop-api.log\nalso failed: nginx", []),
        ("RECOVERED: nginx\nresolved by probe disk-var-log-nginx", ["untrue"]),
        ("RECOVERED: 100 percent of /var/log/nginx are in use", ["untrue"]),
    ],
)
def test_only_who_speaks_of_the_disk_says_that_it_has_space_again(
    words: str, expected: list[str]
) -> None:
    title, _, text = words.partition("\n")
    played = a_host(a_notice("recovered", 1030.0, title, text, incident="other"))
    full = Record(PLANS[0], BY_NAME["nginx-disk-full"], 1, caused=CAUSED, ended=1059.0, fine=FINE)
    full.incidents.add("other")
    played.records.append(full)
    for second in range(1000, 1060):
        disk = played.observer.samples["disk:/var/log/nginx"]
        disk[second - 900] = Sample(second, second + 0.1, "0 kB free")
    found = [f.fault for f in judge(played) if "nginx-disk-full still failed" in f.text]
    assert found == expected


def test_a_duration_spans_a_later_outage_that_harms_the_same_service() -> None:
    """nginx was fine for ten seconds only, which is no recovery."""
    played = a_host(duration="150 s")
    assert [f.fault for f in judge(played) if "duration" in f.text] == ["untrue"]
    later = Record(PLANS[0], BY_NAME["nginx-hangs"], 1, caused=1070.0, ended=1150.0, fine=1150.0)
    played.records.append(later)
    assert not [f for f in judge(played) if "duration" in f.text]


def test_health_is_not_blamed_for_an_outage_that_ended_while_it_looked() -> None:
    played = a_host()
    played.views[0].health, played.views[0].health_code = {"probes": []}, 0
    played.views[0].until = FINE + 5
    assert judge(played) == []


FIRST, OTHER, WRONG = b"127.0.0.1 localhost db.internal\n", b"10.0.0.5 mirror\n", b"127.0.0.66 db\n"
HOSTS = {
    "before": FIRST + OTHER,
    "broken": b"127.0.0.1 localhost\n" + OTHER + WRONG,
    "one line put back": FIRST + OTHER + WRONG,
    "another line removed": FIRST + WRONG,
    "a line added": FIRST + OTHER + b"127.0.0.2 db\n",
}


@pytest.mark.parametrize(
    ("left", "found"),
    [
        ("before", []),
        ("broken", []),
        ("one line put back", []),
        ("another line removed", ["/etc/hosts"]),
        ("a line added", ["/etc/hosts"]),
    ],
)
def test_a_file_of_which_only_the_cause_was_put_back_is_no_collateral(
    left: str, found: list[str]
) -> None:
    states = {name: {"/etc/hosts": FileState("100644 0", text)} for name, text in HOSTS.items()}
    assert [*find_collateral(states["before"], states["broken"], states[left])] == found


def test_a_new_file_another_mode_and_a_removed_file_are_collateral() -> None:
    before = {"/srv/a": FileState("100644 0", b"1\n")}
    left = {"/srv/a": FileState("100600 0", b"1\n"), "/srv/b": FileState("100644 0", b"2\n")}
    assert [*find_collateral(before, before, left)] == ["/srv/a", "/srv/b"]
    assert [*find_collateral(before, before, {})] == ["/srv/a"]


def test_a_model_where_there_is_none_is_untrue() -> None:
    said = a_notice("escalated", 1012.0, "INCIDENT ESCALATED: nginx", "answered by a model")
    assert faults(a_host(said)) == ["untrue"]


def test_a_root_cause_that_was_not_found_is_untrue() -> None:
    said = a_notice(
        "escalated", 1012.0, "INCIDENT ESCALATED: nginx", "root cause: nginx · bad luck"
    )
    assert faults(a_host(said)) == ["untrue"]


def test_saying_that_no_root_cause_was_found_is_true() -> None:
    said = a_notice("escalated", 1012.0, "INCIDENT ESCALATED: nginx", "root cause: not found")
    assert judge(a_host(said)) == []


def test_a_duration_of_the_work_in_place_of_the_outage_is_untrue() -> None:
    assert faults(a_host(duration="6.4 s")) == ["untrue"]


def test_the_parts_of_a_duration_are_not_added_to_it() -> None:
    assert not faults(a_host(duration="58 s (MTTD 7 s, MTTR 51 s)"))
    assert faults(a_host(duration="2 min 58 s (MTTD 7 s, MTTR 51 s)")) == ["untrue"]


def test_a_duration_counts_from_the_outage_during_which_the_incident_was_opened() -> None:
    """It names only the second outage, which began 37 s after the end of the first."""
    played = a_host(duration="150 s")
    second = Record(PLANS[0], BY_NAME["redis-stopped"], 1, caused=1097.0, ended=1149.0, fine=1150.0)
    second.incidents.add(INCIDENT)
    played.records[0].incidents.clear()
    played.records.append(second)
    assert not [f for f in judge(played) if "duration" in f.text]
    played.reports[INCIDENT] = "- Duration: 15 min\n"
    assert [f.fault for f in judge(played) if "duration" in f.text] == ["untrue"]


def test_health_that_shows_nothing_during_an_outage_is_untrue() -> None:
    played = a_host()
    played.views[0].health, played.views[0].health_code = {"probes": []}, 0
    assert faults(played) == ["untrue"]


def test_an_open_list_without_the_outage_is_untrue() -> None:
    played = a_host()
    played.views[0].open_incidents = []
    assert faults(played) == ["untrue"]


def test_an_incident_about_a_service_that_was_fine_is_untrue() -> None:
    played = a_host()
    redis = dict(played.shows[INCIDENT], incident="other", service="redis", title="redis is gone")
    played.incidents.append(redis)
    played.shows["other"] = redis
    played.stats = {"incidents": 2, "severity": {"P1": 2}}
    played.notices.append(a_notice("declared", 1007.5, "redis is gone", incident="other"))
    assert faults(played) == ["untrue"]


def test_a_notification_that_comes_twice_must_be_marked() -> None:
    first = a_host().notices[0]
    assert set(faults(a_host(first))) == {"duplicate"}


def test_a_repeated_notification_that_is_marked_is_no_duplicate() -> None:
    again = a_notice("declared", 1008.0, "nginx: nothing answers (repeated)", repeated=True)
    assert judge(a_host(again)) == []


def test_a_new_part_of_an_incident_is_no_duplicate() -> None:
    assert judge(a_host(a_notice("declared", 1020.0, "P1 ALSO FAILING: nginx", "tls-443"))) == []


def test_the_same_words_under_another_id_are_a_duplicate() -> None:
    again = a_notice("declared", 1020.0, "P1 INCIDENT DECLARED: nginx: nothing answers")
    assert faults(a_host(again)) == ["duplicate"]


def test_an_incident_without_a_notification_is_lost() -> None:
    played = a_host()
    played.notices.clear()
    assert faults(played) == ["lost"]


def test_a_notification_about_an_incident_that_is_not_kept_is_a_loss() -> None:
    assert faults(a_host(a_notice("declared", 1009.0, "nginx", incident="gone"))) == ["lost"]


def test_counts_that_disagree_are_a_contradiction() -> None:
    played = a_host()
    played.stats = {"incidents": 2, "severity": {"P1": 1}}
    assert faults(played) == ["contradiction"]


def test_a_watch_that_ended_without_being_killed_is_a_finding() -> None:
    played = a_host()
    played.deaths.append("the watch ended with exit code 6")
    assert faults(played) == ["ended"]


def test_durations_are_read_in_all_their_units() -> None:
    assert seconds_of("1 min 1 s") == 61
    assert seconds_of("2 h 3 min") == 7380
    assert seconds_of("6.4 s") == 6.4
    assert seconds_of("unknown") is None


def test_an_escalation_of_an_older_incident_does_not_report_a_new_outage() -> None:
    caused = datetime(2026, 3, 6, 3, 16, tzinfo=UTC).timestamp()
    record = Record(PLANS[0], BY_NAME["shop-api-bad-config"], 1, caused=caused)
    title = "box-07: 168.8 lines a minute of /var/log/shop/shop-api.log are about trouble"
    sort_notices(record, [a_notice("escalated", caused + 1, title)])
    assert record.named is record.detected is None and not record.incidents
    sort_notices(record, [a_notice("declared", caused + 9, "P1 ALSO FAILING: shop-api")])
    assert record.naming_s == 9.0


def busy_since_before_the_outage(share: float) -> Played:
    title = "P1 INCIDENT DECLARED: box-01: 100.0 percent of the processors are busy"
    since = iso(930.0)[:19].replace("T", " ")
    played = a_host(a_notice("declared", 1010.0, title, f"since: {since} UTC"))
    played.pressure.samples = [(at, at * share, 3.0) for at in range(900, 1150)]
    return played


def test_processors_that_the_bench_itself_saw_busy_are_truly_busy() -> None:
    assert judge(busy_since_before_the_outage(0.9)) == []


def test_processors_that_were_idle_were_not_busy_before_the_outage() -> None:
    assert faults(busy_since_before_the_outage(0.1)) == ["untrue"]


def test_a_list_that_says_that_the_home_cannot_be_written_names_that_outage() -> None:
    played = a_host()
    home = Record(PLANS[0], BY_NAME["home-read-only"], 1, caused=CAUSED, fine=FINE)
    home.detected = played.notices[0]
    view = played.views[0]
    view.records = [home]
    said = "incident list --open lacks home-read-only, which still failed"
    assert said in [finding.text for finding in judge(played)]
    view.warning = "hermes: the home directory cannot be written: what has happened is shown"
    assert said not in [finding.text for finding in judge(played)]
    view.records, view.open_incidents = [played.records[0]], []
    assert "untrue" in faults(played), "the warning excuses nothing else"


def test_an_outage_is_resolved_by_the_playbook_that_changed_something_before_its_end() -> None:
    played = a_host()
    record = played.records[0]
    assert change_before(played, record) == ""
    change = {"command": "supervisorctl start nginx", "by": "ended", "changed": True}
    played.shows[INCIDENT] = {"changes": [change | {"at": iso(CAUSED + 40)}]}
    assert change_before(played, record) == "ended"
    played.shows[INCIDENT] = {"changes": [change | {"at": iso(END)}]}
    assert change_before(played, record) == ""


def test_all_is_fine_since_the_last_failure_of_any_check() -> None:
    truth = a_host().observer
    assert truth.fine_since(("nginx", "tls")) == FINE
    truth.samples["tls"].append(Sample(1150.0, 1150.1, "refused"))
    assert truth.fine_since(("nginx", "tls")) == 0.0
