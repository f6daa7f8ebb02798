"""Hands an incident over to people: the last diagnosis, as not proved, with facts for them."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

import anyio
from msgspec.structs import replace

from hermes.core.errors import HermesError, StoreError
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.experiments import ExperimentRan, ExperimentsEnded, FixTested
from hermes.core.events.incidents import EscalationLine, IncidentChecked, IncidentDiagnosed
from hermes.core.events.tools import ToolRequested
from hermes.core.foreign_text import cut_words
from hermes.core.incident import Incident, IncidentDetails, fold_incidents
from hermes.core.protocols import JournalRecord
from hermes.plumbing.units import format_duration
from hermes.skills.playbook.commands import (
    find_root_commands,
)
from hermes.sre.assessment.host_state import LastError, read_last_error
from hermes.sre.assessment.symptoms import Assessment, related_symptoms
from hermes.sre.checks import run_concurrently
from hermes.sre.context import IncidentContext, IncidentWork
from hermes.sre.escalation.dependencies import ports_of_services
from hermes.sre.escalation.host_scripts import (
    HostRows,
    escalation_subject,
)
from hermes.sre.escalation.service_collector import ServiceCollector
from hermes.sre.escalation.services_behind import (
    ServiceBehind,
    find_services_behind,
    service_lines,
)
from hermes.sre.policies import (
    READ_ONLY_RULE,
    UNATTENDED_RULE,
    own_script_policy,
)
from hermes.sre.reports.actions import list_refused_actions
from hermes.sre.reports.experiments import ended_text, tested_text
from hermes.sre.reports.report_data import LISTING_KINDS
from hermes.sre.reports.statements import RECURRENCE_PERIOD, SYMPTOM_CONFIDENCE, resolver_of
from hermes.sre.triage.topology import alert_location

MAX_REFUSED = 2
_CONFIG_CHECK = re.compile(r"config(-|$)")
_WORD = re.compile(r"[a-z]{4,}|\d{2,5}")
KINDS_IN_NAMES = frozenset(
    {"port", "http", "disk", "load", "memory", "inodes", "health", "process"}
)
"""Words of check names that are no names of services."""
_KEY_NEED = "a model: `hermes config set OPENROUTER_API_KEY`, or the key of another provider"
_STATE_NEED = (
    "a known good state to compare with, none is recorded yet: "
    "`hermes state record --known-good` while the host is fine"
)
ESCALATION_TIMEOUT_S = 20.0
"""For the last error of the service: people are not called later because of it."""
PREVENTED_START = "would prevent its next start"


async def publish_escalation(
    work: IncidentWork, incident: Incident, first: Assessment, reason: str
) -> None:
    """Publish the last diagnosis as not proved, with the reason and with facts for people."""
    known = incident.diagnosis
    if known is not None and known.escalation:
        return
    bases: list[IncidentDiagnosed] = [known] if known is not None else []
    collected: list[tuple[EscalationLine, ...]] = []

    async def collect() -> None:
        collected.append(await collect_escalation(work, incident))

    async def diagnose() -> None:
        if not bases:
            bases.append(await _unproved_diagnosis(work, first))

    await run_concurrently((collect, diagnose))
    base = bases[0]
    concluded = base.verdict == "escalate"
    await work.publish(
        replace(
            base,
            at=datetime.now(UTC),
            verdict="escalate",
            gaps=base.gaps if concluded else (*base.gaps, cut_words(reason, 500)),
            confidence=base.confidence if concluded else base.confidence / 2,
            escalation=collected[0],
        )
    )


async def _unproved_diagnosis(work: IncidentWork, first: Assessment) -> IncidentDiagnosed:
    """Build a diagnosis from the assessment and the last error of the service; nothing was
    proved."""
    component = first.component or work.details.service
    reasons = "; ".join(related_symptoms(first.reasons, work.details.facts))
    # The reason why nothing could be observed belongs to the gaps.
    observed = first.verdict != "unknown"
    mechanism, calls = first.mechanism or (reasons if observed else ""), first.evidence
    if last_error := await _last_error(work, component):
        mechanism = f"{mechanism[:300]}; {last_error}" if mechanism else str(last_error)
        calls = (*calls, last_error.call)
    return IncidentDiagnosed(
        run=work.details.run,
        incident=work.details.incident,
        component=component,
        mechanism=mechanism[:500],
        value=first.value,
        evidence=await work.result_numbers(calls) if mechanism else (),
        gaps=(reasons[:300],) if reasons and not observed else (),
        confidence=SYMPTOM_CONFIDENCE if mechanism else 0.0,
    )


async def _last_error(work: IncidentWork, component: str) -> LastError | None:
    """Read the last error of the service. Return None when the host does not answer: the escalation
    does not wait for it. The logs of this host say nothing about a cluster."""
    if work.cluster is not None:
        return None
    try:
        with anyio.move_on_after(ESCALATION_TIMEOUT_S):
            listed = await find_root_commands(work.context.environment)
            execute, daemons = work.execute_unattended(), work.context.daemons()
            return await read_last_error(execute, component, daemons, listed)
    except StoreError:
        raise
    except HermesError:
        pass
    return None


async def collect_escalation(work: IncidentWork, incident: Incident) -> tuple[EscalationLine, ...]:
    """Raises only `StoreError`: an escalation without facts is better than none."""
    executor = work.context.executor
    # The scripts are ours, and each value in them has a type and is quoted, as in a playbook.
    looking = executor.with_policy(own_script_policy(executor.policy))
    execute = work.context.execute_for_run(work.details.run, looking)
    listed = await find_root_commands(work.context.environment)
    collector = ServiceCollector(work, execute, listed, escalation_subject(work.details))
    behind: Sequence[ServiceBehind] = ()
    inspected: Sequence[EscalationLine] = ()
    try:
        if work.cluster is not None:
            inspected = await work.cluster.escalation_lines(work)
        else:
            await collector.collect(incident.outage_began_at, tuple(incident.parts))
            make = partial(ServiceCollector, work, execute, listed)
            others = work.context.other_problems(work.details)
            services = {*incident.parts, *others.services} - {""}
            failing = ports_of_services(services, {*others.checks, *(incident.failing or ())})
            behind = await find_services_behind(collector, make, failing)
    except StoreError:
        raise
    except HermesError as error:
        return (EscalationLine(about="unchecked", text=f"nothing could be collected: {error}"),)
    run = work.details.run
    measured: Sequence[EscalationLine] = ()
    asked = frozenset[str]()
    if work.context.measure is not None:
        measured, asked = await work.context.measure(
            execute, looking.classed_reads, work.journal, run
        )
    own = asked.union(collector.calls, *(each.calls for each in behind))
    records = [e async for e in work.journal.read(run=run) if not own & {call_id_of(e.event)}]
    tests = list(_configuration_lines(records))
    broken = any(PREVENTED_START in each.text for each in tests)
    unexplained = [each.dependency.service for each in behind if not each.shows_trouble]
    lines = [
        *(service_lines(collector, behind, broken=broken) if work.cluster is None else inspected),
        *measured,
        *tests,
        *related_lines(records, work.details, [*collector.error_texts, *unexplained]),
        *_experiment_lines(records),
        *_earlier_lines(await _earlier_incidents(work, incident)),
        *_needs(collector.found, records, work.context),
    ]
    return tuple({(each.about, each.text): each for each in lines}.values())


def _experiment_lines(records: Sequence[JournalRecord]) -> Iterator[EscalationLine]:
    """The result of the experiments on a copy, with the experiments as evidence."""
    numbers = tuple(each.seq for each in records if isinstance(each.event, ExperimentRan))
    for each in records:
        if isinstance(each.event, ExperimentsEnded):
            text = ended_text(each.event)
            yield EscalationLine(about="change", text=text, evidence=numbers[:8] or (each.seq,))
        elif isinstance(each.event, FixTested):
            yield EscalationLine(about="test", text=tested_text(each.event), evidence=(each.seq,))


def call_id_of(event: Event | UnknownEvent) -> str:
    """The id of the tool call that the event is about; empty for other events."""
    call = event.call.id if isinstance(event, ToolRequested) else ""
    return call or str(getattr(event, "call_id", ""))


def _configuration_lines(records: Sequence[JournalRecord]) -> Iterator[EscalationLine]:
    """The last results of the configuration tests among the checks of the incident."""
    last: dict[str, tuple[int, IncidentChecked]] = {}
    for each in records:
        if isinstance(each.event, IncidentChecked) and _CONFIG_CHECK.match(each.event.check):
            last[each.event.check] = (each.seq, each.event)
    for seq, event in last.values():
        about = "unchecked" if event.unknown else "configuration"
        yield EscalationLine(about=about, text=_dated(event.detail, event), evidence=(seq,))


def _dated(text: str, event: IncidentChecked) -> str:
    """The checks ran before anything was tried: what they measured may have changed since."""
    return f"{text} (at {event.at:%H:%M:%S} UTC)"


def related_lines(
    records: Sequence[JournalRecord], details: IncidentDetails, errors: Sequence[str]
) -> Iterator[EscalationLine]:
    """Failing checks of other services that the alert or the error lines name."""
    subject = escalation_subject(details)
    own = {details.service.casefold(), *map(str, subject.ports), *KINDS_IN_NAMES}
    named = {*_WORD.findall("\n".join((details.facts.combined_text, *errors)).casefold())} - own
    last: dict[str, tuple[int, IncidentChecked]] = {}
    for each in records:
        if isinstance(each.event, IncidentChecked) and not _CONFIG_CHECK.match(each.event.check):
            last[each.event.check] = (each.seq, each.event)
    for seq, event in last.values():
        words = {*_WORD.findall(event.check.casefold())}
        about_own = words & {details.service.casefold(), *map(str, subject.ports)}
        in_title = event.detail in details.title
        if not event.ok and not event.unknown and not (about_own or in_title) and words & named:
            text = _dated(f"{event.check} failed, too: {event.detail}", event)
            yield EscalationLine(about="related", text=text, evidence=(seq,))


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
    location = alert_location(details.labels)
    return same or [
        each
        for each in ended
        if details.service
        and each.details.service == details.service
        and alert_location(each.details.labels).namespace == location.namespace
    ]


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


def _needs(
    found: HostRows, records: Sequence[JournalRecord], context: IncidentContext
) -> Iterator[EscalationLine]:
    """Return what Hermes would need to do it itself."""
    refused = list_refused_actions(records)
    checks = [each for each in refused if each.rule in (UNATTENDED_RULE, READ_ONLY_RULE)]
    for each in [each for each in refused if each not in checks][:MAX_REFUSED]:
        text = f"a rule or approval for `{each.command[:100]}`: {each.why}"
        yield EscalationLine(about="need", text=text)
    if checks:
        count = f"{len(checks)} checks" if len(checks) > 1 else "a check"
        text = f"a rule that allows {count} of playbooks; the report lists what was refused"
        yield EscalationLine(about="need", text=text)
    uid = found.first("uid")
    if uid[0] not in ("", "0"):
        text = f"root or sudo: it runs as uid {uid[0]}"
        yield EscalationLine(about="need", text=text, evidence=(uid.seq,))
    if context.cause_finder is not None and not context.cause_finder.available:
        yield EscalationLine(about="need", text=_STATE_NEED)
    if context.responder is None:
        yield EscalationLine(about="need", text=_KEY_NEED)
