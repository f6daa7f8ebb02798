"""No view of an incident says anything that the journal does not show.

Random incidents are written to a real journal, every view is rendered by the real command, and each
statement is compared with what the events show.
"""

import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from hermes_command import Hermes
from hypothesis import HealthCheck, given, settings
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent.parent / "sre"))
from incident_facts import Facts, facts_of, same_span
from incident_life import (
    MEASURED,
    MODELS,
    PLAYBOOKS,
    SERVICES,
    SHELL_CODE,
    Life,
    events_of,
    lives,
)

from hermes.cli.incidents.live_state import (
    event_line,
    fold_live_incident,
)
from hermes.cli.incidents.live_view import render_live_view
from hermes.core.events.operations import NotificationQueued
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.notifications.composer import NotificationComposer
from hermes.sre.notifications.escalation_text import MAX_VALUE_AGE_S
from hermes.sre.notifications.notification_state import NotificationState
from hermes.sre.settings import NoticeSettings

NO_MODEL = re.compile(
    r"no model was called|model calls +none|there is no model to ask|\"?models?\"?: \[\]"
)
"""Sentences that say that no model was called."""
MODEL = re.compile(r"\bmodels?\b|\bmdl-\w+", re.IGNORECASE)
NEGATIVE = re.compile(r"(?<![\w.-])-\d+(?:\.\d+)? (?:s|min|h|d|days|percent)\b")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def numbered(events: Sequence[Any]) -> list[JournalRecord]:
    return [JournalRecord(number, event) for number, event in enumerate(events, start=1)]


async def fill(home: Path, events: Sequence[Any]) -> None:
    async with SqliteJournal.open(home / "journal.db") as journal:
        await journal.append(*events)


def said(hermes: Hermes, *words: str, colour: bool = False) -> str:
    done = hermes("incident", *words, env={"FORCE_COLOR": "1"} if colour else {"NO_COLOR": "1"})
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def answer(hermes: Hermes, *words: str) -> Any:
    return json.loads(said(hermes, *words, "--json"))


def without_model(text: str, facts: Facts) -> None:
    """Model mention ⇔ model event; a named model answered in this incident."""
    rest = NO_MODEL.sub("", text)
    if not facts.models:
        assert not MODEL.search(rest), (MODEL.search(rest), text)
    for name in MODELS:
        assert name in facts.models or name not in rest, (name, text)


def only_known_names(text: str, facts: Facts) -> None:
    for service in SERVICES:
        assert service in facts.services or service not in text, (service, text)
    shown = facts.not_matched | facts.unchecked | facts.acted
    for playbook in PLAYBOOKS:
        assert playbook in shown or playbook not in text, (playbook, text)


