"""Joins the skill library to the house: its states from the journal, its playbooks to the executor.

`reflex` is what an incident calls: the alert's facts in, what was tried and done out, no model.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.core.events.skills import SkillChanged, SkillState
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import Journal, ToolContext
from hermes.settings.load import Loaded
from hermes.skills.library import Library, roots
from hermes.skills.playbook.runner import Execute
from hermes.tools.executor import Executor

if TYPE_CHECKING:
    from hermes.skills.playbook.facts import Facts
    from hermes.skills.playbook.reflex import Response


def open_library(
    loaded: Loaded, folder: Path | None = None, states: Mapping[str, SkillState] | None = None
) -> Library:
    """Bundled, the person's in the home, the project's in `.hermes/skills` of the folder."""
    return Library(roots(loaded.home, folder), states)


async def states_in(journal: Journal) -> dict[str, SkillState]:
    """Where each skill's life has got to, as the journal tells it."""
    found: dict[str, SkillState] = {}
    async for recorded in journal.read(kinds=("skill.changed",)):
        if isinstance(recorded.event, SkillChanged):
            found[recorded.event.skill] = recorded.event.state
    return found


def road(executor: Executor, context: ToolContext) -> Execute:
    """The executor as a playbook sees it."""

    async def execute(call: ToolCall) -> ToolResult:
        return await executor.execute(call, context)

    return execute


async def reflex(
    library: Library, facts: "Facts", executor: Executor, context: ToolContext
) -> "Response":
    """Trusted playbooks that may fit, best first, until one has mended it."""
    from hermes.skills.matching import Matcher
    from hermes.skills.playbook.reflex import respond

    candidates = Matcher(library.skills).candidates(facts)
    return await respond(
        facts,
        candidates,
        road(executor, context),
        publish=context.publish,
        run=context.run,
    )
