"""Where a playbook is played: the road its commands take, and who hears of it."""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import anyio

from hermes.core.events import Event
from hermes.core.events.skills import PlaybookStepped
from hermes.core.messages import ToolCall, ToolResult, Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.schema import ExpectedResult

ExecuteCall = Callable[[ToolCall], Awaitable[ToolResult]]
"""The executor with its context: looks up, decides, asks, runs, records."""
PublishEvents = Callable[..., Awaitable[Sequence[int]]]
BeforeStep = Callable[[str, str, str], Awaitable[None]]
"""Told a step's call, command and way back, and waited for, before it runs."""
TOOL_GRACE_S = 5.0
"""Seconds beyond a command's own time-out before we stop waiting for the tool itself."""


async def discard_events(*events: Event) -> Sequence[int]:
    return ()


async def skip_announcement(call_id: str, command: str, undo: str) -> None:
    return None


@dataclass(frozen=True)
class PlaybookContext:
    execute: ExecuteCall
    publish: PublishEvents = discard_events
    run: str = ""
    before_step: BeforeStep = skip_announcement
    step_grace_s: float = TOOL_GRACE_S
    """Seconds beyond a step's own time-out, in which people may be asked about it."""


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
    """A command that failed always has the note; one that prints such a note counts as failed."""
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


def find_unmet_expectation(result: TerminalResult, expect: ExpectedResult) -> str:
    """What was expected and is not so, in words; empty when all holds."""
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


PlaybookOutcome = Literal["applied", "declined", "unmet", "refused", "undone", "failed"]
PlaybookPhase = Literal["probe", "step", "verify", "undo"]
TERMINAL_TOOL = "terminal"


class PlaybookStepResult(Value, kw_only=True, frozen=True):
    """Something that was run, or would be."""

    name: str
    phase: PlaybookPhase
    command: str
    undo: str = ""
    ok: bool = True
    output: str = ""
    call_id: str = ""


class PlaybookStopped(Exception):
    """The first thing that is not as expected; the playbook goes no further."""

    def __init__(
        self, outcome: PlaybookOutcome, step: str, detail: str, *, incomplete: bool = False
    ) -> None:
        super().__init__(detail)
        self.outcome: PlaybookOutcome = outcome
        self.step = step
        self.incomplete = incomplete
        """The command did not run to its end, so its result shows nothing."""


class StepRunner:
    def __init__(self, skill: str, context: PlaybookContext) -> None:
        self.skill = skill
        self._context = context

    async def run(
        self,
        name: str,
        command: str,
        timeout: float,
        *,
        id: str = "",
        grace_s: float = TOOL_GRACE_S,
    ) -> TerminalResult:
        id = id or new_id(f"play-{name}")
        call = ToolCall(id, TERMINAL_TOOL, {"command": command, "timeout": timeout})
        began = time.monotonic()
        with anyio.move_on_after(timeout + grace_s):
            result = await self._context.execute(call)
            return parse_terminal_result(result, command, time.monotonic() - began)
        return TerminalResult(call.id, command, "ok", None, "", timeout + grace_s, timed_out=True)

    async def publish(self, event: Event) -> None:
        await self._context.publish(event)

    async def publish_step(
        self,
        name: str,
        phase: PlaybookPhase,
        result: TerminalResult,
        ok: bool,
        detail: str,
        undo: str = "",
    ) -> None:
        await self.publish(
            PlaybookStepped(
                run=self._context.run,
                skill=self.skill,
                step=name,
                call_id=result.call_id,
                ok=ok,
                detail=detail,
                undo=undo,
                phase=phase,
                seconds=round(result.seconds, 3),
            )
        )


def build_step_result(
    name: str, phase: PlaybookPhase, result: TerminalResult, *, ok: bool, undo: str = ""
) -> PlaybookStepResult:
    return PlaybookStepResult(
        name=name,
        phase=phase,
        command=result.command,
        undo=undo,
        ok=ok,
        output=result.output,
        call_id=result.call_id,
    )


def incomplete_reason(result: TerminalResult) -> str:
    """Why it did not run to its end, whatever it was expected to do."""
    if result.status == "denied":
        return f"not allowed: {result.output[:300]}"
    if result.status == "error":
        return f"it could not be run: {result.output[:300]}"
    return f"timed out after {result.seconds:.0f} s" if result.timed_out else ""


def failure_outcome(result: TerminalResult, otherwise: PlaybookOutcome) -> PlaybookOutcome:
    """What a command that was not as expected makes of the whole playbook."""
    known: dict[str, PlaybookOutcome] = {"denied": "refused", "error": "failed"}
    return known.get(result.status, otherwise)
