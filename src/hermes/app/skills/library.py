"""Joins the skill library to the journal, which has the states, and to the executor."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillChanged, SkillState
from hermes.core.knowledge import SkillCard
from hermes.core.protocols import Journal, Model, Tool, ToolContext
from hermes.settings.load import LoadedSettings
from hermes.skills.discovery import (
    PYTHON_SKILLS_FILE,
    SkillRoot,
    default_roots,
    find_skill_folders,
    read_descriptions,
)
from hermes.tools.skills import MAX_INDEX_TOKENS, make_compiler_tools, render_skill_index

if TYPE_CHECKING:
    from hermes.app.skills.workshop import SkillWorkshop
    from hermes.skills.library import Skill, SkillLibrary
    from hermes.skills.matching import SkillCatalog

SKILL_VIEW_TOOL = "skill_view"
"""Where an agent has this tool, its prompt lists the skills."""
SKILLS_RUN = "skills"
"""The run of events that people record about skills."""
SKILLS_HEADING = (
    "Skills, proven ways to do things: skills_list(task) ranks them, skill_view(name) opens one "
    "before you begin."
)
BUNDLED_NAMES_TOKENS = 250
CLUSTER_CATEGORY = "kubernetes"
"""Bundled skills of this category are named only where the settings name a cluster."""


def open_library(
    loaded: LoadedSettings,
    folder: Path | None = None,
    states: Mapping[str, SkillState] | None = None,
) -> "SkillLibrary":
    """The bundled skills, those of the home, and those of the project in `.hermes/skills`."""
    from hermes.skills.library import SkillLibrary

    return SkillLibrary(default_roots(loaded.home, folder), states)


async def read_skill_states(journal: Journal) -> dict[str, SkillState]:
    found: dict[str, SkillState] = {}
    async for recorded in journal.read(kinds=("skill.changed",)):
        if isinstance(recorded.event, SkillChanged) and not recorded.event.candidate:
            found[recorded.event.skill] = recorded.event.state
    return found


async def record_state(
    journal: Journal,
    skill: "Skill",
    state: SkillState,
    *,
    person: str,
    reason: str,
    parents: tuple[str, ...] = (),
) -> None:
    """A person gives the skill a new state."""
    event = SkillChanged(
        run=SKILLS_RUN,
        skill=skill.name,
        digest=skill.digest,
        state=state,
        before=skill.state,
        parents=parents,
        reason=reason,
        by=person,
    )
    await Bus(journal).publish(event)


async def retire_skill(
    journal: Journal, skill: "Skill", *, person: str, back: bool = False, reason: str = ""
) -> SkillState:
    """Take it out of use, or `back` into use; returns the new state. Its folder stays.

    Raises `SettingsError`.
    """
    if back != (skill.state == "retired"):
        raise SettingsError(f"{skill.name} is {'not retired' if back else 'already retired'}")
    again: SkillState = "trusted" if skill.origin == "bundled" else "draft"
    state: SkillState = again if back else "retired"
    default = "back in use" if back else "retired by hand"
    await record_state(journal, skill, state, person=person, reason=reason or default)
    return state


class ApplicationSkills:
    """The skill library, opened at the first use. Fulfils `ReadsSkillLibrary`."""

    def __init__(self, loaded: LoadedSettings, folder: Path, journal: Journal) -> None:
        self._loaded, self._folder, self._journal = loaded, folder, journal
        self._catalog: SkillCatalog | None = None

    async def categories(self) -> Sequence[tuple[str, int]]:
        return await (await self._open()).categories()

    async def cards(self, category: str = "", task: str = "") -> Sequence[SkillCard]:
        return await (await self._open()).cards(category, task)

    async def body(self, name: str) -> str:
        return await (await self._open()).body(name)

    async def outline(self, name: str) -> str:
        return await (await self._open()).outline(name)

    async def linked(self, name: str, file: str) -> str:
        return await (await self._open()).linked(name, file)

    def section(self) -> str:
        """For the prompt: own skills with their purpose within the budget, bundled ones by name."""
        bundled, *roots = self._roots()
        own = dict(read_descriptions(root.path for root in roots))
        cards = [SkillCard(name=name, description=about) for name, about in own.items()]
        kubernetes = self._loaded.settings.sre.kubernetes
        has_cluster = bool(kubernetes.kubeconfig or kubernetes.context)
        names = [
            each.name
            for each in find_skill_folders(bundled.path)
            if each.name not in own and (has_cluster or each.parent.name != CLUSTER_CATEGORY)
        ]
        listed = render_skill_index(cards, MAX_INDEX_TOKENS - BUNDLED_NAMES_TOKENS)
        return "\n".join(filter(None, (SKILLS_HEADING, listed, ", ".join(names))))

    def _roots(self) -> "list[SkillRoot]":
        return default_roots(self._loaded.home, self._folder)

    async def _open(self) -> "SkillCatalog":
        if self._catalog is None:
            from hermes.skills.library import SkillLibrary
            from hermes.skills.matching import SkillCatalog

            states = await read_skill_states(self._journal)
            self._catalog = SkillCatalog(SkillLibrary(self._roots(), states))
        return self._catalog


async def python_skill_tools(
    loaded: LoadedSettings,
    journal: Journal,
    model: Callable[[], Model],
    made_tools: dict[str, Tool],
) -> dict[str, Tool]:
    """The tools that make and call Python skills, and each compiled skill as its own.

    Skills created while the application runs are added to `made_tools`, which the executor uses.
    The compiler is loaded with the first skill.
    """

    async def create(context: ToolContext, name: str, task: str) -> str:
        lines: list[str] = []
        workshop = _open_workshop(loaded)
        compiled, known = await workshop.create(context, name, task, model(), lines.append)
        takes = ", ".join(
            f"{each.name}: {each.type_text}" for each in compiled.signature.parameters
        )
        made_tools.update({known.function: workshop.tool(known), "skill_call": call_skill})
        note = f"{known.function}({takes}) is a tool of yours from now on."
        return "\n".join([*lines, note])

    own: dict[str, Tool] = make_compiler_tools(
        create, lambda name: _open_workshop(loaded).find(name)
    )
    call_skill = own["skill_call"]
    exists = (loaded.home / "skills" / PYTHON_SKILLS_FILE).exists()
    existing = _open_workshop(loaded).tools() if exists else []
    if not existing:
        del own["skill_call"]  # there is nothing to call yet
        return own
    states = await read_skill_states(journal)
    for each in existing:
        if states.get(each.registered.skill) != "retired":
            own[each.registered.function] = each
    return own


def _open_workshop(loaded: LoadedSettings) -> "SkillWorkshop":
    from hermes.app.skills.workshop import SkillWorkshop

    return SkillWorkshop(loaded)
