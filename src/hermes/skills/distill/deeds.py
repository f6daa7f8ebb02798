"""What a run did, read from the journal: looks before, changes, looks after, and what proved it."""

from collections.abc import Sequence

from msgspec.structs import replace

from hermes.core.errors import ToolError
from hermes.core.events.incidents import (
    AlertRaised,
    ChangeBegan,
    ChangesUndone,
    IncidentDiagnosed,
    IncidentVerified,
)
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested
from hermes.core.messages import Value
from hermes.core.protocols import Recorded
from hermes.skills.playbook.ending import ended
from hermes.skills.playbook.facts import Facts, facts_of

LOOKS = frozenset({"read", "read-as-root", "network-local"})
TERMINAL = "terminal"


class NotDistilled(ToolError):
    """This run cannot become a skill; the text says why."""


class Deed(Value, kw_only=True, frozen=True):
    """One command that ran to its end."""

    seq: int
    command: str
    output: str = ""
    code: int | None = 0
    changes: bool = False
    restarts: bool = False
    """It brings a change into force."""
    undo: str = ""


class Story(Value, kw_only=True, frozen=True):
    """A run as a distiller sees it."""

    run: str
    facts: Facts
    incident: str = ""
    before: tuple[Deed, ...] = ()
    """Looks before the last change."""
    changes: tuple[Deed, ...] = ()
    """Changing commands that succeeded."""
    after: tuple[Deed, ...] = ()
    """Looks after the last change that succeeded."""
    diagnosis: IncidentDiagnosed | None = None
    checks: tuple[str, ...] = ()
    """What verified it, in words."""


def story_of(records: Sequence[Recorded]) -> Story:
    """Raises `NotDistilled` for a run that was not verified, or changed nothing by command."""
    alert = _first(records, AlertRaised)
    verified = [r.event for r in records if isinstance(r.event, IncidentVerified)]
    if alert is None:
        raise NotDistilled("the run answers no alert: there is no signature to learn")
    if not verified or not verified[-1].ok:
        raise NotDistilled("the run was not verified: only a verified fix becomes a skill")
    deeds = _deeds(records)
    changes = [deed for deed in deeds if deed.changes and deed.code == 0]
    if not changes:
        raise NotDistilled("the run changed nothing by command: there is nothing to repeat")
    last = changes[-1].seq
    diagnoses = [r.event for r in records if isinstance(r.event, IncidentDiagnosed)]
    return Story(
        run=alert.run,
        facts=facts_of(alert),
        incident=verified[-1].incident,
        before=tuple(d for d in deeds if not d.changes and d.seq < last),
        changes=tuple(changes),
        after=tuple(d for d in deeds if not d.changes and d.seq > last and d.code == 0),
        diagnosis=diagnoses[-1] if diagnoses else None,
        checks=verified[-1].checks,
    )


def _deeds(records: Sequence[Recorded]) -> list[Deed]:
    asked: dict[str, ToolRequested] = {}
    effects: dict[str, frozenset[str]] = {}
    ours = _written_down(records)
    found = []
    for recorded in records:
        event = recorded.event
        if isinstance(event, ToolRequested):
            asked[event.call.id] = event
        elif isinstance(event, ToolDecided):
            effects[event.call_id] = frozenset(event.effects)
        elif isinstance(event, ToolFinished) and event.result.call_id in asked:
            request = asked[event.result.call_id]
            deed = _deed(recorded.seq, request, event, effects.get(request.call.id, frozenset()))
            if deed is not None and (known := _told(deed, request.call.id, ours)):
                found.append(known)
    return found


def _written_down(records: Sequence[Recorded]) -> dict[str, ChangeBegan | None]:
    """Changes with their ways back, where somebody kept book; None: it was taken back again."""
    found: dict[str, ChangeBegan | None] = {}
    for recorded in records:
        event = recorded.event
        if isinstance(event, ChangeBegan):
            found[event.call_id] = event
        elif isinstance(event, ChangesUndone):
            found |= dict.fromkeys((*event.calls, *event.failed))
    return found


def _told(deed: Deed, call: str, ours: dict[str, ChangeBegan | None]) -> Deed | None:
    """What does more than look and is not in the book was no part of the fix: copies kept for the
    way back, a trigger set off again."""
    if not ours or not deed.changes:
        return deed
    began = ours.get(call)
    return replace(deed, undo=began.undo) if began is not None else None


def _deed(
    seq: int, request: ToolRequested, event: ToolFinished, effects: frozenset[str]
) -> Deed | None:
    changes = not effects <= LOOKS if effects else request.risk != "read"
    command = request.call.arguments.get("command")
    if request.call.name != TERMINAL or not isinstance(command, str):
        if changes and event.result.status == "ok":
            raise NotDistilled(
                f"the run changed something with {request.call.name}, which a playbook cannot "
                "repeat: write that step as a command"
            )
        return None
    if event.result.status != "ok":
        return None
    result = ended(event.result, command, event.seconds)
    return Deed(
        seq=seq,
        command=command,
        output=result.output,
        code=result.code,
        changes=changes,
        restarts="service-change" in effects,
    )


def _first(records: Sequence[Recorded], kind: type[AlertRaised]) -> AlertRaised | None:
    return next((r.event for r in records if isinstance(r.event, kind)), None)
