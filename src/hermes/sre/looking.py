"""One look at one thing, with a deadline of its own: a check that hangs has failed."""

from collections.abc import Awaitable, Callable

import anyio

from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, ToolResult, Value
from hermes.skills.playbook.ending import ended, unmet
from hermes.skills.playbook.schema import Check

Execute = Callable[[ToolCall], Awaitable[ToolResult]]
"""The executor with its context: looks up, decides, asks, runs, records."""
TOOL = "terminal"
GRACE = 2.0
"""Seconds for the place itself to end a command that ran out of time."""


class Seen(Value, kw_only=True, frozen=True):
    check: str
    ok: bool
    unknown: bool = False
    """It could not be asked, which is neither well nor broken."""
    detail: str = ""
    call_id: str = ""
    service: str = ""
    """Whose trouble it shows, where that is known."""
    proves: bool = True
    """False where it passes, or would pass, whatever the cause: a restart resets the counter that
    it reads, or the log that it reads has nothing new."""
    counter: bool = False
    """It fails because of a count of restarts: evidence only once the unit outlives its past."""


async def look(check: Check, execute: Execute, *, timeout: float = 10.0) -> Seen:
    patience = min(check.timeout, timeout)
    call = ToolCall(new_id("look"), TOOL, {"command": check.command, "timeout": patience})
    with anyio.move_on_after(patience + GRACE):
        result = await execute(call)
        end = ended(result, check.command, 0.0)
        if result.status != "ok":
            why = f"could not be asked: {end.output[:200]}"
        elif end.timed_out:
            why = f"gave no answer within {patience:g} s"
        else:
            why = unmet(end, check.expect)
        detail = why or _gist(end.output)
        return Seen(check=check.name, ok=not why, detail=detail, call_id=call.id)
    why = f"gave no answer within {patience:g} s"
    return Seen(check=check.name, ok=False, detail=why, call_id=call.id)


async def look_at_all(
    checks: tuple[Check, ...], execute: Execute, *, timeout: float = 10.0, side_by_side: int = 8
) -> tuple[Seen, ...]:
    """Side by side, in their order."""
    seats, seen = anyio.Semaphore(side_by_side), dict[int, Seen]()

    async def one(number: int, check: Check) -> None:
        async with seats:
            seen[number] = await look(check, execute, timeout=timeout)

    async with anyio.create_task_group() as group:
        for number, check in enumerate(checks):
            group.start_soon(one, number, check)
    return tuple(seen[number] for number in range(len(checks)))


def _gist(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:120] if lines else "as expected"
