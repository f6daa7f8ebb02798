"""Everything that a report is about, gathered once."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import field
from msgspec.structs import replace

from hermes.core.errors import HermesError
from hermes.core.events.incidents import (
    IncidentChecked,
    IncidentOpened,
    LayerInvestigated,
)
from hermes.core.messages import Value
from hermes.core.protocols import Recorded
from hermes.sre.incident import Incident, folded
from hermes.sre.report.statements import answer_of
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
    def duration_s(self) -> float:
        return self.incident.duration_s(self.now)


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


def answered_by(account: Account) -> str:
    """Who ended it, by name where the records have it."""
    answer = answer_of(account.incident)
    if answer.by == "nobody" and account.incident.status == "open":
        return "nobody yet"
    if answer.by == "nobody" and account.incident.status == "recovered":
        return "not known"  # that it is over was seen, and not by whose work
    if answer.by == "model":
        answer = replace(answer, name=", ".join(account.cost.models))
    return str(answer)
