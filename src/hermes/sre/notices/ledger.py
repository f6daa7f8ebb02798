"""What the stream says that matters to people: the state from which notices are composed."""

from datetime import datetime, timedelta

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
from hermes.core.events.runs import RunStarted
from hermes.core.events.skills import PlaybookStarted
from hermes.core.events.tools import ToolRequested
from hermes.core.events.watching import (
    HealthMissed,
    JournalInterrupted,
    JournalResumed,
    NoticeQueued,
    ReserveReleased,
    ReserveRestored,
)
from hermes.core.protocols import Recorded
from hermes.sre.incident import KINDS as INCIDENT_KINDS
from hermes.sre.incident import Incident, take
from hermes.sre.report.told import command_of

KINDS = (
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
HomeEvent = JournalInterrupted | JournalResumed | ReserveReleased | ReserveRestored
OWN_CALLS = {
    "play-": "checking playbooks",
    "assess-": "assessing the host",
    "look-": "checking whether the problem is still there",
    "keep-": "copying what a change will touch",
    "trigger-": "triggering the problem again",
}
"""By how the ids of calls begin."""
Asked = ApprovalRequested | ActionAnnounced
OLD_RECOVERY = timedelta(days=1)
"""A recovery that was noticed so much later is history; journals of older versions have many."""


class Ledger:
    """A fold over the stream. Drills are nobody's business but the gym's."""

    def __init__(self) -> None:
        self.incidents: dict[str, Incident] = {}
        self.begun: dict[str, tuple[int, str]] = {}
        """By incident: the number of the event that opened it, or opened it again, and why."""
        self.graver: dict[str, tuple[int, str]] = {}
        """By incident: the number of the event that made it graver, and what it was before."""
        self.ended: dict[str, int] = {}
        self.live: dict[str, None] = {}
        """Incidents about which something may be owed, in the order in which they began."""
        self.doing: dict[str, str] = {}
        self.asked: dict[str, tuple[Asked, str]] = {}
        """By approval: the question, and the incident it belongs to."""
        self.parts: dict[int, AlertsJoined] = {}
        """By the number of the event: what became part of an incident and must be named."""
        self.missed: dict[int, HealthMissed] = {}
        self.home: dict[str, HomeEvent] = {}
        """By notice: what happened to the home directory of the watch itself."""
        self.queued: set[str] = set()
        self.queued_at: list[datetime] = []
        """Of late, to see a storm."""
        self.first_at: datetime | None = None
        """Of the first thing that was ever written: before it, there is nothing to sum up."""
        self._drills: set[str] = set()

    def apply(self, recorded: Recorded) -> None:
        event = recorded.event
        self.first_at = self.first_at or event.at
        run = event.run.partition("/")[0]
        if isinstance(event, RunStarted) and event.origin == "gym":
            self._drills.add(run)
        if run in self._drills:
            return
        match event:
            case NoticeQueued():
                self.note(event)
            case HealthMissed():
                self.missed[recorded.seq] = event
            case JournalInterrupted() | JournalResumed() | ReserveReleased() | ReserveRestored():
                self.home[f"health:{event.kind}:{event.at:%Y-%m-%dT%H:%M:%S.%f}"] = event
            case ApprovalRequested() | ActionAnnounced():
                if event.approval and run in self.incidents:
                    self.asked[event.approval] = (event, run)
            case ApprovalSettled():
                self.asked.pop(event.approval, None)
            case _:
                self._incident(recorded)

    def note(self, notice: NoticeQueued) -> None:
        """Composed, by us or by another watch: not owed any more."""
        if notice.notice not in self.queued:
            self.queued_at = [*self.queued_at[-99:], notice.at]
        self.queued |= {notice.notice, *notice.covers}
        self.parts = {
            seq: each for seq, each in self.parts.items() if part_id(seq, each) not in self.queued
        }
        self._settle(notice)

    def forget(self, before: datetime) -> None:
        """What ended or was missed before that, and was never told, is history."""
        for id in tuple(self.live):
            last = self.incidents[id].recovered or self.incidents[id].closed
            if last is not None and last.at < before:
                del self.live[id]
        self.parts = {seq: each for seq, each in self.parts.items() if each.at >= before}
        self.home = {id: each for id, each in self.home.items() if each.at >= before}
        self.missed = {seq: each for seq, each in self.missed.items() if each.at >= before}

    def _settle(self, notice: NoticeQueued) -> None:
        """Told of this end; one that was opened again since has another end."""
        id = notice.incident
        if id in self.ended and notice.notice == f"{id}:{notice.about}:{self.ended[id]}":
            self.live.pop(id, None)

    def _incident(self, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, IncidentOpened) and event.run != event.incident:
            return  # a drill's: its run has a name of its own
        take(self.incidents, recorded)
        id = getattr(event, "incident", "") or event.run.partition("/")[0]
        if id not in self.incidents:
            return
        match event:
            case IncidentOpened():
                self.begun.setdefault(id, (recorded.seq, ""))
                self.live[id] = None
            case IncidentReopened():
                self.begun[id] = (recorded.seq, event.reason or f"by {event.by}")
                self.ended.pop(id, None)
                self.live[id] = None
            case IncidentGraded() if event.severity < event.before:
                self.graver[id] = (recorded.seq, event.before)
            case IncidentClosed() | IncidentRecovered():
                self._end(recorded.seq, id, event)
            case AlertsJoined():
                if event.parts and part_id(recorded.seq, event) not in self.queued:
                    self.parts[recorded.seq] = event
            case _:
                self._work(id, event)

    def _end(self, seq: int, id: str, event: IncidentClosed | IncidentRecovered) -> None:
        if isinstance(event, IncidentRecovered):
            self.live[id] = None
            if event.at - event.recovered_at >= OLD_RECOVERY:
                del self.live[id]
        elif event.by == "oracle":
            return
        self.ended[id] = seq
        self._over(id)

    def _over(self, id: str) -> None:
        """A year of reports is not kept in memory for the sake of a notice."""
        self.incidents[id] = replace(self.incidents[id], report="")
        self.doing.pop(id, None)
        self.asked = {key: each for key, each in self.asked.items() if each[1] != id}

    def _work(self, id: str, event: object) -> None:
        match event:
            case PhaseEntered():
                self.doing[id] = event.detail
            case PlaybookStarted() if not event.dry:
                self.doing[id] = f"the playbook {event.skill}"
            case ChangeBegan():
                self.doing[id] = f"changing: {event.command}"
            case LayerInvestigated() if event.status == "working":
                self.doing[id] = f"looking at {event.layer}"
            case ToolRequested():
                self.doing[id] = doing_of(event, self.incidents[id].playing)
            case _:
                pass


def doing_of(event: ToolRequested, playing: str) -> str:
    """What a call is for, in words. Looks of ours are long scripts that tell a reader nothing."""
    if playing and event.call.id.startswith("play-"):
        return f"the playbook {playing}"
    for prefix, words in OWN_CALLS.items():
        if event.call.id.startswith(prefix):
            return words
    return f"asked for: {command_of(event)}"


def part_id(seq: int, event: AlertsJoined) -> str:
    """Of the notice that names what joined with this event."""
    return f"{event.incident}:part:{seq}"
