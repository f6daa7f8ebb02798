"""What people are owed: composed from the journal and the clock, once, whoever composes."""

from datetime import datetime, timedelta

import pytest
from recorded_incident import BEGAN, RUN, IncidentRecorder, resolved

from hermes.core.channels import parse_press
from hermes.core.events import Event
from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import (
    AlertsJoined,
    EscalationLine,
    IncidentAcknowledged,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    JoinedPart,
    ReportWritten,
)
from hermes.core.events.jobs import JobEnded, ScheduleInterrupted
from hermes.core.events.operations import HealthMissed, NotificationQueued
from hermes.core.events.runs import RunStarted
from hermes.core.events.tools import ToolRequested
from hermes.core.messages import ToolCall
from hermes.core.notifications import SinkFilter
from hermes.core.protocols import JournalRecord
from hermes.sre.notifications.composer import NotificationComposer
from hermes.sre.notifications.notification_state import NotificationState
from hermes.sre.settings import NoticeSettings

QUIET = NoticeSettings(briefing="")
SINKS = (
    SinkFilter(sink="terminal"),
    SinkFilter(sink="phone", severity="P2"),
    SinkFilter(sink="boss", severity="P0", about=("declared", "resolved")),
)


class Teller:
    """Hears events as a watch would and keeps what it composes in the same journal."""

    def __init__(self, settings: NoticeSettings = QUIET) -> None:
        self.ledger, self.composer = NotificationState(), NotificationComposer(settings, SINKS)
        self.told: list[NotificationQueued] = []
        self.seq = 0

    def hear(self, *events: Event) -> None:
        for event in events:
            self.seq += 1
            self.ledger.apply(JournalRecord(self.seq, event))
            self.look(event.at)

    def look(self, now: datetime) -> list[NotificationQueued]:
        found = self.composer.compose(self.ledger, now)
        for notice in found:
            self.seq += 1
            self.ledger.apply(JournalRecord(self.seq, notice))
        self.told += found
        return found

    @property
    def titles(self) -> list[str]:
        return [notice.title for notice in self.told]


def opened(number: int, severity: str = "P2", at: datetime = BEGAN) -> IncidentOpened:
    name = f"incident-{number}"
    return IncidentOpened(
        run=name, incident=name, at=at, title=f"trouble {number}", severity=severity,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "now"),
    [
        ("play-look-1", "checking playbooks"),
        ("assess-1", "assessing the host"),
        ("call-1", "asked for: # a script"),
    ],
)
def test_an_update_shows_no_script_of_ours(call: str, now: str) -> None:
    teller = Teller()
    command = {"command": "# a script\nunits=$(systemctl list-units)"}
    asked = ToolRequested(run="incident-1", at=BEGAN, call=ToolCall(call, "terminal", command))
    teller.hear(opened(1), asked)
    (update,) = teller.look(BEGAN + timedelta(seconds=61))
    assert f"now: {now}" in update.text


def test_a_whole_incident_is_declared_and_resolved_with_what_people_need_to_know() -> None:
    teller, recorder = Teller(), resolved()
    recorder.add(
        ReportWritten(run=RUN, incident=RUN, at=recorder.at(), text="…", path="incidents/r.md")
    )
    recorder.closed()
    teller.hear(*recorder.events)

    first, last = teller.told[0], teller.told[-1]
    assert first.title == "🚨 P1 INCIDENT DECLARED: disk of web-1 is full"
    assert "impact: 1 of 2 services answers with errors" in first.text
    assert first.at - recorder.events[1].at < timedelta(seconds=60)
    assert last.title == "✅ INCIDENT RESOLVED: disk of web-1 is full"
    for part in (
        "root cause: /var/log/web/debug.log",
        "(MTTD 42 s, MTTR 30 s)",
        "duration: ",
        "incidents/r.md",
    ):
        assert part in last.text
    assert {notice.incident for notice in teller.told} == {RUN}
    assert len({notice.notice for notice in teller.told}) == len(teller.told) == 2