def section(report: str, heading: str) -> str:
    """The text below a heading; empty when it is not there."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", report, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def field(text: str, name: str) -> str:
    """Of `incident show`, a report or a notice: what stands behind this name."""
    found = re.search(rf"^(?:- )?{re.escape(name)}(?:: | {{2,}})(.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


FACT = re.compile(r"(?:process|error|port|change)-fact-\d+|(?:command|need)-line")


def check_facts(text: str, facts: Facts, *, all_of_them: bool) -> None:
    """Only facts of the last diagnosis are told, each once; a notification may leave some out."""
    known = [each.text.partition(" ")[0] for each in facts.escalation]
    told = FACT.findall(text)
    assert set(told) <= set(known), (told, known)
    assert len(told) == len(set(told)), text
    assert not all_of_them or set(told) == set(known), (told, known)


def check_report(text: str, facts: Facts, now: datetime) -> None:
    without_model(text, facts)
    only_known_names(text, facts)
    assert ("## Root cause" in text) == facts.root_cause, text
    assert ("## What is known" in text) != facts.root_cause, text
    ruled_out = section(text, "Ruled out")
    for playbook in PLAYBOOKS:
        assert (playbook in ruled_out) == (playbook in facts.not_matched), text
        gaps = section(text, "What could not be checked")
        assert (playbook in gaps) == (playbook in facts.unchecked), text
    for claim in ("data", "network", "judge"):
        name = f"excluded-by-{claim}"
        assert (name in ruled_out) == (name in facts.excluded), text
    duration = field(text, "Duration")
    check_parts_of_duration(duration, facts)
    assert same_span(duration.partition(" (")[0], facts.duration(now)), (
        duration,
        facts.duration(now),
    )
    assert duration.endswith("so far") == facts.ongoing
    assert field(text, "Severity").startswith(facts.severity)
    assert re.search(rf"^{facts.alerts} alerts? w", section(text, "Impact"), re.MULTILINE)
    check_times(field(text, "Time to repair (MTTR)"), facts.repair)
    check_outcome(field(text, "Outcome"), facts)
    check_answer(field(text, "Answered by"), facts)
    check_facts(text, facts, all_of_them=False)


def check_parts_of_duration(text: str, facts: Facts) -> None:
    """The times to detect and to repair stand beside the duration where there was a repair."""
    found = re.search(r" \(MTTD (.*), MTTR (.*)\)", text)
    assert bool(found) == (facts.repair is not None and not facts.ongoing), text
    if found and facts.repair is not None and facts.since and facts.opened_at:
        detect = max(0.0, (facts.opened_at - facts.since).total_seconds())
        assert same_span(found[1], detect) and same_span(found[2], facts.repair), text


def check_times(shown: str, seconds: float | None) -> None:
    if seconds is None:
        assert shown.startswith("not defined"), shown
    else:
        assert same_span(shown, seconds), (shown, seconds)


def check_outcome(shown: str, facts: Facts) -> None:
    fixed = facts.held and facts.status in ("open", "resolved", "closed")
    assert (shown == "resolved") == fixed, (shown, facts)
    assert (shown == "escalated") == (
        facts.status == "escalated"
        or (
            facts.status == "open"
            and not facts.held
            and facts.diagnosis is not None
            and facts.diagnosis.verdict == "escalate"
        )
    ), (shown, facts)


def check_answer(shown: str, facts: Facts) -> None:
    by, name = facts.answered_by
    if by == "nobody":
        known = {"open": "nobody yet", "recovered": "not known"}
        assert shown == known.get(facts.status, "nobody"), shown
    elif by == "model":
        assert all(model in shown for model in facts.models), shown
    else:
        assert name in shown, (shown, name)


def check_show(text: str, facts: Facts, now: datetime) -> None:
    without_model(text, facts)
    only_known_names(text, facts)
    state = facts.status
    assert field(text, "state").split(",")[0] == state
    assert bool(field(text, "root cause")) == facts.root_cause, text
    duration = field(text, "duration")
    assert same_span(duration.partition(",")[0], facts.duration(now)), text
    assert duration.endswith("so far") == facts.ongoing, text
    assert field(text, "severity").startswith(facts.severity)
    assert field(text, "alerts") == str(facts.alerts)
    assert field(text, "model calls") == str(len(facts.models) or "none")
    check_outcome(field(text, "outcome"), facts)
    check_answer(field(text, "answered by"), facts)
    check_facts(text, facts, all_of_them=True)
    repair = field(text, "times").rpartition("MTTR ")[2]
    check_times(repair, facts.repair)


def check_row(row: dict[str, Any], facts: Facts, now: datetime) -> None:
    """What a listing and `show` say to programs, of one incident."""
    assert facts.opened_at is not None
    by, _ = facts.answered_by
    assert row["state"] == facts.status
    assert row["phase"] == facts.phase
    assert row["severity"] == facts.severity
    assert row["alerts"] == facts.alerts
    assert row["answered_by"] == (by if facts.closed else None)
    assert row["cause_found"] == facts.root_cause
    assert row["mttr"] == facts.repair
    begun = facts.begun_at
    assert row["mtta"] == ((begun - facts.opened_at).total_seconds() if begun else None)
    since = facts.since
    assert row["mttd"] == ((facts.opened_at - since).total_seconds() if since else None)
    assert abs(row["duration_s"] - facts.duration(now)) < 120
    assert row["service"] in facts.services
    check_outcome(row["outcome"], facts)


def check_statistics(told: dict[str, Any], known: list[Facts]) -> None:
    assert told["incidents"] == len(known)
    assert told["open"] == sum(each.status in ("open", "escalated") for each in known)
    for name, of in (
        ("outcome", [each.status for each in known]),
        ("severity", [each.severity for each in known]),
        ("answered_by", [each.answered_by[0] for each in known if each.closed]),
    ):
        assert told[name] == {each: of.count(each) for each in set(of)}, name
    repairs = [each.repair for each in known if each.repair is not None]
    assert told["repair"].get("count", 0) == len(repairs)
    assert told["repair"].get("median") == (median(repairs) if repairs else None)


def check_timeline(text: str, facts: Facts) -> None:
    without_model(text, facts)
    only_known_names(text, facts)
    found = re.search(r"did not find their fault: (\d+)", text)
    assert int(found[1] if found else 0) == len(facts.not_matched), text
    skipped = sum(map(int, re.findall(r"could not be checked: (\d+)", text)))
    assert skipped == len(facts.unchecked), text
    assert text.count("checks passed") == facts.passed
    assert text.count("checks did not pass") == facts.failed


def check_notice(notice: NotificationQueued, facts: Facts, now: datetime) -> None:
    text = f"{notice.title}\n{notice.text}"
    without_model(text, facts)
    only_known_names(text, facts)
    assert bool(field(text, "root cause")) <= facts.root_cause, text
    if "INCIDENT RESOLVED" in notice.title:
        assert facts.held and facts.status == "resolved", text
    if "RECOVERED" in notice.title:
        assert facts.status == "recovered", text
        # Closed by the checks of the work on it, or seen by its probes.
        assert facts.recovered is None or facts.recovered.observed, text
    if facts.recovered is not None and notice.about == "resolved":
        down = facts.recovered.still_failing
        assert field(text, "still failing") == ", ".join(down), text
        assert not any(each in field(text, "also failed") for each in down), text
    assert SHELL_CODE not in notice.title, text
    if notice.about == "approval-needed":
        assert text.splitlines()[-1].startswith("command: "), text
    assert not NEGATIVE.search(text), text
    check_value(notice, facts, now)
    check_facts(text, facts, all_of_them=False)
    if "ESCALATED" in notice.title:
        assert facts.status == "escalated", text
        lines = notice.text.splitlines()
        assert len(lines) <= 30 and all(len(line) <= 100 for line in lines), text
        assert len(lines) == len(set(lines)), text
        wanted = {each.text for each in facts.escalation if each.about == "command"}
        assert all(words in text for words in wanted), text
    for name in ("duration", "failing for"):
        if shown := field(text, name).partition(" (")[0]:
            assert same_span(shown, facts.duration(now)), (text, facts.duration(now))
    if shown := field(text, "duration"):
        check_parts_of_duration(shown, facts)
    if shown := field(text, "by"):
        by, name = facts.answered_by
        assert by != "nobody" and name in shown, text


def check_value(notice: NotificationQueued, facts: Facts, now: datetime) -> None:
    """A value in a title that is sent later has the time of its measurement."""
    assert facts.opened_at is not None
    old = (now - facts.opened_at).total_seconds() >= MAX_VALUE_AGE_S
    late = notice.about == "escalated" or (notice.about == "update" and "⏳" in notice.title)
    if late and old and MEASURED in notice.title and "incidents are open" not in notice.title:
        measured = f"as measured at {facts.opened_at:%H:%M:%S} UTC"
        assert field(notice.text, "its title") == measured, notice.text


def check_notices(life: Life) -> None:
    """Each as it is composed: compared with the events up to then."""
    ledger = NotificationState()
    composer = NotificationComposer(NoticeSettings(update=300.0, most=100), ())
    for number, event in enumerate(life.events, start=1):
        ledger.apply(JournalRecord(life.number + number, event))
        for notice in composer.compose(ledger, event.at):
            ledger.mark_queued(notice)
            if notice.incident:
                check_notice(notice, facts_of(life.run, life.events[:number]), event.at)


def check_live(life: Life, facts: Facts, now: datetime) -> None:
    """The picture of `incident watch`, with and without colour, and its plain lines."""
    records = [
        JournalRecord(life.number + n, event) for n, event in enumerate(life.events, start=1)
    ]
    scene = fold_live_incident(records)
    drawn = {}
    for colour in (True, False):
        out = StringIO()
        Console(file=out, width=120, force_terminal=colour, no_color=not colour).print(
            render_live_view(scene, now)
        )
        drawn[colour] = ANSI.sub("", out.getvalue())
    assert drawn[True] == drawn[False]
    text = drawn[False]
    without_model(text, facts)
    only_known_names(text, facts)
    assert bool(re.search(r"^root cause$", text, re.MULTILINE)) == facts.root_cause, text
    assert ("✅ resolved" in text) == (facts.held and facts.status == "resolved"), text
    found = re.search(r"playbooks that did not match: (\d+)", text)
    assert int(found[1] if found else 0) == len(facts.not_matched), text
    found = re.search(r"not checked: (\d+)", text)
    assert int(found[1] if found else 0) == len(facts.unchecked), text
    scene = fold_live_incident(())
    for recorded in records:
        if scene.concerns(recorded.event):
            scene.apply(recorded)
            only_known_names(event_line(scene, recorded), facts)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(known=lives())
def test_every_view_agrees_with_the_journal(known: list[Life]) -> None:
    with TemporaryDirectory() as folder:
        hermes = Hermes(Path(folder))
        hermes.home.mkdir(exist_ok=True)
        anyio.run(fill, hermes.home, events_of(known))
        of = {life.run: facts_of(life.run, life.events) for life in known}
        rows = answer(hermes, "list")
        rows += answer(hermes, "list", "--limit", "1000")  # read in another way
        check_statistics(answer(hermes, "stats"), list(of.values()))
        said(hermes, "stats")
        unresolved = [run for run, facts in of.items() if facts.status in ("open", "escalated")]
        assert sorted(row["incident"] for row in answer(hermes, "list", "--open")) == unresolved
        for colour in (True, False):
            listing = said(hermes, "list", colour=colour)
            assert all(run in listing for run in of)
        for row in rows:
            check_row(row, of[row["incident"]], datetime.now(UTC))
        for life in known:
            check_one(hermes, life, of[life.run])


def check_one(hermes: Hermes, life: Life, facts: Facts) -> None:
    now = datetime.now(UTC)
    shown = said(hermes, "show", life.run)
    check_show(shown, facts, now)
    assert (
        ANSI.sub("", said(hermes, "show", life.run, colour=True)).split()[:8] == shown.split()[:8]
    )
    told = answer(hermes, "show", life.run)
    check_row(told, facts, now)
    check_answer(told["answered_by_name"], facts)
    assert told["cost"].get("calls", 0) == len(facts.models)
    assert set(told["did_not_match"]) == facts.not_matched
    assert {name for each in told["unchecked"] for name in each["skills"]} == facts.unchecked
    check_report(said(hermes, "report", life.run), facts, now)
    check_report(answer(hermes, "report", life.run)["text"], facts, now)
    check_timeline(said(hermes, "timeline", life.run), facts)
    moments = answer(hermes, "timeline", life.run)
    assert [each["at"] for each in moments] == sorted(each["at"] for each in moments)
    said(hermes, "watch", life.run, "--once")
    check_live(life, facts, now)
    check_notices(life)
