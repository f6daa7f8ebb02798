"""The tools `terminal`, `process` and `try_on_copy`, and the advice about sudo."""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import (
    BackgroundProcesses,
    CommandResult,
    Environment,
    ProcessInfo,
    ToolContext,
)
from hermes.tools.declare import FunctionTool, about, tool

SUDO_TIP = (
    "[sudo needs a password here. Set SUDO_PASSWORD in ~/.hermes/.env and start again: only "
    "sudo receives it, never the command, the journal or the model. Or let sudoers allow this "
    "command without one]"
)
_PASSWORD_REQUIRED = re.compile(
    r"^sudo: (?:a password is required|a terminal is required|no tty present)", re.MULTILINE
)
_SUDO_ERROR = re.compile(r"^sudo: ", re.MULTILINE)
_HERMES_MESSAGE = re.compile(r"^hermes: ", re.MULTILINE)
"""The helper for a stored password has already reported the problem."""
_SUDO_CHECK_COMMAND = "LC_ALL=C command sudo -n true"


def sudo_tip_in(output: str) -> str:
    """The advice, if the output shows that it is needed."""
    return (
        SUDO_TIP if _PASSWORD_REQUIRED.search(output) and not _HERMES_MESSAGE.search(output) else ""
    )


async def find_sudo_tip(result: CommandResult, environment: Environment) -> str:
    """Find a tip like `sudo_tip_in`; if sudo prints another language, ask sudo whether it needs a
    password."""
    tip = sudo_tip_in(result.output)
    if tip or result.exit_code == 0 or result.timed_out:
        return tip
    if not _SUDO_ERROR.search(result.output) or _HERMES_MESSAGE.search(result.output):
        return ""
    return sudo_tip_in((await environment.run(_SUDO_CHECK_COMMAND, timeout=10)).output)


_QUICK_COMMAND_S = 1.0
"""Seconds below which the duration of a successful command is not shown."""


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
        watch: Annotated[tuple[str, ...], about("report such words")] = (),
        check_interval: Annotated[float, about("report each N s")] = 0.0,
    ) -> str:
        """Run a bash command. Folder, variables and functions persist between calls.

        Nothing can be typed: use flags such as -y. Start servers and long work with
        background=true; `process` manages them.
        """
        if background or pty:
            return await _start_background(
                context, command, workdir, pty=pty, watch=watch, check_interval=check_interval
            )
        seconds = max(1.0, min(timeout, max_timeout))
        result = await context.environment.run(command, timeout=seconds, cwd=workdir)
        text, tip = (
            render_command_result(result, seconds),
            await find_sudo_tip(result, context.environment),
        )
        return f"{text}\n{tip}" if tip else text

    return terminal


terminal = make_terminal()

MAX_CANDIDATES, MAX_COPY_TIMEOUT_S = 4, 60.0
CopyRunner = Callable[[Sequence[str], float], Awaitable[str]]
"""Runs each command on a separate copy, for at most so many seconds; returns what they showed."""


def make_try_on_copy(run: CopyRunner) -> FunctionTool:
    @tool(risk=Risk.CHANGE)
    async def try_on_copy(
        context: ToolContext,
        commands: Annotated[
            tuple[str, ...], about(f"1 to {MAX_CANDIDATES}; each runs on its own fresh copy")
        ],
        timeout: Annotated[
            float, about(f"seconds for each, at most {MAX_COPY_TIMEOUT_S:g}")
        ] = 20.0,
    ) -> str:
        """Test bash commands on a copy of the host, side by side, before one runs on the host.

        Nothing they change reaches the host, so changes need no approval. In an incident the
        failing checks run on the copy before and after.
        """
        if not 1 <= len(commands) <= MAX_CANDIDATES:
            raise ToolError(f"give 1 to {MAX_CANDIDATES} commands, not {len(commands)}")
        return await run(commands, max(1.0, min(timeout, MAX_COPY_TIMEOUT_S)))

    return try_on_copy


async def _refuse_copies(commands: Sequence[str], timeout_s: float) -> str:
    raise ToolError("the host cannot be copied here")


