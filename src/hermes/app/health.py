"""Asks every probe once: what `hermes health` and the rhythm of the watch are given."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes.app.veil import Veil
from hermes.core.actions import Policy
from hermes.core.bus import Bus
from hermes.core.events.watching import HealthChecked
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.settings.load import Loaded
from hermes.sre.health import Looked, Rounds, look_once
from hermes.sre.probes import inventory
from hermes.sre.probes.admission import admit
from hermes.sre.probes.patrol import Patrol
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.reading import load_probes
from hermes.sre.probes.roster import Question, Roster, take_stock

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
    missing: dict[str, str] = {}
    """Expected services that do not run, with the reason why they are expected."""
    questions: tuple[Question, ...] = ()


def declared_probes(loaded: Loaded) -> tuple[Probe, ...] | None:
    return load_probes(loaded.home / loaded.settings.sre.probes.file)


async def probes_of(
    loaded: Loaded, environment: Environment, policy: Policy, *, remember: bool = True
) -> Asked:
    """Those that the file declares; without a file those found here or remembered from before.

    `remember` is false for an environment that will not be there again.
    """
    known = declared_probes(loaded)
    if known is not None:
        return asked_for(Roster(probes=known), policy, environment, found_now=False)
    home = loaded.home if remember else None
    roster = await take_stock(environment, home, loaded.settings.sre.probes)
    return asked_for(roster, policy, environment, found_now=True)


def asked_for(
    roster: Roster, policy: Policy, environment: Environment, *, found_now: bool
) -> Asked:
    admitted = admit(roster.probes, policy, environment)
    return Asked(
        probes=admitted.probes,
        found_now=found_now,
        refused=admitted.refused,
        missing=roster.missing,
        questions=roster.questions,
    )


async def health_now(loaded: Loaded, folder: Path) -> tuple[HealthChecked, Sequence[Looked], Asked]:
    """One round by hand, written down like any other."""
    from hermes.app.environment import place
    from hermes.app.gate import Gate
    from hermes.memory.opening import open_journal

    async with place(loaded, folder) as here, open_journal(loaded.store) as journal:
        policy, known = Gate(loaded, folder, isolated=here.isolated), declared_probes(loaded)
        roster = await take_stock(
            here, loaded.home, loaded.settings.sre.probes, declared=known, patience=0.5
        )
        asked = asked_for(roster, policy, here, found_now=known is None)
        bus = Bus(journal, clean=Veil(loaded).event)
        settings = loaded.settings.sre
        patrol = Patrol(asked.probes, here, bus, home=loaded.home, settings=settings.probes)
        checked, looked = await look_once(rounds_of(patrol), settings.health.timeout)
        await bus.publish(checked)
    services = {each.name: each.service for each in asked.probes}
    looked = [
        _explained(each, asked.missing.get(services.get(each.name, ""), "")) for each in looked
    ]
    return checked, looked, asked


def _explained(looked: Looked, why: str) -> Looked:
    return replace(looked, detail=f"{looked.detail}; {why}") if why and not looked.ok else looked


async def forget_service(loaded: Loaded, folder: Path, name: str) -> bool:
    """Whether the service was known; either way it is not asked about any more."""
    from hermes.app.environment import place

    async with place(loaded, folder) as here:
        known = inventory.load(loaded.home, here.target)
        inventory.change(loaded.home, here.target, lambda before: inventory.forget(before, name))
    return name in known.services
