"""The tools that read the skill library, and those that create and call Python skills.

Each step shows a little more, within a budget of tokens: what is read stays in the context of the
model for the rest of the run.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from hermes.core.events.skills import SkillShown
from hermes.core.knowledge import ReadsSkillLibrary, SkillCard
from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.dependencies import Unavailable

MAX_INDEX_TOKENS = 600
MAX_SKILLS_READ_PER_RUN = 2
"""Whole skills that one run may read."""
MAX_FILE_TOKENS = 3_000
CHARS_PER_TOKEN = 3.8
_MAX_REMEMBERED_RUNS = 256


def make_skills(library: ReadsSkillLibrary) -> dict[str, Tool]:
    """All three; they share what each run has read."""
    read: dict[str, set[str]] = {}

    @tool(risk=Risk.READ)
    async def skills_categories(context: ToolContext) -> str:
        """List the categories of skills."""
        found = await library.categories()
        if not found:
            return "There are no skills here."
        return "\n".join(f"{name} ({count})" for name, count in found)

    @tool(risk=Risk.READ)
    async def skills_list(
        context: ToolContext,
        category: str = "",
        task: Annotated[str, about("what you are about to do: ranks them")] = "",
    ) -> str:
        """List skills with what each is for. Read the fitting one before you begin."""
        found = render_skill_index(await library.cards(category, task))
        return found or "No skill fits. Work without one."

    @tool(risk=Risk.READ)
    async def skill_view(
        context: ToolContext,
        name: str,
        file: Annotated[str, about("a linked file, instead of the body")] = "",
    ) -> str:
        """Read a skill, or a file it links to. A run reads at most two whole skills."""
        if file:
            return cut_to_tokens(await library.linked(name, file), MAX_FILE_TOKENS)
        seen = _skills_read(read, context.run)
        if name not in seen and len(seen) >= MAX_SKILLS_READ_PER_RUN:
            return (
                f"This run has read {' and '.join(sorted(seen))}; a third whole skill is too much. "
                f"Its outline:\n{await library.outline(name)}"
            )
        body = await library.body(name)
        seen.add(name)
        await context.publish(SkillShown(run=context.run, skill=name, how="viewed"))
        return body

    return {each.spec.name: each for each in (skills_categories, skills_list, skill_view)}


def render_skill_index(cards: Sequence[SkillCard], tokens: int = MAX_INDEX_TOKENS) -> str:
    """Names and descriptions within the budget; what does not fit is counted."""
    lines: list[str] = []
    left = tokens * CHARS_PER_TOKEN - 60
    for number, card in enumerate(cards):
        line = f"- {card.name}: {_shorten_description(card.description)}"
        if len(line) + 1 > left:
            lines.append(f"({len(cards) - number} more: ask with a category or a task)")
            break
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)


def cut_to_tokens(text: str, tokens: int) -> str:
    max_chars = int(tokens * CHARS_PER_TOKEN)
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[… {len(text) - max_chars:,} characters left out …]"


def _shorten_description(description: str, max_chars: int = 160) -> str:
    if len(description) <= max_chars:
        return description
    return f"{description[: max_chars - 1].rsplit(' ', 1)[0]}…"


def _skills_read(read: dict[str, set[str]], run: str) -> set[str]:
    while len(read) > _MAX_REMEMBERED_RUNS:
        read.pop(next(iter(read)))
    return read.setdefault(run, set())


skills_categories, skills_list, skill_view = make_skills(
    Unavailable("there are no skills here")
).values()


CreateSkill = Callable[[ToolContext, str, str], Awaitable[str]]
"""Called with the name and the task; returns the result as text."""
FindSkill = Callable[[str], Tool]
"""A compiled skill by its name. Raises `ToolError` naming the existing ones."""


def make_compiler_tools(create: CreateSkill, find: FindSkill) -> dict[str, Tool]:
    @tool(risk=Risk.READ, alone=True)
    async def skill_create(
        context: ToolContext,
        name: Annotated[str, about("a-z, 0-9 and _")],
        task: Annotated[str, about("what it takes, does, writes and returns, with examples")],
    ) -> str:
        """Create a Python skill: a function that you and later sessions can call.

        For work that no tool does and that will recur. It is kept if its tests pass in a sandbox.
        It computes, and reads and writes files below data/; no network, no other programs.
        """
        return await create(context, name, task)

    @tool(risk=Risk.CHANGE)
    async def skill_call(
        context: ToolContext,
        name: str,
        arguments: Annotated[dict[str, Any], about("its parameters")],
    ) -> str:
        """Call a Python skill that is not a separate tool."""
        return await find(name)(context, arguments)

    return {"skill_create": skill_create, "skill_call": skill_call}


skill_create, skill_call = make_compiler_tools(
    Unavailable("no skills can be made here").create,
    Unavailable("there are no Python skills here").find,
).values()
