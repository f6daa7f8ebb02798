"""Composes notifications from the event stream: which are due, and for which sinks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import partial

from msgspec.structs import replace

from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import (
    AlertsJoined,
    ChangeBegan,
    IncidentClosed,
    IncidentGraded,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.operations import (
    HealthMissed,
    JournalInterrupted,
    JournalResumed,
    NotificationKind,
    NotificationQueued,
    ReserveReleased,
    ReserveRestored,
)
from hermes.core.events.runs import RunStarted
from hermes.core.events.skills import PlaybookStarted
from hermes.core.events.tools import ToolRequested
from hermes.core.incident import INCIDENT_KINDS, WATCH_RUN, Incident, apply_incident_event
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import RecordedCall
from hermes.sre.notifications import templates
from hermes.sre.notifications.sink_protocol import SinkFilter
from hermes.sre.notifications.templates import NotificationText
from hermes.sre.reports.actions import call_text
from hermes.sre.settings import NoticeSettings

NOTIFICATION_KINDS = (
    *(kind for kind in INCIDENT_KINDS if kind != "incident.checked"),
    "approval.requested",
    "approval.settled",
    "action.announced",
    "health.missed",
    "journal.interrupted",
    "journal.resumed",
    "reserve.released",
    "reserve.restored",
    "notice.queued",
    "run.started",
)
"""Events that are read after a start to find the notifications that are due."""
HomeDirectoryEvent = JournalInterrupted | JournalResumed | ReserveReleased | ReserveRestored
OWN_CALL_TEXTS = {
    "play-": "checking playbooks",
    "assess-": "assessing the host",
    "look-": "checking whether the problem is still there",
    "keep-": "copying what a change will touch",
    "trigger-": "triggering the problem again",
}
"""By the prefix of the call id."""
ApprovalEvent = ApprovalRequested | ActionAnnounced
MAX_RECOVERY_DELAY = timedelta(days=1)
"""A recovery that was noticed later than this is not notified."""
MAX_UNSENT_AGE = timedelta(hours=1)
"""Older notifications that were never sent are dropped; the briefing contains them."""
MAX_SEPARATE_UPDATES = 3
"""More open incidents than this share one update."""
MAX_BRIEFING_DELAY = timedelta(hours=4)
"""A briefing that would be later than this is skipped."""
RATE_WINDOW = timedelta(minutes=1)
MAX_OUTAGE_HOLD = timedelta(seconds=5)
"""How long a new outage may wait to be combined with others, however many there are."""


class NotificationState:
    """The state from which notifications are composed. Events of drills are ignored."""

    def __init__(self) -> None:
        self.incidents: dict[str, Incident] = {}
        self.openings: dict[str, tuple[int, str]] = {}
        """By incident: the number of the event that opened or reopened it, and why."""
        self.severity_raises: dict[str, tuple[int, str]] = {}
        """By incident: the number of the event that raised its severity, and the old one."""
        self.ended: dict[str, int] = {}
        self.active: dict[str, None] = {}
        """Incidents about which notifications may be due, in the order in which they began."""
        self.activities: dict[str, str] = {}
        self.pending_approvals: dict[str, tuple[ApprovalEvent, str]] = {}
        """By approval: the request, and its incident."""
        self.joined_parts: dict[int, AlertsJoined] = {}
        """By event number: parts that joined an incident and must be notified."""
        self.missed_rounds: dict[int, HealthMissed] = {}
        self.home_events: dict[str, HomeDirectoryEvent] = {}
        """By notification id: events about the home directory of the watch."""
        self.queued: set[str] = set()
        self.queued_at: list[datetime] = []
        """Times of the last notifications, for the rate limit."""
        self.first_at: datetime | None = None
        """The time of the first event: there is no briefing about the time before."""
        self._drills: set[str] = set()

    def apply(self, recorded: JournalRecord) -> None:
        event = recorded.event
        self.first_at = self.first_at or event.at
        run = event.run.partition("/")[0]
        if isinstance(event, RunStarted) and event.origin == "gym":
            self._drills.add(run)
        if run in self._drills:
            return
        match event:
            case NotificationQueued():
                self.mark_queued(event)
            case HealthMissed():
                self.missed_rounds[recorded.seq] = event
            case JournalInterrupted() | JournalResumed() | ReserveReleased() | ReserveRestored():
                self.home_events[f"health:{event.kind}:{event.at:%Y-%m-%dT%H:%M:%S.%f}"] = event
            case ApprovalRequested() | ActionAnnounced():
                if event.approval and run in self.incidents:
                    self.pending_approvals[event.approval] = (event, run)
            case ApprovalSettled():
                self.pending_approvals.pop(event.approval, None)
            case _:
                self._apply_incident_event(recorded)

    def mark_queued(self, notice: NotificationQueued) -> None:
        """It was queued, here or by another watch: not due any more."""
        if notice.notice not in self.queued:
            self.queued_at = [*self.queued_at[-99:], notice.at]
        self.queued |= {notice.notice, *notice.covers}
        self.joined_parts = {
            seq: each
            for seq, each in self.joined_parts.items()
            if part_notice_id(seq, each) not in self.queued
        }
        self._settle_incident(notice)

    def forget(self, before: datetime) -> None:
        """Drop notifications that have been due since before this time."""
        for id in tuple(self.active):
            last = self.incidents[id].recovered or self.incidents[id].closed
            if last is not None and last.at < before:
                del self.active[id]
        self.joined_parts = {
            seq: each for seq, each in self.joined_parts.items() if each.at >= before
        }
        self.home_events = {id: each for id, each in self.home_events.items() if each.at >= before}
        self.missed_rounds = {
            seq: each for seq, each in self.missed_rounds.items() if each.at >= before
        }

    def _settle_incident(self, notice: NotificationQueued) -> None:
        """Make the incident inactive when its last end was notified."""
        id = notice.incident
        if id in self.ended and notice.notice == f"{id}:{notice.about}:{self.ended[id]}":
            self.active.pop(id, None)

    def _apply_incident_event(self, recorded: JournalRecord) -> None:
        event = recorded.event
        if isinstance(event, IncidentOpened) and event.run != event.incident:
            return  # of a drill: its run has another name
        apply_incident_event(self.incidents, recorded)
        id = getattr(event, "incident", "") or event.run.partition("/")[0]
        if id not in self.incidents:
            return
        match event:
            case IncidentOpened():
                self.openings.setdefault(id, (recorded.seq, ""))
                self.active[id] = None
            case IncidentReopened():
                self.openings[id] = (recorded.seq, event.reason or f"by {event.by}")
                self.ended.pop(id, None)
                self.active[id] = None
            case IncidentGraded() if event.severity < event.before:
                self.severity_raises[id] = (recorded.seq, event.before)
            case IncidentClosed() | IncidentRecovered():
                self._end(recorded.seq, id, event)
            case AlertsJoined():
                if event.parts and part_notice_id(recorded.seq, event) not in self.queued:
                    self.joined_parts[recorded.seq] = event
            case _:
                self._note_activity(id, event)

    def _end(self, seq: int, id: str, event: IncidentClosed | IncidentRecovered) -> None:
        if isinstance(event, IncidentRecovered):
            self.active[id] = None
            if event.at - event.recovered_at >= MAX_RECOVERY_DELAY:
                del self.active[id]
        elif event.by == "oracle":
            return
        self.ended[id] = seq
        self._forget_work(id)

    def _forget_work(self, id: str) -> None:
        """Free the memory of the report and the activity of an ended incident."""
        self.incidents[id] = replace(self.incidents[id], report="")
        self.activities.pop(id, None)
        self.pending_approvals = {
            key: each for key, each in self.pending_approvals.items() if each[1] != id
        }

    def _note_activity(self, id: str, event: object) -> None:
        match event:
            case PhaseEntered():
                self.activities[id] = event.detail
            case PlaybookStarted() if not event.dry:
                self.activities[id] = f"the playbook {event.skill}"
            case ChangeBegan():
                self.activities[id] = f"changing: {event.command}"
            case LayerInvestigated() if event.status == "working":
                self.activities[id] = f"looking at {event.layer}"
            case ToolRequested():
                self.activities[id] = activity_text(event, self.incidents[id].playing)
            case _:
                pass


def activity_text(event: ToolRequested, playing: str) -> str:
    """What a call is for, in words; scripts of Hermes are too long to be shown."""
    if playing and event.call.id.startswith("play-"):
        return f"the playbook {playing}"
    for prefix, words in OWN_CALL_TEXTS.items():
        if event.call.id.startswith(prefix):
            return words
    return f"asked for: {call_text(RecordedCall(request=event))}"


def part_notice_id(seq: int, event: AlertsJoined) -> str:
    """The id of the notification about what joined with this event."""
    return f"{event.incident}:part:{seq}"


@dataclass(frozen=True)
class _DueNotification:
    """A notification that is due; it is rendered only if it was not queued before."""

    notice: str
    kind: NotificationKind
    render: Callable[[], NotificationText]
    incident: str = ""
    severity: str = ""
    to_all_sinks: bool = False
    """It concerns the watch itself: sent to every sink, whatever its filter."""


class NotificationComposer:
    """Keeps no state but since when notifications are held back to be combined."""

    def __init__(self, settings: NoticeSettings, wanted: Sequence[SinkFilter]) -> None:
        self._settings, self._filters = settings, tuple(wanted)
        self._held_since: dict[str, datetime] = {}

    def compose(self, state: NotificationState, now: datetime) -> list[NotificationQueued]:
        """The notifications to queue now."""
        state.forget(now - MAX_UNSENT_AGE)
        found = [
            self._notice(due, now)
            for due in self._due_notifications(state, now)
            if due.notice not in state.queued
        ]
        return self._throttle(found, state, now)

    def _due_notifications(
        self, state: NotificationState, now: datetime
    ) -> Iterator[_DueNotification]:
        for id in state.active:
            incident = state.incidents[id]
            if incident.recovered is not None:
                end = f"resolved:{state.ended[id]}"
                yield _incident_notification(
                    incident, "resolved", end, partial(templates.render_recovered, incident)
                )
            elif incident.status == "open":
                yield from _opening_notifications(state, id, incident)
            elif incident.closed is not None:
                kind: NotificationKind = (
                    "escalated" if incident.closed.outcome == "escalated" else "resolved"
                )
                end = f"{kind}:{state.ended[id]}"
                yield _incident_notification(
                    incident, kind, end, partial(templates.render_ended, incident)
                )
        for seq, event in state.joined_parts.items():
            yield _part_notification(state.incidents[event.incident], seq, event)
        for approval, (request, id) in state.pending_approvals.items():
            incident = state.incidents[id]
            render = partial(templates.render_approval, request, incident)
            yield _incident_notification(
                incident, "approval-needed", f"approval:{approval}", render
            )
        for seq, missed in state.missed_rounds.items():
            yield _DueNotification(
                f"health:missed:{seq}", "health", partial(templates.render_missed_rounds, missed)
            )
        for notice, home_event in state.home_events.items():
            render = partial(templates.render_home_event, home_event)
            yield _DueNotification(notice, "health", render, to_all_sinks=True)
        yield from self._updates(state, now)
        yield from self._briefing(state, now)

    def _updates(self, state: NotificationState, now: datetime) -> Iterator[_DueNotification]:
        every = self._settings.update
        if every <= 0:
            return
        due = []
        for incident in (state.incidents[id] for id in state.active):
            passed = int((now - incident.details.opened_at).total_seconds() // every)
            if incident.status == "open" and not incident.question and passed >= 1:
                due.append((incident, f"update:{passed}"))
        if len(due) > MAX_SEPARATE_UPDATES:
            gravest = min(incident.severity for incident, _ in due)
            render = partial(templates.render_updates, [incident for incident, _ in due], now)
            id = f"{WATCH_RUN}:update:{int(now.timestamp() // every)}"
            yield _DueNotification(id, "update", render, severity=gravest)
            return
        waiting = [id for _, id in state.pending_approvals.values()]
        for incident, name in due:
            id = incident.details.incident
            doing = state.activities.get(id, "")
            render = partial(templates.render_update, incident, doing, waiting.count(id), now)
            yield _incident_notification(incident, "update", name, render)

    def _briefing(self, state: NotificationState, now: datetime) -> Iterator[_DueNotification]:
        if not self._settings.briefing:
            return
        here = now.astimezone()
        at = datetime.combine(here.date(), time.fromisoformat(self._settings.briefing), here.tzinfo)
        if (
            not at <= here < at + MAX_BRIEFING_DELAY
            or state.first_at is None
            or state.first_at > at
        ):
            return
        since = now - timedelta(days=1)

        def render() -> NotificationText:
            known = [each for each in state.incidents.values() if _is_recent(each, since)]
            return templates.render_briefing(known, f"{here:%Y-%m-%d}")

        yield _DueNotification(f"briefing:{here:%Y-%m-%d}", "briefing", render)

    def _throttle(
        self, found: Sequence[NotificationQueued], state: NotificationState, now: datetime
    ) -> list[NotificationQueued]:
        """Limit the rate; what is not urgent is held back and combined."""
        recent = sum(now - at < RATE_WINDOW for at in state.queued_at)
        allowed = max(0, self._settings.most - recent)
        urgent = [each for each in found if _is_urgent(each)]
        others = [each for each in found if not _is_urgent(each)]
        others.sort(key=lambda each: each.about != "declared")
        at_once, late = others[:allowed], others[allowed:]
        late = [each for each in late if each.about != "update"]  # the next one is more recent
        self._held_since = {each.notice: self._held_since.get(each.notice, now) for each in late}
        if any(now - self._held_since[each.notice] >= self._max_hold(each) for each in late):
            self._held_since = {}
            at_once.append(late[0] if len(late) == 1 else self._combine(late, now))
        return [*urgent, *at_once]

    def _max_hold(self, notice: NotificationQueued) -> timedelta:
        together = timedelta(seconds=self._settings.together)
        return min(together, MAX_OUTAGE_HOLD) if notice.about == "declared" else together

    def _combine(self, late: Sequence[NotificationQueued], now: datetime) -> NotificationQueued:
        gravest = min((each.severity for each in late if each.severity), default="")
        kind: NotificationKind = (
            "declared" if any(e.about == "declared" for e in late) else "update"
        )
        render = partial(templates.render_combined, [each.title for each in late])
        due = _DueNotification(f"storm:{late[0].notice}", kind, render, severity=gravest)
        return replace(
            self._notice(due, now),
            covers=tuple(each.notice for each in late),
            sinks=tuple({name: None for each in late for name in each.sinks}),
        )

    def _notice(self, due: _DueNotification, now: datetime) -> NotificationQueued:
        rendered = due.render()
        sinks = (
            each.sink
            for each in self._filters
            if due.to_all_sinks or each.takes(due.kind, due.severity)
        )
        return NotificationQueued(
            run=due.incident or WATCH_RUN,
            at=now,
            notice=due.notice,
            about=due.kind,
            title=rendered.title,
            text=rendered.text,
            incident=due.incident,
            severity=due.severity,
            sinks=tuple(sinks),
        )


def _opening_notifications(
    state: NotificationState, id: str, incident: Incident
) -> Iterator[_DueNotification]:
    seq, again = state.openings[id]
    first = f"declared:{seq}"
    if incident.question:
        yield _incident_notification(
            incident, "declared", first, partial(templates.render_question, incident)
        )
        return
    yield _incident_notification(
        incident, "declared", first, partial(templates.render_declared, incident, again=again)
    )
    number, before = state.severity_raises.get(id, (0, ""))
    if number > seq and f"{id}:{first}" in state.queued:
        # Sent as a declaration: further sinks may accept the higher severity.
        render = partial(templates.render_declared, incident, before=before)
        yield _incident_notification(incident, "declared", f"graver:{number}", render)


def _part_notification(incident: Incident, seq: int, event: AlertsJoined) -> _DueNotification:
    """Sent as a declaration of its own, to every sink that accepts declarations."""
    gravest = min(part.severity for part in event.parts)
    render = partial(templates.render_joined, incident, event)
    id = incident.details.incident
    return _DueNotification(
        part_notice_id(seq, event), "declared", render, incident=id, severity=gravest
    )


def _incident_notification(
    incident: Incident, kind: NotificationKind, name: str, render: Callable[[], NotificationText]
) -> _DueNotification:
    id = incident.details.incident
    return _DueNotification(f"{id}:{name}", kind, render, incident=id, severity=incident.severity)


def _is_urgent(notice: NotificationQueued) -> bool:
    """It waits for an answer of a person, or it is a P0."""
    if notice.about in ("approval-needed", "briefing", "health"):
        return True
    return notice.severity == "P0" and notice.about != "update"


def _is_recent(incident: Incident, since: datetime) -> bool:
    if incident.unresolved or incident.details.opened_at >= since:
        return True
    last = incident.recovered or incident.closed
    return last is not None and last.at >= since
