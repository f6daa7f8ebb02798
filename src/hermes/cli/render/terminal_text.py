"""Makes untrusted text safe for a terminal, and measures, wraps and colours text."""

import re
import unicodedata

import msgspec

from hermes.core.foreign_text import escape_invisible as escape_invisible

# Whole sequences first (CSI, then OSC/DCS/SOS/PM/APC with their payload, then two-character
# escapes), so that their payload is removed as well.
_ESCAPE_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]"
)
# Then the remaining control characters and those that reorder text. A sequence that streaming has
# split loses its escape character here, and the rest is harmless text.
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """For reading: removes everything that controls a terminal; newlines and tabs stay."""
    if text.isprintable():
        return text
    without = _ESCAPE_SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return _SURROGATES.sub("\ufffd", _CONTROL_CHARACTERS.sub("", without))


def display_width(text: str) -> int:
    """Columns of a line: wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, width: int) -> str:
    """One line of at most `width` columns; an ellipsis marks a cut."""
    line = " ".join(text.split())
    if display_width(line) <= width:
        return line
    kept, used = "", 0
    for character in line:
        used += _character_width(character)
        if used > max(width, 1) - 1:
            break
        kept += character
    return kept + "…"


def wrap(text: str, width: int) -> list[str]:
    """The rows of a text on a screen of that width, broken at any character, as terminals do."""
    rows: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        row, used = "", 0
        for character in line:
            size = _character_width(character)
            if used + size > max(width, 2):
                rows.append(row)
                row, used = "", 0
            row += character
            used += size
        rows.append(row)
    return rows


class TextStyle(msgspec.Struct, frozen=True):
    colour: bool = False

    def dim(self, text: str) -> str:
        return self._apply_code("2", text)

    def bold(self, text: str) -> str:
        return self._apply_code("1", text)

    def red(self, text: str) -> str:
        return self._apply_code("31", text)

    def green(self, text: str) -> str:
        return self._apply_code("32", text)

    def yellow(self, text: str) -> str:
        return self._apply_code("33", text)

    def cyan(self, text: str) -> str:
        return self._apply_code("36", text)

    def _apply_code(self, code: str, text: str) -> str:
        if not self.colour or not text:
            return text
        # Line by line: a redraw in between must not continue a colour.
        return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in text.split("\n"))
