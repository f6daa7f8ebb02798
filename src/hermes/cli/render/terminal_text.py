"""Makes text from models, tools and files safe to print: no byte of it may steer the terminal."""

import re
import unicodedata

import msgspec

# Whole sequences first (CSI, then OSC/DCS/SOS/PM/APC with their payload, then two-character
# escapes), so that what they carried does not stay behind as litter.
_ESCAPE_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]"
)
# Then every control that is left, and the characters that reorder what is read: a sequence cut in
# two by streaming loses its escape here, and what remains is only odd-looking text.
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})


def clean(text: str) -> str:
    """For reading: newlines and tabs stay, everything that could steer a terminal is gone."""
    if text.isprintable():
        return text
    without = _ESCAPE_SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return _SURROGATES.sub("\ufffd", _CONTROL_CHARACTERS.sub("", without))


def escape_invisible(text: str) -> str:
    """For deciding: nothing is dropped, every character that could hide is spelled out."""
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    if character == "\n":
        return "\n"
    if character == "\t":
        return "\\t"
    if unicodedata.category(character) not in _INVISIBLE_CATEGORIES:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def display_width(text: str) -> int:
    """Columns that a line takes: wide characters two, marks that combine none."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, width: int) -> str:
    """One line of at most `width` columns, with an ellipsis where something is missing."""
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
    """The rows a text takes on a screen of that width, broken anywhere, as a terminal does."""
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
        # Line by line: a terminal that is redrawn in between must not carry a colour over.
        return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in text.split("\n"))
