"""Folds the event stream into what notifications are composed from."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import (
    AlertsJoined,
    ChangeBegan,
    IncidentAcknowledged,
    IncidentClosed,
    IncidentGraded,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.jobs import JobEnded, ScheduleInterrupted
from hermes.core.events.operations import (
    HealthMissed,
    JournalInterrupted,
    JournalResumed,
    NotificationQueued,
    ReserveReleased,
    ReserveRestored,
)
from hermes.core.events.runs import RunStarted
from hermes.core.events.skills import PlaybookStarted
from hermes.core.events.tools import ToolRequested
from hermes.core.incident import INCIDENT_KINDS, Incident, apply_incident_event
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import RecordedCall
from hermes.sre.reports.actions import call_text

NOTIFICATION_KINDS = (
    *(kind for kind in INCIDENT_KINDS if kind != "incident.checked"),
    "approval.requested",
    "approval.settled",
    "action.announced",
    "health.missed",
    "job.ended",
    "schedule.interrupted",
    "journal.interrupted",
    "journal.resumed",
    "reserve.released",
    "reserve.restored",
    "notice.queued",
    "run.started",
)
"""Events that are read after a start to find the notifications that are due."""
HomeDirectoryEvent = JournalInterrupted | JournalResumed | ReserveReleased | ReserveRestored
TOLD_JOBS = ("briefing", "review")
"""Built-in jobs whose results are sent to people."""
CONVERSATION_KINDS = ("reply", "question", "result")
"""Notifications that others queue: talk in chats, and events for webhooks. They have limits of
their own, and must not hold back notifications of incidents."""
OWN_CALL_TEXTS = {
    "play-": "checking playbooks",
    "assess-": "assessing the host",
    "look-": "checking whether the problem is still there",
    "keep-": "copying what a change will touch",
    "fact-": "collecting facts for the people who are called",
    "trigger-": "triggering the problem again",
}
"""By the prefix of the call id."""
ApprovalEvent = ApprovalRequested | ActionAnnounced
MAX_RECOVERY_DELAY = timedelta(days=1)
"""A recovery that was noticed later than this is not notified."""


class NotificationState:
    """The state from which notifications are composed. Events of drills are ignored."""

    def __init__(self) -> None:
        self.incidents: dict[str, Incident] = {}
        self.openings: dict[str, tuple[int, str]] = {}
        """By incident: the number of the event that opened or reopened it, and why."""
        self.severity_raises: dict[str, tuple[int, IncidentGraded]] = {}
        """By incident: the number and the event that raised its severity, or gave it the title of a
        graver failure, after it was declared; also when it is escalated already."""
        self.ended: dict[str, int] = {}
        self.active: dict[str, None] = {}
        """Incidents about which notifications may be due, in the order in which they began."""
        self.activities: dict[str, str] = {}
        self.pending_approvals: dict[str, tuple[ApprovalEvent, str]] = {}
        """By approval: the request, and its incident."""
        self._part_titles: dict[str, set[str]] = {}
        """By incident: the titles of the parts that have joined it."""
        self.joined_parts: dict[int, AlertsJoined] = {}
        """By event number: parts that joined an incident and must be notified."""
        self.acknowledgements: dict[str, IncidentAcknowledged] = {}
        """By notification id."""
        self.missed_rounds: dict[int, HealthMissed | ScheduleInterrupted] = {}
        self.builtin_results: dict[str, JobEnded] = {}
        """By notification id: briefings and reviews."""
        self.home_events: dict[str, HomeDirectoryEvent] = {}
        """By notification id: events about the home directory of the watch."""
        self.first_updates: dict[str, str] = {}
        """By incident: the notification that shows its progress; later ones replace it."""
        self.queued: set[str] = set()
        self.queued_at: list[datetime] = []
        """Times of the last notifications, for the rate limit."""
        self._drills: set[str] = set()

    def apply(self, recorded: JournalRecord) -> None:
        event = recorded.event
        run = event.run.partition("/")[0]
        if isinstance(event, RunStarted) and event.origin == "gym":
            self._drills.add(run)
        if run in self._drills:
            return
        match event:
            case NotificationQueued():
                self.mark_queued(event)
            case HealthMissed() | ScheduleInterrupted():
                self.missed_rounds[recorded.seq] = event
            case JobEnded():
                self._note_result(event)
            case JournalInterrupted() | JournalResumed() | ReserveReleased() | ReserveRestored():
                self.home_events[f"health:{event.kind}:{event.at:%Y-%m-%dT%H:%M:%S.%f}"] = event
            case ApprovalRequested() | ActionAnnounced():
                self._note_approval(event, run)
            case ApprovalSettled():
                self.pending_approvals.pop(event.approval, None)
            case IncidentAcknowledged():
                self._note_acknowledgement(recorded.seq, event)
                self._apply_incident_event(recorded)
            case _:
                self._apply_incident_event(recorded)

    def _note_result(self, event: JobEnded) -> None:
        if event.job in TOLD_JOBS and event.outcome == "ran":
            self.builtin_results[f"job:{event.occurrence}"] = event

    def _note_approval(self, event: ApprovalEvent, run: str) -> None:
        if event.approval and run in self.incidents:
            self.pending_approvals[event.approval] = (event, run)

    def _note_acknowledgement(self, seq: int, event: IncidentAcknowledged) -> None:
        notice = f"{event.incident}:acknowledged:{seq}"
        if event.incident in self.incidents and notice not in self.queued:
            self.acknowledgements[notice] = event

    def mark_queued(self, notice: NotificationQueued) -> None:
        """It was queued, here or by another watch: not due any more."""
        if notice.notice not in self.queued and notice.about not in CONVERSATION_KINDS:
            self.queued_at = [*self.queued_at[-99:], notice.at]
        self.queued |= {notice.notice, *notice.covers}
        self.joined_parts = {
            seq: each
            for seq, each in self.joined_parts.items()
            if part_notice_id(seq, each) not in self.queued
        }
        self.acknowledgements.pop(notice.notice, None)
        raised = self.severity_raises.get(notice.incident)
        if raised is not None and f"{notice.incident}:graver:{raised[0]}" in self.queued:
            del self.severity_raises[notice.incident]
        if notice.about == "update" and notice.notice.startswith(f"{notice.incident}:update:"):
            self.first_updates.setdefault(notice.incident, notice.notice)
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
        self.severity_raises = {
            id: each for id, each in self.severity_raises.items() if each[1].at >= before
        }
        self.home_events = {id: each for id, each in self.home_events.items() if each.at >= before}
        self.missed_rounds = {
            seq: each for seq, each in self.missed_rounds.items() if each.at >= before
        }
        self.acknowledgements = {
            id: each for id, each in self.acknowledgements.items() if each.at >= before
        }
        self.builtin_results = {
            id: each for id, each in self.builtin_results.items() if each.at >= before
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
            case IncidentGraded() if event.severity < event.before or self._is_new_title(id, event):
                declared = f"{id}:declared:{self.openings[id][0]}" in self.queued
                if declared and not self.incidents[id].question:
                    self.severity_raises[id] = (recorded.seq, event)
            case IncidentClosed() | IncidentRecovered():
                self._end(recorded.seq, id, event)
            case AlertsJoined():
                self._part_titles.setdefault(id, set()).update(each.title for each in event.parts)
                if event.parts and part_notice_id(recorded.seq, event) not in self.queued:
                    self.joined_parts[recorded.seq] = event
            case _:
                self._note_activity(id, event)

    def _is_new_title(self, id: str, event: IncidentGraded) -> bool:
        """Return whether the incident is named after a failure not yet notified of."""
        return bool(event.title) and event.title not in self._part_titles.get(id, ())

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
        self.first_updates.pop(id, None)
        self._part_titles.pop(id, None)
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
    """Return what a call is for, in words; scripts of Hermes are too long to be shown."""
    if playing and event.call.id.startswith("play-"):
        return f"the playbook {playing}"
    for prefix, words in OWN_CALL_TEXTS.items():
        if event.call.id.startswith(prefix):
            return words
    return f"asked for: {call_text(RecordedCall(request=event))}"


def part_notice_id(seq: int, event: AlertsJoined) -> str:
    """The id of the notification about what joined with this event."""
    return f"{event.incident}:part:{seq}"
