"""Removes characters that hide a word from a search, and maps positions back to the original.

A token with colour codes or zero-width characters, or one that a terminal wrapped, looks complete
to a person but does not match a pattern.
"""

import re
from bisect import bisect_right
from typing import Self

_INVISIBLE = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)"
    r"|[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)
_LINE_BREAK = re.compile(r"\\?\r?\n[ \t]*(?:[>|][ \t]+)?")
_INVISIBLE_OR_LINE_BREAK = re.compile(f"{_INVISIBLE.pattern}|{_LINE_BREAK.pattern}")

SecretSpan = tuple[int, int, str]
"""Start, end and kind of a secret."""


class FoldedText:
    """`_starts` and `_shifts`: from each position on, how many characters were removed before."""

    def __init__(self, text: str, starts: list[int], shifts: list[int]) -> None:
        self.text = text
        self._starts, self._shifts = starts, shifts

    @classmethod
    def without(cls, text: str, pattern: re.Pattern[str]) -> Self | None:
        """None when nothing matches."""
        pieces, starts, shifts, done, size = [], [0], [0], 0, 0
        for match in pattern.finditer(text):
            pieces.append(text[done : match.start()])
            size += match.start() - done
            done = match.end()
            starts.append(size)
            shifts.append(done - size)
        return cls("".join([*pieces, text[done:]]), starts, shifts) if done else None

    def lower(self) -> Self:
        """A text that gets longer in lower case cannot be mapped: the result is empty."""
        lower = self.text.lower()
        return type(self)(lower if len(lower) == len(self.text) else "", self._starts, self._shifts)

    def original(self, span: SecretSpan) -> SecretSpan:
        start, end, name = span
        return self._original_position(start), self._original_position(end - 1) + 1, name

    def _original_position(self, position: int) -> int:
        return position + self._shifts[bisect_right(self._starts, position) - 1]


def fold_all(text: str) -> FoldedText:
    """The text without invisible characters and line breaks."""
    return FoldedText.without(text, _INVISIBLE_OR_LINE_BREAK) or FoldedText(text, [0], [0])


def fold_invisible(text: str) -> FoldedText | None:
    if text.isascii() and "\x1b" not in text:
        return None
    return FoldedText.without(text, _INVISIBLE)


def fold_line_breaks(text: str) -> FoldedText | None:
    return FoldedText.without(text, _LINE_BREAK) if "\n" in text else None
