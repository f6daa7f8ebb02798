"""Runs one command of a playbook through the executor and reads how it ended."""

import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import anyio

from hermes.core.messages import ToolCall, ToolResult, Value
from hermes.core.protocols import ConfinesCommands, Environment
from hermes.skills.playbook.schema import ExpectedResult
from hermes.skills.supervisors.units import PlainDaemon

TERMINAL_TOOL = "terminal"
PlaybookOutcome = Literal["applied", "declined", "unmet", "refused", "undone", "failed"]
PlaybookPhase = Literal["probe", "step", "verify", "undo"]
ExecuteCall = Callable[[ToolCall], Awaitable[ToolResult]]
"""The executor with its context: finds the tool, checks policy and approval, runs, records."""
PublishEvents = Callable[..., Awaitable[Sequence[int]]]
BeforeStep = Callable[[str, str, str], Awaitable[None]]
"""Awaited before a step runs, with its call id, command and undo command."""
TOOL_GRACE_S = 5.0
"""Seconds after the timeout of a command before the tool call is abandoned."""
MAX_BUSY_FACTOR = 4.0
"""How much longer a command may take on a busy machine."""


async def skip_announcement(call_id: str, command: str, undo: str) -> None:
    return None


@dataclass(frozen=True)
class PlaybookContext:
    execute: ExecuteCall
    publish: PublishEvents
    run: str = ""
    before_step: BeforeStep = skip_announcement
    step_grace_s: float = TOOL_GRACE_S
    """Seconds after the timeout of a step, in which an approval may be requested."""
    daemons: Sequence[PlainDaemon] = ()
    """Daemons of the host without a supervisor, as they were seen running."""
    root_commands: Sequence[str] = ()
    """Commands of supervisors that run with `sudo`; see `find_root_commands`."""
    kubectl: str = "kubectl"
    """With the options of its connection."""


async def find_root_commands(environment: Environment) -> Sequence[str]:
    """Commands that a person listed for the user of the service, who is not root."""
    if not isinstance(environment, ConfinesCommands):
        return ()
    kernel = await environment.kernel_support()
    return (*kernel.root_commands, *kernel.unconfined_root_commands)


_UNCHECKED_LINE = re.compile(r"^unchecked=(.{1,160})$", re.MULTILINE)
_COMMAND_NOT_FOUND = re.compile(
    r"^(?:\S+: (?:line \d+|\d+): )?([\w.-]+): (?:command )?not found$", re.MULTILINE
)
_EXIT_NOTE = re.compile(r"^\[exit (-?\d+) · [\d.]+ s\]$", re.MULTILINE)
_TIMEOUT_NOTE = re.compile(r"^\[timed out after [\d.]+ s and was ended.*\]$", re.MULTILINE)
_EMPTY_OUTPUT_NOTE = re.compile(r"^\[(no output|[\d.]+ s)\]$\s*\Z", re.MULTILINE)


class TerminalResult(Value, frozen=True):
    call_id: str
    command: str
    status: Literal["ok", "error", "denied"]
    code: int | None
    output: str
    seconds: float = 0.0
    timed_out: bool = False


def parse_terminal_result(result: ToolResult, command: str, seconds: float) -> TerminalResult:
    """A failed command has a note; a command that prints such a note counts as failed."""
    text = result.content
    if result.status != "ok":
        return TerminalResult(result.call_id, command, result.status, None, text, seconds)
    if late := _last_match(_TIMEOUT_NOTE, text):
        output = text[: late.start()]
        return TerminalResult(result.call_id, command, "ok", None, output, seconds, timed_out=True)
    if exit := _last_match(_EXIT_NOTE, text):
        output = text[: exit.start()].rstrip("\n")
        return TerminalResult(result.call_id, command, "ok", int(exit[1]), output, seconds)
    return TerminalResult(
        result.call_id, command, "ok", 0, _EMPTY_OUTPUT_NOTE.sub("", text).rstrip("\n"), seconds
    )


