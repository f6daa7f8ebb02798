"""Lays the ground for an incident: a house, its skills, its checks, its desk for reports."""

from collections.abc import Sequence
from pathlib import Path

from hermes.app.house import House
from hermes.app.skills import open_library, states_in
from hermes.core.protocols import Journal
from hermes.settings.load import Loaded
from hermes.skills.library import Skill
from hermes.skills.playbook.schema import Check
from hermes.sre.case import Case
from hermes.sre.ground import Ground
from hermes.sre.minds import Minds
from hermes.sre.settings import SreSettings


def ground_in(
    house: House, settings: SreSettings, *, minds: Minds | None = None, folder: Path | None = None
) -> Ground:
    means = house.means
    return Ground(
        bus=house.bus,
        executor=means.executor,
        environment=means.environment,
        artifacts=means.artifacts,
        settings=settings,
        skills=Shelf(house.loaded, house.journal, folder).skills,
        checks=lambda case: _checks(house, case),
        minds=minds,
        processes=means.processes,
        origin=means.origin,
    )


class Shelf:
    """The library, read again only when a skill's state has changed since."""

    def __init__(self, loaded: Loaded, journal: Journal, folder: Path | None) -> None:
        self._loaded, self._journal, self._folder = loaded, journal, folder

    async def skills(self) -> Sequence[Skill]:
        states = await states_in(self._journal)
        return open_library(self._loaded, self._folder, states).skills


async def _checks(house: House, case: Case) -> Sequence[Check]:
    return ()
