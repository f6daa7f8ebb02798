"""What is read of a journal about incidents, and nothing else of it: journals grow for years."""

from collections.abc import Sequence
from contextlib import aclosing

from hermes.core.errors import HermesError
from hermes.core.events.incidents import ChangeBegan, IncidentOpened, LayerInvestigated
from hermes.core.protocols import Journal, Recorded
from hermes.sre.incident import Incident, folded
from hermes.sre.report.times import LATELY

STATES = (
    "incident.opened",
    "incident.joined",
    "incident.graded",
    "incident.acknowledged",
    "incident.reopened",
    "incident.closed",
    "incident.recovered",
)
"""Enough to choose what is listed."""
LISTED = (
    *STATES,
    "incident.phase",
    "incident.diagnosed",
    "incident.verified",
    "change.began",
    "changes.undone",
)
"""Enough for a listing and the statistics to say what `show` says of the same incident."""
ALERTS = 5
ONE_BY_ONE = 200
"""Incidents up to which a query for each is quicker than reading them all."""


async def listed(
    journal: Journal, *, drills: bool = False, kinds: Sequence[str] = LISTED
) -> list[Incident]:
    """In the order in which they were opened; in a drill the run has a name of its own."""
    found = folded([recorded async for recorded in journal.read(kinds=kinds)])
    return [each for each in found.values() if drills or each.case.run == each.case.incident]


async def completed(journal: Journal, chosen: Sequence[Incident]) -> list[Incident]:
    """Those that were chosen by their states, with the rest of what a listing says of them."""
    found = []
    for each in chosen:
        records = [one async for one in journal.read(run=each.case.run, kinds=LISTED)]
        found.append(folded(records).get(each.case.incident, each))
    return found


async def opened(journal: Journal) -> list[tuple[int, IncidentOpened]]:
    return [
        (each.seq, each.event)
        async for each in journal.read(kinds=("incident.opened",))
        if isinstance(each.event, IncidentOpened)
    ]


async def records_of(journal: Journal, run: str) -> list[Recorded]:
    """Everything about the incident of this run, with its subagents and its first alerts.

    Raises `HermesError` when this run has none.
    """
    own = [recorded async for recorded in journal.read(run=run)]
    begun = next((each for each in own if isinstance(each.event, IncidentOpened)), None)
    if begun is None or not isinstance(begun.event, IncidentOpened):
        raise HermesError(f"{run} is no incident; `hermes incident list` shows them")
    found = {each.seq: each for each in own}
    for name in sorted(await _below(journal, run, own, begun.seq)):
        found |= {each.seq: each async for each in journal.read(run=name)}
    for number in begun.event.alerts[:ALERTS]:
        if number not in found:
            found |= await _one(journal, number)
    return [found[number] for number in sorted(found)]


async def earlier(journal: Journal, records: Sequence[Recorded]) -> list[IncidentOpened]:
    """Other incidents of the days before: whether it has come back is read from these."""
    this = next(each.event for each in records if isinstance(each.event, IncidentOpened))
    since = this.at - LATELY
    found = [
        each.event
        async for each in journal.read(kinds=("incident.opened",), since=since)
        if isinstance(each.event, IncidentOpened)
    ]
    drilled = this.run != this.incident
    return [each for each in found if (each.run != each.incident) == drilled]


async def _below(journal: Journal, run: str, own: Sequence[Recorded], after: int) -> set[str]:
    below = f"{run}/"
    named = {each.event.agent for each in own if isinstance(each.event, LayerInvestigated)}
    named |= {each.event.by for each in own if isinstance(each.event, ChangeBegan)}
    async for each in journal.read(after=after, kinds=("run.started",)):
        named.add(each.event.run)
    return {name for name in named if name.startswith(below)}


async def _one(journal: Journal, number: int) -> dict[int, Recorded]:
    async with aclosing(journal.read(after=number - 1)) as events:  # type: ignore[type-var]
        async for each in events:
            return {each.seq: each} if each.seq == number else {}
    return {}
