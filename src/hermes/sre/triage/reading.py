"""Brings triage to where an earlier life of the watch left it."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from hermes.core.protocols import Journal
from hermes.sre.incident import folded
from hermes.sre.triage.settings import TriageSettings
from hermes.sre.triage.triage import Triage

LASTING = (
    "incident.opened",
    "incident.joined",
    "incident.graded",
    "incident.acknowledged",
    "incident.reopened",
    "incident.phase",
    "incident.checked",
    "incident.diagnosed",
    "incident.closed",
    "incident.recovered",
    "change.began",
    "maintenance.added",
    "maintenance.ended",
)
"""Read as far back as there is a journal: there are few of them."""
PASSING = ("alert.raised", "alert.suppressed")
KINDS = (*LASTING, *PASSING)
"""All that `Triage.apply` makes use of."""


async def remembered(
    journal: Journal,
    settings: TriageSettings,
    now: datetime,
    *,
    depends_on: Mapping[str, Iterable[str]] | None = None,
) -> tuple[Triage, int]:
    """Triage as it was, and the number up to which the journal was read: follow it from there.

    The next `tick` answers the alerts that nobody has answered.
    """
    triage = Triage(settings, depends_on=depends_on)
    newest = await journal.last()
    begin = await _horizon(journal, settings, now)
    async for recorded in journal.read(kinds=LASTING):
        if recorded.event.at < begin and recorded.seq <= newest:
            triage.apply(recorded)
    async for recorded in journal.read(kinds=KINDS, since=begin):
        if recorded.event.at >= begin and recorded.seq <= newest:
            triage.apply(recorded)
    return triage, newest


async def _horizon(journal: Journal, settings: TriageSettings, now: datetime) -> datetime:
    """From when on alerts matter: for as long as they are kept, and since the oldest trouble."""
    kinds = ("incident.opened", "incident.closed", "incident.reopened")
    known = folded([each async for each in journal.read(kinds=kinds)])
    open_ = [
        each.case.opened_at - timedelta(minutes=10)
        for each in known.values()
        if each.status in ("open", "escalated") and each.case.run == each.case.incident
    ]
    return min([now - timedelta(seconds=settings.keep), *open_])
