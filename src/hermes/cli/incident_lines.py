"""The live view where there is no screen to draw on: a line for each thing that happens."""

from hermes.cli.incident_scene import Command, Scene, gist
from hermes.cli.render_safe import clean, clip
from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested
from hermes.core.events.incidents import ChangeBegan, IncidentChecked, IncidentOpened
from hermes.core.events.skills import PlaybookEnded
from hermes.core.events.tools import ToolApproved, ToolDecided, ToolFinished, ToolStarted
from hermes.core.events.watching import NoticeQueued, NoticeSent, NoticeTried
from hermes.core.protocols import Recorded
from hermes.sre.report.timeline import clock, timeline

WIDTH = 160
READ = 2_000


def line(scene: Scene, recorded: Recorded) -> str:
    """`scene` is that after the event. Empty for what is not worth a line."""
    event = recorded.event
    told = _own(scene, event)
    if told is None:
        told = next((moment.text for moment in timeline([recorded])), "")
    return f"{clock(event.at)}  {clip(clean(told[:READ]), WIDTH)}" if told else ""


def _own(scene: Scene, event: object) -> str | None:
    """None where the timeline of reports has the words."""
    match event:
        case IncidentOpened():
            return f"{event.severity} {event.title} ({event.incident})"
        case ToolDecided() | ToolApproved() | ToolStarted() | ToolFinished():
            id = event.result.call_id if isinstance(event, ToolFinished) else event.call_id
            return _command(scene.commands.get(id), event)
        case ChangeBegan():
            return f"a change, with its undo: {event.undo}" if event.undo else ""
        case PlaybookEnded(outcome="declined"):
            return ""  # counted once for all, not one by one
        case IncidentChecked():
            if event.ok and scene.checks[event.check].before is not False:
                return ""  # it was never in doubt
            how = "?" if event.unknown else "✓" if event.ok else "✗"
            return f"{how} {event.when}: {event.check}" + ("" if event.ok else f" {event.detail}")
        case ApprovalRequested() | ActionAnnounced():
            return _asked(event)
        case NoticeQueued() | NoticeSent() | NoticeTried():
            return _told(scene, event)
        case _:
            return None


def _command(command: Command | None, event: object) -> str:
    """Once when it ends or is refused; what changes something also when it begins."""
    if command is None:
        return ""
    who = f"{command.who}: " if command.who else ""
    text = gist(command.command)
    if command.doing == "refused" and not isinstance(event, ToolFinished):
        return f"⊘ {who}{text} ({command.decision})"
    if isinstance(event, ToolStarted) and command.changes:
        return f"▶ {who}{text} ({command.decision})"
    if isinstance(event, ToolFinished) and command.doing in ("ok", "failed"):
        mark = "✓" if command.doing == "ok" else f"✗ {command.detail}:"
        return f"{mark} {who}{text} ({command.seconds:.1f} s)"
    return ""


def _asked(event: ApprovalRequested | ActionAnnounced) -> str:
    if isinstance(event, ActionAnnounced):
        return f"? goes on in {event.seconds:g} s unless stopped: {event.shown}" + (
            f" (hermes approvals stop {event.approval})" if event.approval else ""
        )
    return f"? waits for a person: hermes approvals approve {event.approval}: {event.shown}"


def _told(scene: Scene, event: NoticeQueued | NoticeSent | NoticeTried) -> str:
    if isinstance(event, NoticeQueued):
        return f"notice: {event.title}"
    title = scene.notices[event.notice].title if event.notice in scene.notices else event.notice
    if isinstance(event, NoticeSent):
        return ""
    if not event.error:
        return ""
    end = "given up" if event.given_up else "tried again"
    return f"{event.sink} did not accept {title!r}: {event.error}; {end}"
