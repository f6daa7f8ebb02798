"""The agent's way to make a tool that it lacks: a Python skill, proven before it may be called."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.declare import about, tool

Create = Callable[[ToolContext, str, str], Awaitable[str]]
"""The name and the task; what became of it, in words."""
Find = Callable[[str], Tool]
"""A compiled skill by its name. Raises `ToolError` naming those there are."""


async def _no_forge(context: ToolContext, name: str, task: str) -> str:
    raise ToolError("no skills can be made here")


def _no_skill(name: str) -> Tool:
    raise ToolError("there are no Python skills here")


def make_forge(create: Create, find: Find) -> dict[str, Tool]:
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


_none: Mapping[str, Tool] = make_forge(_no_forge, _no_skill)
skill_create, skill_call = _none["skill_create"], _none["skill_call"]