def test_what_was_composed_is_not_composed_again_after_a_crash_or_by_a_second_watch() -> None:
    first, recorder = Teller(), resolved()
    first.hear(*recorder.events)
    first.look(recorder.now + timedelta(seconds=90))
    second = Teller()
    for at, event in enumerate((*recorder.events, *first.told), start=1):
        second.ledger.apply(JournalRecord(at, event))
    assert second.look(recorder.now + timedelta(seconds=91)) == []

    alone = Teller()
    alone.hear(*recorder.events)
    assert [each.notice for each in alone.told] == [each.notice for each in first.told[:1]]


def test_an_incident_that_was_opened_just_before_the_kill_is_declared_by_the_next_watch() -> None:
    teller, recorder = Teller(), IncidentRecorder()
    recorder.opened()
    for at, event in enumerate(recorder.events, start=1):
        teller.ledger.apply(JournalRecord(at, event))
    assert teller.look(recorder.now + timedelta(hours=5))[0].about == "declared"


def test_history_from_before_there_were_notices_is_left_alone() -> None:
    teller, recorder = Teller(), resolved()
    recorder.closed()
    for at, event in enumerate(recorder.events, start=1):
        teller.ledger.apply(JournalRecord(at, event))
    assert teller.look(recorder.now + timedelta(days=2)) == []


def test_each_minute_says_how_far_it_is_and_a_missed_minute_is_not_made_up_for() -> None:
    teller, recorder = Teller(), IncidentRecorder()
    recorder.opened()
    recorder.phase("remediate", attempt=2)
    recorder.ran("c1", "systemctl restart web", undo="", attempt=2)
    teller.hear(*recorder.events)
    start = recorder.events[1].at
    for seconds in range(200):
        teller.look(start + timedelta(seconds=seconds))
    teller.look(start + timedelta(minutes=9, seconds=5))
    updates = [notice for notice in teller.told if notice.about == "update"]
    assert [notice.notice.rsplit(":", 1)[1] for notice in updates] == ["1", "2", "3", "9"]
    assert "remediate, attempt 2" in updates[0].text
    assert "systemctl restart web" in updates[0].text
    first = updates[0].notice
    assert [notice.edits for notice in updates] == ["", first, first, first]


def test_an_incident_can_be_acknowledged_and_muted_by_a_press() -> None:
    teller, recorder = Teller(), IncidentRecorder()
    recorder.opened()
    teller.hear(*recorder.events)
    (declared,) = teller.told
    pressed = [parse_press(button.data) for row in declared.buttons for button in row]
    assert pressed == [(verb, declared.incident) for verb in ("ack", "status", "mute", "report")]


def test_p3s_wake_nobody() -> None:
    teller = Teller()
    teller.hear(opened(1, "P3"))
    teller.look(BEGAN + timedelta(seconds=61))
    assert {notice.sinks for notice in teller.told} == {("terminal",)}
    teller.hear(
        IncidentGraded(
            run="incident-1", incident="incident-1", at=BEGAN + timedelta(seconds=70),
            severity="P0", before="P3", reason="everything is down",
        )
    )  # fmt: skip
    assert teller.told[-1].sinks == ("terminal", "phone", "boss")
    assert teller.titles[-1] == "🚨 P0 INCIDENT DECLARED: trouble 1"
    assert "was: P3" in teller.told[-1].text


def test_a_higher_severity_after_the_escalation_is_told() -> None:
    teller, recorder = Teller(), IncidentRecorder()
    recorder.opened("nginx: the certificate ends in 3 days", severity="P3")
    recorder.closed("escalated", "nobody")
    teller.hear(*recorder.events)
    graded = IncidentGraded(
        run=RUN, incident=RUN, at=recorder.at(), severity="P1", before="P3", reason="nginx is down"
    )
    teller.hear(graded)
    teller.look(recorder.at())
    assert [each.split(":")[0] for each in teller.titles] == [
        "🚨 P3 INCIDENT DECLARED", "📣 INCIDENT ESCALATED", "🚨 P1 INCIDENT DECLARED"
    ]  # fmt: skip
    assert "nginx is down" in teller.told[-1].text and "was: P3" in teller.told[-1].text


