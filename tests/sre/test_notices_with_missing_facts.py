"""A notice says nothing where a fact is missing: it has no words without their value."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from missing_facts import gaps
from msgspec.structs import replace

from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested
from hermes.core.events.experiments import FixTested
from hermes.core.events.incidents import (
    AlertsJoined,
    EscalationLine,
    IncidentAssessed,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentRecovered,
    IncidentVerified,
    JoinedPart,
)
from hermes.core.events.jobs import JobEnded, ScheduleInterrupted
from hermes.core.events.operations import HealthMissed, JournalInterrupted
from hermes.core.incident import Incident, IncidentChange, IncidentDetails
from hermes.sre.notifications import templates
from hermes.sre.notifications.templates import NotificationText

AT = datetime(2026, 11, 19, 6, 0, tzinfo=UTC)
LATER = AT + timedelta(minutes=10)
KEPT = (
    "incident",
    "run",
    "kind",
    "status",
    "severity",
    "verdict",
    "outcome",
    "answered_by",
    "undone",
    "phase",
    "question",
)
"""Ids and choices, which are never missing."""
DETAILS = IncidentDetails(
    incident="i-1",
    run="i-1",
    title="7 pages are slow",
    text="asked by nobody",
    labels={"host": "web-1"},
    service="shop",
    opened_at=AT,
)
DIAGNOSIS = IncidentDiagnosed(
    run="i-1",
    incident="i-1",
    at=AT,
    component="a.conf",
    mechanism="a wrong port",
    value="8001",
    evidence=(1,),
    ruled_out=("the disk",),
    gaps=("logs: closed",),
    confidence=0.9,
)
CHANGE = IncidentChange(call_id="c", command="systemctl restart shop", attempt=1, by="restart-it")
INCIDENT = Incident(
    details=DETAILS,
    reason="shop does not answer",
    phase="remediate",
    parts=("redis",),
    failing=frozenset({"port-80"}),
    checked_at=AT,
    diagnosis=DIAGNOSIS,
    changes=(CHANGE,),
    tests=(
        FixTested(
            run="i-1", incident="i-1", fix="restart-it", outcome="recovered", checks=("port-80",)
        ),
    ),
    assessed=IncidentAssessed(run="i-1", incident="i-1", verdict="wrong", reasons=("it is slow",)),
    verified=IncidentVerified(run="i-1", incident="i-1", at=AT, ok=True, attempt=1),
    kept_attempt=1,
    report_path="incidents/r.md",
)
CLOSED = IncidentClosed(
    run="i-1", incident="i-1", at=LATER, outcome="resolved", by="anna", reason="verified"
)
RECOVERED = IncidentRecovered(
    run="i-1",
    incident="i-1",
    at=LATER,
    recovered_at=AT,
    how="resolved by probe a",
    still_failing=("load",),
)
LINES = tuple(
    EscalationLine(about=about, text=f"text about {about}")
    for about in ("process", "error", "disk", "command", "need", "unchecked", "earlier")
)
ESCALATED = replace(
    INCIDENT,
    status="escalated",
    closed=replace(CLOSED, outcome="escalated", answered_by="nobody"),
    diagnosis=replace(DIAGNOSIS, verdict="escalate", escalation=LINES),
)
REQUEST = ApprovalRequested(
    run="i-1",
    approval="a-1",
    call_id="c",
    tool="terminal",
    shown="rm /a",
    effects=("delete",),
    rule="ask-first",
    reason="it deletes",
    undo="put it back",
    until=AT,
    place="web-1",
    tested="it recovered",
    purpose="remove /a",
)
ANNOUNCED = ActionAnnounced(
    run="i-1", call_id="c", shown="rm /a", effects=("delete",), approval="a-1", undo="put it back"
)
PART = JoinedPart(fingerprint="f", name="redis", title="redis does not answer")
JOINED = AlertsJoined(run="i-1", incident="i-1", count=1, why="the same host, web-1", parts=(PART,))
GRADED = IncidentGraded(
    run="i-1", incident="i-1", severity="P1", before="P2", reason="shop is down", title="shop"
)
NOTICES: dict[str, tuple[tuple[Any, ...], Callable[..., NotificationText]]] = {
    "declared": ((INCIDENT, "it fails again"), lambda i, a: templates.render_declared(i, again=a)),
    "graver": ((INCIDENT, GRADED), lambda i, g: templates.render_declared(i, change=g)),
    "joined": ((INCIDENT, JOINED), templates.render_joined),
    "recovered": (
        (replace(ESCALATED, status="recovered", recovered=RECOVERED),),
        templates.render_recovered,
    ),
    "question": (
        (replace(INCIDENT, details=replace(DETAILS, labels={"question": "is it meant?"})),),
        templates.render_question,
    ),
    "update": (
        (INCIDENT, "a playbook", REQUEST),
        lambda i, doing, asked: templates.render_update(i, doing, [asked], LATER),
    ),
    "acknowledged": ((INCIDENT, "anna"), templates.render_acknowledged),
    "updates": ((INCIDENT,), lambda i: templates.render_updates([i], LATER)),
    "approval": ((REQUEST, INCIDENT), templates.render_approval),
    "announced": ((ANNOUNCED, INCIDENT), templates.render_approval),
    "resolved": ((replace(INCIDENT, status="resolved", closed=CLOSED),), templates.render_ended),
    "closed": (
        (
            replace(
                INCIDENT,
                status="closed",
                closed=replace(CLOSED, outcome="closed", answered_by="person"),
            ),
        ),
        templates.render_ended,
    ),
    "escalated": ((ESCALATED,), templates.render_ended),
    "missed": (
        (HealthMissed(run="w", rounds=2, since=AT, why="asleep"),),
        templates.render_missed_rounds,
    ),
    "jobs": (
        (ScheduleInterrupted(run="w", jobs=("backup",), count=1, since=AT, reason="asleep"),),
        templates.render_missed_rounds,
    ),
    "journal": (
        (JournalInterrupted(run="w", since=AT, reason="full"),),
        templates.render_home_event,
    ),
    "briefing": (
        (
            JobEnded(
                run="w",
                job="briefing",
                occurrence="b",
                due=AT,
                outcome="ran",
                text="All is well\nYes",
            ),
        ),
        templates.render_builtin_result,
    ),
}


def blanked(value: Any) -> Iterator[tuple[str, Any]]:
    """Each text in the value, and the value without it."""
    if isinstance(value, str) and value:
        yield value, ""
    for key, each, put in parts_of(value):
        if key not in KEPT:
            yield from ((text, put(other)) for text, other in blanked(each))


def parts_of(value: Any) -> Iterator[tuple[Any, Any, Callable[[Any], Any]]]:
    """Its parts: the name, the value, and what makes the whole with another one in its place."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield name, getattr(value, name), lambda new, name=name: replace(value, **{name: new})
    elif isinstance(value, tuple):
        for at, each in enumerate(value):
            yield at, each, lambda new, at=at: (*value[:at], new, *value[at + 1 :])
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key, each, lambda new, key=key: {**value, key: new}


def lines_of(notice: NotificationText) -> list[str]:
    return [notice.title, *notice.text.splitlines()]


@pytest.mark.parametrize("name", NOTICES)
def test_no_notice_has_words_without_their_value(name: str) -> None:
    given, render = NOTICES[name]
    full = lines_of(render(*given))
    cases = [*blanked(given)]
    assert cases
    for text, without in cases:
        shown = lines_of(render(*without))
        assert not gaps(full, shown, text), (text, shown)