def busy_timeout(seconds: float) -> float:
    """Longer while the processors of this machine are busy: a timeout then says nothing about the
    host. For commands that only read; the timeout of a change is part of what is announced."""
    per_processor = os.getloadavg()[0] / (os.cpu_count() or 1)
    return round(seconds * min(max(per_processor, 1.0), MAX_BUSY_FACTOR), 1)


async def run_command(
    execute: ExecuteCall, command: str, timeout_s: float, *, id: str, grace_s: float | None = None
) -> TerminalResult:
    """Run a command with the terminal tool. The call is abandoned `grace_s` after its timeout."""
    call = ToolCall(id, TERMINAL_TOOL, {"command": command, "timeout": timeout_s})
    began = time.monotonic()
    with anyio.move_on_after(None if grace_s is None else timeout_s + grace_s):
        result = await execute(call)
        return parse_terminal_result(result, command, time.monotonic() - began)
    seconds = timeout_s + (grace_s or 0.0)
    return TerminalResult(id, command, "ok", None, "", seconds, timed_out=True)


def find_unmet_expectation(result: TerminalResult, expect: ExpectedResult) -> str:
    """The first expectation that does not hold; empty when all hold."""
    if expect.exit is not None and result.code != expect.exit:
        return (
            f"it ended with exit code {result.code}, not {expect.exit}{_last_output_line(result)}"
        )
    if expect.contains and expect.contains not in result.output:
        return f"its output lacks {expect.contains!r}{_last_output_line(result)}"
    if expect.lacks and expect.lacks in result.output:
        return f"its output has {expect.lacks!r}"
    if expect.regex and not re.search(expect.regex, result.output, re.MULTILINE):
        return f"its output does not match {expect.regex!r}{_last_output_line(result)}"
    return ""


def _last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return found[-1] if found else None


def _last_output_line(result: TerminalResult) -> str:
    lines = result.output.strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""


class PlaybookStepResult(Value, kw_only=True, frozen=True):
    """A command that was run, or would be in a dry run."""

    name: str
    phase: PlaybookPhase
    command: str
    undo: str = ""
    ok: bool = True
    output: str = ""
    call_id: str = ""


class PlaybookStopped(Exception):
    """An expectation does not hold; the playbook goes no further."""

    def __init__(
        self, outcome: PlaybookOutcome, step: str, detail: str, *, incomplete: bool = False
    ) -> None:
        super().__init__(detail)
        self.outcome: PlaybookOutcome = outcome
        self.step = step
        self.incomplete = incomplete
        """The command did not run to its end, so its output is no evidence."""


def incomplete_reason(result: TerminalResult) -> str:
    """Return why the command did not run to its end; empty when it did."""
    if result.status == "denied":
        return f"not allowed: {result.output[:300]}"
    if result.status == "error":
        return f"it could not be run: {result.output[:300]}"
    return f"timed out after {result.seconds:.0f} s" if result.timed_out else ""


def failure_outcome(result: TerminalResult, otherwise: PlaybookOutcome) -> PlaybookOutcome:
    """The outcome of a playbook after a command that was not as expected."""
    known: dict[str, PlaybookOutcome] = {"denied": "refused", "error": "failed"}
    return known.get(result.status, otherwise)


def unchecked_reason(stop: PlaybookStopped, output: str) -> str:
    """Return why the last probe, with this output, was not complete; empty when it was."""
    if reason := missing_program_reason(output):
        return reason
    if program := _COMMAND_NOT_FOUND.search(output):
        return f"no {program[1]} on this host"
    complete = bool(stop.step) and stop.outcome == "declined" and not stop.incomplete
    return "" if complete else str(stop)


def missing_program_reason(output: str) -> str:
    """A probe that lacks a program prints a line `unchecked=REASON`."""
    found = _UNCHECKED_LINE.search(output)
    return found[1].strip() if found else ""
