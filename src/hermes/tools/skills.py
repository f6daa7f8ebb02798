"""The agent's way into the skill library: categories, names, one body, one linked file.

Each step shows a little more, within a budget of tokens: what is read stays before the model's eyes
for the rest of the run.
"""

from collections.abc import Sequence
from typing import Annotated

from hermes.core.errors import ToolError
from hermes.core.events.skills import SkillShown
from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.core.skills import KnowsSkills, SkillCard
from hermes.tools.declare import about, tool

INDEX_TOKENS = 600
BODIES = 2
"""Whole skills that one run may read."""
FILE_TOKENS = 3_000
PER_TOKEN = 3.8
_RUNS = 256


class NoSkills:
    """Where there is no library."""

    async def categories(self) -> Sequence[tuple[str, int]]:
        return ()

    async def cards(self, category: str = "", task: str = "") -> Sequence[SkillCard]:
        return ()

    async def body(self, name: str) -> str:
        raise ToolError("there are no skills here")

    async def outline(self, name: str) -> str:
        raise ToolError("there are no skills here")

    async def linked(self, name: str, file: str) -> str:
        raise ToolError("there are no skills here")


def make_skills(library: KnowsSkills) -> dict[str, Tool]:
    """All three; they share what each run has read."""
    read: dict[str, set[str]] = {}

    @tool(risk=Risk.READ)
    async def skills_categories(context: ToolContext) -> str:
        """List the categories of skills: proven ways to do things, written down."""
        found = await library.categories()
        if not found:
            return "There are no skills here."
        return "\n".join(f"{name} ({count})" for name, count in found)

    @tool(risk=Risk.READ)
    async def skills_list(
        context: ToolContext,
        category: Annotated[str, about("only of this category")] = "",
        task: Annotated[str, about("what you are about to do: the fitting ones come first")] = "",
    ) -> str:
        """List skills by name with what each is for. Read the fitting one before you begin."""
        found = index(await library.cards(category, task))
        return found or "No skill fits. Work without one."

    @tool(risk=Risk.READ)
    async def skill_view(
        context: ToolContext,
        name: str,
        file: Annotated[str, about("a file that the skill links to, instead of its body")] = "",
    ) -> str:
        """Read one skill, or one file it links to. A run reads at most two whole skills."""
        if file:
            return cut(await library.linked(name, file), FILE_TOKENS)
        seen = _seen(read, context.run)
        if name not in seen and len(seen) >= BODIES:
            return (
                f"This run has read {' and '.join(sorted(seen))}; a third whole skill is too much. "
                f"Its outline:\n{await library.outline(name)}"
            )
        body = await library.body(name)
        seen.add(name)
        await context.publish(SkillShown(run=context.run, skill=name, how="viewed"))
        return body

    return {each.spec.name: each for each in (skills_categories, skills_list, skill_view)}


def index(cards: Sequence[SkillCard], tokens: int = INDEX_TOKENS) -> str:
    """Names and descriptions within the budget; what does not fit is counted."""
    lines: list[str] = []
    left = tokens * PER_TOKEN - 60
    for number, card in enumerate(cards):
        line = f"- {card.name}: {_short(card.description)}"
        if len(line) + 1 > left:
            lines.append(f"({len(cards) - number} more: ask with a category or a task)")
            break
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)


def cut(text: str, tokens: int) -> str:
    most = int(tokens * PER_TOKEN)
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[… {len(text) - most:,} characters left out …]"


def _short(description: str, most: int = 160) -> str:
    if len(description) <= most:
        return description
    return f"{description[: most - 1].rsplit(' ', 1)[0]}…"


def _seen(read: dict[str, set[str]], run: str) -> set[str]:
    while len(read) > _RUNS:
        read.pop(next(iter(read)))
    return read.setdefault(run, set())


_none = make_skills(NoSkills())
skills_categories, skills_list, skill_view = _none.values()
