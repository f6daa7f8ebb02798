"""How a command reaches the skills of a home, and the record of their lives."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import click

from hermes.app.approving import user_name
from hermes.app.skills import open_library, states_in
from hermes.cli.loading import settings_for
from hermes.cli.output import note
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillChanged, SkillState
from hermes.memory.opening import Store, exists, open_journal
from hermes.settings.load import Loaded
from hermes.skills.history import History
from hermes.skills.library import Library, Skill

Answer = TypeVar("Answer")
RUN = "skills"
"""The run of what a person does to skills by command."""


def library_for(ctx: click.Context) -> tuple[Loaded, Library]:
    """With the states that the journal knows; a home without a journal has none to know."""
    loaded = settings_for(ctx)
    states: dict[str, SkillState] = {}
    if exists(loaded.store):
        states = with_journal(loaded, states_in)
    library = open_library(loaded, Path.cwd(), states)
    library.all  # noqa: B018 - read now, so that mistakes are known
    for mistake in library.mistakes:
        note(f"left out: {mistake}")
    return loaded, library


def with_journal(loaded: Loaded, work: Callable[[Store], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        async with open_journal(loaded.store, patience=loaded.settings.store.patience) as journal:
            return await work(journal)

    return anyio.run(run)


def record(
    loaded: Loaded, skill: Skill, state: SkillState, reason: str, parents: tuple[str, ...] = ()
) -> None:
    """Write a step of its life into the journal."""
    event = SkillChanged(
        run=RUN,
        skill=skill.name,
        digest=skill.digest,
        state=state,
        before=skill.state,
        parents=parents,
        reason=reason,
        by=user_name(),
    )

    async def write(journal: Store) -> None:
        await Bus(journal).publish(event)

    with_journal(loaded, write)


def own(skill: Skill) -> Skill:
    """Raises `SettingsError` for one that comes with Hermes and is not to be changed in place."""
    if skill.origin == "bundled":
        raise SettingsError(
            f"{skill.name} comes with Hermes; `hermes skills edit {skill.name}` makes it your own"
        )
    return skill


def root_of(loaded: Loaded, skill: Skill) -> Path:
    """The folder of skills that it belongs to, where its versions are kept."""
    home = loaded.home / "skills"
    if skill.folder.is_relative_to(home):
        return home
    return next(
        (each for each in skill.folder.parents if each.name == "skills"), skill.folder.parent
    )


def history_of(loaded: Loaded, skill: Skill) -> History:
    return History(root_of(loaded, skill))