@pytest.mark.parametrize(
    ("purpose", "sentence"),
    [
        (
            "put back file /etc/web.conf (line 3) for web",
            "put back file /etc/web.conf (line 3) for web",
        ),
        ("", "start, stop or restart a service and change files or data to fix web"),
    ],
)
def test_the_title_of_a_question_is_a_sentence_and_no_command(purpose: str, sentence: str) -> None:
    teller, recorder = Teller(), IncidentRecorder()
    recorder.opened()
    command = "umask 077; printf '%s' 'bGlzdGVu' | base64 -d > /etc/web.conf && sv restart web"
    effects = ("write", "service-change")
    teller.hear(
        *recorder.events,
        ApprovalRequested(
            run=RUN, at=recorder.at(), approval="ask-1", call_id="c", tool="terminal",
            shown=command, effects=effects, purpose=purpose,
        ),
        ActionAnnounced(
            run=RUN, at=recorder.at(), approval="ask-2", call_id="d", seconds=30,
            shown=command, effects=effects, purpose=purpose,
        ),
    )  # fmt: skip
    assert teller.titles[1:] == [
        f"❓ APPROVAL NEEDED: {sentence}",
        f"⏱ IN 30 s UNLESS STOPPED: {sentence}",
    ]
    assert all(each.text.splitlines()[-1] == f"command: {command}" for each in teller.told[1:])


def test_an_approval_is_asked_for_with_the_command_that_answers_it() -> None:
    teller, recorder = Teller(), IncidentRecorder()
    recorder.opened()
    asked = ApprovalRequested(
        run=f"{RUN}/fixer", at=recorder.at(), approval="ask-1", call_id="c", tool="terminal",
        shown="systemctl restart web", undo="systemctl start web", reason="it stops a service",
    )  # fmt: skip
    announced = ActionAnnounced(
        run=RUN, at=recorder.at(), call_id="d", shown="reload nginx", seconds=30, approval="ask-2"
    )
    elsewhere = ApprovalRequested(
        run="chat-1", at=recorder.at(), approval="ask-3", call_id="c", tool="t", shown="x"
    )
    diagnosed = IncidentDiagnosed(
        run=RUN, at=recorder.at(), incident=RUN, component="web", mechanism="/etc/web.conf, line 3"
    )
    teller.hear(*recorder.events, diagnosed, asked, announced, elsewhere)
    assert [notice.about for notice in teller.told[1:]] == ["approval-needed"] * 2
    assert "web · /etc/web.conf, line 3" in teller.told[1].text
    assert "hermes approvals approve ask-1" in teller.told[1].text
    assert "hermes approvals stop ask-2" in teller.told[2].text
    assert "hermes approvals approve ask-2" in teller.told[2].text
    assert teller.told[1].text.splitlines()[-1] == "command: systemctl restart web"
    settled = ApprovalSettled(run=RUN, at=recorder.at(), approval="ask-1", outcome="approved")
    teller.hear(settled)
    assert len(teller.told) == 3


def test_an_escalation_hands_over_everything_that_was_found() -> None:
    teller, recorder = Teller(), resolved()
    recorder.closed("escalated", "model", reason="3 attempts did not hold")
    teller.hear(*recorder.events)
    last = teller.told[-1]
    assert last.about == "escalated"
    for part in (
        "3 attempts did not hold",
        "excluded by the model: a leak of deleted files",
        "not checked or not known: who switched it on is not known",
        "tried: systemctl restart web (undone)",
        "failing: web answers",
    ):
        assert part in last.text


