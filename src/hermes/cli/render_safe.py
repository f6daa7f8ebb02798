"""Makes text from models, tools and files safe to print: no byte of it may steer the terminal."""

import re
import unicodedata

# Whole sequences first (CSI, then OSC/DCS/SOS/PM/APC with their payload, then two-character
# escapes), so that what they carried does not stay behind as litter.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]"
)
# Then every control that is left, and the characters that reorder what is read: a sequence cut in
# two by streaming loses its escape here, and what remains is only odd-looking text.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})


def clean(text: str) -> str:
    """For reading: newlines and tabs stay, everything that could steer a terminal is gone."""
    if text.isprintable():
        return text
    without = _SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", without))


def visible(text: str) -> str:
    """For deciding: nothing is dropped, every character that could hide is spelled out."""
    return "".join(_spelled(character) for character in text)


def _spelled(character: str) -> str:
    if character == "\n":
        return "\n"
    if character == "\t":
        return "\\t"
    if unicodedata.category(character) not in _INVISIBLE:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cells(text: str) -> int:
    """Columns that a line takes: wide characters two, marks that combine none."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, width: int) -> str:
    """One line of at most `width` columns, with an ellipsis where something is missing."""
    line = " ".join(text.split())
    if cells(line) <= width:
        return line
    kept, used = "", 0
    for character in line:
        used += _cells_of(character)
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
            size = _cells_of(character)
            if used + size > max(width, 2):
                rows.append(row)
                row, used = "", 0
            row += character
            used += size
        rows.append(row)
    return rows
