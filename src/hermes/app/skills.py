"""Joins the skill library to the house: states from the journal, playbooks to the executor."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.core.events.skills import SkillChanged, SkillState
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import Journal, ToolContext
from hermes.core.skills import SkillCard
from hermes.settings.load import Loaded
from hermes.skills.cards import Root, quick_cards, roots
from hermes.tools.executor import Executor
from hermes.tools.skills import INDEX_TOKENS, index

if TYPE_CHECKING:
    from hermes.skills.desk import SkillDesk
    from hermes.skills.library import Library

SHOWN = "skill_view"
"""Where an agent has this tool, its prompt lists the skills."""
HEAD = "Skills, proven ways to do things; skill_view(name) opens one before you begin:"


def open_library(
    loaded: Loaded, folder: Path | None = None, states: Mapping[str, SkillState] | None = None
) -> "Library":
    """Bundled, the person's in the home, the project's in `.hermes/skills` of the folder."""
    from hermes.skills.library import Library

    return Library(roots(loaded.home, folder), states)


async def states_in(journal: Journal) -> dict[str, SkillState]:
    """Where each skill's life has got to, as the journal tells it."""
    found: dict[str, SkillState] = {}
    async for recorded in journal.read(kinds=("skill.changed",)):
        if isinstance(recorded.event, SkillChanged) and not recorded.event.candidate:
            found[recorded.event.skill] = recorded.event.state
    return found


def road(executor: Executor, context: ToolContext) -> Callable[[ToolCall], Awaitable[ToolResult]]:
    """The executor as a playbook sees it."""

    async def execute(call: ToolCall) -> ToolResult:
        return await executor.execute(call, context)

    return execute


class HouseSkills:
    """The library of a house, opened when it is first asked for. Fulfils `KnowsSkills`."""

    def __init__(self, loaded: Loaded, folder: Path, journal: Journal) -> None:
        self._loaded, self._folder, self._journal = loaded, folder, journal
        self._desk: SkillDesk | None = None

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
        """For the prompt: names and what each is for, within its budget of tokens."""
        found = [
            SkillCard(name=name, description=description)
            for name, description in quick_cards(root.path for root in self._roots())
        ]
        listed = index(found, INDEX_TOKENS - 50)
        return f"{HEAD}\n{listed}" if listed else ""

    def _roots(self) -> "list[Root]":
        return roots(self._loaded.home, self._folder)

    async def _open(self) -> "SkillDesk":
        if self._desk is None:
            from hermes.skills.desk import SkillDesk
            from hermes.skills.library import Library

            states = await states_in(self._journal)
            self._desk = SkillDesk(Library(self._roots(), states))
        return self._desk
