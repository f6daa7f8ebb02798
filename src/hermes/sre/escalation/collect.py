"""Collects everything that people are told when an incident is escalated."""

import re
from collections.abc import Iterator, Sequence

from hermes.core.errors import HermesError, StoreError
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.incidents import EscalationLine, IncidentChecked
from hermes.core.events.tools import ToolRequested
from hermes.core.incident import Incident, fold_incidents
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import read_result_numbers
from hermes.plumbing.units import format_duration
from hermes.sre.context import IncidentWork
from hermes.sre.escalation.host_lines import (
    change_lines,
    consumer_lines,
    disk_lines,
    error_lines,
    port_lines,
    process_lines,
)
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    HostRows,
    escalation_subject,
    parse_outputs,
    run_scripts,
)
from hermes.sre.escalation.service_owner import ServiceOwner, find_owners, next_commands
from hermes.sre.policies import ReadOnlyPolicy
from hermes.sre.reports.actions import list_refused_actions
from hermes.sre.reports.report_data import LISTING_KINDS
from hermes.sre.reports.statements import RECURRENCE_PERIOD, resolver_of

MAX_UNCHECKED, MAX_REFUSED = 6, 2
_CONFIG_CHECK = re.compile(r"config(-|$)")
_KEY_NEED = (
    "a model that looks into it: `hermes config set OPENROUTER_API_KEY`, or the key of another "
    "provider"
)


async def collect_escalation(work: IncidentWork, incident: Incident) -> tuple[EscalationLine, ...]:
    """Raises only `StoreError`: an escalation without facts is better than none."""
    subject, executor = escalation_subject(work.details), work.context.executor
    looking = executor.with_policy(ReadOnlyPolicy(executor.policy))
    try:
        outputs = await run_scripts(
            subject, work.context.execute_for_run(work.details.run, looking)
        )
    except StoreError:
        raise
    except HermesError as error:
        return (EscalationLine(about="unchecked", text=f"nothing could be collected: {error}"),)
    run = work.details.run
    found = parse_outputs(outputs, await read_result_numbers(work.journal, run))
    own = {each.call for each in outputs}
    records = [e async for e in work.journal.read(run=run) if not own & {call_id_of(e.event)}]
    lines = [
        *_host_lines(found, subject, incident),
        *_configuration_lines(records),
        *_earlier_lines(await _earlier_incidents(work, incident)),
        *_action_lines(found, subject, records, model=work.context.responder is not None),
    ]
    return tuple({(each.about, each.text): each for each in lines}.values())


def call_id_of(event: Event | UnknownEvent) -> str:
    """The id of the tool call that the event is about; empty for other events."""
    call = event.call.id if isinstance(event, ToolRequested) else ""
    return call or str(getattr(event, "call_id", ""))


def _host_lines(
    found: HostRows, subject: EscalationSubject, incident: Incident
) -> Iterator[EscalationLine]:
    began_at = incident.outage_began_at
    if subject.service:
        yield from process_lines(found, subject)
    yield from error_lines(found, began_at)
    yield from port_lines(found, subject.service)
    yield from disk_lines(found)
    yield from consumer_lines(found, subject.kind)
    yield from change_lines(found, subject.service, began_at)


def _configuration_lines(records: Sequence[JournalRecord]) -> Iterator[EscalationLine]:
    """The last results of the configuration tests among the checks of the incident."""
    last: dict[str, tuple[int, IncidentChecked]] = {}
    for each in records:
        if isinstance(each.event, IncidentChecked) and _CONFIG_CHECK.match(each.event.check):
            last[each.event.check] = (each.seq, each.event)
    for seq, event in last.values():
        about = "unchecked" if event.unknown else "configuration"
        yield EscalationLine(about=about, text=event.detail, evidence=(seq,))


async def _earlier_incidents(work: IncidentWork, incident: Incident) -> list[Incident]:
    """Ended ones of the same alert, else of the same service; the latest last."""
    details = incident.details
    since = details.opened_at - RECURRENCE_PERIOD
    records = [e async for e in work.journal.read(kinds=LISTING_KINDS, since=since)]
    drill = details.run != details.incident
    ended = [
        each
        for each in fold_incidents(records).values()
        if each.details.incident != details.incident
        and each.details.opened_at <= details.opened_at
        and each.ended_at is not None
        and (each.details.run != each.details.incident) == drill
    ]
    same = [
        e for e in ended if e.details.fingerprint and e.details.fingerprint == details.fingerprint
    ]
    return same or [e for e in ended if details.service and e.details.service == details.service]


def _earlier_lines(earlier: Sequence[Incident]) -> Iterator[EscalationLine]:
    for each in earlier[-1:]:
        lasted = format_duration(each.duration_s(each.ended_at or each.details.opened_at))
        resolver = resolver_of(each)
        kept = [change.command for change in each.changes if change.undone != "yes"]
        how = "how it ended is not known"
        if resolver.by != "nobody":
            how = f"resolved by {resolver}" + (f": {kept[-1]}" if kept else "")
            note = each.closed.reason if each.closed is not None else ""
            how += f": {note}" if resolver.by == "person" and note else ""
        yield EscalationLine(
            about="earlier",
            text=f"{each.details.incident} ({each.details.title[:60]}) lasted {lasted}; {how}",
            evidence=(each.seq,) if each.seq else (),
        )


def _action_lines(
    found: HostRows, subject: EscalationSubject, records: Sequence[JournalRecord], *, model: bool
) -> Iterator[EscalationLine]:
    owners = find_owners(found, subject.service) if subject.service else []
    owner = owners[0] if owners else ServiceOwner()
    for each in next_commands(found, subject, owner):
        yield EscalationLine(about="command", text=f"{each.command}  # {each.what}")
    yield from _needs(found, records, model=model)
    if owner.kind == "supervisord" and not found.of("supervisord"):
        yield EscalationLine(about="unchecked", text="its state in supervisord: no list from it")
    if len({each.kind for each in owners}) > 1:
        names = ", ".join(each.kind for each in owners)
        yield EscalationLine(about="unchecked", text=f"which of its supervisors owns it: {names}")
    if subject.service and not owners and "supervisor" in found.answered:
        text = f"no supervisor knows {subject.service}: how it is started is not known"
        seen = found.answered["supervisor"]
        yield EscalationLine(about="unchecked", text=text, evidence=(seen,))
    hidden = [f"who holds port {row[0]}: the owner was not visible" for row in found.of("hidden")]
    missing = ["no journalctl on this host"] if found.of("missing") and not found.of("log") else []
    for text in [*found.unchecked, *hidden, *missing][:MAX_UNCHECKED]:
        yield EscalationLine(about="unchecked", text=text)


def _needs(
    found: HostRows, records: Sequence[JournalRecord], *, model: bool
) -> Iterator[EscalationLine]:
    """What Hermes would need to do it itself."""
    for each in list_refused_actions(records)[:MAX_REFUSED]:
        text = f"a rule or approval for `{each.command[:100]}`: {each.why}"
        yield EscalationLine(about="need", text=text)
    uid = found.first("uid")
    if uid[0] not in ("", "0"):
        text = f"root or sudo: it runs as uid {uid[0]}"
        yield EscalationLine(about="need", text=text, evidence=(uid.seq,))
    if not model:
        yield EscalationLine(about="need", text=_KEY_NEED)
