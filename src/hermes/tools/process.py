"""Looks after what `terminal` keeps running in the background."""

import time
from datetime import UTC, datetime
from typing import Annotated, Literal

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import Processes, ProcessView, ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.sudo_tip import tip_in

_COMMAND_SHOWN = 80


@tool(risk=Risk.CHANGE)
async def process(
    context: ToolContext,
    action: Literal["list", "poll", "log", "wait", "kill", "write", "submit"],
    session_id: str = "",
    data: Annotated[str, about("for write, submit")] = "",
    offset: Annotated[int, about("log: first line; negative counts from the end")] = -200,
    limit: Annotated[int, about("log: number of lines")] = 200,
    timeout: Annotated[float, about("wait: seconds")] = 60.0,
) -> str:
    """Background processes: list them, poll for new output, read the log, wait for the end, kill,
    write to the input, submit (write and press Enter)."""
    processes = context.processes
    if processes is None:
        raise ToolError("there are no background processes here")
    views = processes.list(_whose(context))
    if action != "list" and session_id not in {view.id for view in views}:
        raise ToolError(f"there is no process {session_id!r}; action=list shows those there are")
    match action:
        case "list":
            return "\n".join(_describe(view) for view in views) or "no background processes"
        case "poll":
            view, news = await processes.poll(session_id)
            return _with_output(news or "[nothing new]", view)
        case "log":
            return await processes.log(session_id, offset=offset, limit=limit)
        case "wait":
            return await _wait(processes, session_id, timeout)
        case "kill":
            return _describe(await processes.kill(session_id))
        case "write" | "submit":
            text = data + "\n" if action == "submit" else data
            await processes.write(session_id, text.encode())
            return f"sent {len(text.encode())} bytes"


def _whose(context: ToolContext) -> str | None:
    """On a person's own machine all; elsewhere a run sees only what it started itself."""
    return None if context.origin in ("cli", "python") else context.run


async def _wait(processes: Processes, id: str, timeout: float) -> str:
    started = time.monotonic()
    view = await processes.wait(id, timeout=timeout)
    waited = time.monotonic() - started
    if view.status != "running":
        _, news = await processes.poll(id)
        return _with_output(news, view)
    note = f"[still running after {waited:.0f} s of waiting"
    if waited < timeout - 1:
        note += f"; you asked for {timeout:g} s, which is more than one wait may take"
    return f"{note}; wait again, or poll]"


def _with_output(text: str, view: ProcessView) -> str:
    parts = (text.rstrip("\n"), tip_in(text), f"[{_state(view)}]")
    return "\n".join(part for part in parts if part)


def _state(view: ProcessView) -> str:
    match view.status:
        case "running":
            age = (datetime.now(UTC) - view.started_at).total_seconds()
            return f"running for {age:.0f} s"
        case "exited":
            return f"exit {view.exit_code}"
        case "lost":
            return "ended while nobody was looking; its exit code is not known"
        case "expired":
            return "ended by us: it was too old"
        case "killed":
            return "killed"


def _describe(view: ProcessView) -> str:
    first = (view.command.splitlines() or [""])[0]
    command = (
        first
        if first == view.command and len(first) <= _COMMAND_SHOWN
        else (first[:_COMMAND_SHOWN] + "…")
    )
    return f"{view.id}  {_state(view)}  {view.environment}  {view.output_bytes:,} bytes  {command}"