def test_the_facts_of_an_escalation_fit_on_one_screen_and_its_commands_are_whole() -> None:
    teller, recorder = Teller(), resolved()
    facts = [
        EscalationLine(about=about, text=f"{about} {number} " + "long words " * 30)
        for about in ("process", "configuration", "error", "port", "disk", "change", "unchecked")
        for number in range(9)
    ]
    commands = [EscalationLine(about="command", text=f"tail -n {n} /var/log/x") for n in range(3)]
    twice = EscalationLine(about="process", text="no process runs")
    recorder.diagnosed(verdict="escalate", escalation=(twice, twice, *facts, *commands))
    recorder.closed("escalated", "nobody", reason="no playbook matched")
    teller.hear(*recorder.events)
    lines = teller.told[-1].text.splitlines()
    assert len(lines) <= 23 and max(map(len, lines)) <= 100
    assert lines.count("process: no process runs") == 1
    assert [f"try {n + 1}: tail -n {n} /var/log/x" in lines for n in range(3)] == [True] * 3
    assert lines[0].startswith("failing for: ") and lines[-1].startswith("report: ")


def test_one_that_is_opened_again_is_told_again_and_so_is_its_second_end() -> None:
    teller, recorder = Teller(), resolved()
    recorder.closed()
    recorder.add(
        IncidentReopened(run=RUN, incident=RUN, at=recorder.at(), by="ann", reason="it is back")
    )
    recorder.closed("recovered", "nobody")
    teller.hear(*recorder.events)
    assert [title.split(":")[0] for title in teller.titles] == [
        "🚨 P1 INCIDENT DECLARED",
        "✅ INCIDENT RESOLVED",
        "🚨 P1 INCIDENT REOPENED",
        "✅ RECOVERED",
    ]


def test_a_storm_of_incidents_is_told_in_a_few_notices_and_the_gravest_at_once() -> None:
    teller = Teller()
    for number in range(300):
        teller.hear(opened(number, at=BEGAN + timedelta(seconds=number / 30)))
    teller.hear(opened(999, "P0", at=BEGAN + timedelta(seconds=11)))
    assert "🚨 P0 INCIDENT DECLARED: trouble 999" in teller.titles
    for seconds in range(11, 59):
        teller.look(BEGAN + timedelta(seconds=seconds))
    assert len(teller.told) <= 14
    covered = {id for notice in teller.told for id in (notice.notice, *notice.covers)}
    assert len([id for id in covered if ":declared:" in id and not id.startswith("storm")]) == 301
    before = len(teller.told)
    teller.look(BEGAN + timedelta(seconds=75))
    assert [each.title for each in teller.told[before:]] == ["⏳ 301 incidents are open"]


def test_a_new_outage_is_reported_within_seconds_however_many_notices_there_were() -> None:
    teller = Teller()
    for number in range(12):
        teller.hear(opened(number))
    teller.look(BEGAN + timedelta(seconds=6))
    late = BEGAN + timedelta(seconds=10)
    teller.hear(opened(99, "P1", late))
    told = teller.look(late + timedelta(seconds=5))
    assert "🚨 P1 INCIDENT DECLARED: trouble 99" in [notice.title for notice in told]


def test_talk_and_webhooks_hold_back_nothing_about_incidents() -> None:
    teller = Teller()
    teller.hear(opened(1, "P1"))
    later = BEGAN + timedelta(seconds=40)
    for number in range(15):
        kind = ("reply", "question", "result")[number % 3]
        other = NotificationQueued(run="chat", at=later, notice=f"{number}", about=kind, title="")  # type: ignore[arg-type]
        teller.hear(other)
    teller.look(BEGAN + timedelta(seconds=61))
    assert [notice.about for notice in teller.told] == ["declared", "update"]


