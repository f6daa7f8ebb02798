"""Reads the data of incident reports and listings from the journal, with its alerts."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import field
from msgspec.structs import replace

from hermes.core.errors import HermesError
from hermes.core.events.incidents import (
    AlertRaised,
    ChangeBegan,
    IncidentChecked,
    IncidentOpened,
    LayerInvestigated,
)
from hermes.core.incident import WITHDRAWN_LABEL, Incident, fold_incidents
from hermes.core.messages import Value
from hermes.core.protocols import Journal, JournalRecord
from hermes.sre.reports.actions import (
    IncidentAction,
    ModelCost,
    RefusedAction,
    compute_model_cost,
    events_of_type,
    list_actions,
    list_refused_actions,
)
from hermes.sre.reports.statements import (
    RECURRENCE_PERIOD,
    IncidentRecurrence,
    IncidentTimes,
    find_recurrence,
    incident_times,
    resolver_of,
)
from hermes.sre.triage.topology import alert_location

STATE_KINDS = (
    "incident.opened",
    "incident.joined",
    "incident.graded",
    "incident.acknowledged",
    "incident.reopened",
    "incident.closed",
    "incident.recovered",
)
"""Events from which the status of an incident follows."""
LISTING_KINDS = (
    *STATE_KINDS,
    "incident.phase",
    "incident.diagnosed",
    "incident.verified",
    "change.began",
    "changes.undone",
)
"""Events for listings and statistics, so that they agree with `show`."""
MAX_FIRST_ALERTS = 5
MAX_SEPARATE_QUERIES = 200
"""Up to this number of incidents a query for each is faster than reading all."""


async def list_incidents(
    journal: Journal, *, drills: bool = False, kinds: Sequence[str] = LISTING_KINDS
) -> list[Incident]:
    """In the order in which they were opened, without drills unless `drills`."""
    found = fold_incidents([recorded async for recorded in journal.read(kinds=kinds)])
    return [each for each in found.values() if drills or each.details.run == each.details.incident]


async def complete_incidents(journal: Journal, chosen: Sequence[Incident]) -> list[Incident]:
    """Add the other events of a listing to incidents that were read with `STATE_KINDS`."""
    found = []
    for each in chosen:
        records = [one async for one in journal.read(run=each.details.run, kinds=LISTING_KINDS)]
        found.append(fold_incidents(records).get(each.details.incident, each))
    return found


async def list_opened(journal: Journal) -> list[tuple[int, IncidentOpened]]:
    return [
        (each.seq, each.event)
        async for each in journal.read(kinds=("incident.opened",))
        if isinstance(each.event, IncidentOpened)
    ]


async def read_incident_records(journal: Journal, run: str) -> list[JournalRecord]:
    """All events of the incident of this run, of its child runs, and its first alerts.

    Raises `HermesError` when this run has none.
    """
    own = [recorded async for recorded in journal.read(run=run)]
    begun = next((each for each in own if isinstance(each.event, IncidentOpened)), None)
    if begun is None or not isinstance(begun.event, IncidentOpened):
        raise HermesError(f"{run} is no incident; `hermes incident list` shows them")
    found = {each.seq: each for each in own}
    for name in sorted(await _child_runs(journal, run, own, begun.seq)):
        found |= {each.seq: each async for each in journal.read(run=name)}
    for number in begun.event.alerts[:MAX_FIRST_ALERTS]:
        if number not in found:
            found |= await _read_event(journal, number)
    return [found[number] for number in sorted(found)]


async def read_earlier_incidents(
    journal: Journal, records: Sequence[JournalRecord]
) -> list[IncidentOpened]:
    """Incidents of the days before, to count recurrences."""
    this = next(each.event for each in records if isinstance(each.event, IncidentOpened))
    since = this.at - RECURRENCE_PERIOD
    found = [
        each.event
        async for each in journal.read(kinds=("incident.opened",), since=since)
        if isinstance(each.event, IncidentOpened)
    ]
    drilled = this.run != this.incident
    return [each for each in found if (each.run != each.incident) == drilled]


async def _child_runs(
    journal: Journal, run: str, own: Sequence[JournalRecord], after: int
) -> set[str]:
    below = f"{run}/"
    named = {each.event.agent for each in own if isinstance(each.event, LayerInvestigated)}
    named |= {each.event.by for each in own if isinstance(each.event, ChangeBegan)}
    async for each in journal.read(after=after, kinds=("run.started",)):
        named.add(each.event.run)
    return {name for name in named if name.startswith(below)}


async def _read_event(journal: Journal, number: int) -> dict[int, JournalRecord]:
    async with aclosing(journal.read(after=number - 1)) as events:  # type: ignore[type-var]
        async for each in events:
            return {each.seq: each} if each.seq == number else {}
    return {}


class ReportData(Value, kw_only=True, frozen=True):
    incident: Incident
    records: tuple[JournalRecord, ...]
    actions: tuple[IncidentAction, ...] = ()
    refused_actions: tuple[RefusedAction, ...] = ()
    checks: tuple[IncidentChecked, ...] = ()
    layers: tuple[LayerInvestigated, ...] = ()
    recurrence: IncidentRecurrence = IncidentRecurrence()
    times: IncidentTimes = IncidentTimes()
    cost: ModelCost = ModelCost()
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def changes(self) -> tuple[IncidentAction, ...]:
        return tuple(action for action in self.actions if action.changed)

    @property
    def duration_s(self) -> float:
        return self.incident.duration_s(self.now)


def gather_report_data(
    records: Sequence[JournalRecord],
    *,
    earlier: Sequence[IncidentOpened] = (),
    now: datetime | None = None,
) -> ReportData:
    """`records`: of its run and its child runs, in order. Raises `HermesError` without an
    incident."""
    found = next(iter(fold_incidents(records).values()), None)
    if found is None:
        raise HermesError("no incident was opened in these records; there is nothing to report")
    return ReportData(
        incident=found,
        records=tuple(records),
        actions=tuple(list_actions(records)),
        refused_actions=tuple(list_refused_actions(records)),
        checks=tuple(events_of_type(records, IncidentChecked)),
        layers=tuple(
            e for e in events_of_type(records, LayerInvestigated) if e.status != "working"
        ),
        recurrence=find_recurrence(found, earlier),
        times=incident_times(found),
        cost=compute_model_cost(records),
        now=now or datetime.now(UTC),
    )


def resolver_name(data: ReportData) -> str:
    """Return who resolved it, by name where it is known."""
    answer = resolver_of(data.incident)
    if answer.by == "nobody" and data.incident.status == "open":
        return "nobody yet"
    if answer.by == "nobody" and data.incident.status == "recovered":
        return "not known"  # it ended without a known cause
    if answer.by == "model":
        answer = replace(answer, name=", ".join(data.cost.models))
    return str(answer)


MAX_RAISED_BEFORE = timedelta(days=1)
"""How long before an incident its alerts may have been raised, for instance in maintenance."""
IncidentAlertState = Literal["firing", "resolved", "not watched any more"]


class IncidentAlert(Value, kw_only=True, frozen=True):
    """One fingerprint while it was part of the incident."""

    fingerprint: str
    title: str
    service: str = ""
    host: str = ""
    source: str = ""
    check: str = ""
    state: IncidentAlertState = "firing"
    since: datetime | None = None
    """When it began, by its source, else when it was raised."""
    raised_at: datetime
    resolved_at: datetime | None = None
    times: int = 1
    """How often it was raised."""


async def read_incident_alerts(journal: Journal, incident: Incident) -> list[IncidentAlert]:
    """In the order in which they joined, without alerts that were raised after its end."""
    found: dict[str, IncidentAlert] = {}
    async for event in _read_raised(journal, incident):
        known = found.get(event.fingerprint)
        if event.resolved:
            if known is not None and known.state == "firing":
                found[event.fingerprint] = _after_resolution(known, event)
        elif incident.ended_at is None or event.at <= incident.ended_at:
            found[event.fingerprint] = _after_firing(known, event, incident.details.opened_at)
    return [found[each] for each in incident.fingerprints if each in found]


async def _read_raised(journal: Journal, incident: Incident) -> AsyncIterator[AlertRaised]:
    wanted, since = set(incident.fingerprints), incident.details.opened_at - MAX_RAISED_BEFORE
    async for recorded in journal.read(kinds=("alert.raised",), since=since):
        event = recorded.event
        if isinstance(event, AlertRaised) and event.fingerprint in wanted:
            yield event


def _after_firing(
    known: IncidentAlert | None, event: AlertRaised, opened_at: datetime
) -> IncidentAlert:
    over = known is not None and known.resolved_at is not None and known.resolved_at < opened_at
    if known is None or over:
        location = alert_location(dict(event.labels))
        return IncidentAlert(
            fingerprint=event.fingerprint,
            title=event.title,
            service=location.service,
            host=location.host,
            source=event.source,
            check=event.check,
            since=event.since or event.at,
            raised_at=event.at,
        )
    return replace(known, state="firing", resolved_at=None, times=known.times + 1)


def _after_resolution(known: IncidentAlert, event: AlertRaised) -> IncidentAlert:
    withdrawn = bool(dict(event.labels).get(WITHDRAWN_LABEL))
    state: IncidentAlertState = "not watched any more" if withdrawn else "resolved"
    return replace(known, state=state, resolved_at=event.at)
