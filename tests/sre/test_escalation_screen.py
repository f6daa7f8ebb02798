"""The screen of an escalation has facts first, each reason once, and no cause that nobody found."""

import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from recorded_incident import BEGAN, RUN, IncidentRecorder

from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested
from hermes.core.events.incidents import (
    ChangesUndone,
    EscalationLine,
    IncidentOpened,
    IncidentReopened,
)
from hermes.core.incident import Incident, IncidentDetails, fold_incidents
from hermes.core.protocols import JournalRecord
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import HostUnit, UnitListing
from hermes.sre.escalation.change_lines import change_lines, changed_files
from hermes.sre.escalation.host_lines import process_lines
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    ScriptOutput,
    parse_outputs,
    script_command,
)
from hermes.sre.escalation.next_commands import next_commands
from hermes.sre.notifications.escalation_text import _fitting, escalation_lines, title_time
from hermes.sre.notifications.templates import render_update, render_updates
from hermes.sre.reports.statements import cause_line, cause_status, find_recurrence

NO_KEY = "there is no key for OpenRouter: set OPENROUTER_API_KEY or run `hermes setup`"
LAYERS = ("processes", "service", "data", "network", "changes")
FACTS = (
    EscalationLine(about="process", text="supervisord: shop has failed; it has ended 24 times"),
    EscalationLine(about="error", text="PermissionError: '/srv/shop/config.json'"),
    EscalationLine(about="file", text="/srv/shop/config.json: owner root, mode -rw-------"),
    EscalationLine(about="port", text="nobody listens at port 8000"),
    EscalationLine(about="change", text="14 s before it failed: owner changed: config.json"),
    EscalationLine(about="command", text="ls -ld /srv/shop/config.json"),
)


def fold(recorder: IncidentRecorder) -> Incident:
    records = [JournalRecord(number, each) for number, each in enumerate(recorder.events, start=1)]
    return fold_incidents(records)[recorder.run]


@pytest.mark.parametrize("title", ["web-1: 99 percent of the processors are busy", "web is down"])
def test_a_value_that_was_measured_minutes_ago_is_shown_with_its_time(title: str) -> None:
    recorder = IncidentRecorder()
    recorder.opened(title)
    recorder.checked("web-8000", ok=False, when="before")
    checked = recorder.now
    recorder.now += timedelta(minutes=5)
    recorder.diagnosed(mechanism="", confidence=0.0, verdict="escalate", escalation=FACTS)
    recorder.closed("escalated", "nobody", reason="nothing helped")
    incident = fold(recorder)
    text = "\n".join(escalation_lines(incident))
    found, opened = incident.diagnosis, incident.details.opened_at
    assert found is not None
    measured = f"its title: as measured at {opened:%H:%M:%S} UTC"
    assert (measured in text) is ("99" in title)
    assert f"(collected at {found.at:%H:%M:%S} UTC)" in text
    assert f"failing: web-8000 (at {checked:%H:%M:%S} UTC)" in text
    update = render_update(incident, "", [], opened + timedelta(minutes=3)).text
    assert (measured in update) is ("99" in title)


def test_one_reason_for_many_gaps_is_given_once_and_facts_stay() -> None:
    recorder = IncidentRecorder()
    recorder.opened("shop: nothing answers at 127.0.0.1:8000", service="shop")
    gaps = tuple(f"{each} was not investigated completely: {NO_KEY}" for each in LAYERS)
    reason = f"the findings were not combined: {NO_KEY}"
    recorder.diagnosed(
        mechanism="", confidence=0.0, verdict="escalate", gaps=(reason, *gaps), escalation=FACTS
    )
    recorder.closed("escalated", "nobody", reason=reason)
    text = "\n".join(escalation_lines(fold(recorder)))
    assert text.count("no key") == 1
    assert all(each.text in text for each in FACTS)


def test_many_gaps_leave_room_for_what_is_known() -> None:
    recorder = IncidentRecorder()
    recorder.opened("shop: nothing answers at 127.0.0.1:8000", service="shop")
    gaps = tuple(
        f"{number} could not be asked: reason {number} " + "x" * 150 for number in range(9)
    )
    recorder.diagnosed(
        mechanism="", confidence=0.0, verdict="escalate", gaps=gaps, escalation=FACTS
    )
    recorder.closed("escalated", "nobody", reason="no playbook matched")
    lines = escalation_lines(fold(recorder))
    assert len(lines) <= 23
    assert all(each.text in "\n".join(lines) for each in FACTS)


@pytest.mark.parametrize(("confidence", "state"), [(0.1, "unknown"), (0.4, "supposed")])
def test_symptoms_that_were_only_listed_are_no_cause(confidence: float, state: str) -> None:
    recorder = IncidentRecorder()
    recorder.opened("box: 99.7 percent of the processors are busy", service="")
    seen = "nginx says: connect() failed (111: Connection refused)"
    recorder.diagnosed(
        1, component="", mechanism=seen, value="", confidence=confidence, verdict="escalate"
    )
    recorder.closed("escalated", "nobody", reason="no playbook matched")
    incident = fold(recorder)
    assert cause_status(incident) == state
    assert (seen in cause_line(incident)[1]) == (state == "supposed")


