"""The agent's shell: one command at a time, or one that keeps running in the background."""

from typing import Annotated

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import CommandResult, ToolContext
from hermes.tools.declare import FunctionTool, about, tool
from hermes.tools.sudo_tip import tip_for

_QUICK = 1.0
"""Seconds below which nobody cares how long a command that worked took."""


def make_terminal(*, timeout: float = 120.0, max_timeout: float = 600.0) -> FunctionTool:
    """The tool with the operator's limits."""

    @tool(risk=Risk.CHANGE)
    async def terminal(
        context: ToolContext,
        command: str,
        timeout: Annotated[float, about(f"seconds, at most {max_timeout:g}")] = timeout,
        workdir: Annotated[str, about("folder for this command only")] = "",
        background: Annotated[bool, about("keep it running; returns a session_id")] = False,
        pty: Annotated[bool, about("give it a terminal; implies background")] = False,
        watch: Annotated[
            tuple[str, ...], about("tell me when such words appear (background)")
        ] = (),
    ) -> str:
        """Run a bash command. Folder, variables and functions persist from call to call.

        Nothing can be typed into it: use flags such as -y. Start servers and other long work
        with background=true and look after them with `process`.
        """
        if background or pty:
            return await _start(context, command, workdir, pty=pty, watch=watch)
        seconds = max(1.0, min(timeout, max_timeout))
        result = await context.environment.run(command, timeout=seconds, cwd=workdir)
        told, tip = show(result, seconds), await tip_for(result, context.environment)
        return f"{told}\n{tip}" if tip else told

    return terminal


terminal = make_terminal()


async def _start(
    context: ToolContext, command: str, workdir: str, *, pty: bool, watch: tuple[str, ...]
) -> str:
    if context.processes is None:
        raise ToolError("no background processes here: run it without background and pty")
    view = await context.processes.start(
        context.environment, command, run=context.run, pty=pty, cwd=workdir, watch=watch
    )
    number = f" (pid {view.pid})" if view.pid is not None else ""
    return f"started: session_id {view.id}{number} in {view.environment}"


def show(result: CommandResult, limit: float) -> str:
    """Output first; below it only what is worth knowing."""
    output = result.output.rstrip("\n")
    if result.timed_out:
        note = (
            f"[timed out after {limit:g} s and was ended with all it had started; "
            "for long work use background=true or a longer timeout]"
        )
    elif result.exit_code != 0:
        note = f"[exit {result.exit_code} · {result.seconds:.1f} s]"
    elif result.seconds >= _QUICK:
        note = f"[{result.seconds:.1f} s]"
    else:
        note = "" if output else "[no output]"
    return "\n".join(part for part in (output, note) if part)
