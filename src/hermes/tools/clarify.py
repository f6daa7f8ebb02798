"""Puts a question to the person, when there is one."""

from typing import Annotated

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import ToolContext
from hermes.tools.declare import about, tool

_ALONE = (
    "nobody is there to answer: decide yourself, take what can be undone, "
    "and state your assumption in the answer"
)


@tool(risk=Risk.READ, alone=True)
async def clarify(
    context: ToolContext,
    question: str,
    choices: Annotated[tuple[str, ...], about("answers to choose from, if any")] = (),
) -> str:
    """Ask the person one question, only if a wrong guess would cost them."""
    if not question.strip():
        raise ToolError("the question is empty")
    if len(choices) > 10:
        raise ToolError("offer at most 10 choices")
    if context.ask is None:
        raise ToolError(_ALONE)
    answer = await context.ask(question, choices)
    if answer is None:
        raise ToolError(_ALONE)
    return answer
