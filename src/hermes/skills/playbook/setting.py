"""Where a playbook is played: the road its commands take, and who hears of it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hermes.core.events import Event
from hermes.core.messages import ToolCall, ToolResult

Execute = Callable[[ToolCall], Awaitable[ToolResult]]
"""The executor with its context: looks up, decides, asks, runs, records."""
Publish = Callable[..., Awaitable[Sequence[int]]]
Before = Callable[[str, str, str], Awaitable[None]]
"""Told a step's call, command and way back, and waited for, before it runs."""
GRACE = 5.0
"""Seconds beyond a command's own time-out before we stop waiting for the tool itself."""


async def nowhere(*events: Event) -> Sequence[int]:
    return ()


async def unannounced(call_id: str, command: str, undo: str) -> None:
    return None


@dataclass(frozen=True)
class Setting:
    execute: Execute
    publish: Publish = nowhere
    run: str = ""
    before: Before = unannounced
    patience: float = GRACE
    """Seconds beyond a step's own time-out, in which people may be asked about it."""
