"""Finds what an alert is still about after one of its faults was fixed."""

import re
import time
from collections.abc import Sequence
from functools import partial

import anyio
from msgspec.structs import replace

from hermes.core.incident import AlertFacts
from hermes.skills.playbook.commands import ExecuteCall
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.assessment.assess import observe_host
from hermes.sre.assessment.host_state import HostObservation
from hermes.sre.assessment.symptoms import alert_units, find_symptoms

RECOVERY_TIMEOUT_S, RECOVERY_PAUSE_S = 4.0, 0.7
"""Seconds in which errors from before the fix may end, and between two observations."""


async def find_remaining_faults(
    facts: AlertFacts,
    execute: ExecuteCall,
    fixed_units: Sequence[str],
    daemons: Sequence[PlainDaemon] = (),
    root_commands: Sequence[str] = (),
) -> list[AlertFacts]:
    """The alert for each other unit that it names; else the whole alert, while symptoms remain.
    Read-only."""
    observe = partial(observe_host, execute, daemons, root_commands)
    first = await observe()
    if not first.state.units:
        return []  # without a list of units nothing can be said
    named = [unit.removesuffix(".service") for unit in alert_units(facts, first)]
    left = [name for name in named if name not in fixed_units]
    if len(named) > 1 and left:
        return [without_units(facts, [other for other in named if other != name]) for name in left]
    rest, until = without_units(facts, fixed_units), time.monotonic() + RECOVERY_TIMEOUT_S
    while find_symptoms(rest, since_first_observation(first, await observe())):
        if time.monotonic() > until:
            return [rest]
        await anyio.sleep(RECOVERY_PAUSE_S)
    return []


def without_units(facts: AlertFacts, names: Sequence[str]) -> AlertFacts:
    """The alert without any mention of these units."""
    for name in filter(None, names):
        word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        facts = replace(
            facts,
            title=word.sub("", facts.title),
            text=word.sub("", facts.text),
            labels={key: value for key, value in facts.labels.items() if not word.search(value)},
        )
    return facts


def since_first_observation(first: HostObservation, now: HostObservation) -> HostObservation:
    """Subtract earlier restarts: not every supervisor resets its counter."""
    known = {unit.name: unit.restarts for unit in first.state.units}
    units = tuple(
        replace(unit, restarts=unit.restarts - known.get(unit.name, 0)) for unit in now.state.units
    )
    return replace(now, state=replace(now.state, units=units))