def test_an_acknowledgement_is_told_to_the_others_and_is_not_the_message_that_shows_progress() -> (
    None
):
    teller = Teller()
    teller.hear(opened(1, "P1"))
    later = BEGAN + timedelta(seconds=40)
    teller.hear(IncidentAcknowledged(run="incident-1", incident="incident-1", by="alice", at=later))
    assert teller.titles[1:] == ["👀 P1 ACKNOWLEDGED by alice: trouble 1"]
    first, second = (teller.look(BEGAN + timedelta(seconds=each))[0] for each in (61, 121))
    assert (first.edits, second.edits) == ("", first.notice)
    again = Teller()
    again.hear(opened(1, "P1"), *teller.told)
    assert not any("ACKNOWLEDGED" in title for title in again.titles)


def test_one_notice_that_was_held_back_is_sent_as_it_is() -> None:
    teller = Teller(NoticeSettings(briefing="", most=1))
    teller.hear(opened(1), opened(2))
    (notice,) = teller.look(BEGAN + timedelta(seconds=6))
    assert notice.title.endswith("INCIDENT DECLARED: trouble 2")


def test_drills_are_nobodys_business() -> None:
    teller = Teller()
    teller.hear(RunStarted(run="incident-7", at=BEGAN, origin="gym"), opened(7))
    drill = IncidentOpened(run="drill-1", incident="incident-8", at=BEGAN, title="x", severity="P0")
    teller.hear(drill)
    assert teller.told == []


def test_missed_health_rounds_are_told_once() -> None:
    teller = Teller()
    teller.hear(HealthMissed(run="watch", at=BEGAN, rounds=3, since=BEGAN, why="it slept"))
    teller.look(BEGAN + timedelta(seconds=9))
    assert teller.titles == ["💤 3 health rounds were missed"]


def ended(job: str, outcome: str = "ran") -> JobEnded:
    return JobEnded(
        run="schedule",
        at=BEGAN,
        job=job,
        occurrence=f"{job}@2026-03-06T08:00:00Z",
        due=BEGAN,
        outcome=outcome,  # type: ignore[arg-type]
        text="📋 BRIEFING 2026-03-06: 1 incidents, 1 open\nopen: P1 web",
    )


def test_the_briefing_of_the_scheduler_is_told_once() -> None:
    teller = Teller(NoticeSettings(update=0))
    teller.hear(ended("briefing"), ended("briefing"), ended("audit"), ended("review", "nothing"))
    teller.look(BEGAN + timedelta(seconds=9))
    assert teller.titles == ["📋 BRIEFING 2026-03-06: 1 incidents, 1 open"]
    assert teller.told[0].about == "briefing"
    teller.look(BEGAN + timedelta(hours=26))  # there is no other clock
    assert len(teller.told) == 1


def test_missed_due_times_of_jobs_are_told_once_and_together() -> None:
    teller = Teller()
    teller.hear(
        ScheduleInterrupted(
            run="schedule", at=BEGAN, jobs=("backups", "disk"), count=7, since=BEGAN, reason="off"
        )
    )
    assert teller.titles == ["💤 7 due times were missed"]
    assert "backups, disk" in teller.told[0].text


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "x\nTitle: y\r\nPriority: 5", "‮evil"])
def test_hostile_titles_stay_one_line_of_words(text: str) -> None:
    teller, recorder = Teller(), IncidentRecorder()
    recorder.opened(text * 50)
    teller.hear(*recorder.events)
    title = teller.titles[0]
    assert title.isprintable()
    assert len(title) < 200


def joined(at: datetime, *names: str, severity: str = "P1") -> AlertsJoined:
    parts = tuple(
        JoinedPart(fingerprint=name, name=name, title=f"{name}: no answer", severity=severity)  # type: ignore[arg-type]
        for name in names
    )
    return AlertsJoined(
        run="incident-1", incident="incident-1", at=at, count=len(names), parts=parts,
        fingerprints=names, why="the same host, h, within 60 s",
    )  # fmt: skip


