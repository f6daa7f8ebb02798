"""The live state of one incident, folded from its events, and one text line per event.

The live view, the plain output and recordings are all rendered from a `LiveIncident`.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import field
from msgspec.structs import replace

from hermes.cli.render.terminal_text import clean, clip
from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.base import BaseEvent, UnknownEvent
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
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import RecordedCall
from hermes.skills.playbook.commands import parse_terminal_result
from hermes.sre.reports.actions import ANSWER_TOOLS, call_text
from hermes.sre.reports.statements import found_nothing
from hermes.sre.reports.timeline import build_timeline, clock_time

MAX_COMMANDS = 200
MAX_COMMAND_CHARACTERS = 4_000
CommandState = Literal["asked", "waiting", "running", "ok", "failed", "refused"]


class LiveCommand(Value, kw_only=True, frozen=True):
    call_id: str
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


class LiveCheck(Value, kw_only=True, frozen=True):
    """The result of a check before and after the changes."""

    before: bool | None = None
    after: bool | None = None
    trigger: bool | None = None
    """The result after the trigger of the problem was repeated."""
    detail: str = ""

    @property
    def latest(self) -> bool | None:
        return next((s for s in (self.trigger, self.after, self.before) if s is not None), None)


class LiveNotification(Value, kw_only=True, frozen=True):
    """A notification, with the sinks that accepted it and those that failed."""

    title: str
    about: str = ""
    sent: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()


class LiveIncident(Value, kw_only=True, frozen=True):
    incident: Incident | None = None
    phases: tuple[PhaseEntered, ...] = ()
    layers: Mapping[str, LayerInvestigated] = field(default_factory=dict)
    commands: Mapping[str, LiveCommand] = field(default_factory=dict)
    checks: Mapping[str, LiveCheck] = field(default_factory=dict)
    waiting: Mapping[str, ApprovalRequested | ActionAnnounced] = field(default_factory=dict)
    notices: Mapping[str, LiveNotification] = field(default_factory=dict)
    declined: frozenset[str] = frozenset()
    """Playbooks that checked for their fault and did not find it."""
    unchecked: frozenset[str] = frozenset()
    """Playbooks whose checks did not complete."""
    model_calls: int = 0

    @property
    def is_over(self) -> bool:
        known = self.incident
        return known is not None and (known.closed or known.recovered) is not None


def fold_live_incident(records: Iterable[JournalRecord]) -> LiveIncident:
    live = LiveIncident()
    for recorded in records:
        live = apply_event(live, recorded)
    return live


def belongs_to_incident(live: LiveIncident, event: BaseEvent | UnknownEvent) -> bool:
    """Whether the event belongs to this incident; before it is opened, only `incident.opened`."""
    if isinstance(event, UnknownEvent):
        return False
    if live.incident is None:
        return event.kind == "incident.opened"
    details = live.incident.details
    if isinstance(event, NotificationSent | NotificationAttempted):
        return event.notice in live.notices
    about = getattr(event, "incident", "")
    if about:
        return bool(about == details.incident)
    return event.run == details.run or event.run.startswith(f"{details.run}/")


def apply_event(live: LiveIncident, recorded: JournalRecord) -> LiveIncident:
    """Return the state after the event; events of other incidents change nothing."""
    event = recorded.event
    if not belongs_to_incident(live, event):
        return live
    known = {} if live.incident is None else {live.incident.details.incident: live.incident}
    apply_incident_event(known, recorded)
    live = replace(live, incident=next(iter(known.values()), None))
    match event:
        case ToolRequested() | ToolDecided() | ToolApproved() | ToolStarted() | ToolFinished():
            return _apply_tool_event(live, event)
        case ChangeBegan() | ChangesUndone():
            return _apply_change_event(live, event)
        case ApprovalRequested() | ActionAnnounced() | ApprovalSettled():
            return _apply_approval_event(live, event)
        case NotificationQueued() | NotificationSent() | NotificationAttempted():
            return _apply_notification_event(live, event)
        case _:
            return _apply_phase_event(live, event)


def _apply_phase_event(live: LiveIncident, event: object) -> LiveIncident:
    match event:
        case PhaseEntered():
            return replace(live, phases=(*live.phases, event))
        case LayerInvestigated():
            return replace(live, layers={**live.layers, event.layer: event})
        case IncidentChecked():
            check = live.checks.get(event.check, LiveCheck())
            check = replace(check, **{event.when: event.ok, "detail": event.detail})
            return replace(live, checks={**live.checks, event.check: check})
        case ModelAnswered():
            return replace(live, model_calls=live.model_calls + 1)
        case PlaybookEnded() | PlaybookStarted() if not event.dry:
            return _apply_playbook_event(live, event)
        case IncidentReopened():  # earlier checks no longer count
            return replace(live, phases=(), checks={}, layers={})
        case _:
            return live


def _apply_playbook_event(
    live: LiveIncident, event: PlaybookEnded | PlaybookStarted
) -> LiveIncident:
    """Classify a playbook by its last check; playbooks that made changes are left out."""
    name = frozenset({event.skill})
    live = replace(live, declined=live.declined - name, unchecked=live.unchecked - name)
    played = live.incident.played if live.incident is not None else ()
    if isinstance(event, PlaybookStarted) or event.skill in played:
        return live
    if found_nothing(event):
        return replace(live, declined=live.declined | name)
    return replace(live, unchecked=live.unchecked | name)


def _apply_tool_event(
    live: LiveIncident,
    event: ToolRequested | ToolDecided | ToolApproved | ToolStarted | ToolFinished,
) -> LiveIncident:
    if isinstance(event, ToolRequested):
        if event.call.name in ANSWER_TOOLS:
            return live
        known = live.commands.get(event.call.id, LiveCommand(call_id=event.call.id))
        who = known.who or event.run.partition("/")[2]
        return _with_command(
            live, replace(known, command=call_text(RecordedCall(request=event)), who=who)
        )
    id = event.result.call_id if isinstance(event, ToolFinished) else event.call_id
    command = live.commands.get(id)
    return live if command is None else _with_command(live, _advance_command(command, event))


def _advance_command(
    command: LiveCommand, event: ToolDecided | ToolApproved | ToolStarted | ToolFinished
) -> LiveCommand:
    match event:
        case ToolDecided():
            state: CommandState = {"ask": "waiting", "deny": "refused"}.get(event.verdict, "asked")  # type: ignore[assignment]
            return replace(command, state=state, decision=f"{event.verdict}: {event.rule}")
        case ToolApproved():
            decision = f"approved by {event.by}" if event.approved else f"refused by {event.by}"
            return replace(
                command, state="asked" if event.approved else "refused", decision=decision
            )
        case ToolStarted():
            return replace(command, state="running")
        case ToolFinished():
            if command.state == "refused":  # a refused call finishes without a start
                return command
            end = parse_terminal_result(event.result, command.command, event.seconds)
            succeeded = end.status == "ok" and end.code in (0, None) and not end.timed_out
            problem = "ran out of time" if end.timed_out else f"exit code {end.code}"
            return replace(
                command,
                state="ok" if succeeded else "failed",
                seconds=event.seconds,
                detail="" if succeeded else problem,
            )


def _apply_change_event(live: LiveIncident, event: ChangeBegan | ChangesUndone) -> LiveIncident:
    if isinstance(event, ChangeBegan):
        known = live.commands.get(event.call_id, LiveCommand(call_id=event.call_id))
        command = known.command or event.command
        who = known.who or event.by.rpartition("/")[2]
        return _with_command(
            live, replace(known, command=command, who=who, changes=True, undo=event.undo)
        )
    undone: dict[str, Literal["yes", "failed"]] = dict.fromkeys(event.calls, "yes")
    undone |= dict.fromkeys(event.failed, "failed")
    commands = {
        id: replace(each, undone=undone[id]) if id in undone else each
        for id, each in live.commands.items()
    }
    return replace(live, commands=commands)


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


def _apply_approval_event(
    live: LiveIncident, event: ApprovalRequested | ActionAnnounced | ApprovalSettled
) -> LiveIncident:
    waiting = dict(live.waiting)
    if isinstance(event, ApprovalSettled):
        waiting.pop(event.approval, None)
    elif event.approval:
        waiting[event.approval] = event
    return replace(live, waiting=waiting)


def _apply_notification_event(
    live: LiveIncident, event: NotificationQueued | NotificationSent | NotificationAttempted
) -> LiveIncident:
    if isinstance(event, NotificationQueued):
        notification = LiveNotification(title=event.title, about=event.about)
        return replace(live, notices={**live.notices, event.notice: notification})
    notification = live.notices[event.notice]
    if isinstance(event, NotificationSent):
        failing = tuple(name for name in notification.failing if name != event.sink)
        notification = replace(notification, sent=(*notification.sent, event.sink), failing=failing)
    elif event.error and event.sink not in notification.failing:
        notification = replace(notification, failing=(*notification.failing, event.sink))
    return replace(live, notices={**live.notices, event.notice: notification})


def _with_command(live: LiveIncident, command: LiveCommand) -> LiveIncident:
    commands = {**live.commands, command.call_id: command}
    if len(commands) > MAX_COMMANDS:
        read_only = [id for id, each in commands.items() if not each.changes]
        del commands[(read_only or list(commands))[0]]
    return replace(live, commands=commands)


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
    """None when the text of the report timeline is used."""
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


def _command_line(command: LiveCommand | None, event: object) -> str:
    """A line when it ends or is refused; for a change also when it starts."""
    if command is None:
        return ""
    who = f"{command.who}: " if command.who else ""
    text = main_line(command.command)
    if command.state == "refused" and not isinstance(event, ToolFinished):
        return f"⊘ {who}{text} ({command.decision})"
    if isinstance(event, ToolStarted) and command.changes:
        return f"▶ {who}{text} ({command.decision})"
    if isinstance(event, ToolFinished) and command.state in ("ok", "failed"):
        mark = "✓" if command.state == "ok" else f"✗ {command.detail}:"
        return f"{mark} {who}{text} ({command.seconds:.1f} s)"
    return ""


def _approval_line(event: ApprovalRequested | ActionAnnounced) -> str:
    if isinstance(event, ActionAnnounced):
        return f"? runs in {event.seconds:g} s unless stopped: {event.shown}" + (
            f" (hermes approvals stop {event.approval})" if event.approval else ""
        )
    return f"? waits for a person: hermes approvals approve {event.approval}: {event.shown}"


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
