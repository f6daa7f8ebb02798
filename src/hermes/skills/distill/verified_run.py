"""Reads a verified run from the journal: checks before, changes, checks after."""

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
from hermes.core.events.tools import ToolFinished
from hermes.core.incident import AlertFacts
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import RecordedCall, fold_finished_calls
from hermes.skills.playbook.commands import TERMINAL_TOOL, parse_terminal_result
from hermes.skills.playbook.parameters import facts_from_alert

READ_ONLY_EFFECTS = frozenset({"read", "read-as-root", "network-local"})


class DistillationError(ToolError):
    """This run cannot become a skill; the text gives the reason."""


class RunCommand(Value, kw_only=True, frozen=True):
    """One command that ran to its end."""

    seq: int
    command: str
    output: str = ""
    code: int | None = 0
    changes: bool = False
    restarts: bool = False
    """It restarts a service, which puts a change into effect."""
    undo: str = ""


class VerifiedRun(Value, kw_only=True, frozen=True):
    run: str
    facts: AlertFacts
    incident: str = ""
    checks_before: tuple[RunCommand, ...] = ()
    """Read-only commands before the last change."""
    changes: tuple[RunCommand, ...] = ()
    """Changing commands that succeeded."""
    checks_after: tuple[RunCommand, ...] = ()
    """Read-only commands after the last change that succeeded."""
    diagnosis: IncidentDiagnosed | None = None
    verified_by: tuple[str, ...] = ()
    """Names of the checks that verified it."""
    names: tuple[str, ...] = ()
    """Names of settings in the commands, which another host may call differently."""
    symptoms: tuple[str, ...] = ()
    """Those of the commands in `checks_after` that check the symptom itself."""


def read_verified_run(records: Sequence[JournalRecord]) -> VerifiedRun:
    """Raises `DistillationError` for a run that was not verified, or changed nothing by command."""
    alert = next((r.event for r in records if isinstance(r.event, AlertRaised)), None)
    verified = [r.event for r in records if isinstance(r.event, IncidentVerified)]
    if alert is None:
        raise DistillationError("the run has no alert: there is no signature to learn")
    if not verified or not verified[-1].ok:
        raise DistillationError("the run was not verified: only a verified fix becomes a skill")
    commands = _read_commands(records)
    changes = [each for each in commands if each.changes and each.code == 0]
    if not changes:
        raise DistillationError("the run changed nothing by command: there is nothing to repeat")
    reads, last = [each for each in commands if not each.changes], changes[-1].seq
    diagnoses = [r.event for r in records if isinstance(r.event, IncidentDiagnosed)]
    return VerifiedRun(
        run=alert.run,
        facts=facts_from_alert(alert),
        incident=verified[-1].incident,
        checks_before=tuple(each for each in reads if each.seq < last),
        changes=tuple(changes),
        checks_after=tuple(each for each in reads if each.seq > last and each.code == 0),
        diagnosis=diagnoses[-1] if diagnoses else None,
        verified_by=verified[-1].checks,
    )


def _read_commands(records: Sequence[JournalRecord]) -> list[RunCommand]:
    recorded_changes = _recorded_changes(records)
    found = []
    for call, finish in fold_finished_calls(records):
        command = _read_command(call, finish)
        if command is not None and command.changes and recorded_changes:
            # A change that was not recorded was not part of the fix: a copy for the undo.
            began = recorded_changes.get(call.id)
            command = replace(command, undo=began.undo) if began is not None else None
        if command is not None:
            found.append(command)
    return found


def _recorded_changes(records: Sequence[JournalRecord]) -> dict[str, ChangeBegan | None]:
    """Recorded changes by call id, with their undo command; None: the change was undone."""
    found: dict[str, ChangeBegan | None] = {}
    for recorded in records:
        event = recorded.event
        if isinstance(event, ChangeBegan):
            found[event.call_id] = event
        elif isinstance(event, ChangesUndone):
            found |= dict.fromkeys((*event.calls, *event.failed))
    return found


def _read_command(call: RecordedCall, finish: ToolFinished) -> RunCommand | None:
    effects = frozenset(call.effects)
    changes = not effects <= READ_ONLY_EFFECTS if effects else call.request.risk != "read"
    if finish.result.status != "ok":
        return None
    command = call.request.call.arguments.get("command")
    if call.name != TERMINAL_TOOL or not isinstance(command, str):
        if changes:
            raise DistillationError(
                f"the run changed something with {call.name}, which a playbook cannot "
                "repeat: write that step as a command"
            )
        return None
    result = parse_terminal_result(finish.result, command, finish.seconds)
    return RunCommand(
        seq=call.finished_seq,
        command=command,
        output=result.output,
        code=result.code,
        changes=changes,
        restarts="service-change" in effects,
    )
