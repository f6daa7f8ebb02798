"""`hermes incident` over a journal of real events, and what a person says about one."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
from hermes_command import Hermes

from hermes.app.run_locks import RunLocks
from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    IncidentOpened,
    IncidentRecovered,
    JoinedPart,
    ReportWritten,
)
from hermes.memory.journal.sqlite_journal import SqliteJournal

sys.path.insert(0, str(Path(__file__).parent.parent / "sre"))
from recorded_incident import RUN, IncidentRecorder, resolved

OTHER = "incident-20260310-101010-aa11bb"
NOW = datetime.now(UTC)


@pytest.fixture
def filled(hermes: Hermes) -> Hermes:
    """Two incidents, the second of them open, and a drill."""
    first = resolved()
    first.closed()
    second = IncidentRecorder(OTHER, NOW - timedelta(hours=1))
    second.opened("mails wait\x1b[31m", severity="P3", service="mail", fingerprint="mail")
    second.phase("investigate")
    drill = IncidentOpened(
        run="drill-1", incident="incident-20260311-000000-cc22dd", title="a drill", severity="P1"
    )
    write(hermes, *first.events, *second.events, drill)
    return hermes


def write(hermes: Hermes, *events: Event) -> None:
    async def fill() -> None:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            await journal.append(*events)

    hermes.home.mkdir(exist_ok=True)
    anyio.run(fill)


def answer(hermes: Hermes, *words: str) -> Any:
    done = hermes("incident", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [each["incident"] for each in found]


def test_the_newest_comes_first_and_drills_only_when_asked_for(filled: Hermes) -> None:
    assert ids(answer(filled, "list")) == [OTHER, RUN]
    assert len(answer(filled, "list", "--drills")) == 3
    assert ids(answer(filled)) == [OTHER, RUN]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--open"], [OTHER]),
        (["--severity", "P1"], [RUN]),
        (["--severity", "P1", "--severity", "P3"], [OTHER, RUN]),
        (["--service", "mail"], [OTHER]),
        (["--since", "2h"], [OTHER]),
        (["--limit", "1"], [OTHER]),
        (["--limit", "0"], []),
    ],
)
def test_a_listing_is_narrowed(filled: Hermes, words: list[str], found: list[str]) -> None:
    assert ids(answer(filled, "list", *words)) == found


def test_a_listing_says_how_far_the_work_is_and_steers_no_terminal(filled: Hermes) -> None:
    done = filled("incident", "list")
    assert "open, investigate" in done.stdout
    assert "\x1b" not in done.stdout
    assert "resolved" in done.stdout
    assert "no incident matches" in filled("incident", "list", "--service", "nothing").stderr


def test_a_home_without_a_journal_has_no_incidents(hermes: Hermes) -> None:
    assert answer(hermes, "list") == []
    done = hermes("incident", "show", "last")
    assert done.returncode == 1 and "no journal yet" in done.stderr


@pytest.mark.parametrize("name", [RUN, "incident-20260306", "4f2a1c"])
def test_one_is_found_by_its_id_its_beginning_or_its_end(filled: Hermes, name: str) -> None:
    assert answer(filled, "show", name)["incident"] == RUN


def test_last_is_the_newest_that_is_no_drill(filled: Hermes) -> None:
    assert answer(filled, "show")["incident"] == OTHER


def test_a_name_that_fits_several_or_none_is_refused_with_what_to_do(filled: Hermes) -> None:
    several = filled("incident", "show", "incident-2026")
    assert several.returncode == 1 and "give more of it" in several.stderr
    none = filled("incident", "show", "nothing")
    assert none.returncode == 1 and "hermes incident list" in none.stderr


def test_show_has_cause_changes_refusals_and_times(filled: Hermes) -> None:
    told = answer(filled, "show", RUN)
    assert told["diagnosis"]["component"] == "/var/log/web/debug.log"
    assert [each["command"] for each in told["changes"]] == [
        "systemctl restart web",
        "truncate -s 0 /var/log/web/debug.log",
    ]
    assert told["refused"][0]["command"].startswith("rm -rf")
    assert (told["mttd"], told["mtta"], told["outcome"]) == (42.0, 1.0, "resolved")
    shown = filled("incident", "show", RUN).stdout
    assert "✗ before: web answers" in shown and "✓ trigger: web answers" in shown


def test_the_timeline_is_told_in_order(filled: Hermes) -> None:
    moments = answer(filled, "timeline", RUN)
    assert [each["at"] for each in moments] == sorted(each["at"] for each in moments)
    assert any("truncate" in each["text"] for each in moments)
    assert "23:58:02  incident opened as P1" in filled("incident", "timeline", RUN).stdout


def test_the_report_is_made_of_the_journal_and_written_when_asked(filled: Hermes) -> None:
    plain = filled("incident", "report", RUN)
    assert "Outcome: resolved" in plain.stdout and "df -h /var" in plain.stdout
    assert not (filled.home / "incidents").exists()
    kept = answer(filled, "report", RUN, "--write")
    assert (filled.home / kept["path"]).read_text() == kept["text"]
    assert answer(filled, "report", RUN)["text"] == kept["text"]


def test_a_report_that_cannot_be_written_is_an_error_that_says_so(filled: Hermes) -> None:
    (filled.home / "incidents").write_text("in the way")
    done = filled("incident", "report", RUN, "--write")
    assert done.returncode == 1 and "could not be written" in done.stderr
    assert "could not be written" in filled("incident", "report", RUN).stderr


def test_people_take_note_close_and_open_again(filled: Hermes) -> None:
    me = answer(filled, "ack", OTHER)["by"]
    assert answer(filled, "show", OTHER)["acknowledged_by"] == me
    answer(filled, "close", OTHER, "--reason", "a cable\nwas out")
    told = answer(filled, "show", OTHER)
    assert (told["state"], told["answered_by"]) == ("closed", "person")
    assert told["answered_by_name"] == me
    again = filled("incident", "close", OTHER)
    assert again.returncode == 1 and "already over" in again.stderr
    reopened = filled("incident", "reopen", OTHER, "--reason", "it is back")
    assert reopened.returncode == 0 and "no watcher is running" in reopened.stderr
    assert answer(filled, "show", OTHER)["state"] == "open"
    assert filled("incident", "reopen", OTHER).returncode == 1
    assert "closed by" in filled("incident", "timeline", OTHER).stdout


def test_what_people_tell_is_shown_as_a_hint(filled: Hermes) -> None:
    me = answer(filled, "ack", OTHER)["by"]
    said = "the queue of db-2 is full\x1b[31m\npassword=hunter2hunter2"
    told = answer(filled, "tell", OTHER, said)
    assert told == {"incident": OTHER, "by": me, "state": "told"}
    (hint,) = answer(filled, "show", OTHER)["hints"]
    assert (hint["person"], hint["text"].splitlines()[0]) == (me, "the queue of db-2 is full")
    assert "hunter2hunter2" not in hint["text"]
    assert f"{me}: the queue of db-2 is full" in filled("incident", "show", OTHER).stdout
    shown = filled("incident", "timeline", OTHER).stdout
    assert f"hint by {me}, not verified: the queue of db-2 is full" in shown
    report = answer(filled, "report", OTHER)["text"]
    section = report.partition("Hints by people, not verified")[2]
    assert "the queue of db-2 is full" in section
    assert answer(filled, "show", RUN)["hints"] == []
    assert "Hints by people" not in answer(filled, "report", RUN)["text"]
    empty = filled("incident", "tell", OTHER, " \n")
    assert empty.returncode == 1 and "in a few words" in empty.stderr


def test_a_report_is_written_anew_where_a_person_ended_it_later(filled: Hermes) -> None:
    answer(filled, "report", OTHER, "--write")
    answer(filled, "close", OTHER, "--as", "resolved", "--reason", "a cable was out")
    text = answer(filled, "report", OTHER)["text"]
    assert "Outcome: not resolved by checks; closed by a person" in text
    assert "Outcome: resolved" not in text
    assert "resolved, not verified" in filled("incident", "list").stdout


def test_secrets_in_what_a_person_says_are_not_kept(filled: Hermes) -> None:
    secret = "ghp_" + "a1B2" * 9
    answer(filled, "close", OTHER, "--reason", f"used {secret}")
    answer(filled, "open", f"token {secret} leaks")
    assert secret not in filled("journal", "export").stdout


def test_without_a_watcher_a_person_is_told_what_to_do(hermes: Hermes) -> None:
    done = hermes("incident", "open", "the shop shows old prices", "--severity", "P1")
    assert done.returncode == 0
    assert "no watcher is running" in done.stderr and "hermes watch" in done.stderr
    alert = json.loads(hermes("journal", "export").stdout.splitlines()[-1])["event"]
    assert (alert["source"], alert["severity"]) == ("person", "P1")
    assert alert["run"] == "watch"
    empty = hermes("incident", "open", " \n ")
    assert empty.returncode == 2


def test_a_running_watcher_takes_it_up_at_once(hermes: Hermes) -> None:
    hermes.home.mkdir()
    with watcher(hermes):
        told = answer(hermes, "open", "the shop shows old prices", "--service", "shop")
    assert told["incident"] == "incident-of-the-shop" and told["watched"]


@contextmanager
def watcher(hermes: Hermes) -> Iterator[None]:
    """As much of one as is needed: it holds the lock, and opens an incident for an alert."""
    claims = RunLocks(hermes.home / "locks")
    claims.acquire("watch")

    async def watch() -> None:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            with anyio.fail_after(120):
                while True:
                    read_up_to = await journal.last()
                    async for each in journal.read(kinds=("alert.raised",)):
                        assert isinstance(each.event, AlertRaised)
                        name = "incident-of-the-shop"
                        opened = IncidentOpened(
                            run=name, incident=name, title=each.event.title, severity="P2",
                            alerts=(each.seq,),
                        )  # fmt: skip
                        await journal.append(opened)
                        return
                    await journal.changed(read_up_to)

    thread = Thread(target=anyio.run, args=(watch,))
    thread.start()
    try:
        yield
    finally:
        thread.join()
        claims.close()


def test_statistics_count_and_draw(filled: Hermes, tmp_path: Path) -> None:
    told = answer(filled, "stats")
    assert told["incidents"] == 2 and told["open"] == 1
    assert told["repaired_by"]["with skills"]["count"] == 1
    file = tmp_path / "mttr.svg"
    done = filled("incident", "stats", "--svg", str(file))
    assert done.returncode == 0 and file.read_text().startswith("<svg")
    assert "MTTR, with skills" in done.stdout and "█" in done.stdout
    nowhere = filled("incident", "stats", "--svg", str(tmp_path / "no" / "mttr.svg"))
    assert nowhere.returncode == 1 and "cannot write" in nowhere.stderr


def test_the_shell_is_offered_ids(filled: Hermes) -> None:
    words = {
        "_HERMES_COMPLETE": "bash_complete",
        "COMP_WORDS": "hermes incident show ",
        "COMP_CWORD": "3",
    }
    done = filled.process(env=words)
    assert OTHER in done.stdout and "last" in done.stdout


def raised(fingerprint: str, service: str, at: datetime, *, resolved: bool = False) -> AlertRaised:
    return AlertRaised(
        run="watch", at=at, fingerprint=fingerprint, title=f"{service}: no answer", source="probe",
        labels=(("service", service), ("host", "h")), resolved=resolved,
    )  # fmt: skip


def escalated_with_nginx() -> IncidentRecorder:
    """The disk was escalated; nginx joined while it was open, and has recovered since."""
    recorder = IncidentRecorder(OTHER, NOW - timedelta(hours=3))
    recorder.opened()
    recorder.add(raised("n", "nginx", recorder.at()))
    part = JoinedPart(fingerprint="n", name="nginx", title="nginx: no answer", severity="P1")
    recorder.add(
        AlertsJoined(
            run=OTHER, incident=OTHER, at=recorder.at(), count=1, fingerprints=("n",), parts=(part,)
        )
    )
    recorder.closed("escalated", "nobody", reason="no playbook matched")
    recorder.now += timedelta(minutes=10)
    recorder.add(raised("n", "nginx", recorder.at(), resolved=True))
    return recorder


def test_what_was_escalated_and_still_fails_is_listed_as_open(hermes: Hermes) -> None:
    write(hermes, *escalated_with_nginx().events)
    (listed,) = answer(hermes, "list", "--open")
    assert (listed["incident"], listed["state"]) == (OTHER, "escalated")
    assert listed["unresolved"] is True
    assert listed["duration_s"] > 3 * 3600, "it did not end with its escalation"
    assert answer(hermes, "stats")["open"] == 1


def test_show_lists_every_alert_with_its_service_its_state_and_its_times(hermes: Hermes) -> None:
    write(hermes, *escalated_with_nginx().events)
    disk, nginx = answer(hermes, "show", "last")["alert_details"]
    assert (disk["fingerprint"], disk.get("state", "firing")) == ("disk:web-1", "firing")
    assert (nginx["service"], nginx["state"]) == ("nginx", "resolved")
    took = datetime.fromisoformat(nginx["resolved_at"]) - datetime.fromisoformat(nginx["raised_at"])
    assert took.total_seconds() == 603
    shown = hermes("incident", "show", "last").stdout
    assert "✓ resolved: nginx  nginx: no answer" in shown
    assert "✗ firing: no service  disk of web-1 is full" in shown
    assert "so far" in shown


def test_an_incident_that_has_recovered_says_so_everywhere(hermes: Hermes) -> None:
    recorder = escalated_with_nginx()
    over = recorder.now + timedelta(minutes=30)
    recorder.add(
        ReportWritten(run=OTHER, incident=OTHER, at=recorder.at(), text="escalated\n", path="x.md"),
        IncidentRecovered(
            run=OTHER, incident=OTHER, at=over + timedelta(seconds=30), recovered_at=over,
            how="resolved by probe disk; no failure for 30 s",
        ),
    )  # fmt: skip
    write(hermes, *recorder.events)
    assert answer(hermes, "list", "--open") == []
    shown = answer(hermes, "show", "last")
    assert (shown["state"], shown["outcome"]) == ("recovered", "recovered after it was escalated")
    assert shown["duration_s"] == 40 + 5 + 600 + 1 + 1800
    assert datetime.fromisoformat(shown["recovered_at"]) == over
    assert "resolved by probe disk" in hermes("incident", "timeline", "last").stdout
    assert "40 min 46 s" in answer(hermes, "report", "last")["text"]
    told = answer(hermes, "stats")
    assert told["outcome"] == {"recovered": 1}
    assert told["repair"]["count"] == 1
    done = hermes("incident", "close", "last")
    assert done.returncode == 1
    assert "is already over: recovered" in done.stderr
