"""The tools that read the skill library, and those that create and call Python skills.

Each step shows a little more, within a budget of tokens: what is read stays in the context of the
model for the rest of the run.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from hermes.core.errors import ToolError
from hermes.core.events.skills import SkillShown
from hermes.core.knowledge import ReadsSkillLibrary, SkillCard
from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.declare import about, tool

MAX_INDEX_TOKENS = 600
MAX_SKILLS_READ_PER_RUN = 2
"""Whole skills that one run may read."""
MAX_FILE_TOKENS = 3_000
CHARS_PER_TOKEN = 3.8
_MAX_REMEMBERED_RUNS = 256


class EmptySkillLibrary:
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


def make_skills(library: ReadsSkillLibrary) -> dict[str, Tool]:
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
        found = render_skill_index(await library.cards(category, task))
        return found or "No skill fits. Work without one."

    @tool(risk=Risk.READ)
    async def skill_view(
        context: ToolContext,
        name: str,
        file: Annotated[str, about("a file that the skill links to, instead of its body")] = "",
    ) -> str:
        """Read one skill, or one file it links to. A run reads at most two whole skills."""
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


_UNAVAILABLE_LIBRARY_TOOLS = make_skills(EmptySkillLibrary())
skills_categories, skills_list, skill_view = _UNAVAILABLE_LIBRARY_TOOLS.values()


CreateSkill = Callable[[ToolContext, str, str], Awaitable[str]]
"""Called with the name and the task; returns the result as text."""
FindSkill = Callable[[str], Tool]
"""A compiled skill by its name. Raises `ToolError` naming the existing ones."""


async def _no_compiler(context: ToolContext, name: str, task: str) -> str:
    raise ToolError("no skills can be made here")


def _no_skill(name: str) -> Tool:
    raise ToolError("there are no Python skills here")


def make_compiler_tools(create: CreateSkill, find: FindSkill) -> dict[str, Tool]:
    @tool(risk=Risk.READ, alone=True)
    async def skill_create(
        context: ToolContext,
        name: Annotated[str, about("of the function: a-z, 0-9 and _")],
        task: Annotated[
            str, about("what it takes, does, writes and returns, in whole sentences, with examples")
        ],
    ) -> str:
        """Make a new Python skill: a function that you, and every later session, can call.

        For work that no tool does and that will come again. It is drafted, looked over, and
        proven by its own tests in a sandbox; only then is it kept. It computes and may read and
        write files below data/; it reaches no network and no other program.
        """
        return await create(context, name, task)

    @tool(risk=Risk.CHANGE)
    async def skill_call(
        context: ToolContext,
        name: str,
        arguments: Annotated[dict[str, Any], about("as its parameters say")],
    ) -> str:
        """Call a Python skill by its name, where it is not a tool of its own."""
        return await find(name)(context, arguments)

    return {"skill_create": skill_create, "skill_call": skill_call}


_UNAVAILABLE_COMPILER_TOOLS: Mapping[str, Tool] = make_compiler_tools(_no_compiler, _no_skill)
skill_create, skill_call = (
    _UNAVAILABLE_COMPILER_TOOLS["skill_create"],
    _UNAVAILABLE_COMPILER_TOOLS["skill_call"],
)
