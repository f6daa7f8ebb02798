"""Looks that whoever mends an incident has no hand in: the probes of the watch, asked at once.

They take no part in the work, so they do not take its road: what they may run was admitted when
they were read, and what they saw is in the journal as `incident.checked`.
"""

from collections.abc import Awaitable, Callable, Sequence

from hermes.core.errors import PlaceFailed
from hermes.core.protocols import Environment
from hermes.sre.case import Case
from hermes.sre.looking import Seen
from hermes.sre.probes.checks import MOST, concerned
from hermes.sre.probes.discovery import discover
from hermes.sre.probes.judging import judge
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.round import ask
from hermes.sre.probes.settings import ProbeSettings

Eyes = Callable[[], Awaitable[Sequence[Seen]]]
"""One look at everything that concerns a case."""


def blind(case: Case) -> Eyes:
    async def see() -> Sequence[Seen]:
        return ()

    return see


async def open_eyes(case: Case, environment: Environment, probes: Sequence[Probe] = ()) -> Eyes:
    """Those of the watch; where it has none for this, what a look around finds on the spot."""
    mine = concerned(case, probes)
    if not any(each.service for each in mine):
        found = await discover(environment)
        mine = concerned(case, (*probes, *found.probes))
    return eyes_over(mine[:MOST], environment)


def eyes_over(probes: Sequence[Probe], environment: Environment) -> Eyes:
    settings = ProbeSettings()

    async def see() -> Sequence[Seen]:
        try:
            readings = await ask(environment, probes)
        except PlaceFailed as error:
            return [Seen(check=each.name, ok=False, detail=str(error)) for each in probes]
        verdicts = [judge(each, readings[each.name], (), settings) for each in probes]
        return [
            Seen(
                check=each.probe,
                ok=each.state == "fine",
                unknown=each.state == "unknown",
                detail=each.detail[:200],
            )
            for each in verdicts
        ]

    return see
