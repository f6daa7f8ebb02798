"""Opens the skill library and the journal for the `hermes skills` commands."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import click

from hermes.app.people import user_name
from hermes.app.skills.library import open_library, read_skill_states, record_state
from hermes.cli.context import load_settings
from hermes.cli.output import note
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillState
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.settings.load import LoadedSettings
from hermes.skills.history import SkillHistory
from hermes.skills.library import Skill, SkillLibrary

SkillResult = TypeVar("SkillResult")


def load_library(ctx: click.Context) -> tuple[LoadedSettings, SkillLibrary]:
    """Load the skills with their states from the journal, if there is one."""
    loaded = load_settings(ctx)
    states: dict[str, SkillState] = {}
    if store_exists(loaded.store):
        states = with_journal(loaded, read_skill_states)
    library = open_library(loaded, Path.cwd(), states)
    library.skills_by_name  # noqa: B018 - reads the files, so that problems are known
    for problem in library.problems:
        note(f"left out: {problem}")
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
    """Record a new state of the skill in the journal, as the user of this process."""
    who = user_name()
    with_journal(
        loaded,
        lambda journal: record_state(
            journal, skill, state, person=who, reason=reason, parents=parents
        ),
    )


def require_own_skill(skill: Skill) -> Skill:
    """Raises `SettingsError` for a bundled skill, which must not be changed in place."""
    if skill.origin == "bundled":
        raise SettingsError(
            f"{skill.name} is bundled; `hermes skills edit {skill.name}` creates your own copy"
        )
    return skill


def skills_root(loaded: LoadedSettings, skill: Skill) -> Path:
    """The skills folder that contains the skill and its versions."""
    home = loaded.home / "skills"
    if skill.folder.is_relative_to(home):
        return home
    return next(
        (each for each in skill.folder.parents if each.name == "skills"), skill.folder.parent
    )


def skill_history(loaded: LoadedSettings, skill: Skill) -> SkillHistory:
    return SkillHistory(skills_root(loaded, skill))
