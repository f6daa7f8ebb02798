"""The agent's own list of what is still to do, one per run."""

from collections import OrderedDict
from typing import Annotated, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.kit import Kit

_RUNS = 1_000
_MARKS = {"pending": "[ ]", "doing": "[>]", "done": "[x]", "dropped": "[-]"}


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    status: Literal["pending", "doing", "done", "dropped"] = "pending"


def make(kit: Kit) -> Tool:
    lists: OrderedDict[str, list[Item]] = OrderedDict()

    @tool(risk=Risk.READ)
    async def todo(
        context: ToolContext,
        items: Annotated[list[Item] | None, about("the whole list; leave out to read it")] = None,
    ) -> str:
        """Keep a list of steps for work that takes several; sending one replaces it."""
        if items is not None:
            _check(items)
            lists[context.run] = items
            lists.move_to_end(context.run)
            while len(lists) > _RUNS:
                lists.popitem(last=False)
        return _told(lists.get(context.run, []))

    return todo


def _check(items: list[Item]) -> None:
    if len(items) > 100:
        raise ToolError("more than 100 items is not a plan: keep the list short")
    if any(not item.text.strip() for item in items):
        raise ToolError("an item has no text")


def _told(items: list[Item]) -> str:
    if not items:
        return "the list is empty"
    done = sum(item.status in ("done", "dropped") for item in items)
    lines = [f"{_MARKS[item.status]} {item.text.strip()}" for item in items]
    return "\n".join([*lines, f"{done} of {len(items)} finished"])