def test_every_view_counts_the_same_earlier_incidents() -> None:
    """Another fingerprint of the same service and the same kind of probe counts in triage."""
    recorder = IncidentRecorder()
    recorder.opened(
        "nginx: status 404", service="nginx", fingerprint="b", facts=(("kind", "http"),),
        seen_before=1,
    )  # fmt: skip
    earlier, other = (
        IncidentOpened(
            run=name, incident=name, at=BEGAN - timedelta(hours=1), title="nginx: status 502",
            severity="P1", service=service, fingerprint=name, facts=(("kind", "http"),),
        )
        for name, service in (("one", "nginx"), ("two", "shop"))
    )  # fmt: skip
    found = find_recurrence(fold(recorder), [earlier, other])
    assert (found.times, found.before) == (2, ("one",))
    assert fold(recorder).details.seen_before == found.times - 1
    assert RUN not in found.before


def changed_lines(service: str, *rows: str) -> list[str]:
    outputs = [ScriptOutput("changes", "changes", "".join(f"file={row}\n" for row in rows))]
    found = parse_outputs(outputs, {"changes": 1})
    return [each.text for each in change_lines(found, service, datetime.fromtimestamp(2000, UTC))]


def test_the_change_nearest_to_the_outage_is_shown_beside_those_of_the_service() -> None:
    own = [f"{at}\t{at}\troot\t-rw-r--r--\t/etc/apache2/{at}.conf" for at in (1900, 1890)]
    shown = changed_lines("apache2", "1990\t1990\troot\t-rw-r--r--\t/etc/shop/db.env", *own)
    assert "/etc/apache2/1900.conf" in shown[0]
    assert "(10 s before it failed) written: /etc/shop/db.env" in shown[1]
    assert "/etc/apache2/1890.conf" in shown[2]


