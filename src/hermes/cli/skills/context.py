"""How a command reaches the skills of a home, and the record of their lives."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import click

from hermes.app.policy import user_name
from hermes.app.skills.library import open_library, read_skill_states
from hermes.cli.context import load_settings
from hermes.cli.output import note
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillChanged, SkillState
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.settings.load import LoadedSettings
from hermes.skills.history import SkillHistory
from hermes.skills.library import Skill, SkillLibrary

SkillResult = TypeVar("SkillResult")
SKILLS_RUN = "skills"
"""The run of what a person does to skills by command."""


def load_library(ctx: click.Context) -> tuple[LoadedSettings, SkillLibrary]:
    """With the states that the journal knows; a home without a journal has none to know."""
    loaded = load_settings(ctx)
    states: dict[str, SkillState] = {}
    if store_exists(loaded.store):
        states = with_journal(loaded, read_skill_states)
    library = open_library(loaded, Path.cwd(), states)
    library.skills_by_name  # noqa: B018 - read now, so that mistakes are known
    for mistake in library.problems:
        note(f"left out: {mistake}")
    return loaded, library


def with_journal(
    loaded: LoadedSettings, work: Callable[[JournalStore], Awaitable[SkillResult]]
) -> SkillResult:
    async def run() -> SkillResult:
        async with open_journal(loaded.store, timeout_s=loaded.settings.store.patience) as journal:
            return await work(journal)

    return anyio.run(run)


def record_skill_state(
    loaded: LoadedSettings,
    skill: Skill,
    state: SkillState,
    reason: str,
    parents: tuple[str, ...] = (),
) -> None:
    """Write a step of its life into the journal."""
    event = SkillChanged(
        run=SKILLS_RUN,
        skill=skill.name,
        digest=skill.digest,
        state=state,
        before=skill.state,
        parents=parents,
        reason=reason,
        by=user_name(),
    )

    async def write(journal: JournalStore) -> None:
        await Bus(journal).publish(event)

    with_journal(loaded, write)


def require_own_skill(skill: Skill) -> Skill:
    """Raises `SettingsError` for one that comes with Hermes and is not to be changed in place."""
    if skill.origin == "bundled":
        raise SettingsError(
            f"{skill.name} comes with Hermes; `hermes skills edit {skill.name}` makes it your own"
        )
    return skill


def skills_root(loaded: LoadedSettings, skill: Skill) -> Path:
    """The folder of skills that it belongs to, where its versions are kept."""
    home = loaded.home / "skills"
    if skill.folder.is_relative_to(home):
        return home
    return next(
        (each for each in skill.folder.parents if each.name == "skills"), skill.folder.parent
    )


def skill_history(loaded: LoadedSettings, skill: Skill) -> SkillHistory:
    return SkillHistory(skills_root(loaded, skill))
