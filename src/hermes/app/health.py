"""Asks every probe once: what `hermes health` and the rhythm of the watch are given."""

from collections.abc import Sequence
from pathlib import Path

from hermes.app.veil import Veil
from hermes.core.actions import Policy
from hermes.core.bus import Bus
from hermes.core.events.watching import HealthChecked
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.settings.load import Loaded
from hermes.sre.health import Looked, Rounds, look_once
from hermes.sre.probes.admission import admit
from hermes.sre.probes.discovery import discover
from hermes.sre.probes.patrol import Patrol
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.reading import load_probes

STATES = {"fine": True, "failing": False, "unknown": None}


def rounds_of(patrol: Patrol) -> Rounds:
    async def once() -> Sequence[Looked]:
        return [
            Looked(name=each.probe, ok=STATES[each.state], detail=each.detail)
            for each in await patrol.once()
        ]

    return once


class Asked(Value, kw_only=True, frozen=True):
    """The probes of a home, as far as the policy lets them be asked."""

    probes: tuple[Probe, ...]
    found_now: bool
    """No file says what to ask: these were found by a look around."""
    refused: tuple[str, ...] = ()


async def probes_of(loaded: Loaded, environment: Environment, policy: Policy) -> Asked:
    known = load_probes(loaded.home / loaded.settings.sre.probes.file)
    probes = known if known is not None else (await discover(environment, patience=1.0)).probes
    admitted = admit(probes, policy, environment)
    return Asked(probes=admitted.probes, found_now=known is None, refused=admitted.refused)


async def health_now(loaded: Loaded, folder: Path) -> tuple[HealthChecked, Sequence[Looked], Asked]:
    """One round by hand, written down like any other."""
    from hermes.app.environment import place
    from hermes.app.gate import Gate
    from hermes.memory.opening import open_journal

    async with place(loaded, folder) as here, open_journal(loaded.store) as journal:
        asked = await probes_of(loaded, here, Gate(loaded, folder, isolated=here.isolated))
        bus = Bus(journal, clean=Veil(loaded).event)
        settings = loaded.settings.sre
        patrol = Patrol(asked.probes, here, bus, home=loaded.home, settings=settings.probes)
        checked, looked = await look_once(rounds_of(patrol), settings.health.timeout)
        await bus.publish(checked)
    return checked, looked, asked
