"""Reads exit status and failure from tool results, and detects repeated calls."""

import re
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from hermes.core.messages import ToolCall, ToolResult
from hermes.plumbing.patterns import lazy_pattern

_EXIT_STATUS = lazy_pattern(
    r"\bexit(?:ed)?[ _]?(?:with )?(?:code|status)?[\"']?[ :=]{1,3}(-?\d+)\b", re.I
)


def exit_status(text: str) -> int | None:
    """The exit status that a command tool wrote at the start or the end of its result."""
    for part in (text[:200], text[-200:]):
        found = _EXIT_STATUS.search(part)
        if found:
            return int(found[1])
    return None


def is_failure(result: ToolResult) -> bool:
    return result.status != "ok" or bool(exit_status(result.content))


WARN_AFTER_FAILURES, STOP_AFTER_FAILURES = 3, 5
WARN_AFTER_REPEATS = 8
"""A repeated read with the same result may be waiting: it gets a note and is never stopped."""

FAILING_WARNING = (
    "[Hermes: this same call of {name} failed in the same way {count} times. It will not go "
    "otherwise next time. Find out why, try another way, or say what is in the way.]"
)
REPEATED_WARNING = (
    "[Hermes: this same call of {name} gave the same result {count} times. If you wait for "
    "something, wait longer at once; else go on with what you know.]"
)
_DURATION = lazy_pattern(r"\b\d+(\.\d+)? ?(ms|s|seconds)\b")

CallSignature = tuple[str, bytes]


class RepetitionDetector:
    """Counts equal calls with equal results within one turn.

    A new call in the turn that succeeds is progress and resets the count: a test that fails in the
    same way after each of five different edits is work, not a loop.
    """

    def __init__(self) -> None:
        self.reason = ""
        """Why the turn should end; empty while it should not."""
        self.remarks: dict[str, str] = {}
        """The note below a result, by call."""
        self._counts: dict[tuple[CallSignature, str, int], int] = {}
        self._earlier_calls: set[CallSignature] = set()
        self._warned: set[tuple[CallSignature, str, int]] = set()

    def note(self, answered: Iterable[tuple[ToolCall, ToolResult]]) -> list[ToolResult]:
        """The results of one message as the model sees them, with warnings where due."""
        warned = set(self._warned)
        return [self._note(call, result, warned) for call, result in answered]

    def _note(
        self, call: ToolCall, result: ToolResult, warned: set[tuple[CallSignature, str, int]]
    ) -> ToolResult:
        signature = (call.name, _canonical_call(call))
        bad = is_failure(result)
        if not bad and signature not in self._earlier_calls:
            self._counts.clear()
        self._earlier_calls.add(signature)
        key = (signature, result.status, hash(_without_durations(result.content)))
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count < (WARN_AFTER_FAILURES if bad else WARN_AFTER_REPEATS):
            return result
        self._warned.add(key)
        if (
            bad and count >= STOP_AFTER_FAILURES and key in warned
        ):  # not before the model had one warning
            self.reason = f"the same call of {call.name} failed in the same way {count} times"
        warning = (FAILING_WARNING if bad else REPEATED_WARNING).format(name=call.name, count=count)
        self.remarks[call.id] = f"\n\n{warning}"
        return replace(result, content=result.content + self.remarks[call.id])


def _without_durations(text: str) -> str:
    """Remove the durations that a tool writes below its output: they differ in equal results."""
    return text[:-80] + _DURATION.sub("", text[-80:])


def _canonical_call(call: ToolCall) -> bytes:
    return msgspec.json.encode(call.arguments, order="deterministic") + call.malformed.encode()