try_on_copy = make_try_on_copy(_refuse_copies)


async def _start_background(
    context: ToolContext,
    command: str,
    workdir: str,
    *,
    pty: bool,
    watch: tuple[str, ...],
    check_interval: float,
) -> str:
    if context.processes is None:
        raise ToolError("no background processes here: run it without background and pty")
    view = await context.processes.start(
        context.environment,
        command,
        run=context.run,
        pty=pty,
        cwd=workdir,
        watch=watch,
        check_interval=check_interval,
    )
    number = f" (pid {view.pid})" if view.pid is not None else ""
    return f"started: session_id {view.id}{number} in {view.environment}"


def render_command_result(result: CommandResult, limit: float) -> str:
    """Output first; below it only what is worth knowing."""
    output = result.output.rstrip("\n")
    if result.timed_out:
        note = (
            f"[timed out after {limit:g} s and was ended with all it had started; "
            "for long work use background=true or a longer timeout]"
        )
    elif result.exit_code != 0:
        note = f"[exit {result.exit_code} · {result.seconds:.1f} s]"
    elif result.seconds >= _QUICK_COMMAND_S:
        note = f"[{result.seconds:.1f} s]"
    else:
        note = "" if output else "[no output]"
    return "\n".join(part for part in (output, note) if part)


_MAX_COMMAND_CHARS = 80


@tool(risk=Risk.CHANGE)
async def process(
    context: ToolContext,
    action: Literal["list", "poll", "log", "wait", "kill", "write", "submit"],
    session_id: str = "",
    data: Annotated[str, about("for write, submit")] = "",
    offset: Annotated[int, about("log: first line; negative: from the end")] = -200,
    limit: Annotated[int, about("log: lines")] = 200,
    timeout: Annotated[float, about("wait: seconds")] = 60.0,
) -> str:
    """Background processes: list, poll for new output, read the log, wait for the end, kill,
    write to the input, submit (write and press Enter)."""
    processes = context.processes
    if processes is None:
        raise ToolError("there are no background processes here")
    views = processes.list(_visible_run(context))
    if action != "list" and session_id not in {view.id for view in views}:
        raise ToolError(f"there is no process {session_id!r}; action=list shows those there are")
    match action:
        case "list":
            return "\n".join(_describe_process(view) for view in views) or "no background processes"
        case "poll":
            view, news = await processes.poll(session_id)
            return _with_output(news or "[nothing new]", view)
        case "log":
            return await processes.log(session_id, offset=offset, limit=limit)
        case "wait":
            return await _wait_for_end(processes, session_id, timeout)
        case "kill":
            return _describe_process(await processes.kill(session_id))
        case "write" | "submit":
            text = data + "\n" if action == "submit" else data
            await processes.write(session_id, text.encode())
            return f"sent {len(text.encode())} bytes"


def _visible_run(context: ToolContext) -> str | None:
    """On a person's own machine all processes; elsewhere a run sees only what it started itself."""
    return None if context.origin in ("cli", "python") else context.run


async def _wait_for_end(processes: BackgroundProcesses, id: str, timeout: float) -> str:
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


def _with_output(text: str, view: ProcessInfo) -> str:
    parts = (text.rstrip("\n"), sudo_tip_in(text), f"[{_describe_state(view)}]")
    return "\n".join(part for part in parts if part)


def _describe_state(view: ProcessInfo) -> str:
    match view.status:
        case "running":
            age = (datetime.now(UTC) - view.started_at).total_seconds()
            return f"running for {age:.0f} s"
        case "exited":
            return f"exit {view.exit_code}"
        case "lost":
            return "ended unobserved; its exit code is not known"
        case "expired":
            return "ended by us: it was too old"
        case "killed":
            return "killed"


def _describe_process(view: ProcessInfo) -> str:
    first = (view.command.splitlines() or [""])[0]
    command = (
        first
        if first == view.command and len(first) <= _MAX_COMMAND_CHARS
        else (first[:_MAX_COMMAND_CHARS] + "…")
    )
    size = f"{view.output_bytes:,} bytes"
    return "  ".join((view.id, _describe_state(view), view.environment, size, command))
