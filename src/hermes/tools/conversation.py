"""The tools `clarify`, which asks the person a question, and `todo`, which keeps a list of
steps."""

from collections import OrderedDict
from typing import Annotated, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.dependencies import ToolDependencies

_NOBODY_PRESENT_TEXT = (
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
        raise ToolError(_NOBODY_PRESENT_TEXT)
    answer = await context.ask(question, choices)
    if answer is None:
        raise ToolError(_NOBODY_PRESENT_TEXT)
    return answer


_MAX_REMEMBERED_RUNS = 1_000
_STATUS_MARKS = {"pending": "[ ]", "doing": "[>]", "done": "[x]", "dropped": "[-]"}


class TodoItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    status: Literal["pending", "doing", "done", "dropped"] = "pending"


def make_todo(dependencies: ToolDependencies) -> Tool:
    lists: OrderedDict[str, list[TodoItem]] = OrderedDict()

    @tool(risk=Risk.READ)
    async def todo(
        context: ToolContext,
        items: Annotated[
            list[TodoItem] | None, about("the whole list; leave out to read it")
        ] = None,
    ) -> str:
        """Keep a list of steps for work that takes several; sending one replaces it."""
        if items is not None:
            _check_items(items)
            lists[context.run] = items
            lists.move_to_end(context.run)
            while len(lists) > _MAX_REMEMBERED_RUNS:
                lists.popitem(last=False)
        return _render_items(lists.get(context.run, []))

    return todo


def _check_items(items: list[TodoItem]) -> None:
    if len(items) > 100:
        raise ToolError("more than 100 items is not a plan: keep the list short")
    if any(not item.text.strip() for item in items):
        raise ToolError("an item has no text")


def _render_items(items: list[TodoItem]) -> str:
    if not items:
        return "the list is empty"
    done = sum(item.status in ("done", "dropped") for item in items)
    lines = [f"{_STATUS_MARKS[item.status]} {item.text.strip()}" for item in items]
    return "\n".join([*lines, f"{done} of {len(items)} finished"])
