"""Looks for patterns in what a process prints, and does not shout."""

import time
from collections.abc import Callable, Sequence

from hermes.core.errors import ToolError
from hermes.core.messages import Value

_LONGEST = 4096
"""Bytes of a line without an end that are kept for the rest to come."""
_SHOWN = 500
_MOST = 16


class Match(Value, frozen=True):
    pattern: str
    line: str


class Watch:
    """Patterns are words to find in a line; a `*` stands for anything between two of them.

    No regular expressions: one that a model wrote badly could stop the whole house. Each pattern
    speaks at most once per `interval`; what it kept to itself is counted in its next match.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if len(patterns) > _MOST or any(not pattern.strip("*") for pattern in patterns):
            raise ToolError(f"give up to {_MOST} words or lines to watch for, none of them empty")
        self._words = {pattern: pattern.split("*") for pattern in patterns}
        self._interval, self._clock = interval, clock
        self._quiet_until = dict.fromkeys(patterns, float("-inf"))
        self._held_back = dict.fromkeys(patterns, 0)
        self._rest = b""

    def feed(self, data: bytes) -> list[Match]:
        if not self._words:
            return []
        *lines, rest = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-_LONGEST:]
        return [match for line in lines for match in self._look(line)]

    def finish(self) -> list[Match]:
        rest, self._rest = self._rest, b""
        return self._look(rest)

    def _look(self, raw: bytes) -> list[Match]:
        line = raw.decode("utf-8", "replace")
        return [
            Match(pattern, self._worded(pattern, line))
            for pattern, words in self._words.items()
            if _in_order(words, line) and self._may_speak(pattern)
        ]

    def _may_speak(self, pattern: str) -> bool:
        now = self._clock()
        if now < self._quiet_until[pattern]:
            self._held_back[pattern] += 1
            return False
        self._quiet_until[pattern] = now + self._interval
        return True

    def _worded(self, pattern: str, line: str) -> str:
        held, self._held_back[pattern] = self._held_back[pattern], 0
        return line[:_SHOWN] + (f" (and {held:,} more before)" if held else "")


def _in_order(words: Sequence[str], line: str) -> bool:
    position = 0
    for word in words:
        position = line.find(word, position)
        if position < 0:
            return False
        position += len(word)
    return True
