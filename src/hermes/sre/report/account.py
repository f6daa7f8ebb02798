"""Everything that a report speaks of, gathered once."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import field

from hermes.core.errors import HermesError
from hermes.core.events.incidents import (
    IncidentChecked,
    IncidentOpened,
    LayerInvestigated,
)
from hermes.core.messages import Value
from hermes.core.protocols import Recorded
from hermes.sre.incident import Incident, folded
from hermes.sre.report.times import Recurrence, Times, recurrence, times_of
from hermes.sre.report.told import Cost, Deed, Refused, cost, deeds, of_kind, refusals


class Account(Value, kw_only=True, frozen=True):
    incident: Incident
    records: tuple[Recorded, ...]
    deeds: tuple[Deed, ...] = ()
    refused: tuple[Refused, ...] = ()
    checks: tuple[IncidentChecked, ...] = ()
    layers: tuple[LayerInvestigated, ...] = ()
    again: Recurrence = Recurrence()
    times: Times = Times()
    cost: Cost = Cost()
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def changes(self) -> tuple[Deed, ...]:
        return tuple(deed for deed in self.deeds if deed.changed)

    @property
    def ended_at(self) -> datetime:
        return self.incident.ended_at or self.now


def account(
    records: Sequence[Recorded],
    *,
    earlier: Sequence[IncidentOpened] = (),
    now: datetime | None = None,
) -> Account:
    """`records`: of its run and the runs below it, in order. Raises `HermesError` without one."""
    found = next(iter(folded(records).values()), None)
    if found is None:
        raise HermesError("no incident was opened in these records; there is nothing to report")
    return Account(
        incident=found,
        records=tuple(records),
        deeds=tuple(deeds(records)),
        refused=tuple(refusals(records)),
        checks=tuple(of_kind(records, IncidentChecked)),
        layers=tuple(e for e in of_kind(records, LayerInvestigated) if e.status != "working"),
        again=recurrence(found, earlier),
        times=times_of(found),
        cost=cost(records),
        now=now or datetime.now(UTC),
    )


def outcome(incident: Incident) -> str:
    """In the words of a report. The checks say that it is resolved; nobody else can."""
    held = incident.verified is not None and incident.verified.ok
    verdict = incident.diagnosis.verdict if incident.diagnosis is not None else ""
    if incident.status == "open":
        if held:
            return "resolved"
        if verdict in _QUIET and not incident.standing:
            return _QUIET[verdict]
        if verdict == "escalate":
            return "escalated"
        if incident.phase in ("document", "learn"):
            return "not resolved; people are called"
        return "not resolved; work goes on"
    if incident.recovered is not None and incident.closed is not None:
        return "recovered after it was escalated"
    if incident.status == "closed":
        return "resolved" if held else "not resolved by checks; closed by a person"
    return _ENDINGS[incident.status]


_QUIET = {"no-incident": "no incident", "recovered": "recovered"}
_ENDINGS = {**_QUIET, "resolved": "resolved", "escalated": "escalated"}


def answered_by(account: Account) -> str:
    """Who mended it, or tried to."""
    incident = account.incident
    said = incident.closed.answered_by if incident.closed is not None else "nobody"
    if said == "person":
        return "a person"
    if said == "playbook" or (said == "nobody" and incident.played and not account.cost.calls):
        return f"playbook {incident.played[-1]}" if incident.played else "a playbook"
    if account.cost.models:
        return f"model {', '.join(account.cost.models)}"
    return {
        "model": "a model",
        "nobody": "nobody yet" if incident.status == "open" else "nobody",
    }.get(said, said)
