"""What the stream says that matters to people: the state from which notices are composed."""

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
from hermes.core.protocols import JournalRecord
from hermes.sre.incident import INCIDENT_KINDS, Incident, apply_incident_event
from hermes.sre.notifications import templates
from hermes.sre.notifications.sink_protocol import SinkFilter
from hermes.sre.notifications.templates import NotificationText
from hermes.sre.reports.actions import requested_command
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
"""Enough to know what is owed after a start; what is being done is learned as it is done."""
HomeDirectoryEvent = JournalInterrupted | JournalResumed | ReserveReleased | ReserveRestored
OWN_CALL_TEXTS = {
    "play-": "checking playbooks",
    "assess-": "assessing the host",
    "look-": "checking whether the problem is still there",
    "keep-": "copying what a change will touch",
    "trigger-": "triggering the problem again",
}
"""By how the ids of calls begin."""
ApprovalEvent = ApprovalRequested | ActionAnnounced
MAX_RECOVERY_DELAY = timedelta(days=1)
"""A recovery that was noticed so much later is history; journals of older versions have many."""


class NotificationState:
    """A fold over the stream. Drills are nobody's business but the gym's."""

    def __init__(self) -> None:
        self.incidents: dict[str, Incident] = {}
        self.openings: dict[str, tuple[int, str]] = {}
        """By incident: the number of the event that opened it, or opened it again, and why."""
        self.severity_raises: dict[str, tuple[int, str]] = {}
        """By incident: the number of the event that made it graver, and what it was before."""
        self.ended: dict[str, int] = {}
        self.active: dict[str, None] = {}
        """Incidents about which something may be owed, in the order in which they began."""
        self.activities: dict[str, str] = {}
        self.pending_approvals: dict[str, tuple[ApprovalEvent, str]] = {}
        """By approval: the question, and the incident it belongs to."""
        self.joined_parts: dict[int, AlertsJoined] = {}
        """By the number of the event: what became part of an incident and must be named."""
        self.missed_rounds: dict[int, HealthMissed] = {}
        self.home_events: dict[str, HomeDirectoryEvent] = {}
        """By notice: what happened to the home directory of the watch itself."""
        self.queued: set[str] = set()
        self.queued_at: list[datetime] = []
        """Of late, to see a storm."""
        self.first_at: datetime | None = None
        """Of the first thing that was ever written: before it, there is nothing to sum up."""
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
        """Composed, by us or by another watch: not owed any more."""
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
        """What ended or was missed before that, and was never told, is history."""
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
        """Told of this end; one that was opened again since has another end."""
        id = notice.incident
        if id in self.ended and notice.notice == f"{id}:{notice.about}:{self.ended[id]}":
            self.active.pop(id, None)

    def _apply_incident_event(self, recorded: JournalRecord) -> None:
        event = recorded.event
        if isinstance(event, IncidentOpened) and event.run != event.incident:
            return  # a drill's: its run has a name of its own
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
        """A year of reports is not kept in memory for the sake of a notice."""
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
    """What a call is for, in words. Looks of ours are long scripts that tell a reader nothing."""
    if playing and event.call.id.startswith("play-"):
        return f"the playbook {playing}"
    for prefix, words in OWN_CALL_TEXTS.items():
        if event.call.id.startswith(prefix):
            return words
    return f"asked for: {requested_command(event)}"


def part_notice_id(seq: int, event: AlertsJoined) -> str:
    """Of the notice that names what joined with this event."""
    return f"{event.incident}:part:{seq}"


WATCH_RUN = "watch"
MAX_UNSENT_AGE = timedelta(hours=1)
"""What ended before that, and was never told of, is history: it stands in the briefing."""
MAX_SEPARATE_UPDATES = 3
"""More open ones than this share one update."""
MAX_BRIEFING_DELAY = timedelta(hours=4)
"""A briefing later than that is not one."""
RATE_WINDOW = timedelta(minutes=1)


