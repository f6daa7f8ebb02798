"""Asks every probe once: what `hermes health` and the rhythm of the watch are given."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes.app.veil import Veil
from hermes.core.actions import Policy
from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.watching import HealthChecked, ReserveRestored
from hermes.core.messages import Value
from hermes.core.protocols import Environment, Journal
from hermes.settings.load import Loaded
from hermes.sre.health import Looked, Rounds, look_once
from hermes.sre.probes.admission import admit
from hermes.sre.probes.inventory import InventoryStore, forget
from hermes.sre.probes.native import LOCAL, with_home_disk
from hermes.sre.probes.patrol import Patrol
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.reading import load_probes
from hermes.sre.probes.roster import Question, Roster, take_stock

JOURNAL = "journal"
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
    loaded: Loaded, environment: Environment, policy: Policy, store: InventoryStore
) -> Asked:
    """Those that the file declares; without a file those found here or remembered in `store`."""
    known = declared_probes(loaded)
    if known is not None:
        return await asked_for(loaded, Roster(probes=known), policy, environment, found_now=False)
    roster = await take_stock(environment, store, loaded.settings.sre.probes)
    return await asked_for(loaded, roster, policy, environment, found_now=True)


async def asked_for(
    loaded: Loaded, roster: Roster, policy: Policy, environment: Environment, *, found_now: bool
) -> Asked:
    admitted = await admit(roster.probes, policy, environment)
    here = environment.name == LOCAL
    return Asked(
        probes=with_home_disk(admitted.probes, loaded.home) if here else admitted.probes,
        found_now=found_now,
        refused=admitted.refused,
        missing=roster.missing,
        questions=roster.questions,
    )


async def health_now(loaded: Loaded, folder: Path) -> tuple[HealthChecked, Sequence[Looked], Asked]:
    """One round by hand, recorded like any other; a journal in trouble is one of its findings."""
    from hermes.app.environment import place
    from hermes.app.gate import Gate
    from hermes.memory.in_memory import InMemoryJournal

    settings = loaded.settings.sre
    async with place(loaded, folder) as here:
        policy, known = Gate(loaded, folder, isolated=here.isolated), declared_probes(loaded)
        store = InventoryStore(loaded.home, here.target)
        roster = await take_stock(here, store, settings.probes, declared=known, patience=0.5)
        asked = await asked_for(loaded, roster, policy, here, found_now=known is None)
        nowhere = Bus(InMemoryJournal())  # one look tells nobody
        patrol = Patrol(asked.probes, here, nowhere, home=loaded.home, settings=settings.probes)
        checked, looked = await look_once(rounds_of(patrol), settings.health.timeout)
    services = {each.name: each.service for each in asked.probes}
    looked = [
        _explained(each, asked.missing.get(services.get(each.name, ""), "")) for each in looked
    ]
    if trouble := await _record(loaded, checked):
        checked = _with_journal(checked)
        looked = [*looked, Looked(name=JOURNAL, ok=False, detail=trouble)]
    return checked, looked, asked


async def _record(loaded: Loaded, checked: HealthChecked) -> str:
    """What is wrong with the journal; empty when it can be written and its disk has space."""
    from hermes.memory.opening import open_journal

    try:
        async with open_journal(loaded.store) as journal:
            trouble = await _reserve_in_use(journal)
            found = _with_journal(checked) if trouble else checked
            await Bus(journal, clean=Veil(loaded).event).publish(found)
    except StoreError as error:
        return str(error)
    return trouble


async def _reserve_in_use(journal: Journal) -> str:
    trouble = ""
    async for recorded in journal.read(kinds=("reserve.released", "reserve.restored")):
        since = f"{recorded.event.at:%Y-%m-%d %H:%M:%S} UTC"
        trouble = f"its disk is full: the watch uses its reserve since {since}; free some space"
        if isinstance(recorded.event, ReserveRestored):
            trouble = ""
    return trouble


def _with_journal(checked: HealthChecked) -> HealthChecked:
    return replace(checked, ok=False, failing=(*checked.failing, JOURNAL))


def _explained(looked: Looked, why: str) -> Looked:
    return replace(looked, detail=f"{looked.detail}; {why}") if why and not looked.ok else looked


async def forget_service(loaded: Loaded, folder: Path, name: str) -> bool:
    """Whether the service was known; either way it is not asked about any more."""
    from hermes.app.environment import place

    async with place(loaded, folder) as here:
        store = InventoryStore(loaded.home, here.target)
    known = name in store.load().services
    store.change(lambda before: forget(before, name))
    return known
