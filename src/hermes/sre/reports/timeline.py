"""Builds the timeline of an incident, one line for each event."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.experiments import (
    ExperimentRan,
    ExperimentsEnded,
    ExperimentsStarted,
    FixTested,
    IncidentStateKept,
    LessonLearned,
)
from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    ChangesUndone,
    IncidentAcknowledged,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentHint,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    IncidentVerified,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted
from hermes.core.events.tools import ToolRequested
from hermes.core.foreign_text import visible_line
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import RecordedCall
from hermes.plumbing.units import format_duration
from hermes.sre.preceding_fix import preceding_fix_text
from hermes.sre.reports.actions import IncidentAction, list_actions, list_refused_actions
from hermes.sre.reports.experiments import (
    ended_text,
    experiment_text,
    kept_text,
    lesson_text,
    started_text,
    tested_text,
)
from hermes.sre.reports.statements import playbooks_not_matched, playbooks_unchecked

MAX_ENTRIES = 60
MAX_LINE_CHARS = 140
MAX_APPROVAL_CHARS = 80
MAX_PARTS = 8


class TimelineEntry(Value, kw_only=True, frozen=True):
    at: datetime
    seq: int
    text: str
    """Contains untrusted text: every view must escape it."""
    kind: str = ""


def build_timeline(records: Sequence[JournalRecord]) -> list[TimelineEntry]:
    """Sorted by time; the clocks of several processes may differ slightly."""
    entries = [
        TimelineEntry(at=each.event.at, seq=each.seq, text=text, kind=each.event.kind)
        for each in records
        if (text := _event_text(each.event))
    ]
    done = list_actions(records)
    entries += [
        TimelineEntry(at=action.at, seq=action.seq, text=_change_text(action), kind="change")
        for action in done
        if action.changed
    ]
    entries += _refused_entries(records)
    entries += _unmatched_playbook_entries(records)
    return sorted(entries, key=lambda entry: (entry.at, entry.seq))


def shorten_timeline(
    entries: Sequence[TimelineEntry], max_entries: int = MAX_ENTRIES
) -> tuple[list[TimelineEntry], int]:
    """The beginning and the end, and how many entries were left out between them."""
    if len(entries) <= max_entries:
        return list(entries), 0
    head = max_entries // 2
    return [*entries[:head], *entries[len(entries) - (max_entries - head) :]], len(
        entries
    ) - max_entries


def clock_time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M:%S}"


def _change_text(action: IncidentAction) -> str:
    who = f" ({action.by})" if action.by else ""
    how = {"ok": "", "failed": f": {action.detail}", "cut off": ": cut off before its result"}
    return f"change{who}: {visible_line(action.command, MAX_LINE_CHARS)}{how[action.ending]}"


def _refused_entries(records: Sequence[JournalRecord]) -> list[TimelineEntry]:
    """Each with the time of its request."""
    when = {
        visible_line(each.command): each
        for each in list_refused_actions(records)
        if not each.waiting
    }
    found = []
    for each in records:
        if not isinstance(each.event, ToolRequested):
            continue
        command = RecordedCall(request=each.event).command
        if refused := when.pop(visible_line(command), None):
            shown = visible_line(command, MAX_LINE_CHARS)
            text = f"refused: {shown} ({visible_line(refused.why, MAX_LINE_CHARS)})"
            if refused.would_have_run:
                text = f"would have run: {shown}"
            found.append(TimelineEntry(at=each.event.at, seq=each.seq, text=text, kind="refused"))
    return found


def _unmatched_playbook_entries(records: Sequence[JournalRecord]) -> list[TimelineEntry]:
    """One entry for all playbooks that did not match, and one for each reason of unchecked ones."""
    ends = [each for each in records if isinstance(each.event, PlaybookEnded)]
    if not ends:
        return []
    last = next((each for each in reversed(ends) if _is_declined(each.event)), ends[-1])
    texts = [
        f"playbooks that could not be checked: {len(e.skills)} "
        f"({visible_line(e.why, MAX_LINE_CHARS)})"
        for e in playbooks_unchecked(records)
    ]
    if absent := playbooks_not_matched(records):
        texts.insert(0, f"playbooks that did not find their fault: {len(absent)}")
    return [
        TimelineEntry(at=last.event.at, seq=last.seq, text=text, kind=last.event.kind)
        for text in texts
    ]


def _is_declined(event: object) -> bool:
    return isinstance(event, PlaybookEnded) and event.outcome == "declined"


def _event_text(event: object) -> str:
    render = _TEXT_BY_EVENT.get(type(event))
    return render(event) if render else ""


def _raised_text(event: AlertRaised) -> str:
    what = "alert resolved" if event.resolved else "alert"
    source = visible_line(event.source or "an unknown source", 40)
    return f"{what} from {source}: {visible_line(event.title, MAX_LINE_CHARS)}"


def _opened_text(event: IncidentOpened) -> str:
    reason = f" ({visible_line(event.reason, MAX_LINE_CHARS)})" if event.reason else ""
    return f"incident opened as {event.severity}{reason}"


def _joined_text(event: AlertsJoined) -> str:
    why = f": {visible_line(event.why, MAX_LINE_CHARS)}" if event.why else ""
    parts = ", ".join(visible_line(part.name, 40) for part in event.parts[:MAX_PARTS])
    more = f" and {len(event.parts) - MAX_PARTS} more" if len(event.parts) > MAX_PARTS else ""
    also = f"also failing: {parts}{more}; " if parts else ""
    return f"{also}alerts that joined: {event.count}{why}"


def _graded_text(event: IncidentGraded) -> str:
    by = f" by {visible_line(event.by, 40)}" if event.by else ""
    reason = f": {visible_line(event.reason, MAX_LINE_CHARS)}" if event.reason else ""
    title = f"called from now on: {visible_line(event.title, 80)}" if event.title else ""
    verb = "becomes" if event.severity != event.before else "stays"
    graded = f"severity {event.before} {verb} {event.severity}{by}{reason}"
    if title and not reason and event.severity == event.before:
        return title
    return "; ".join(filter(None, (graded, title)))


def _acknowledged_text(event: IncidentAcknowledged) -> str:
    return f"acknowledged by {visible_line(event.by, 40)}"


def _hint_text(event: IncidentHint) -> str:
    said = visible_line(event.text, MAX_LINE_CHARS)
    return f"hint by {visible_line(event.person, 40)}, not verified: {said}"


def _reopened_text(event: IncidentReopened) -> str:
    reason = f": {visible_line(event.reason, MAX_LINE_CHARS)}" if event.reason else ""
    return f"opened again by {visible_line(event.by, 40)}{reason}"


def _recovered_text(event: IncidentRecovered) -> str:
    how = f": {visible_line(event.how, MAX_LINE_CHARS)}" if event.how else ""
    fix = f"; {preceding_fix_text(event.after_fix)}" if event.after_fix else ""
    return f"recovered at {clock_time(event.recovered_at)} UTC{how}{fix}"


def _phase_text(event: PhaseEntered) -> str:
    attempt = f", attempt {event.attempt}" if event.attempt else ""
    detail = f": {visible_line(event.detail, MAX_LINE_CHARS)}" if event.detail else ""
    gap = ""
    if event.resumed:
        gap = f"resumed after {format_duration(event.gap)} in which nothing was recorded: "
    return f"{gap}{event.phase}{attempt}{detail}"


def _layer_text(event: LayerInvestigated) -> str:
    if event.status == "working":
        return ""
    if event.status == "failed":
        return f"investigator of {visible_line(event.layer, 40)} failed"
    found = visible_line("; ".join(event.findings), MAX_LINE_CHARS) or "nothing of note"
    return f"investigator of {visible_line(event.layer, 40)}: {found}"


def _diagnosed_text(event: IncidentDiagnosed) -> str:
    what = visible_line(
        " ".join(part for part in (event.component, event.mechanism) if part), MAX_LINE_CHARS
    )
    if event.verdict == "escalate":
        proof = "proved on copies, not put back" if event.on_copies else "seen so far, not proved"
        known = f"; {proof}: {what}" if event.mechanism else "; no cause is known"
        return f"escalated to people{known}"
    named = f": {what}" if event.mechanism else ""
    return f"diagnosis ({event.verdict}, confidence {event.confidence:.0%}){named}"


def _undone_text(event: ChangesUndone) -> str:
    failed = f", {len(event.failed)} could not be" if event.failed else ""
    reason = f": {visible_line(event.reason, MAX_LINE_CHARS)}" if event.reason else ""
    return f"changes undone: {len(event.calls)}{failed}{reason}"


def _verified_text(event: IncidentVerified) -> str:
    if event.by == "oracle":
        return ""
    took = f" (the verification took {format_duration(event.seconds)})" if event.seconds else ""
    return f"checks passed{took}" if event.ok else "checks did not pass"


def _closed_text(event: IncidentClosed) -> str:
    if event.by == "oracle":
        return ""
    by = f" by {visible_line(event.by, 40)}" if event.by else ""
    reason = f": {visible_line(event.reason, MAX_LINE_CHARS)}" if event.reason else ""
    if event.outcome == "escalated":
        return f"escalated to people{reason}"
    return f"closed{by} as {event.outcome}{reason}"


def _playbook_started_text(event: PlaybookStarted) -> str:
    return "" if event.dry else f"playbook {visible_line(event.skill, 60)} begins"


def _playbook_ended_text(event: PlaybookEnded) -> str:
    detail = f": {visible_line(event.detail, MAX_LINE_CHARS)}" if event.detail else ""
    if event.dry or _is_declined(event):
        return ""
    return f"playbook {visible_line(event.skill, 60)} {event.outcome}{detail}"


def _approval_requested_text(event: ApprovalRequested) -> str:
    return f"approval asked for: {visible_line(event.shown, MAX_APPROVAL_CHARS)}"


def _announced_text(event: ActionAnnounced) -> str:
    wait = format_duration(event.seconds).removesuffix(" 0 s")
    shown = visible_line(event.shown, MAX_APPROVAL_CHARS)
    return f"announced, to run in {wait} unless someone stops it: {shown}"


def _approval_settled_text(event: ApprovalSettled) -> str:
    if event.outcome == "approved" and not event.by:
        return "nobody stopped it"
    by = f" by {visible_line(', '.join(event.by), 60)}" if event.by else ""
    return f"approval {event.outcome}{by}"


_TEXT_BY_EVENT: dict[type, Callable[..., str]] = {
    AlertRaised: _raised_text,
    IncidentOpened: _opened_text,
    AlertsJoined: _joined_text,
    IncidentGraded: _graded_text,
    IncidentAcknowledged: _acknowledged_text,
    IncidentHint: _hint_text,
    IncidentReopened: _reopened_text,
    IncidentRecovered: _recovered_text,
    PhaseEntered: _phase_text,
    LayerInvestigated: _layer_text,
    IncidentDiagnosed: _diagnosed_text,
    ChangesUndone: _undone_text,
    IncidentVerified: _verified_text,
    IncidentClosed: _closed_text,
    ExperimentsStarted: started_text,
    ExperimentRan: experiment_text,
    ExperimentsEnded: ended_text,
    FixTested: tested_text,
    IncidentStateKept: kept_text,
    LessonLearned: lesson_text,
    PlaybookStarted: _playbook_started_text,
    PlaybookEnded: _playbook_ended_text,
    ActionAnnounced: _announced_text,
    ApprovalRequested: _approval_requested_text,
    ApprovalSettled: _approval_settled_text,
}
