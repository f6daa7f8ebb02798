"""Renders the title and the text of each notification.

They are read on phones and in logs: one statement a line, and untrusted text is reduced to one line
of plain text.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested
from hermes.core.events.incidents import AlertsJoined, IncidentGraded
from hermes.core.events.jobs import JobEnded, ScheduleInterrupted
from hermes.core.events.operations import (
    HealthMissed,
    JournalInterrupted,
    JournalResumed,
    ReserveReleased,
    ReserveRestored,
)
from hermes.core.foreign_text import visible_line
from hermes.core.incident import Incident
from hermes.core.messages import Value
from hermes.plumbing.units import format_duration, format_size, ordinal
from hermes.sre.notifications.escalation_text import (
    attempt_lines,
    escalation_lines,
    reopened_text,
    title_time,
)
from hermes.sre.reports.experiments import tested_text
from hermes.sre.reports.statements import cause_line, duration_text, outcome_text, resolver_of
from hermes.sre.triage.topology import alert_location

MAX_TITLE_CHARS, MAX_LINE_CHARS, MAX_TEXT_CHARS = 120, 300, 4_000
MAX_UNDONE_SHOWN = 2
MAX_TITLED_PARTS, NAMES_PER_LINE, MAX_PERSON_CHARS = 10, 8, 60
"""Parts that are listed with their titles; names on each line for the others."""
MAX_COMBINED, MAX_COMBINED_TITLE_CHARS, MAX_NAMED_IN_TITLE = 60, 60, 3
"""Notifications that a combined one lists, and the characters of each title."""
EFFECT_WORDS = {
    "irreversible": "make a change that cannot be undone",
    "service-change": "start, stop or restart a service",
    "delete": "delete files or data",
    "write": "change files or data",
    "network-out": "send something to another host",
    "privilege": "run a command as another user",
}
"""What an action does, by its effects, the gravest first."""
OUTCOME_TITLES = {
    "resolved": "✅ INCIDENT RESOLVED",
    "recovered": "✅ RECOVERED",
    "no-incident": "✅ NO INCIDENT",
    "closed": "✅ INCIDENT CLOSED",
    "escalated": "📣 INCIDENT ESCALATED",
}


class NotificationText(Value, frozen=True):
    title: str
    text: str = ""


def render_declared(
    incident: Incident, *, again: str = "", change: IncidentGraded | None = None
) -> NotificationText:
    """`change`: what made it graver after it was declared, or showed a graver failure."""
    details = incident.details
    what = "INCIDENT REOPENED" if again else "INCIDENT DECLARED"
    seen, raised = details.seen_before, change is not None and change.severity < change.before
    lines = [
        ("was", change.before if change is not None and raised else ""),
        ("was called", details.first_title if change is not None and change.title else ""),
        ("why", again),
        ("impact", incident.reason or "not measured yet"),
        ("service", details.service),
        ("host", alert_location(details.labels).host),
        (
            "first failed" if again else "since",
            f"{details.since:%Y-%m-%d %H:%M:%S} UTC" if details.since else "",
        ),
        ("seen before", f"this is the {ordinal(seen + 1)} time" if seen else ""),
        ("follow", f"hermes incident watch {details.incident}"),
    ]
    return NotificationText(
        _title(f"🚨 {incident.severity} {what}", title_of(incident)), _lines(lines)
    )


def render_joined(incident: Incident, event: AlertsJoined) -> NotificationText:
    """Further services or hosts that became part of an incident."""
    parts = sorted(event.parts, key=lambda part: part.severity)
    service = incident.details.service  # its failure is known: only the new title is shown
    shown = [part.title if part.name in ("", service) else part.name for part in parts]
    names = list(dict.fromkeys(shown))
    lines = [
        (f"{part.severity} {part.name}".strip(), part.title) for part in parts[:MAX_TITLED_PARTS]
    ]
    others = [part.name or part.title for part in parts[MAX_TITLED_PARTS:]]
    lines += [
        ("also", ", ".join(others[start : start + NAMES_PER_LINE]))
        for start in range(0, len(others), NAMES_PER_LINE)
    ]
    details = incident.details
    lines.insert(0, ("part of", f"{details.incident}: {title_of(incident)}"))
    lines.insert(1, ("why", event.why))
    lines.insert(2, ("follow", f"hermes incident show {details.incident}"))
    return NotificationText(
        _title(
            f"🚨 {parts[0].severity} ALSO FAILING",
            ", ".join(filter(None, names)) or title_of(incident),
        ),
        _lines(lines),
    )


def render_recovered(incident: Incident) -> NotificationText:
    """The problem is over; by whose work is not known."""
    event, details = incident.recovered, incident.details
    assert event is not None  # only called for recovered incidents
    escalated = incident.closed is not None and incident.closed.outcome == "escalated"
    lines = [
        (
            "duration" if event.observed else "seen for",
            duration_text(incident, event.at) + reopened_text(incident),
        ),
        ("outage began", f"{incident.outage_began_at:%Y-%m-%d %H:%M:%S} UTC"),
        (
            "recovered" if event.observed else "last seen",
            f"{event.recovered_at:%Y-%m-%d %H:%M:%S} UTC",
        ),
        cause_line(incident),
        ("how we know", event.how),
        ("before", "it was escalated to people" if escalated else ""),
        ("service", details.service),
        (
            "also failed",
            ", ".join(each for each in incident.parts if each not in event.still_failing),
        ),
        ("still failing", ", ".join(event.still_failing)),
        ("report", f"hermes incident report {details.incident}"),
    ]
    title = "✅ RECOVERED" if event.observed else "➖ NOT SEEN ANY MORE"
    return NotificationText(_title(title, title_of(incident)), _lines(lines))


def render_question(incident: Incident) -> NotificationText:
    details = incident.details
    lines = [
        ("what we saw", details.text.partition("\n")[0] or details.title),
        ("if it is intended", f"hermes incident close {details.incident} --as no-incident"),
        ("if it is not", "restore it; its recovery is reported"),
    ]
    return NotificationText(
        _title(f"❓ {incident.severity} {incident.question}", title_of(incident)), _lines(lines)
    )


def render_update(
    incident: Incident,
    doing: str,
    asked: Sequence[ApprovalRequested | ActionAnnounced],
    now: datetime,
) -> NotificationText:
    """`asked`: what is not answered yet. What was announced proceeds without an answer."""
    lines = [("phase", phase_text(incident)), ("now", doing), title_time(incident, now)]
    if incident.diagnosis is not None:
        lines.append(cause_line(incident))
    undone = [change for change in incident.changes if change.undone]
    lines += attempt_lines(replace(incident, changes=tuple(undone[-MAX_UNDONE_SHOWN:])))
    announced = sum(isinstance(each, ActionAnnounced) for each in asked)
    if waiting := len(asked) - announced:
        lines.append(("waits for a person", f"{waiting} (`hermes approvals`)"))
    if announced:
        lines.append(("runs unless stopped", f"{announced} (`hermes approvals`, also to run now)"))
    title = f"⏳ {incident.severity} {_began_text(incident, now)}"
    return NotificationText(_title(title, title_of(incident)), _lines(lines))


def render_acknowledged(incident: Incident, person: str) -> NotificationText:
    """For the others: one person takes care of it."""
    by = visible_line(person, MAX_PERSON_CHARS) or "a person"
    title = f"👀 {incident.severity} ACKNOWLEDGED by {by}"
    return NotificationText(_title(title, title_of(incident)), "")


def _began_text(incident: Incident, now: datetime) -> str:
    """Say when it began, and not whether it still fails: its probes may be fine while it is
    verified."""
    began_at = incident.reopened_at or incident.outage_began_at
    passed = format_duration(max(0.0, (now - began_at).total_seconds()))
    return f"{'reopened' if incident.reopened_at else 'began'} {passed} ago"


def render_updates(open_ones: Sequence[Incident], now: datetime) -> NotificationText:
    """One notification for many incidents, a line each."""
    shown = [
        f"{each.severity} {visible_line(title_of(each), 80)}: {phase_text(each)}, "
        + ", ".join(filter(None, (_began_text(each, now), title_time(each, now)[1])))
        for each in open_ones[:20]
    ]
    more = len(open_ones) - len(shown)
    return NotificationText(
        f"⏳ {len(open_ones)} incidents are open",
        "\n".join([*shown, *([f"and {more} more"] if more else [])]),
    )


def render_approval(
    request: ApprovalRequested | ActionAnnounced, incident: Incident
) -> NotificationText:
    waits = isinstance(request, ApprovalRequested)
    lines = [
        ("what", approval_sentence(request, incident)),
        ("because", title_of(incident)),
        *([cause_line(incident)] if incident.diagnosis is not None else []),
        ("effects", ", ".join(request.effects)),
        (
            "why it is asked",
            ": ".join(p for p in (request.rule, getattr(request, "reason", "")) if p),
        ),
        ("undo", request.undo),
        ("test", request.tested),
        ("where", request.place),
    ]
    until = request.until if isinstance(request, ApprovalRequested) else None
    lines.append(("until", f"{until:%Y-%m-%d %H:%M:%S} UTC" if until else ""))
    verbs = (
        {"yes": "approve", "no": "deny"} if waits else {"stop it": "stop", "run it now": "approve"}
    )
    if request.approval:
        lines += [(say, f"hermes approvals {do} {request.approval}") for say, do in verbs.items()]
    lines += [("incident", incident.details.incident), ("command", request.shown)]
    words = (
        "❓ APPROVAL NEEDED"
        if waits
        else f"⏱ IN {getattr(request, 'seconds', 0):g} s UNLESS STOPPED"
    )
    return NotificationText(_title(words, approval_sentence(request, incident)), _lines(lines))


def approval_sentence(request: ApprovalRequested | ActionAnnounced, incident: Incident) -> str:
    """Say what will change: nobody has to read a command at night to know what is asked."""
    if request.purpose:
        return request.purpose
    verbs = [words for effect, words in EFFECT_WORDS.items() if effect in request.effects]
    about = incident.details.service or alert_location(incident.details.labels).name
    return f"{' and '.join(verbs) or 'run a command'} to fix {about}"


def render_ended(incident: Incident) -> NotificationText:
    closed = incident.closed
    assert closed is not None  # only called for closed incidents
    if closed.outcome == "escalated":
        title = _title(OUTCOME_TITLES["escalated"], title_of(incident))
        return NotificationText(title, "\n".join(escalation_lines(incident)))
    resolver = resolver_of(incident)
    unverified = closed.outcome in ("resolved", "closed") and not incident.resolved_by_checks
    lines = [
        ("duration", duration_text(incident, closed.at)),
        cause_line(incident),
        ("by", str(resolver) if resolver.by != "nobody" else ""),
        ("test", tested_text(incident.tests[-1]) if incident.tests else ""),
        ("verified", outcome_text(incident) if unverified else ""),
        ("reason", closed.reason),
        ("report", incident.report_path or f"hermes incident report {incident.details.incident}"),
    ]
    title = OUTCOME_TITLES["closed"] if unverified else OUTCOME_TITLES[closed.outcome]
    return NotificationText(_title(title, title_of(incident)), _lines(lines))


def render_missed_rounds(event: HealthMissed | ScheduleInterrupted) -> NotificationText:
    since = ("since", f"{event.since:%Y-%m-%d %H:%M:%S} UTC")
    if isinstance(event, HealthMissed):
        rounds = "1 health round was" if event.rounds == 1 else f"{event.rounds} health rounds were"
        return NotificationText(f"💤 {rounds} missed", _lines([since, ("why", event.why)]))
    times = "1 due time was" if event.count == 1 else f"{event.count} due times were"
    jobs, why = ("jobs", ", ".join(event.jobs)), ("why", event.reason)
    more = ("more", "hermes cron history")
    return NotificationText(f"💤 {times} missed", _lines([jobs, since, why, more]))


def render_builtin_result(event: JobEnded) -> NotificationText:
    """A briefing or a review: its first line is the title."""
    title, _, text = event.text.partition("\n")
    return NotificationText(title, text[:MAX_TEXT_CHARS])


def render_home_event(
    event: JournalInterrupted | JournalResumed | ReserveReleased | ReserveRestored,
) -> NotificationText:
    """Say what happened to the home directory of the watch, and what to do about it."""
    match event:
        case JournalInterrupted():
            lines = [
                ("why", event.reason),
                ("since", f"{event.since:%Y-%m-%d %H:%M:%S} UTC"),
                (
                    "now",
                    "it continues in memory: it probes and notifies, it changes nothing",
                ),
                ("if it is killed", "what happened since then is lost"),
            ]
            return NotificationText("⚠️ THE WATCH CANNOT WRITE ITS JOURNAL", _lines(lines))
        case JournalResumed():
            passed = format_duration((event.at - event.since).total_seconds())
            lost = f"{event.dropped} events did not fit into memory" if event.dropped else "nothing"
            lines = [
                ("now", "the home directory of the watch can be written again"),
                ("recorded afterwards", f"{event.held} events"),
                ("lost", lost),
            ]
            title = f"✅ RECOVERED: THE WATCH WRITES ITS JOURNAL AGAIN after {passed}"
            return NotificationText(title, _lines(lines))
        case ReserveReleased():
            lines = [
                ("left of the reserve", format_size(event.left_bytes)),
                ("now", "incidents are recorded and handled as long as the reserve lasts"),
                ("what to do", "free some space on the disk of the home directory"),
            ]
            return NotificationText(
                "⚠️ THE DISK OF THE WATCH IS FULL: its reserve is in use", _lines(lines)
            )
        case ReserveRestored():
            size = f"{format_size(event.size_bytes)} are set aside again"
            return NotificationText("✅ THE DISK OF THE WATCH HAS SPACE AGAIN", size)


def render_combined(titles: Sequence[str]) -> NotificationText:
    shown = (
        [visible_line(each, MAX_COMBINED_TITLE_CHARS) for each in titles]
        if len(titles) > 25
        else titles
    )
    more = [f"and {len(titles) - MAX_COMBINED} more"] if len(titles) > MAX_COMBINED else []
    names = "; ".join(
        visible_line(each, MAX_COMBINED_TITLE_CHARS) for each in titles[:MAX_NAMED_IN_TITLE]
    )
    rest = " …" if len(titles) > MAX_NAMED_IN_TITLE else ""
    title = f"🌊 {len(titles)} notices at once: {names}{rest}"
    return NotificationText(title, "\n".join([*shown[:MAX_COMBINED], *more]))


def phase_text(incident: Incident) -> str:
    if incident.question:
        return "waits for an answer"
    if incident.phase is None:
        return "the work has not begun"
    return incident.phase + (f", attempt {incident.attempt}" if incident.attempt > 1 else "")


def title_of(incident: Incident) -> str:
    """The title, or what is known in its place."""
    details = incident.details
    about = details.service or alert_location(details.labels).name
    return details.title.strip() or f"an alert about {about}, without a title"


def _title(what: str, about: str) -> str:
    return f"{what}: {visible_line(about, MAX_TITLE_CHARS)}"


def _lines(pairs: Sequence[tuple[str, str]]) -> str:
    found = [f"{name}: {visible_line(words, MAX_LINE_CHARS)}" for name, words in pairs if words]
    return "\n".join(found)[:MAX_TEXT_CHARS]
