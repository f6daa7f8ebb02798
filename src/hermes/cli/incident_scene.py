"""One incident as somebody watches it: folded from its events, one at a time.

Pure: the live view, its plain lines and a recording are all drawn from a `Scene`.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import field
from msgspec.structs import replace

from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.happening import Happening, Unknown
from hermes.core.events.incidents import (
    ChangeBegan,
    ChangesUndone,
    IncidentChecked,
    IncidentReopened,
    LayerInvestigated,
    PhaseEntered,
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
from hermes.core.events.watching import NoticeQueued, NoticeSent, NoticeTried
from hermes.core.messages import Value
from hermes.core.protocols import Recorded
from hermes.skills.playbook.ending import ended
from hermes.sre.incident import Incident, take
from hermes.sre.report.statements import found_nothing
from hermes.sre.report.told import SPOKEN, command_of

KEPT = 200
"""Commands that a scene remembers; an agent may look a thousand times."""
READ = 4_000
"""Of a command, so much is looked at to show it."""
Doing = Literal["asked", "waiting", "running", "ok", "failed", "refused"]


class Command(Value, kw_only=True, frozen=True):
    call_id: str
    command: str = ""
    who: str = ""
    """The investigator, or the playbook; empty for the commander itself."""
    doing: Doing = "asked"
    decision: str = ""
    """Which rule or person decided what."""
    changes: bool = False
    undo: str = ""
    taken_back: Literal["", "yes", "failed"] = ""
    seconds: float = 0.0
    detail: str = ""


class Check(Value, kw_only=True, frozen=True):
    """How it was before anything was changed, and how it is now."""

    before: bool | None = None
    after: bool | None = None
    trigger: bool | None = None
    """Also after what set the trouble off was set off again."""
    detail: str = ""

    @property
    def now(self) -> bool | None:
        return next((s for s in (self.trigger, self.after, self.before) if s is not None), None)


class Told(Value, kw_only=True, frozen=True):
    """A notice, and who has it."""

    title: str
    about: str = ""
    sent: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()


class Scene(Value, kw_only=True, frozen=True):
    incident: Incident | None = None
    phases: tuple[PhaseEntered, ...] = ()
    layers: Mapping[str, LayerInvestigated] = field(default_factory=dict)
    commands: Mapping[str, Command] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)
    waiting: Mapping[str, ApprovalRequested | ActionAnnounced] = field(default_factory=dict)
    notices: Mapping[str, Told] = field(default_factory=dict)
    declined: frozenset[str] = frozenset()
    """Playbooks that looked for their fault and did not find it."""
    unchecked: frozenset[str] = frozenset()
    """Playbooks that could not look, or not completely."""
    model_calls: int = 0

    @property
    def over(self) -> bool:
        known = self.incident
        return known is not None and (known.closed or known.recovered) is not None


def scene_of(records: Iterable[Recorded]) -> Scene:
    scene = Scene()
    for recorded in records:
        scene = after(scene, recorded)
    return scene


def belongs(scene: Scene, event: Happening | Unknown) -> bool:
    """Of a journal's events, those of the incident that the scene has begun with."""
    if isinstance(event, Unknown):
        return False
    if scene.incident is None:
        return event.kind == "incident.opened"
    case = scene.incident.case
    if isinstance(event, NoticeSent | NoticeTried):
        return event.notice in scene.notices
    about = getattr(event, "incident", "")
    if about:
        return bool(about == case.incident)
    return event.run == case.run or event.run.startswith(f"{case.run}/")


def after(scene: Scene, recorded: Recorded) -> Scene:
    """The scene after one event more; events of others leave it as it is."""
    event = recorded.event
    if not belongs(scene, event):
        return scene
    known = {} if scene.incident is None else {scene.incident.case.incident: scene.incident}
    take(known, recorded)
    scene = replace(scene, incident=next(iter(known.values()), None))
    match event:
        case ToolRequested() | ToolDecided() | ToolApproved() | ToolStarted() | ToolFinished():
            return _called(scene, event)
        case ChangeBegan() | ChangesUndone():
            return _changed(scene, event)
        case ApprovalRequested() | ActionAnnounced() | ApprovalSettled():
            return _asked(scene, event)
        case NoticeQueued() | NoticeSent() | NoticeTried():
            return _told(scene, event)
        case _:
            return _worked(scene, event)


def _worked(scene: Scene, event: object) -> Scene:
    match event:
        case PhaseEntered():
            return replace(scene, phases=(*scene.phases, event))
        case LayerInvestigated():
            return replace(scene, layers={**scene.layers, event.layer: event})
        case IncidentChecked():
            seen = scene.checks.get(event.check, Check())
            seen = replace(seen, **{event.when: event.ok, "detail": event.detail})
            return replace(scene, checks={**scene.checks, event.check: seen})
        case ModelAnswered():
            return replace(scene, model_calls=scene.model_calls + 1)
        case PlaybookEnded() | PlaybookStarted() if not event.dry:
            return _looked(scene, event)
        case IncidentReopened():  # what was proved before is history
            return replace(scene, phases=(), checks={}, layers={})
        case _:
            return scene


