"""Describes approvals and incidents as plain values for the terminal, chats and the web."""

from datetime import UTC, datetime, timedelta

from hermes.app.policy import is_run_active
from hermes.core.errors import HermesError
from hermes.core.events.incidents import IncidentOpened
from hermes.core.incident import Incident
from hermes.core.protocols import Journal
from hermes.core.run_ids import find_unique
from hermes.policy.approvals.history import ApprovalQuestion, read_approval_history
from hermes.settings.load import LoadedSettings
from hermes.sre.reports.report_data import (
    ReportData,
    gather_report_data,
    list_opened,
    read_earlier_incidents,
    read_incident_alerts,
    read_incident_records,
    resolver_name,
)
from hermes.sre.reports.statements import (
    cause_status,
    incident_times,
    outcome_text,
    playbooks_not_matched,
    playbooks_unchecked,
    resolver_of,
)

APPROVAL_LOOKBACK = timedelta(days=30)
LATEST_WORDS = ("last", "latest")
PlainObject = dict[str, object]


async def find_approval_request(journal: Journal, wanted: str) -> ApprovalQuestion:
    """Find by id, or its beginning or end; without an id, the only open request.

    Raises `HermesError`.
    """
    now = datetime.now(UTC)
    history = await read_approval_history(journal, since=now - APPROVAL_LOOKBACK)
    if not wanted:
        return _only_open_request(list(history.open_questions(now)))
    id, _ = find_unique(
        history.questions.items(),
        wanted,
        lambda each: each[0] == wanted,
        lambda each: each[0].startswith(wanted) or each[0].endswith(wanted),
        id_of=lambda each: each[0],
        kind="request",
        list_command="hermes approvals list",
    )
    return history.questions[id]


def _only_open_request(waiting: list[ApprovalQuestion]) -> ApprovalQuestion:
    if len(waiting) == 1:
        return waiting[0]
    if not waiting:
        raise HermesError("no request waits for an answer")
    names = "\n".join(
        f"  {each.request.approval}  {(each.request.purpose or each.request.shown)[:60]}"
        for each in waiting
    )
    raise HermesError(f"{len(waiting)} requests wait for an answer; give one id:\n{names}")


async def view_approvals(
    loaded: LoadedSettings, journal: Journal, *, everything: bool = False
) -> list[PlainObject]:
    """The requests that wait for an answer, oldest first; with `everything` also settled ones."""
    now = datetime.now(UTC)
    history = await read_approval_history(journal, since=now - APPROVAL_LOOKBACK)
    found = history.questions.values() if everything else history.open_questions(now)
    return [describe_approval(each, loaded) for each in found]


async def view_approval(loaded: LoadedSettings, journal: Journal, id: str) -> PlainObject:
    """Describe one approval request. Raises `HermesError`."""
    return describe_approval(await find_approval_request(journal, id), loaded)


def describe_approval(question: ApprovalQuestion, loaded: LoadedSettings) -> PlainObject:
    """All fields of a request."""
    request, tally, now = question.request, question.tally, datetime.now(UTC)
    return {
        "id": request.approval,
        "state": question.state(now),
        "purpose": request.purpose,
        "action": request.shown,
        "tool": request.tool,
        "effects": list(request.effects),
        "rule": request.rule,
        "reason": request.reason,
        "undo": request.undo,
        "tested": request.tested,
        "place": request.place,
        "tainted": request.tainted,
        "requester": request.requester,
        "approvers": list(request.approvers),
        "escalated": list(tally.escalated),
        "count": request.count,
        "approved_by": list(tally.yes),
        "denied_by": tally.no,
        "asked_at": request.at.isoformat(),
        "until": request.until.isoformat() if request.until else "",
        "run": request.run,
        "subagent": request.run.partition("/")[2],
        "running": is_run_active(loaded, request.run),
        "hash": request.hash,
    }


async def find_incident(journal: Journal, wanted: str) -> IncidentOpened:
    """Find by id, or its beginning or end; `last` is the latest that is not a drill."""
    known = [event for _, event in await list_opened(journal)]
    if wanted in LATEST_WORDS:
        real = [event for event in known if event.run == event.incident]
        if not real:
            raise HermesError("there is no incident yet; `hermes incident open TEXT` opens one")
        return real[-1]
    return find_unique(
        known if wanted else (),
        wanted,
        lambda event: wanted in (event.incident, event.run),
        lambda event: event.incident.startswith(wanted) or event.incident.endswith(wanted),
        id_of=lambda event: event.incident,
        kind="incident",
        list_command="hermes incident list",
    )


async def read_incident(journal: Journal, wanted: str) -> Incident:
    """The current state of one incident. Raises `HermesError`."""
    run = (await find_incident(journal, wanted)).run
    return gather_report_data(await read_incident_records(journal, run)).incident


async def view_incident(journal: Journal, wanted: str) -> PlainObject:
    """Describe one incident in full. Raises `HermesError`."""
    records = await read_incident_records(journal, (await find_incident(journal, wanted)).run)
    data = gather_report_data(records, earlier=await read_earlier_incidents(journal, records))
    alerts = await read_incident_alerts(journal, data.incident)
    return {**describe_incident(data), "alert_details": alerts}


def summarize_incident(incident: Incident) -> PlainObject:
    """Describe one incident for a list."""
    details, times = incident.details, incident_times(incident)
    over, recovered, answer = incident.over_at, incident.recovered, resolver_of(incident)
    return {
        "incident": details.incident,
        "run": details.run,
        "title": details.title,
        "state": incident.status,
        "phase": incident.phase,
        "severity": incident.severity,
        "reason": incident.reason,
        "service": details.service,
        "fingerprint": details.fingerprint,
        "opened_at": details.opened_at.isoformat(),
        "closed_at": incident.closed.at.isoformat() if incident.closed else None,
        "over_at": over.isoformat() if over else None,
        "recovered_at": recovered.recovered_at.isoformat() if recovered else None,
        "recovered_how": recovered.how if recovered else "",
        "unresolved": incident.unresolved,
        "outage_began_at": incident.outage_began_at.isoformat(),
        "duration_s": incident.duration_s(datetime.now(UTC)),
        "question": incident.question,
        "parts": incident.parts,
        "answered_by": answer.by if incident.closed else None,
        "outcome": outcome_text(incident),
        "cause_found": cause_status(incident) == "found",
        "acknowledged_by": incident.acknowledged_by,
        "alerts": incident.alerts,
        "seen_before": details.seen_before,
        "mttd": times.detect,
        "mtta": times.acknowledge,
        "mttr": times.repair,
    }


def describe_incident(data: ReportData) -> PlainObject:
    """Describe one incident with its cause, changes, checks and cost."""
    incident = data.incident
    return {
        **summarize_incident(incident),
        "text": incident.details.text,
        "labels": incident.details.labels,
        "hints": [
            {"at": each.at.isoformat(), "person": each.person, "text": each.text}
            for each in incident.hints
        ],
        "diagnosis": incident.diagnosis,
        "changes": data.changes,
        "tests": incident.tests,
        "refused": data.refused_actions,
        "would_have_run": [each.command for each in data.refused_actions if each.would_have_run],
        "checks": data.checks,
        "verified": incident.verified,
        "times_in_14_days": data.recurrence.times,
        "before": data.recurrence.before,
        "cost": data.cost,
        "answered_by_name": resolver_name(data),
        "did_not_match": playbooks_not_matched(data.records),
        "unchecked": playbooks_unchecked(data.records),
        "report": incident.report_path,
    }
