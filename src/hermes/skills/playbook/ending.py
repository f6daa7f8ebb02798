"""How a command ended, read from what the terminal tool says about it."""

import re
from typing import Literal

from hermes.core.messages import ToolResult, Value
from hermes.skills.playbook.schema import Expect

_EXIT = re.compile(r"^\[exit (-?\d+) · [\d.]+ s\]$", re.MULTILINE)
_LATE = re.compile(r"^\[timed out after [\d.]+ s and was ended.*\]$", re.MULTILINE)
_NOTE = re.compile(r"^\[(no output|[\d.]+ s)\]$\s*\Z", re.MULTILINE)


class Ended(Value, frozen=True):
    call_id: str
    command: str
    status: Literal["ok", "error", "denied"]
    code: int | None
    output: str
    seconds: float = 0.0
    timed_out: bool = False


def ended(result: ToolResult, command: str, seconds: float) -> Ended:
    """A command that failed always has the note; one that prints such a note counts as failed."""
    text = result.content
    if result.status != "ok":
        return Ended(result.call_id, command, result.status, None, text, seconds)
    if late := _last(_LATE, text):
        output = text[: late.start()]
        return Ended(result.call_id, command, "ok", None, output, seconds, timed_out=True)
    if exit := _last(_EXIT, text):
        output = text[: exit.start()].rstrip("\n")
        return Ended(result.call_id, command, "ok", int(exit[1]), output, seconds)
    return Ended(result.call_id, command, "ok", 0, _NOTE.sub("", text).rstrip("\n"), seconds)


def unmet(result: Ended, expect: Expect) -> str:
    """What was expected and is not so, in words; empty when all holds."""
    if expect.exit is not None and result.code != expect.exit:
        return f"it ended with exit code {result.code}, not {expect.exit}{_said(result)}"
    if expect.contains and expect.contains not in result.output:
        return f"its output lacks {expect.contains!r}{_said(result)}"
    if expect.lacks and expect.lacks in result.output:
        return f"its output has {expect.lacks!r}"
    if expect.regex and not re.search(expect.regex, result.output, re.MULTILINE):
        return f"its output does not match {expect.regex!r}{_said(result)}"
    return ""


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return found[-1] if found else None


def _said(result: Ended) -> str:
    lines = result.output.strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""
