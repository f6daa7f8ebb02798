"""The live state of one incident, folded from its events, and one text line per event.

The live view, the plain output and recordings are all rendered from a `LiveIncident`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from hermes.cli.render.terminal_text import clean, clip
from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.base import BaseEvent, UnknownEvent
from hermes.core.events.experiments import ExperimentRan, ExperimentsEnded, ExperimentsStarted
from hermes.core.events.incidents import (
    ChangeBegan,
    ChangesUndone,
    IncidentChecked,
    IncidentOpened,
    IncidentReopened,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.operations import (
    NotificationAttempted,
    NotificationQueued,
    NotificationSent,
)
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted
from hermes.core.events.tools import (
    ToolApproved,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.incident import Incident, apply_incident_event
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import RecordedCall
from hermes.skills.playbook.commands import parse_terminal_result
from hermes.sre.reports.actions import ANSWER_TOOLS, call_text
from hermes.sre.reports.statements import found_nothing
from hermes.sre.reports.timeline import build_timeline, clock_time

MAX_COMMANDS = 200
MAX_COMMAND_CHARACTERS = 4_000
CommandState = Literal["asked", "waiting", "running", "ok", "failed", "refused"]


@dataclass
class LiveCommand:
    command: str = ""
    who: str = ""
    """The investigator or the playbook; empty for the commander."""
    state: CommandState = "asked"
    decision: str = ""
    """The decision, and the rule or person that made it."""
    changes: bool = False
    undo: str = ""
    undone: Literal["", "yes", "failed"] = ""
    seconds: float = 0.0
    detail: str = ""


@dataclass
class LiveCheck:
    """The result of a check before and after the changes."""

    before: bool | None = None
    after: bool | None = None
    trigger: bool | None = None
    """The result after the trigger of the problem was repeated."""
    detail: str = ""

    @property
    def latest(self) -> bool | None:
        return next((s for s in (self.trigger, self.after, self.before) if s is not None), None)


@dataclass
class LiveNotification:
    """A notification, with the sinks that accepted it and those that failed."""

    title: str
    about: str = ""
    sent: list[str] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)


@dataclass
class LiveIncident:
    """Folded with `apply`, event by event."""

    incident: Incident | None = None
    phases: list[PhaseEntered] = field(default_factory=list)
    layers: dict[str, LayerInvestigated] = field(default_factory=dict)
    commands: dict[str, LiveCommand] = field(default_factory=dict)
    """By the id of the call."""
    checks: dict[str, LiveCheck] = field(default_factory=dict)
    waiting: dict[str, ApprovalRequested | ActionAnnounced] = field(default_factory=dict)
    notices: dict[str, LiveNotification] = field(default_factory=dict)
    declined: set[str] = field(default_factory=set)
    """Playbooks that checked for their fault and did not find it."""
    unchecked: set[str] = field(default_factory=set)
    """Playbooks whose checks did not complete."""
    model_calls: int = 0
    suspects: ExperimentsStarted | None = None
    """The changes that experiments are run on; None before the first experiment."""
    experiments: list[ExperimentRan] = field(default_factory=list)
    experiments_ended: ExperimentsEnded | None = None

    @property
    def is_over(self) -> bool:
        known = self.incident
        return known is not None and (known.closed or known.recovered) is not None

    def concerns(self, event: BaseEvent | UnknownEvent) -> bool:
        """Return whether the event is about this incident; before it is opened, only
        `incident.opened`."""
        if isinstance(event, UnknownEvent):
            return False
        if self.incident is None:
            return event.kind == "incident.opened"
        details = self.incident.details
        if isinstance(event, NotificationSent | NotificationAttempted):
            return event.notice in self.notices
        if about := getattr(event, "incident", ""):
            return bool(about == details.incident)
        return event.run == details.run or event.run.startswith(f"{details.run}/")

    def apply(self, recorded: JournalRecord) -> None:
        """Events of other incidents change nothing."""
        event = recorded.event
        if not self.concerns(event):
            return
        known = {} if self.incident is None else {self.incident.details.incident: self.incident}
        apply_incident_event(known, recorded)
        self.incident = next(iter(known.values()), None)
        match event:
            case ToolRequested() | ToolDecided() | ToolApproved() | ToolStarted() | ToolFinished():
                self._apply_tool_event(event)
            case ChangeBegan() | ChangesUndone():
                self._apply_change_event(event)
            case ApprovalRequested() | ActionAnnounced() if event.approval:
                self.waiting[event.approval] = event
            case ApprovalSettled():
                self.waiting.pop(event.approval, None)
            case NotificationQueued():
                self.notices[event.notice] = LiveNotification(event.title, event.about)
            case NotificationSent() | NotificationAttempted():
                self._apply_notification_event(event)
            case _:
                self._apply_phase_event(event)

    def _apply_phase_event(self, event: object) -> None:
        match event:
            case PhaseEntered():
                self.phases.append(event)
            case LayerInvestigated():
                self.layers[event.layer] = event
            case IncidentChecked():
                check = self.checks.setdefault(event.check, LiveCheck())
                setattr(check, event.when, event.ok)
                check.detail = event.detail
            case ModelAnswered():
                self.model_calls += 1
            case ExperimentsStarted():
                self.suspects, self.experiments, self.experiments_ended = event, [], None
            case ExperimentRan():
                self.experiments.append(event)
            case ExperimentsEnded():
                self.experiments_ended = event
            case PlaybookEnded() | PlaybookStarted() if not event.dry:
                self._apply_playbook_event(event)
            case IncidentReopened():  # earlier checks no longer count
                self.phases, self.checks, self.layers = [], {}, {}

    def _apply_playbook_event(self, event: PlaybookEnded | PlaybookStarted) -> None:
        """Classify a playbook by its last check; playbooks that made changes are left out."""
        self.declined.discard(event.skill)
        self.unchecked.discard(event.skill)
        played = self.incident.played if self.incident is not None else ()
        if isinstance(event, PlaybookEnded) and event.skill not in played:
            (self.declined if found_nothing(event) else self.unchecked).add(event.skill)

    def _apply_tool_event(
        self, event: ToolRequested | ToolDecided | ToolApproved | ToolStarted | ToolFinished
    ) -> None:
        if isinstance(event, ToolRequested):
            if event.call.name not in ANSWER_TOOLS:
                command = self._command(event.call.id)
                command.command = call_text(RecordedCall(request=event))
                command.who = command.who or event.run.partition("/")[2]
            return
        id = event.result.call_id if isinstance(event, ToolFinished) else event.call_id
        if id in self.commands:
            _advance_command(self.commands[id], event)

    def _apply_change_event(self, event: ChangeBegan | ChangesUndone) -> None:
        if isinstance(event, ChangeBegan):
            command = self._command(event.call_id)
            command.command = command.command or event.command
            command.who = command.who or event.by.rpartition("/")[2]
            command.changes, command.undo = True, event.undo
            return
        for id in {*event.calls, *event.failed} & self.commands.keys():
            self.commands[id].undone = "failed" if id in event.failed else "yes"

    def _apply_notification_event(self, event: NotificationSent | NotificationAttempted) -> None:
        notification, sink = self.notices[event.notice], event.sink
        if isinstance(event, NotificationSent):
            notification.sent.append(sink)
            notification.failing = [name for name in notification.failing if name != sink]
        elif event.error and sink not in notification.failing:
            notification.failing.append(sink)

    def _command(self, id: str) -> LiveCommand:
        """The command with this call id; beyond the limit, the oldest one that only reads goes."""
        command = self.commands.setdefault(id, LiveCommand())
        if len(self.commands) > MAX_COMMANDS:
            read_only = [each for each, known in self.commands.items() if not known.changes]
            del self.commands[(read_only or list(self.commands))[0]]
        return command


def fold_live_incident(records: Iterable[JournalRecord]) -> LiveIncident:
    live = LiveIncident()
    for recorded in records:
        live.apply(recorded)
    return live


def _advance_command(
    command: LiveCommand, event: ToolDecided | ToolApproved | ToolStarted | ToolFinished
) -> None:
    match event:
        case ToolDecided():
            states: dict[str, CommandState] = {"ask": "waiting", "deny": "refused"}
            command.state = states.get(event.verdict, "asked")
            command.decision = f"{event.verdict}: {event.rule}"
        case ToolApproved():
            command.state = "asked" if event.approved else "refused"
            command.decision = event.answer
        case ToolStarted():
            command.state = "running"
        case ToolFinished() if command.state != "refused":  # that one finishes without a start
            end = parse_terminal_result(event.result, command.command, event.seconds)
            succeeded = end.status == "ok" and end.code in (0, None) and not end.timed_out
            problem = "ran out of time" if end.timed_out else f"exit code {end.code}"
            command.state = "ok" if succeeded else "failed"
            command.seconds, command.detail = event.seconds, "" if succeeded else problem


def main_line(command: str) -> str:
    """Return the first line of a script that identifies it."""
    lines = [
        line.strip()
        for line in command[:MAX_COMMAND_CHARACTERS].strip().splitlines()
        if line.strip()
    ]
    candidates = [line for line in lines if " " in line and not line.startswith("#")] or lines
    if len(lines) < 2:
        return candidates[0] if candidates else ""
    return f"{candidates[0]} … ({len(command.strip().splitlines())} lines)"


LINE_COLUMNS = 160
MAX_LINE_CHARACTERS = 2_000


def event_line(live: LiveIncident, recorded: JournalRecord) -> str:
    """`live` is the state after the event. Empty when the event needs no line."""
    event = recorded.event
    text = _live_line(live, event)
    if text is None:
        text = next((moment.text for moment in build_timeline([recorded])), "")
    return (
        f"{clock_time(event.at)}  {clip(clean(text[:MAX_LINE_CHARACTERS]), LINE_COLUMNS)}"
        if text
        else ""
    )


def _live_line(live: LiveIncident, event: object) -> str | None:
    """Return None when the text of the report timeline is used."""
    match event:
        case IncidentOpened():
            return f"{event.severity} {event.title} ({event.incident})"
        case ToolDecided() | ToolApproved() | ToolStarted() | ToolFinished():
            id = event.result.call_id if isinstance(event, ToolFinished) else event.call_id
            return _command_line(live.commands.get(id), event)
        case ChangeBegan():
            return f"a change, with its undo: {event.undo}" if event.undo else ""
        case PlaybookEnded(outcome="declined"):
            return ""  # shown as a count
        case IncidentChecked():
            if event.ok and live.checks[event.check].before is not False:
                return ""  # it never failed
            how = "?" if event.unknown else "✓" if event.ok else "✗"
            return f"{how} {event.when}: {event.check}" + ("" if event.ok else f" {event.detail}")
        case ApprovalRequested() | ActionAnnounced():
            return _approval_line(event)
        case NotificationQueued() | NotificationSent() | NotificationAttempted():
            return _notification_line(live, event)
        case _:
            return None


def only_reads(live: LiveIncident, event: BaseEvent | UnknownEvent) -> bool:
    """Return whether it is about a command that changes nothing: there are dozens, from playbooks
    that look for their fault."""
    if not isinstance(event, ToolDecided | ToolApproved | ToolStarted | ToolFinished):
        return False
    id = event.result.call_id if isinstance(event, ToolFinished) else event.call_id
    return id in live.commands and not live.commands[id].changes


def _command_line(command: LiveCommand | None, event: object) -> str:
    """A line when it ends or is refused; for a change also when it starts."""
    if command is None:
        return ""
    who = f"{command.who}: " if command.who else ""
    text = main_line(command.command)
    if command.state == "refused" and not isinstance(event, ToolFinished):
        return f"⊘ {who}{text} ({command.decision})"
    if isinstance(event, ToolStarted) and command.changes:
        columns = LINE_COLUMNS - len(who) - len(command.decision) - 15
        return f"▶ {who}{clip(text, max(columns, 40))} ({command.decision})"
    if isinstance(event, ToolFinished) and command.state in ("ok", "failed"):
        mark = "✓" if command.state == "ok" else f"✗ {command.detail}:"
        return f"{mark} {who}{text} ({command.seconds:.1f} s)"
    return ""


def _approval_line(event: ApprovalRequested | ActionAnnounced) -> str:
    shown = f"{event.purpose}: {event.shown}" if event.purpose else event.shown
    if isinstance(event, ActionAnnounced):
        return f"? runs in {event.seconds:g} s unless stopped: {shown}" + (
            f" (hermes approvals stop {event.approval})" if event.approval else ""
        )
    return f"? waits for a person: hermes approvals approve {event.approval}: {shown}"


def _notification_line(
    live: LiveIncident, event: NotificationQueued | NotificationSent | NotificationAttempted
) -> str:
    if isinstance(event, NotificationQueued):
        return f"notification: {event.title}"
    title = live.notices[event.notice].title if event.notice in live.notices else event.notice
    if isinstance(event, NotificationSent) or not event.error:
        return ""
    end = "given up" if event.given_up else "tried again"
    return f"{event.sink} did not accept {title!r}: {event.error}; {end}"
