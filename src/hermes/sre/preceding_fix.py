"""Finds the change for another incident after which an incident recovered.

A service that fails because of another one recovers without a change of its own. The journal shows
the order and the times, not that the one is the reason of the other; no more is said.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from hermes.core.events.incidents import PrecedingFix
from hermes.core.incident import Incident, read_incident
from hermes.core.protocols import Journal
from hermes.plumbing.units import format_duration

MAX_DELAY = timedelta(seconds=120)
"""A recovery that is observed later than this after a change is not mentioned together with it."""


def find_preceding_fix(
    incident: Incident, others: Iterable[Incident], ended_at: datetime
) -> PrecedingFix | None:
    """Return the last change in force that was made while this incident's problem continued."""
    earliest = max(incident.reopened_at or incident.outage_began_at, ended_at - MAX_DELAY)
    found = [
        PrecedingFix(
            incident=other.details.incident,
            service=other.details.service,
            changed_at=change.at,
            ended_at=ended_at,
            verified=other.resolved_by_checks,
        )
        for other in others
        if other.details.incident != incident.details.incident
        for change in other.changes
        if change.at is not None and not change.undone and earliest <= change.at <= ended_at
    ]
    return max(found, key=lambda each: each.changed_at, default=None)


async def read_preceding_fix(
    journal: Journal, incident: Incident, ended_at: datetime
) -> PrecedingFix | None:
    changes = journal.read(kinds=("change.began",), since=ended_at - MAX_DELAY)
    runs = {recorded.event.run async for recorded in changes}
    found = [await read_incident(journal, run) for run in sorted(runs)]
    # An incident that is played again, in a drill or in an experiment, has a run of its own.
    others = [each for each in found if each and each.details.run == each.details.incident]
    return find_preceding_fix(incident, others, ended_at)


def preceding_fix_text(fix: PrecedingFix) -> str:
    """Return, for instance, `it recovered 12 s after our fix of db (incident inc-1)`."""
    passed = format_duration((fix.ended_at - fix.changed_at).total_seconds())
    if not fix.verified:
        about = f", which is about {fix.service}" if fix.service else ""
        return f"it recovered {passed} after our change for incident {fix.incident}{about}"
    return f"it recovered {passed} after our fix of {fix.service or 'another problem'} " + (
        f"(incident {fix.incident})"
    )
