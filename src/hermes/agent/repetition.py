"""Notices a model that does the same thing again and gets the same answer again.

It is a pure reader of calls and results, so a resumed conversation sees the same warnings at the
same places without their being journalled.
"""

import re
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from hermes.agent.results import failed
from hermes.core.messages import ToolCall, ToolResult

TELL_FAILING, STOP_FAILING = 3, 5
TELL_SAME = 8
"""Looking again with the same result may be waiting, so it is told and never stopped."""

FAILING = (
    "[Hermes: this same call of {name} failed in the same way {count} times. It will not go "
    "otherwise next time. Find out why, try another way, or say what is in the way.]"
)
SAME = (
    "[Hermes: this same call of {name} gave the same result {count} times. If you wait for "
    "something, wait longer at once; else go on with what you know.]"
)
_SECONDS = re.compile(r"\b\d+(\.\d+)? ?(ms|s|seconds)\b")

Signature = tuple[str, bytes]


class Repetition:
    """Counts equal calls with equal results within one turn.

    A call never made before in the turn that succeeds is progress and starts the count anew: a
    test that fails in the same way after each of five different edits is work, not a loop.
    """

    def __init__(self) -> None:
        self.reason = ""
        """Why the turn should end; empty while it should not."""
        self.remarks: dict[str, str] = {}
        """What was put below a result, by call."""
        self._counts: dict[tuple[Signature, str, int], int] = {}
        self._made: set[Signature] = set()
        self._told: set[tuple[Signature, str, int]] = set()

    def note(self, answered: Iterable[tuple[ToolCall, ToolResult]]) -> list[ToolResult]:
        """The results of one message as the model shall see them, with warnings where due."""
        told_before = set(self._told)
        return [self._note(call, result, told_before) for call, result in answered]

    def _note(
        self, call: ToolCall, result: ToolResult, told: set[tuple[Signature, str, int]]
    ) -> ToolResult:
        signature = (call.name, _canonical(call))
        bad = failed(result)
        if not bad and signature not in self._made:
            self._counts.clear()
        self._made.add(signature)
        key = (signature, result.status, hash(_timeless(result.content)))
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count < (TELL_FAILING if bad else TELL_SAME):
            return result
        self._told.add(key)
        if bad and count >= STOP_FAILING and key in told:  # not before the model was told once
            self.reason = f"the same call of {call.name} failed in the same way {count} times"
        warning = (FAILING if bad else SAME).format(name=call.name, count=count)
        self.remarks[call.id] = f"\n\n{warning}"
        return replace(result, content=result.content + self.remarks[call.id])


def _timeless(text: str) -> str:
    """Without the seconds that a tool writes below its output: they differ where nothing does."""
    return text[:-80] + _SECONDS.sub("", text[-80:])


def _canonical(call: ToolCall) -> bytes:
    return msgspec.json.encode(call.arguments, order="deterministic") + call.malformed.encode()