def _looked(scene: Scene, event: PlaybookEnded | PlaybookStarted) -> Scene:
    """Each playbook once, by how its last look ended; not those that went on to act."""
    name = frozenset({event.skill})
    scene = replace(scene, declined=scene.declined - name, unchecked=scene.unchecked - name)
    played = scene.incident.played if scene.incident is not None else ()
    if isinstance(event, PlaybookStarted) or event.skill in played:
        return scene
    if found_nothing(event):
        return replace(scene, declined=scene.declined | name)
    return replace(scene, unchecked=scene.unchecked | name)


def _called(
    scene: Scene, event: ToolRequested | ToolDecided | ToolApproved | ToolStarted | ToolFinished
) -> Scene:
    if isinstance(event, ToolRequested):
        if event.call.name in SPOKEN:
            return scene
        known = scene.commands.get(event.call.id, Command(call_id=event.call.id))
        who = known.who or event.run.partition("/")[2]
        return _with(scene, replace(known, command=command_of(event), who=who))
    id = event.result.call_id if isinstance(event, ToolFinished) else event.call_id
    command = scene.commands.get(id)
    return scene if command is None else _with(scene, _went_on(command, event))


def _went_on(
    command: Command, event: ToolDecided | ToolApproved | ToolStarted | ToolFinished
) -> Command:
    match event:
        case ToolDecided():
            doing: Doing = {"ask": "waiting", "deny": "refused"}.get(event.verdict, "asked")  # type: ignore[assignment]
            return replace(command, doing=doing, decision=f"{event.verdict}: {event.rule}")
        case ToolApproved():
            said = f"approved by {event.by}" if event.approved else f"refused by {event.by}"
            return replace(command, doing="asked" if event.approved else "refused", decision=said)
        case ToolStarted():
            return replace(command, doing="running")
        case ToolFinished():
            if command.doing == "refused":  # a refusal ends too; it was never begun
                return command
            end = ended(event.result, command.command, event.seconds)
            well = end.status == "ok" and end.code in (0, None) and not end.timed_out
            late = "ran out of time" if end.timed_out else f"exit code {end.code}"
            return replace(
                command,
                doing="ok" if well else "failed",
                seconds=event.seconds,
                detail="" if well else late,
            )


def _changed(scene: Scene, event: ChangeBegan | ChangesUndone) -> Scene:
    if isinstance(event, ChangeBegan):
        known = scene.commands.get(event.call_id, Command(call_id=event.call_id))
        command = known.command or event.command
        who = known.who or event.by.rpartition("/")[2]
        return _with(scene, replace(known, command=command, who=who, changes=True, undo=event.undo))
    undone: dict[str, Literal["yes", "failed"]] = dict.fromkeys(event.calls, "yes")
    undone |= dict.fromkeys(event.failed, "failed")
    commands = {
        id: replace(each, taken_back=undone[id]) if id in undone else each
        for id, each in scene.commands.items()
    }
    return replace(scene, commands=commands)


def gist(command: str) -> str:
    """The line of a script by which one knows it again."""
    lines = [line.strip() for line in command[:READ].strip().splitlines() if line.strip()]
    telling = [line for line in lines if " " in line and not line.startswith("#")] or lines
    if len(lines) < 2:
        return telling[0] if telling else ""
    return f"{telling[0]} … ({len(command.strip().splitlines())} lines)"


def _asked(scene: Scene, event: ApprovalRequested | ActionAnnounced | ApprovalSettled) -> Scene:
    waiting = dict(scene.waiting)
    if isinstance(event, ApprovalSettled):
        waiting.pop(event.approval, None)
    elif event.approval:
        waiting[event.approval] = event
    return replace(scene, waiting=waiting)


def _told(scene: Scene, event: NoticeQueued | NoticeSent | NoticeTried) -> Scene:
    if isinstance(event, NoticeQueued):
        told = Told(title=event.title, about=event.about)
        return replace(scene, notices={**scene.notices, event.notice: told})
    told = scene.notices[event.notice]
    if isinstance(event, NoticeSent):
        failing = tuple(name for name in told.failing if name != event.sink)
        told = replace(told, sent=(*told.sent, event.sink), failing=failing)
    elif event.error and event.sink not in told.failing:
        told = replace(told, failing=(*told.failing, event.sink))
    return replace(scene, notices={**scene.notices, event.notice: told})


def _with(scene: Scene, command: Command) -> Scene:
    commands = {**scene.commands, command.call_id: command}
    if len(commands) > KEPT:
        looks = [id for id, each in commands.items() if not each.changes]
        del commands[(looks or list(commands))[0]]
    return replace(scene, commands=commands)
