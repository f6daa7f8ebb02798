"""Lays the ground for an incident: a house, its skills, its checks, its desk for reports."""

from collections.abc import Sequence
from functools import partial

from hermes.app.house import House
from hermes.app.lessons import learn
from hermes.app.model_reach import is_bundled
from hermes.app.shelf import Shelf
from hermes.gym.conclude import make_conclude
from hermes.sre.agents.alone import Alone
from hermes.sre.agents.crew import Crew, check_settings, models_by_role
from hermes.sre.case import Case
from hermes.sre.eyes import open_eyes
from hermes.sre.ground import Ground, nothing
from hermes.sre.minds import Minds
from hermes.sre.probes.probe import Probe
from hermes.sre.report.document import document
from hermes.sre.settings import SreSettings

INCIDENTS = "incidents"
"""The folder of reports, in the home."""


def ground_in(
    house: House,
    settings: SreSettings,
    *,
    minds: Minds | None = None,
    probes: Sequence[Probe] = (),
    shelf: Shelf | None = None,
) -> Ground:
    """`probes` are those of the watch; where there are none, a look around finds some. `shelf`: a
    library that was read before."""
    means, shelf = house.means, shelf or Shelf(house.loaded, house.journal)
    return Ground(
        bus=house.bus,
        executor=means.executor,
        environment=means.environment,
        artifacts=means.artifacts,
        settings=settings,
        skills=shelf.skills,
        index=shelf.index,
        eyes=lambda case: open_eyes(case, means.environment, probes),
        report=lambda case: _report(house, case),
        learn=partial(learn, house) if settings.learn else nothing,
        minds=minds,
        processes=means.processes,
        origin=means.origin,
    )


def minds_in(house: House) -> Minds | None:
    """Models at work, where one is set up that can use tools; the bundled one cannot."""
    settings, means = house.loaded.settings, house.means
    if is_bundled(means.model.name) or not settings.sre.agents:
        return None
    if settings.sre.minds == "alone":
        return alone_in(house)
    crew = settings.sre.crew
    check_settings(crew)
    # A model named for this call does everything; else each job has the one of its role.
    named = means.model.name != settings.model.default
    if named or means.open_model is None:
        return Crew(means, crew)
    return Crew(means, crew, models_by_role(crew, settings.model, means.open_model))


def alone_in(house: House, more: str = "") -> Alone:
    """One model in one conversation, which says at the end what it was."""
    return Alone(house.means, lambda case: make_conclude(house.journal, case.incident), more=more)


async def _report(house: House, case: Case) -> None:
    await document(house.journal, house.bus, case.run, house.loaded.home / INCIDENTS)