@pytest.mark.command
def test_many_files_of_a_database_hide_no_setting(tmp_path: Path) -> None:
    for folder in ("etc/shop", "srv/data/files", "srv/pg/base/5"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/shop/db.env").write_text("user=shop\n")
    for number in range(500):
        (tmp_path / f"srv/data/files/{number}").touch()
        (tmp_path / f"srv/pg/base/5/{number}").touch()
    text = script_command("changes", "minutes=60")
    searched = "/etc /opt /srv /usr/local /var/www /var/spool/cron ~root/.ssh"
    assert searched in text
    command = ["bash", "-c", text.replace(searched, str(tmp_path))]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{tmp_path}/etc/shop/db.env\t10\n" in output
    assert output.count("/srv/data/files/") == 8 and "/base/5/" not in output


def test_a_file_that_is_empty_now_is_told_as_such() -> None:
    shown = changed_lines("orders", "1998\t1998\troot\t-rw-r--r--\t/etc/orders/env\t0")
    assert shown == ["00:33:18 (2.0 s before it failed) written: /etc/orders/env "
                     "(owner root, empty now)"]  # fmt: skip
    assert "empty" not in changed_lines("a", "1998\t1998\troot\t-rw-r--r--\t/etc/a/env\t9")[0]


def test_an_update_does_not_say_that_it_still_fails() -> None:
    began = datetime(2026, 3, 6, tzinfo=UTC)
    details = IncidentDetails(incident="i", run="i", title="haproxy: no answer", opened_at=began)
    incident = Incident(details=details, severity="P1", phase="verify")
    now = began + timedelta(seconds=62)
    one = render_update(incident, "", [], now).title
    assert one == "⏳ P1 began 1 min 2 s ago: haproxy: no answer"
    many = render_updates([incident] * 4, now).text
    assert "began 1 min 2 s ago" in many and "failing" not in many


def next_texts(service: str, errors: list[str], changed: list[str], **outputs: str) -> list[str]:
    given = [ScriptOutput(name, name, text) for name, text in outputs.items()]
    found = parse_outputs(given, {name: number for number, name in enumerate(outputs, start=1)})
    unit = HostUnit(name=service, kind="supervisord", state="active")
    found = replace(found, listing=UnitListing(units=(unit,)))
    subject = EscalationSubject(service=service, kind="port")
    supervisors = HostSupervisors(found.listing.units)
    return [each.command for each in next_commands(found, subject, supervisors, errors, changed)]


def test_no_restart_is_proposed_while_redis_cannot_save_its_data() -> None:
    process = "process=88\t1\tS\t0\tsupervisord\tredis-server\tredis-server *:6379\n"
    saves = next_texts("redis", [], [], processes=process)
    fails = next_texts("redis", ["# Background saving error"], [], processes=process)
    assert saves[-1] == "supervisorctl restart redis"
    assert fails and not any("restart" in each for each in fails)


def test_a_changed_environment_file_is_looked_at_first() -> None:
    errors = ["FATAL: sorry, too many clients already", "KeyError: 'DATABASE_URL'"]
    files = "file=1998\t1998\troot\t-rw-r--r--\t/etc/orders/env\t0\n"
    found = parse_outputs([ScriptOutput("changes", "changes", files)], {"changes": 1})
    changed = changed_files(found, "orders", datetime.fromtimestamp(2000, UTC))
    assert next_texts("orders", errors, changed)[0].endswith(" /etc/orders/env")


@pytest.mark.command
def test_sessions_of_a_database_are_counted() -> None:
    titles = [f"postgres: shop8 shop 127.0.0.1({number}) idle" for number in range(40000, 40020)]
    sleeping = [subprocess.Popen(["bash", "-c", f'exec -a "{each}" sleep 60']) for each in titles]
    try:
        for process, title in zip(sleeping, titles, strict=True):
            while title.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                time.sleep(0.01)
        command = ["bash", "-c", script_command("processes", "n=postgres")]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        for process in sleeping:
            process.kill()
            process.wait()
    found = parse_outputs([ScriptOutput("processes", "p", output)], {"p": 1})
    lines = process_lines(found, EscalationSubject(service="postgres", kind="postgres"))
    shown = [each.text for each in lines]
    assert "20 sessions (user, database, client, state): shop8 shop 127.0.0.1 idle 60" in shown


def test_a_reopened_incident_does_not_claim_to_have_failed_throughout() -> None:
    recorder = IncidentRecorder()
    recorder.opened("nginx: status 502", service="nginx")
    recorder.diagnosed(mechanism="", confidence=0.0, verdict="escalate", escalation=FACTS)
    recorder.closed("escalated", "nobody", reason="no playbook matched")
    again = recorder.at() + timedelta(minutes=4)
    recorder.add(IncidentReopened(run=RUN, at=again, incident=RUN, by="triage", title="status 403"))
    recorder.diagnosed(mechanism="", confidence=0.0, verdict="escalate", escalation=FACTS)
    recorder.closed("escalated", "nobody", reason="no playbook matched")
    incident = fold(recorder)
    text = "\n".join(escalation_lines(incident))
    assert "failing for" not in text
    assert f"reopened at {again:%H:%M:%S} UTC, it may have been fine before" in text
    update = render_update(incident, "", [], again + timedelta(minutes=1))
    assert "reopened 1 min" in update.title


def test_an_update_names_what_was_undone_and_what_proceeds_without_an_answer() -> None:
    recorder = IncidentRecorder()
    recorder.opened("shop: shop is not running", service="shop")
    recorder.ran("c1", "chown shop /etc/shop/db.pass", undo="chown root /etc/shop/db.pass")
    now = recorder.at() + timedelta(minutes=1)
    assert "tried" not in render_update(fold(recorder), "", [], now).text
    recorder.add(ChangesUndone(run=RUN, at=now, incident=RUN, calls=("c1",), reason="too late"))
    asked = ApprovalRequested(run=RUN, approval="ask-1", call_id="c2", tool="terminal", shown="x")
    announced = ActionAnnounced(run=RUN, call_id="c3", shown="y", approval="ask-2")
    text = render_update(fold(recorder), "", [asked, announced, announced], now).text
    assert "tried: chown shop /etc/shop/db.pass (undone)" in text
    assert "waits for a person: 1 " in text
    assert "runs unless stopped: 2 " in text


def test_experiments_do_not_crowd_out_why_it_was_escalated() -> None:
    recorder = IncidentRecorder()
    recorder.opened("shop: status 500", service="shop")
    recorder.diagnosed(mechanism="", confidence=0.0, verdict="escalate", escalation=FACTS)
    why = "no playbook matched, and there is no model to ask"
    tried = "the experiments on copies ended without a proof: port-80 fails also without it"
    recorder.closed("escalated", "nobody", reason=f"{why}; {tried}")
    lines = escalation_lines(fold(recorder))
    assert f"why escalated: {why}" in lines
    assert f"experiments: {tried}" in lines


def test_a_text_that_has_no_room_is_left_out_whole() -> None:
    """A text that lacks its end may mislead."""
    assert _fitting([["a"], ["b", "  c"], ["d"]], 2) == ["a"]
    assert _fitting([["a"], ["b", "  c"]], 3) == ["a", "b", "  c"]


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("redis: nothing answers at 127.0.0.1:6379", False),
        ("box-02: nothing answers at 10.0.0.7", False),
        ("web2: /srv/v1 cannot be read", False),
        ("nginx: status 500 from http://127.0.0.1:80/health", True),
        ("box-02: 99.8 percent of the processors are busy", True),
        ("worker: 3 restarts", True),
    ],
)
def test_only_a_measured_value_in_a_title_has_a_time(title: str, shown: bool) -> None:
    details = IncidentDetails(incident="i", run="i", title=title, opened_at=BEGAN)
    _, text = title_time(Incident(details=details), BEGAN + timedelta(minutes=5))
    assert bool(text) == shown