def test_a_service_that_joins_an_incident_is_reported_by_name_to_those_whom_it_concerns() -> None:
    teller = Teller()
    teller.hear(opened(1, "P3"), joined(BEGAN + timedelta(seconds=20), "nginx"))
    last = teller.told[-1]
    assert last.title == "🚨 P1 ALSO FAILING: nginx"
    assert last.sinks == ("terminal", "phone"), "the incident itself was a P3"
    for part in ("P1 nginx: nginx: no answer", "incident-1: trouble 1", "the same host, h"):
        assert part in last.text
    count = len(teller.told)
    teller.hear(joined(BEGAN + timedelta(seconds=21)))
    assert len(teller.told) == count, "the same service again is no news"


def test_a_part_that_joined_just_before_the_kill_is_reported_by_the_next_watch() -> None:
    first, second = Teller(), Teller()
    events = [opened(1), joined(BEGAN + timedelta(seconds=20), "nginx", "mail")]
    for at, event in enumerate(events, start=1):
        first.ledger.apply(JournalRecord(at, event))
    told = first.look(BEGAN + timedelta(seconds=30))
    assert [each.title for each in told][-1] == "🚨 P1 ALSO FAILING: nginx, mail"
    for at, event in enumerate([*events, *told], start=1):
        second.ledger.apply(JournalRecord(at, event))
    assert second.look(BEGAN + timedelta(seconds=31)) == []


def test_forty_services_that_join_at_once_are_all_named() -> None:
    teller = Teller()
    names = [f"service-{number}" for number in range(40)]
    teller.hear(opened(1), joined(BEGAN + timedelta(seconds=20), *names))
    assert all(name in teller.told[-1].text for name in names)


def test_the_recovery_of_an_escalated_incident_is_reported_with_the_length_of_the_outage() -> None:
    teller, recorder = Teller(), IncidentRecorder()
    recorder.opened()
    recorder.closed("escalated", "nobody", reason="no playbook matched")
    teller.hear(*recorder.events)
    assert teller.told[-1].about == "escalated" and "failing for: 43 s" in teller.told[-1].text
    recorder.now += timedelta(hours=3)
    recovered = IncidentRecovered(
        run=RUN, incident=RUN, at=recorder.now + timedelta(seconds=30), recovered_at=recorder.now,
        how="resolved by probe disk; no failure for 30 s",
    )  # fmt: skip
    teller.hear(recovered)
    last = teller.told[-1]
    assert last.about == "resolved" and last.title == "✅ RECOVERED: disk of web-1 is full"
    for part in (
        "duration: 3 h 0 min (MTTD 42 s, MTTR 3 h 0 min)",
        "by probe disk",
        "escalated to people",
    ):
        assert part in last.text
    count = len(teller.told)
    teller.look(recovered.at + timedelta(seconds=70))
    assert len(teller.told) == count


def test_recoveries_that_an_older_journal_never_wrote_are_not_told_years_later() -> None:
    teller, recorder = Teller(), IncidentRecorder()
    recorder.opened()
    recorder.closed("escalated", "nobody")
    for at, event in enumerate(recorder.events, start=1):
        teller.ledger.apply(JournalRecord(at, event))
    later = recorder.now + timedelta(days=30)
    teller.seq = len(recorder.events)
    teller.hear(IncidentRecovered(run=RUN, incident=RUN, at=later, recovered_at=recorder.now))
    assert teller.told == []


def test_a_question_is_asked_once_and_says_how_to_answer() -> None:
    teller, recorder = Teller(), IncidentRecorder()
    facts = (("question", "is this intended?"), ("text", "/data is not mounted any more"))
    recorder.opened("h: /data is not mounted any more", severity="P3", facts=facts)
    teller.hear(*recorder.events)
    for minutes in range(1, 10):
        teller.look(recorder.now + timedelta(minutes=minutes))
    (asked,) = teller.told
    assert asked.title == "❓ P3 is this intended?: h: /data is not mounted any more"
    assert asked.sinks == ("terminal",)
    assert f"hermes incident close {RUN} --as no-incident" in asked.text