@dataclass(frozen=True)
class _DueNotification:
    """Somebody should be told; the words are found only if they have not been."""

    notice: str
    kind: NotificationKind
    render: Callable[[], NotificationText]
    incident: str = ""
    severity: str = ""
    to_all_sinks: bool = False
    """It concerns the watch itself: every sink is told, whatever it wants to be told about."""


class NotificationComposer:
    """Remembers only since when something waits to be told together with others."""

    def __init__(self, settings: NoticeSettings, wanted: Sequence[SinkFilter]) -> None:
        self._settings, self._filters = settings, tuple(wanted)
        self._held_since: dict[str, datetime] = {}

    def compose(self, ledger: NotificationState, now: datetime) -> list[NotificationQueued]:
        """What is to be queued now."""
        ledger.forget(now - MAX_UNSENT_AGE)
        found = [
            self._notice(debt, now)
            for debt in self._due_notifications(ledger, now)
            if debt.notice not in ledger.queued
        ]
        return self._throttle(found, ledger, now)

    def _due_notifications(
        self, ledger: NotificationState, now: datetime
    ) -> Iterator[_DueNotification]:
        for id in ledger.active:
            incident = ledger.incidents[id]
            if incident.recovered is not None:
                end = f"resolved:{ledger.ended[id]}"
                yield _incident_notification(
                    incident, "resolved", end, partial(templates.render_recovered, incident)
                )
            elif incident.status == "open":
                yield from _opening_notifications(ledger, id, incident)
            elif incident.closed is not None:
                kind: NotificationKind = (
                    "escalated" if incident.closed.outcome == "escalated" else "resolved"
                )
                end = f"{kind}:{ledger.ended[id]}"
                yield _incident_notification(
                    incident, kind, end, partial(templates.render_ended, incident)
                )
        for seq, event in ledger.joined_parts.items():
            yield _part_notification(ledger.incidents[event.incident], seq, event)
        for approval, (asked, id) in ledger.pending_approvals.items():
            incident = ledger.incidents[id]
            say = partial(templates.render_approval, asked, incident)
            yield _incident_notification(incident, "approval-needed", f"approval:{approval}", say)
        for seq, missed in ledger.missed_rounds.items():
            yield _DueNotification(
                f"health:missed:{seq}", "health", partial(templates.render_missed_rounds, missed)
            )
        for notice, happened in ledger.home_events.items():
            say = partial(templates.render_home_event, happened)
            yield _DueNotification(notice, "health", say, to_all_sinks=True)
        yield from self._updates(ledger, now)
        yield from self._briefing(ledger, now)

    def _updates(self, ledger: NotificationState, now: datetime) -> Iterator[_DueNotification]:
        every = self._settings.update
        if every <= 0:
            return
        due = []
        for incident in (ledger.incidents[id] for id in ledger.active):
            passed = int((now - incident.details.opened_at).total_seconds() // every)
            if incident.status == "open" and not incident.question and passed >= 1:
                due.append((incident, f"update:{passed}"))
        if len(due) > MAX_SEPARATE_UPDATES:
            gravest = min(incident.severity for incident, _ in due)
            say = partial(templates.render_updates, [incident for incident, _ in due], now)
            id = f"{WATCH_RUN}:update:{int(now.timestamp() // every)}"
            yield _DueNotification(id, "update", say, severity=gravest)
            return
        waiting = [id for _, id in ledger.pending_approvals.values()]
        for incident, name in due:
            id = incident.details.incident
            doing = ledger.activities.get(id, "")
            say = partial(templates.render_update, incident, doing, waiting.count(id), now)
            yield _incident_notification(incident, "update", name, say)

    def _briefing(self, ledger: NotificationState, now: datetime) -> Iterator[_DueNotification]:
        if not self._settings.briefing:
            return
        here = now.astimezone()
        at = datetime.combine(here.date(), time.fromisoformat(self._settings.briefing), here.tzinfo)
        if (
            not at <= here < at + MAX_BRIEFING_DELAY
            or ledger.first_at is None
            or ledger.first_at > at
        ):
            return
        since = now - timedelta(days=1)

        def say() -> NotificationText:
            known = [each for each in ledger.incidents.values() if _is_recent(each, since)]
            return templates.render_briefing(known, f"{here:%Y-%m-%d}")

        yield _DueNotification(f"briefing:{here:%Y-%m-%d}", "briefing", say)

    def _throttle(
        self, found: Sequence[NotificationQueued], ledger: NotificationState, now: datetime
    ) -> list[NotificationQueued]:
        """So many a minute; what is not urgent waits a little and is told together."""
        recent = sum(now - at < RATE_WINDOW for at in ledger.queued_at)
        room = max(0, self._settings.most - recent)
        urgent = [each for each in found if _is_urgent(each)]
        others = [each for each in found if not _is_urgent(each)]
        at_once, late = others[:room], others[room:]
        late = [each for each in late if each.about != "update"]  # the next one tells more
        self._held_since = {each.notice: self._held_since.get(each.notice, now) for each in late}
        if late and now - min(self._held_since.values()) >= timedelta(
            seconds=self._settings.together
        ):
            self._held_since = {}
            at_once.append(self._combine(late, now))
        return [*urgent, *at_once]

    def _combine(self, late: Sequence[NotificationQueued], now: datetime) -> NotificationQueued:
        gravest = min((each.severity for each in late if each.severity), default="")
        kind: NotificationKind = (
            "declared" if any(e.about == "declared" for e in late) else "update"
        )
        say = partial(templates.render_combined, [each.title for each in late])
        debt = _DueNotification(f"storm:{late[0].notice}", kind, say, severity=gravest)
        return replace(
            self._notice(debt, now),
            covers=tuple(each.notice for each in late),
            sinks=tuple({name: None for each in late for name in each.sinks}),
        )

    def _notice(self, debt: _DueNotification, now: datetime) -> NotificationQueued:
        said = debt.render()
        takers = (
            each.sink
            for each in self._filters
            if debt.to_all_sinks or each.takes(debt.kind, debt.severity)
        )
        return NotificationQueued(
            run=debt.incident or WATCH_RUN,
            at=now,
            notice=debt.notice,
            about=debt.kind,
            title=said.title,
            text=said.text,
            incident=debt.incident,
            severity=debt.severity,
            sinks=tuple(takers),
        )


def _opening_notifications(
    ledger: NotificationState, id: str, incident: Incident
) -> Iterator[_DueNotification]:
    seq, again = ledger.openings[id]
    first = f"declared:{seq}"
    if incident.question:
        yield _incident_notification(
            incident, "declared", first, partial(templates.render_question, incident)
        )
        return
    yield _incident_notification(
        incident, "declared", first, partial(templates.render_declared, incident, again=again)
    )
    number, before = ledger.severity_raises.get(id, (0, ""))
    if number > seq and f"{id}:{first}" in ledger.queued:
        # Told as a declaration: it may now concern those whom it did not wake before.
        say = partial(templates.render_declared, incident, before=before)
        yield _incident_notification(incident, "declared", f"graver:{number}", say)


def _part_notification(incident: Incident, seq: int, event: AlertsJoined) -> _DueNotification:
    """A declaration of its own: whoever wants to hear of outages wants to hear of this one."""
    gravest = min(part.severity for part in event.parts)
    say = partial(templates.render_joined, incident, event)
    id = incident.details.incident
    return _DueNotification(
        part_notice_id(seq, event), "declared", say, incident=id, severity=gravest
    )


def _incident_notification(
    incident: Incident, kind: NotificationKind, name: str, say: Callable[[], NotificationText]
) -> _DueNotification:
    id = incident.details.incident
    return _DueNotification(f"{id}:{name}", kind, say, incident=id, severity=incident.severity)


def _is_urgent(notice: NotificationQueued) -> bool:
    """A person's answer is waited for, or everything is down."""
    if notice.about in ("approval-needed", "briefing", "health"):
        return True
    return notice.severity == "P0" and notice.about != "update"


def _is_recent(incident: Incident, since: datetime) -> bool:
    if incident.unresolved or incident.details.opened_at >= since:
        return True
    last = incident.recovered or incident.closed
    return last is not None and last.at >= since
