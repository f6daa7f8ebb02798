"""Sees the whole host for the reflexes: whether what was mended is all that was wrong."""

import time
from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.setting import Execute
from hermes.sre.assessing.assess import look
from hermes.sre.assessing.grounds import subjects_of
from hermes.sre.assessing.symptoms import symptoms
from hermes.sre.assessing.whole_host import Seen
from hermes.sre.case import without

PATIENCE, PAUSE = 4.0, 0.7
"""Seconds in which errors of before may give way to good answers, and between two looks."""


class HostJudge:
    """It only looks."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    async def more_to_do(self, facts: Facts, mended: Sequence[str]) -> list[Facts]:
        """Other units that the alert names, each for itself; else all of it, while it is sick."""
        first = await look(self._execute)
        if not first.state.units:
            return []  # a host whose supervisor says nothing tells nothing more
        named = [unit.removesuffix(".service") for unit in subjects_of(facts, first)]
        left = [name for name in named if name not in mended]
        if len(named) > 1 and left:
            return [_without(facts, [other for other in named if other != name]) for name in left]
        rest, until = _without(facts, mended), time.monotonic() + PATIENCE
        while symptoms(rest, since(first, await look(self._execute))):
            if time.monotonic() > until:
                return [rest]
            await anyio.sleep(PAUSE)
        return []


def _without(facts: Facts, names: Sequence[str]) -> Facts:
    for name in names:
        facts = without(facts, name)
    return facts


def since(first: Seen, now: Seen) -> Seen:
    """Only restarts of after the first look: not every supervisor forgets those of before."""
    known = {unit.name: unit.restarts for unit in first.state.units}
    units = tuple(
        replace(unit, restarts=unit.restarts - known.get(unit.name, 0)) for unit in now.state.units
    )
    return replace(now, state=replace(now.state, units=units))
