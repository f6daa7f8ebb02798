"""Looks that whoever mends an incident has no hand in: the probes of the watch, asked at once.

They take no part in the work, so they do not take its road: what they may run was admitted when
they were read, and what they saw is in the journal as `incident.checked`.
"""

import re
from collections.abc import Awaitable, Callable, Sequence

from hermes.core.errors import PlaceFailed
from hermes.core.protocols import Environment
from hermes.sre.case import Case
from hermes.sre.looking import Seen
from hermes.sre.probes.checks import MOST, concerned
from hermes.sre.probes.discovery import discover
from hermes.sre.probes.judging import Verdict, judge
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.round import ask
from hermes.sre.probes.settings import ProbeSettings

Eyes = Callable[[], Awaitable[Sequence[Seen]]]
"""One look at everything that concerns a case."""
WRITTEN = ("certificate", "cron", "log")
"""Kinds of probes that read a file which a fixer may write: what the file says is no evidence."""
_RUNS = re.compile(r"\bis (active|reloading)\b")
_NO_ANSWERS = re.compile(r"\bof 0 recent answers\b|\bnobody asked lately\b")


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
        return [seen_by(each, judge(each, readings[each.name], (), settings)) for each in probes]

    return see


def seen_by(probe: Probe, verdict: Verdict) -> Seen:
    return Seen(
        check=verdict.probe,
        ok=verdict.state == "fine",
        unknown=verdict.state == "unknown",
        detail=verdict.detail[:200],
        service=probe.service,
        proves=_proves(probe, verdict),
        counter=_counter(probe, verdict),
    )


def _proves(probe: Probe, verdict: Verdict) -> bool:
    """Whether its answer depends on what is wrong, and not on what a fixer does on the way."""
    if probe.kind in WRITTEN:
        return False
    if _counter(probe, verdict):  # another restart resets it
        return False
    if probe.kind == "answers":  # nobody asked since, so nothing was seen to work
        return verdict.state != "fine" or not _NO_ANSWERS.search(verdict.detail)
    return True


def _counter(probe: Probe, verdict: Verdict) -> bool:
    """It fails because a unit that runs was restarted."""
    failing = probe.kind == "unit" and verdict.state == "failing"
    return failing and _RUNS.search(verdict.detail) is not None
